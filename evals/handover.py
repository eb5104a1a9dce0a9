"""The text that hooks give an agent after a compaction: does it hold what the agent needs next, and
what the person said before an earlier compaction?

The cases are the real compactions of Claude Code sessions. What is needed is defined by the
measure's own tool (`data.measure`): names that the agent uses in its next 60 events and that had
occurred before. Three texts are compared: the real summary, the summary and ours, the summary and
as many tokens of the newest text. At a second compaction, the person's messages before the first
one are looked for by their first letters (`evals.person`).
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean
from typing import Any

from compact import handover
from compact.wiring import read_transcript
from evals import data, person
from evals.contexts import squeezed
from evals.split import Cell, Half, columns, half_of, table

STATE = 500
"""Tokens of the present and the names, at most."""
LETTERS = 50
"""A message counts as held if so many of its first letters are."""


@dataclass(frozen=True)
class Row:
    """What the texts of one compaction hold. Shares are of the names needed next."""

    name: str
    half: Half
    needed: int
    summary: float
    ours: float
    """Of the summary with our present and names."""
    newest: float
    whole: float
    """Of the summary with all of our text."""
    memory: float | None
    """What was used from memory, in the summary. None where nothing was."""
    memory_ours: float | None
    tokens: int
    """Of the present and the names."""
    characters: int
    said: int
    """The person's messages before the previous compaction."""
    said_in_summary: int
    said_in_ours: int


def run(folder: Path) -> list[Row]:
    """Every compaction of every session."""
    rows = list[Row]()
    with tempfile.TemporaryDirectory() as name:
        for number, session in enumerate(data.every_claude_code_session(folder)):
            rows += _of_session(folder, session, Path(name) / str(number))
    return rows


def _of_session(folder: Path, session: Path, out: Path) -> Iterator[Row]:
    tool = data.measure(folder)
    out.mkdir()
    tool.split(session, out)
    lines = session.read_bytes().splitlines(keepends=True)
    found = enumerate(map(json.loads, lines))
    bounds = [i for i, x in found if x.get("subtype") == "compact_boundary"]
    for path in sorted(out.glob("*.case.json")):
        case, number = json.loads(path.read_text(encoding="utf-8")), int(path.name.split(".")[-3])
        before = out / "before.jsonl"
        before.write_bytes(b"".join(lines[: bounds[number]]))
        earlier = out / "earlier.jsonl"
        earlier.write_bytes(b"".join(lines[: bounds[number - 1]] if number else []))
        read = read_transcript(before, since="boundary")
        text = handover(read.messages, since=read.compacted, tokenizer="o200k")
        parts = [part for part in text.split("\n\n") if part.startswith(("## Now", "## Names"))]
        state, summary = "\n\n".join(parts), case["summary"]
        part = path.with_name(path.name.replace(".case.json", ".before.jsonl"))
        newest = tool.newest_text(part, tool.COUNT(state))
        said = [squeezed(x.text)[:LETTERS] for x in person.said(person.rows_of(earlier))]
        said = [x for x in said if len(x) >= person.SHORTEST]

        yield Row(
            case["name"],
            half_of(session.stem, folder=session.parent.name),
            len(case["needed"]),
            tool.coverage(case, summary),
            tool.coverage(case, f"{summary}\n{state}"),
            tool.coverage(case, f"{summary}\n{newest}"),
            tool.coverage(case, f"{summary}\n{text}"),
            tool.coverage(case, summary, case["from_memory"]),
            tool.coverage(case, f"{summary}\n{state}", case["from_memory"]),
            tool.COUNT(state),
            len(text),
            len(said),
            sum(each in squeezed(summary) for each in said),
            sum(each in squeezed(text) for each in said),
        )


def _mean(of: Callable[[Row], float]) -> Callable[[Sequence[Row]], Cell]:
    return lambda rows: mean(map(of, rows))


def _recalled(of: Callable[[Row], float | None]) -> Callable[[Sequence[Row]], Cell]:
    return lambda rows: mean(share for row in rows if (share := of(row)) is not None)


def _said(of: Callable[[Row], int]) -> Callable[[Sequence[Row]], Cell]:
    def share(rows: Sequence[Row]) -> Cell:
        total = sum(row.said for row in rows)
        return f"{sum(map(of, rows)) / total:.3f} of {total}" if total else None

    return share


def measured(rows: Sequence[Row]) -> dict[str, dict[Half, Cell]]:
    """What is published, of both halves."""
    return columns(
        rows,
        {
            "compactions": len,
            "names needed next: the summary alone": _mean(lambda row: row.summary),
            "  and our present and names": _mean(lambda row: row.ours),
            "  and the newest text, as many tokens": _mean(lambda row: row.newest),
            "  and all of our text": _mean(lambda row: row.whole),
            "used from memory: the summary alone": _recalled(lambda row: row.memory),
            "  from memory, with our present and names": _recalled(lambda row: row.memory_ours),
            "the person's older messages: the summary": _said(lambda row: row.said_in_summary),
            "  ours": _said(lambda row: row.said_in_ours),
            "tokens of present and names, at most": lambda some: max(x.tokens for x in some),
            "characters, at most": lambda some: max(x.characters for x in some),
        },
    )


def evaluate(folder: Path) -> tuple[str, Any]:
    """The table, and the same for machines."""
    rows = run(folder)
    found = measured(rows)
    text = table("after a real compaction", found)
    return text, {"measured": found, "rows": [asdict(row) for row in rows]}
