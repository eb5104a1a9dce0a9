"""Service dialogues: does a summary name every change that was made, and what it was about?

A change is a call that books, cancels, updates and the like and that gave no error; named is its
function, found are the ids among its arguments. The dialogues are compressed to 700 and to 1,500
tokens beside their system prompt.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from compact import plan
from compact.errors import CompactError
from compact.messages.arguments import leaves, read_json
from compact.messages.context import render_text
from compact.messages.messages import Message
from compact.wiring import token_counter
from evals import data, formats, sources
from evals.split import Half, half_of

SIZES = (700, 1_500)
MOST = 60
_CHANGES = re.compile(
    r"(?:book|cancel|update|modify|send|exchange|return|add|refuel|enable|disable|toggle|set|reset"
    r"|resume|suspend|create)_"
)
_ID = re.compile(r"(?=.*\d)[\w.@-]{4,}\Z")


@dataclass(frozen=True)
class Change:
    """One change in one context."""

    half: Half
    size: int
    named: bool
    ids: int
    found: int


def run(folder: Path) -> list[Change]:
    """The changes of the first dialogues."""
    count = token_counter("chat_completions", tokenizer="o200k").messages
    path, rows = folder / sources.TAU, list[Change]()
    names = data.conversation_ids(path)[:MOST] if path.is_file() else ()
    for number, name in enumerate(names, start=1):
        messages = formats.read(path, conversation=number).messages
        system = count([m for m in messages if m.role == "system"])
        changes = list(_changes(messages))
        for size in SIZES if changes else ():
            try:
                done = plan(messages, max_tokens=size + system, tokenizer="o200k")
            except CompactError:
                continue
            said = render_text([m for m in done.context.messages if m.role != "system"])
            for function, ids in changes:
                found = sum(each in said for each in ids)
                rows.append(Change(half_of(name), size, function in said, len(ids), found))
    return rows


def _changes(messages: Sequence[Message]) -> Iterator[tuple[str, list[str]]]:
    results = {r.call_id: r for m in messages for r in m.tool_results}
    for call in (call for message in messages for call in message.tool_calls):
        result = results.get(call.id)
        if result is None or result.is_error or result.text.lower().startswith("error"):
            continue
        if _CHANGES.match(call.name):
            values = [str(value) for _, value in leaves(read_json(call.arguments or "{}"))]
            yield call.name, [value for value in values if _ID.match(value)]


def report(rows: Sequence[Change]) -> str:
    """The shares of each size and half."""
    lines = [
        f"{'service dialogues':20}{'tokens':>8}{'changes':>9}{'named':>8}{'ids':>8}{'found':>8}"
    ]
    for half, size in sorted({(row.half, row.size) for row in rows}):
        some = [row for row in rows if (row.half, row.size) == (half, size)]
        ids = sum(row.ids for row in some)
        named, found = sum(row.named for row in some), sum(row.found for row in some)
        lines.append(
            f"{half:20}{size:8,}{len(some):9}{named / len(some):8.3f}{ids:8}"
            f"{found / max(1, ids):8.3f}"
        )
    return "\n".join(lines)
