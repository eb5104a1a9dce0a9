"""A person's words at 10:1: do the rules that were typed, queued, answered or given with a refusal
survive word for word, and are those in view shown?

Typed rules are labelled sentences of real sessions and those of generated ones
(`evals.instructions`); the others are read from the rows of Claude Code files (`evals.person`): all
that was queued, answered or said with a refusal and is no question.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from compact import Plan, plan
from compact.errors import CannotFit
from compact.messages.context import render_text
from compact.messages.messages import Message
from compact.wiring import read_transcript, token_counter
from evals import data, instructions, person
from evals.contexts import squeezed
from evals.split import Cell, Half, columns, half_of, table

RATIO = instructions.RATIO


@dataclass(frozen=True)
class Piece:
    """One statement, and what became of it; `shown` is None where its message is not in view."""

    half: Half
    session: str
    source: str
    text: str
    kept: bool
    shown: bool | None = None


def run(folder: Path) -> list[Piece]:
    """Every session, labelled, generated and of Claude Code."""
    sessions = data.every_claude_code_session(folder)
    return [*_typed(folder), *(piece for path in sessions for piece in of_session(path))]


def _typed(folder: Path) -> Iterator[Piece]:
    for outcome in instructions.labelled(folder):
        if outcome.fits:
            half = data.half_of_conversation(folder, outcome.name)
            yield from _pieces(outcome, half, "typed, labelled")
    for outcome in instructions.from_generator():
        if outcome.fits:
            yield from _pieces(outcome, "look", "typed, generated")


def _pieces(outcome: instructions.Outcome, half: Half, source: str) -> Iterator[Piece]:
    for sentences, kept in ((outcome.kept, True), (outcome.missed, False)):
        for each in sentences:
            yield Piece(half, outcome.name, source, each.text, kept)


def of_session(path: Path) -> list[Piece]:
    """The statements of a session's person, and which of them a tenth of it keeps."""
    half = half_of(path.stem, folder=path.parent.name)
    messages = read_transcript(path).messages
    counter = token_counter("anthropic", tokenizer="o200k")
    budget = counter.messages(messages) // RATIO
    try:
        done = plan(messages, max_tokens=budget, tokenizer="o200k")
    except CannotFit:
        return []
    said = person.said(person.rows_of(path))
    return list(_judged(half, path.stem, said, messages, done))


def _judged(
    half: Half, session: str, said: Sequence[person.Said], messages: Sequence[Message], done: Plan
) -> Iterator[Piece]:
    there = squeezed(done.context.render_text())
    in_view = [squeezed(render_text([messages[at]])) for at in done.fates if at < len(messages)]
    for each in said:
        for words in dict.fromkeys(map(squeezed, each.statements())):
            kept = words in there
            shown = kept if kept or any(words in text for text in in_view) else None
            yield Piece(half, session, each.source, words, kept, shown)


def _share(source: str) -> Callable[[Sequence[Piece]], Cell]:
    def share(pieces: Sequence[Piece]) -> Cell:
        some = [piece.kept for piece in pieces if piece.source == source]
        return f"{sum(some) / len(some):.3f} of {len(some)}" if some else None

    return share


def _rules(pieces: Sequence[Piece]) -> Cell:
    some = [piece.kept for piece in pieces if piece.source != "typed"]
    return f"{sum(some) / len(some):.3f} of {len(some)}" if some else None


def _shown(pieces: Sequence[Piece]) -> Cell:
    some = [piece.shown for piece in pieces if piece.shown is not None]
    return f"{sum(some) / len(some):.3f} of {len(some)}" if some else None


SOURCES = ("typed, labelled", "typed, generated", "queued", "answered", "refusal")


def measured(pieces: Sequence[Piece]) -> dict[str, dict[Half, Cell]]:
    """What is published, of both halves."""
    rows: dict[str, Callable[[Sequence[Piece]], Cell]] = {"all rules, word for word": _rules}
    rows |= {f"  {source}": _share(source) for source in SOURCES}
    rows |= {"those in view, unmasked": _shown, "(all typed statements)": _share("typed")}
    return columns(pieces, rows)


def evaluate(folder: Path, *, missed: bool = False) -> tuple[str, Any]:
    """The table, the same for machines, and what sessions that are looked at lack."""
    found = run(folder)
    text = [table("a person's words at 10:1", measured(found))]
    if missed:
        looked = [p for p in found if p.half == "look" and p.source != "typed"]
        text += [f"lost: {p.session} {p.source}: {p.text[:200]}" for p in looked if not p.kept]
        hidden = [p for p in found if p.half == "look" and p.shown is False]
        text += [f"hidden in view: {p.session} {p.source}: {p.text[:200]}" for p in hidden]
    rows = [asdict(p) | ({"text": None} if p.half == "score" else {}) for p in found]
    return "\n".join(text), {"measured": measured(found), "statements": rows}
