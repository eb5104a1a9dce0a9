"""Tool calls after a compaction: are the values that an agent passes next still there (K-13)?

Conversations of tau-bench and tau2-bench are replayed turn by turn through `CompactManager`, at
windows of a half and of a quarter of each conversation's tokens, so that each is compacted. Before
each turn in which the real agent called tools, the values of its arguments that stood in the
conversation until then are looked for: in the prompt, else in the first answer of `recall` to the
argument's name and the newest words of the customer. Beside it: the newest messages that fit the
same tokens, behind the system prompt.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from compact import CompactConfig, CompactError, CompactManager, ContextManager
from compact.core.formats.known import format_named
from compact.core.messages import Message
from compact.core.tokens import TokenCounter
from compact.wiring import token_counter
from evals import formats
from evals.split import Half, columns, half_of, table

FILES = (
    "tau_bench/gpt-4o-airline.json",
    "tau2_bench/claude-sonnet-4-5_airline_1trial.json",
    "tau2_bench/gpt-4.1_telecom_no-user_1trial.json",
)
SHARES = (0.5, 0.25)
"""Windows, as shares of a conversation's tokens."""
LEAST_WINDOW = 1_000
"""Tokens of the smallest window that settings can name."""
SHORTEST = 2
"""Characters of a value that is looked for: shorter ones stand everywhere."""
Dict = dict[str, Any]


@dataclass(frozen=True)
class Replayed:
    """What became of one conversation at one window."""

    name: str
    half: Half
    share: float
    window: int
    compressions: int
    values: int
    """Arguments' values that stood in the conversation before they were passed, after the first
    compaction."""
    shown: int
    """Those that the prompt shows."""
    recalled: int
    """Those of the others that the first answer of `recall` brings."""
    newest: int
    """Those that the newest messages alone would show."""
    refused: int
    """Turns at which no prompt could be made: the floor is larger than the window."""


def conversations(folder: Path) -> Iterator[tuple[str, Sequence[Message]]]:
    """Every conversation of the files, with its name."""
    for file in FILES:
        path = folder / file
        count = formats.read(path, conversation=1).conversations
        for number in range(1, count + 1):
            read = formats.read(path, conversation=number)
            yield f"{path.stem}-{number}", read.messages


def run(folder: Path, shares: Sequence[float] = SHARES) -> list[Replayed]:
    """Every conversation at every window."""
    found = conversations(folder)
    return [replayed(name, m, share) for name, m in found for share in shares]


def replayed(name: str, messages: Sequence[Message], share: float) -> Replayed:
    """One conversation, turn by turn."""
    wire = format_named("chat_completions")
    given = wire.render(messages)
    counter = token_counter("chat_completions", tokenizer="o200k")
    window = max(LEAST_WINDOW, int(share * counter.messages(messages)))
    config = CompactConfig(max_context_tokens=window, tokenizer="o200k")
    values = shown = recalled = newest = refused = 0
    with CompactManager(config) as manager:
        ctx = manager.session(name)
        for position, message in enumerate(given):
            if not message.get("tool_calls"):
                continue
            try:
                prompt = manager.preflight(name, given[:position])
            except CompactError:
                refused += 1
                continue
            if not ctx.compressions:
                continue
            before = _text(given[:position])
            known = {v: k for k, v in _arguments(message) if _stands(v, before)}
            values += len(known)
            now, truncated = _text(prompt), _text(_newest(ctx, counter, messages[:position]))
            for value, key in known.items():
                newest += _stands(value, truncated)
                if _stands(value, now):
                    shown += 1
                else:
                    recalled += _recalls(ctx, key, value, given[:position])
        compressions = ctx.compressions
    half = half_of(name)
    counts = (values, shown, recalled, newest, refused)
    return Replayed(name, half, share, window, compressions, *counts)


def _arguments(message: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The values of a message's calls, each with the name it is passed by."""
    for call in message["tool_calls"]:
        try:
            passed = json.loads(call["function"]["arguments"])
        except ValueError:
            continue
        yield from _leaves("", passed)


def _leaves(key: str, value: object) -> Iterator[tuple[str, str]]:
    match value:
        case Mapping():
            for name, each in value.items():
                yield from _leaves(str(name), each)
        case list():
            for each in value:
                yield from _leaves(key, each)
        case str() | int() | float() if not isinstance(value, bool):
            if len(str(value)) >= SHORTEST:
                yield key, str(value)


def _stands(value: str, text: str) -> bool:
    """Whether a value stands in a text by itself, not within another word or number."""
    return re.search(rf"(?<!\w){re.escape(value)}(?!\w)", text) is not None


def _text(messages: Sequence[Dict]) -> str:
    """All that a list says, arguments of calls as they were passed."""
    texts = []
    for message in messages:
        texts.append(str(message.get("content") or ""))
        for call in message.get("tool_calls") or ():
            texts.append(call["function"]["arguments"])
    return "\n".join(texts).replace('\\"', '"')


def _newest(ctx: ContextManager, counter: TokenCounter, messages: Sequence[Message]) -> list[Dict]:
    """The system prompt and the newest messages that fit the same tokens."""
    system = [m for m in messages[:1] if m.role == "system"]
    left = ctx.window.usable - counter.messages(system)
    kept: list[Message] = []
    for message in reversed(messages[len(system) :]):
        left -= counter.message(message)
        if left < 0:
            break
        kept.append(message)
    return format_named("chat_completions").render([*system, *reversed(kept)])


def _recalls(ctx: ContextManager, key: str, value: str, given: Sequence[Dict]) -> bool:
    """Whether the first answer to what an agent may ask brings the value."""
    words = next((str(m["content"]) for m in reversed(given) if m["role"] == "user"), "")
    return _stands(value, ctx.call_tool("recall", {"query": f"{key.replace('_', ' ')} {words}"}))


def report(rows: Sequence[Replayed]) -> str:
    """Shares of the values, in both halves."""
    tables = []
    for share in dict.fromkeys(row.share for row in rows):
        found = columns(
            [row for row in rows if row.share == share],
            {
                "conversations": len,
                "of them compacted": lambda part: sum(row.compressions > 0 for row in part),
                "turns without a prompt": lambda part: sum(row.refused for row in part),
                "values passed after that": lambda part: sum(row.values for row in part),
                "in the prompt": lambda part: _share(part, "shown"),
                "there or recalled": lambda part: _share(part, "shown", "recalled"),
                "newest messages alone": lambda part: _share(part, "newest"),
            },
        )
        tables.append(table(f"window of {share:.0%}", found))
    return "\n\n".join(tables)


def _share(rows: Sequence[Replayed], *names: str) -> float | None:
    total = sum(row.values for row in rows)
    return sum(getattr(row, name) for row in rows for name in names) / total if total else None


def as_json(rows: Sequence[Replayed]) -> list[dict[str, Any]]:
    """The rows as JSON values."""
    return [asdict(row) for row in rows]
