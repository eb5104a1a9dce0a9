"""Reads a question: its words without speakers' names, the speaker it names, its dates, and what
kind of answer it asks for.
"""

from __future__ import annotations

import calendar
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from compact.text.languages import words_of
from compact.text.terms import STOP_WORDS, looked_for, pieces_of
from compact.text.turns import SELF, Trait

_ASKED = {
    Trait.TIME: "asks_time",
    Trait.NUMBER: "asks_number",
    Trait.NAME: "asks_name",
}
_PHRASES = {
    sign: [f" {phrase.replace('_', ' ')} " for each in words_of(kind).values() for phrase in each]
    for sign, kind in _ASKED.items()
}
_MONTHS = {name.lower(): number for number, name in enumerate(calendar.month_name) if name}
_MAY = "may"
"""A month that is also a common word. It counts as a month only next to a number."""
_DAYS, _YEARS = range(1, 32), range(1900, 2200)


@dataclass(frozen=True, slots=True)
class Dates:
    """The dates that a question names: months, years, and days of a month."""

    months: frozenset[int] = frozenset()
    years: frozenset[int] = frozenset()
    days: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Question:
    """Holds what a question asks."""

    text: str
    """The question without the names of speakers."""
    names: tuple[tuple[str, ...], ...]
    """Words to search for. If a name has several pieces, a message must have them all."""
    speaker: int
    """The place of the one speaker that the question names. 0 if it names none or several."""
    names_speaker: bool
    """Whether it names one speaker or several."""
    is_own: bool
    """Whether the question has first-person words. Then users' messages more likely answer it."""
    dates: Dates
    asks: Trait
    """The traits that an answer must have."""


def understood(text: str, speakers: Sequence[str]) -> Question:
    """Read a question about a talk of these speakers. The first entry is for unnamed speakers."""
    pieces = pieces_of(text)
    names = [frozenset(pieces_of(speaker)) for speaker in speakers]
    named = [place for place, each in enumerate(names) if not each.isdisjoint(pieces)]
    of_speakers = frozenset().union(*names)
    wanted = [each for name in looked_for(text) for each in _alone(name)]
    telling = [rest for name in wanted if (rest := tuple(p for p in name if p not in of_speakers))]
    padded = f" {' '.join(pieces)} "
    # The first piece is the name in `Ann's` too.
    words = [word for word in text.split() if next(iter(pieces_of(word)), "") not in of_speakers]
    traits = [sign for sign, each in _PHRASES.items() if any(one in padded for one in each)]
    return Question(
        text=" ".join(words) or text,
        names=tuple(dict.fromkeys(telling or wanted)),
        speaker=named[0] if len(named) == 1 else 0,
        names_speaker=bool(named),
        is_own=not SELF.isdisjoint(pieces),
        dates=_dates_in(pieces),
        asks=Trait(sum(traits)),
    )


def _alone(name: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield a name, then its pieces without stop words. Leave out single ASCII letters."""
    pieces = tuple(piece for piece in name if len(piece) > 1 or not piece.isascii())
    if pieces:
        yield pieces
    if len(pieces) > 1:
        yield from ((piece,) for piece in pieces if piece not in STOP_WORDS)


def _dates_in(pieces: Sequence[str]) -> Dates:
    bare = (piece[:-2] if piece[-2:] in ("st", "nd", "rd", "th") else piece for piece in pieces)
    numbers = [int(piece) for piece in bare if piece.isdecimal()]
    near = {piece for pair in pairwise(pieces) if any(map(_has_digit, pair)) for piece in pair}
    months = {_MONTHS[piece] for piece in pieces if piece in _MONTHS}
    if _MAY in pieces and _MAY not in near:
        months.discard(_MONTHS[_MAY])
    return Dates(
        frozenset(months),
        frozenset(number for number in numbers if number in _YEARS),
        frozenset(number for number in numbers if number in _DAYS),
    )


def _has_digit(piece: str) -> bool:
    return any(map(str.isdecimal, piece))
