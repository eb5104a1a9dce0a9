"""Is the work shown as it stands? Open items are shown and completed ones are not shown as open,
the last plan is named, and so is what was asked last.

What is true is computed from the log (`evals.worklog`). Each session of Claude Code is cut at a
quarter, a half, three quarters and its end, always where its person speaks, and compressed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from compact import plan
from compact.errors import CompactError
from compact.messages.context import render_text
from compact.messages.messages import Message
from compact.text.outline import NOW
from compact.wiring import read_transcript
from evals import contexts, data, person, worklog
from evals.contexts import squeezed
from evals.split import Cell, Half, columns, half_of, table

TOKENS = 8_000
CUTS = (0.25, 0.5, 0.75, 1.0)
NEAR = 0.8
"""Share of an item's words that a line has to have to show it."""
_WORD = re.compile(r"\w{3,}")
_TO_DO, _ASKED, _BELOW = "To do: ", "Asked last ", ", shown below)"
"""How lines begin of what is open and of what was asked last, and say that it stands in view."""
FIRST = 80
"""Characters by which that is found."""


@dataclass(frozen=True)
class Shown:
    """How one compressed context shows the work; the lists are words of the checkpoint or log."""

    half: Half
    name: str
    open: int
    unseen: tuple[str, ...]
    done: int
    as_open: tuple[str, ...]
    plan_unseen: tuple[str, ...]
    plans: int
    old_request: tuple[str, ...]
    requests: int


def run(folder: Path) -> list[Shown]:
    """Every session at every cut that was compressed."""
    return [s for path in data.every_claude_code_session(folder) for s in of_session(path)]


def of_session(path: Path) -> Iterator[Shown]:
    """One session at its cuts."""
    half = half_of(path.stem, folder=path.parent.name)
    rows = person.rows_of(path)
    for cut in CUTS:
        some = rows[: _turn_before(rows, int(cut * len(rows)))]
        text = "\n".join(json.dumps(row) for row in some)
        try:
            messages = read_transcript(path.name, data=text.encode()).messages
            done = plan(messages, max_tokens=TOKENS, tokenizer="o200k")
        except CompactError:
            continue
        if done.checkpoint is not None:
            yield shown((half, f"{path.stem} {cut:.0%}"), some, done.context.messages)


def _turn_before(rows: Sequence[person.Row], at: int) -> int:
    """Where the last turn before begins; the end stays."""
    if at >= len(rows):
        return at
    spoken = (n for n in range(at, 0, -1) if rows[n].get("type") == "user" and _typed(rows[n]))
    return next(spoken, at)


def _typed(row: person.Row) -> bool:
    return any(each.source == "typed" for each in person.said([row]))


def shown(named: tuple[Half, str], rows: Sequence[person.Row], context: Sequence[Message]) -> Shown:
    """Judge one context against the log it was made of."""
    work = worklog.work_of(rows)
    there = squeezed(render_text(context))
    own = [line for text in contexts.ours(context) for line in text.splitlines()]
    now = contexts.lines_of(context, NOW)
    open_lines = [x.removeprefix(_TO_DO) for x in now if x.startswith(_TO_DO)]
    unseen = [item for item in work.open if not _is_told(item, there, own)]
    as_open = [
        line for line in open_lines if _told_by(line, work.done) and not _told_by(line, work.open)
    ]
    plans = [work.plan] if work.plan else []
    newest = _newest_request(rows)
    asked = " ".join(x for x in now if x.startswith(_ASKED))
    is_shown = _BELOW in asked and squeezed(newest)[:FIRST] in there
    old = [asked] if newest and not is_shown and not _shares(asked, newest) else []
    return Shown(
        *named,
        len(work.open),
        tuple(unseen),
        len(work.done),
        tuple(as_open),
        tuple(p for p in plans if not _is_told(p, there, own)),
        len(plans),
        tuple(old),
        bool(newest),
    )


def _is_told(item: str, text: str, lines: Sequence[str]) -> bool:
    return squeezed(item) in text or any(_told_by(line, [item]) for line in lines)


def _told_by(line: str, items: Sequence[str] | set[str]) -> bool:
    """Whether the line has most words of one of the items."""
    words = set(_WORD.findall(line.casefold()))
    wanted = (set(_WORD.findall(item.casefold())) for item in items)
    return any(each and len(each & words) >= NEAR * len(each) for each in wanted)


def _newest_request(rows: Sequence[person.Row]) -> str:
    """What was typed last, where it is a request of its own and no bare answer, else nothing."""
    typed = [each for each in person.said(list(rows)) if each.source == "typed"]
    words = typed[-1].text if typed and not typed[-1].pasted else ""
    return words if len(words.split()) >= 8 and not words.rstrip().endswith("?") else ""


def _shares(told: str, words: str) -> bool:
    """Whether four words of the request stand side by side in what is told of it."""
    told, parts = squeezed(told).casefold(), squeezed(words).casefold().split()
    return any(" ".join(parts[at : at + 4]) in told for at in range(len(parts) - 3))


def _all(field: str) -> Callable[[Sequence[Shown]], int]:
    def total(rows: Sequence[Shown]) -> int:
        values = [getattr(row, field) for row in rows]
        return sum(len(v) if isinstance(v, tuple) else v for v in values)

    return total


def _without(field: str, total: str) -> Callable[[Sequence[Shown]], Cell]:
    def share(rows: Sequence[Shown]) -> Cell:
        of = _all(total)(rows)
        return f"{1 - _all(field)(rows) / of:.3f} of {of}" if of else None

    return share


MEASURES: dict[str, Callable[[Sequence[Shown]], Cell]] = {
    "contexts": len,
    "open items that are shown": _without("unseen", "open"),
    "completed items": _all("done"),
    "  shown as open": _all("as_open"),
    "last plan named": _without("plan_unseen", "plans"),
    "newest requests": _all("requests"),
    "  not told as asked last": _all("old_request"),
}


def evaluate(folder: Path, *, missed: bool = False) -> tuple[str, Any]:
    """The table, the same for machines, and what is wrong where it may be looked at."""
    rows = run(folder)
    found = columns(rows, MEASURES)
    text = [table(f"the work as it stands, {TOKENS:,} tokens", found)]
    kinds = ("unseen", "as_open", "plan_unseen", "old_request")
    for kind in kinds if missed else ():
        looked = [row for row in rows if row.half == "look"]
        text += [f"{kind}: {r.name}: {x[:200]}" for r in looked for x in getattr(r, kind)]
    plain = [
        asdict(row) | ({k: len(getattr(row, k)) for k in kinds} if row.half == "score" else {})
        for row in rows
    ]
    return "\n".join(text), {"measured": found, "contexts": plain}
