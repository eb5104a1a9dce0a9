"""What a lived session covers, beside one call over the same messages to the same tokens.

Every real session, up to each of its real compactions, is fed message by message to a session with
a window of 8,192 tokens. The names that the agent used next are looked for in the prompt as it is
then, and so are the sentences that the person typed (`evals.coverage`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

from compact import ContextManager, plan
from compact.errors import CompactError
from compact.messages.context import render_text
from evals import contexts, coverage
from evals.split import Cell, Half, columns, table

WINDOW = 8_192


@dataclass(frozen=True)
class Kept:
    """One session at one compaction: covered, covered from memory, sentences whole; lived and in
    one call.
    """

    half: Half
    name: str
    tokens: int
    said: int
    lived: tuple[float, float, int]
    at_once: tuple[float, float, int]


def run(folder: Path) -> list[Kept]:
    """All cases that fit at all."""
    cases = coverage.Cases(folder)
    count: Callable[[str], int] = cases.tool.COUNT

    def found(case: coverage.Case, text: str) -> tuple[float, float, int]:
        memory = case.definition.get("from_memory") or []
        every = float(cases.tool.coverage(case.definition, text))
        of_memory = float(cases.tool.coverage(case.definition, text, memory)) if memory else 1.0
        told = contexts.squeezed(text)
        return every, of_memory, sum(each in told for each in case.said)

    rows = list[Kept]()
    for case in cases:
        text = lived(case)
        try:
            done = plan(case.messages, max_tokens=count(text), tokenizer="o200k")
        except CompactError:
            continue
        at_once = found(case, render_text(done.context.messages))
        said = len(case.said)
        rows.append(Kept(case.half, case.name, count(text), said, found(case, text), at_once))
    return rows


def lived(case: coverage.Case) -> str:
    """The prompt at the end of a session that was lived message by message."""
    form = case.messages[0].wire_format or "chat_completions"
    with ContextManager(window=WINDOW, store=":memory:", tokenizer="o200k", format=form) as ctx:
        for message in case.messages:
            ctx.add_message(message)
            ctx.get_context_for_model()
        return render_text(ctx.active_context().messages)


def report(rows: Sequence[Kept]) -> str:
    """The table."""

    def share(of: Sequence[Kept], way: str) -> Cell:
        said = sum(row.said for row in of)
        return sum(getattr(row, way)[2] for row in of) / said if said else None

    def ratio(of: Sequence[Kept]) -> Cell:
        return mean(row.lived[0] for row in of) / mean(row.at_once[0] for row in of)

    return table(
        f"lived at {WINDOW:,} tokens",
        columns(
            rows,
            {
                "compactions": len,
                "tokens of the prompt": lambda of: mean(row.tokens for row in of),
                "coverage, lived": lambda of: mean(row.lived[0] for row in of),
                "coverage, one call": lambda of: mean(row.at_once[0] for row in of),
                "lived ÷ one call": ratio,
                "from memory, lived": lambda of: mean(row.lived[1] for row in of),
                "from memory, one call": lambda of: mean(row.at_once[1] for row in of),
                "a person's sentences, lived": lambda of: share(of, "lived"),
                "a person's sentences, one call": lambda of: share(of, "at_once"),
            },
        ),
    )
