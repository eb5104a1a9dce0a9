"""Reads a question: its words without speakers' names, the speaker and the times that it names, and
the kind of answer that it asks for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from compact.patterns import regex
from compact.text.dates import Time, times_in
from compact.text.languages import words_of
from compact.text.terms import STOP_WORDS, looked_for, pieces_of
from compact.text.turns import QUESTION_MARKS, SELF, Trait

_ASKED = {
    Trait.TIME: "asks_time",
    Trait.NUMBER: "asks_number",
    Trait.NAME: "asks_name",
}
_PHRASES = {
    sign: [f" {phrase.replace('_', ' ')} " for each in words_of(kind).values() for phrase in each]
    for sign, kind in _ASKED.items()
}
_ASKS = frozenset().union(
    *(own for k in ("asks", *_ASKED.values()) for own in words_of(k).values())
)
"""Words that a question can begin with."""
_ASKED_CLAUSE = regex(rf"(?:[^,;!\n。，.{QUESTION_MARKS}]|\.(?!\s))+[{QUESTION_MARKS}]")
_TALK = frozenset().union(*words_of("talk").values(), STOP_WORDS)
"""Words of questions such as `What did we talk about yesterday?`. They name no subject."""


@dataclass(frozen=True, slots=True)
class Question:
    """What a question asks for."""

    text: str
    """The question without the names of speakers."""
    names: tuple[tuple[str, ...], ...]
    """The words to search for. A name with several pieces needs a message with all of them. Empty
    if the question only asks what was said at a time."""
    speaker: int
    """The number of the speaker that the question names; 0 if it names none or several."""
    names_speaker: bool
    """Whether it names one or more speakers."""
    times: tuple[Time, ...]
    """The times that the question names."""
    is_own: bool
    """Whether it has a word such as `my` or `I`."""
    is_asked: bool
    """Whether it names a time and is a question. Without a question mark it must begin with a
    question word. A statement about oneself is not one: `I slept badly last night, ok?`"""
    asks: Trait
    """The traits that an answer must have."""


def understood(text: str, speakers: Sequence[str], now: datetime | None = None) -> Question:
    """Read a question about a talk between these speakers. The first entry stands for speakers
    without names. Words such as `yesterday` count from `now`. Without `now`, no times are read.
    """
    pieces = pieces_of(text)
    names = [frozenset(pieces_of(speaker)) for speaker in speakers]
    named = [place for place, each in enumerate(names) if not each.isdisjoint(pieces)]
    of_speakers = frozenset().union(*names)
    times, asked, others = times_in(text, now) if now else ((), text, text)
    wanted = [each for name in looked_for(asked) for each in _alone(name)]
    telling = [rest for name in wanted if (rest := tuple(p for p in name if p not in of_speakers))]
    if times and _TALK.issuperset(pieces_of(others)):
        wanted = telling = []
    padded = f" {' '.join(pieces)} "
    # In `Ann's`, the first piece is the name.
    words = [word for word in text.split() if next(iter(pieces_of(word)), "") not in of_speakers]
    traits = [sign for sign, each in _PHRASES.items() if any(one in padded for one in each)]
    return Question(
        text=" ".join(words) or text,
        names=tuple(dict.fromkeys(telling or wanted)),
        speaker=named[0] if len(named) == 1 else 0,
        names_speaker=bool(named),
        times=times,
        is_own=not SELF.isdisjoint(pieces),
        is_asked=bool(times) and _is_asked(text, pieces),
        asks=Trait(sum(traits)),
    )


def _is_asked(text: str, pieces: Sequence[str]) -> bool:
    """Return whether a text is a question (see `Question.is_asked`)."""
    if not _ASKS.isdisjoint(pieces[:1]) and SELF.isdisjoint(pieces[1:2]):  # no `what I bought …`
        return True
    asked = [piece for clause in _ASKED_CLAUSE.findall(text) for piece in pieces_of(clause)]
    is_own = not SELF.isdisjoint(pieces)
    return any(not is_own or piece in SELF or piece.isdecimal() for piece in asked)


def _alone(name: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield a name, then its pieces without stop words. Single ASCII letters are left out."""
    pieces = tuple(piece for piece in name if len(piece) > 1 or not piece.isascii())
    if pieces:
        yield pieces
    if len(pieces) > 1:
        yield from ((piece,) for piece in pieces if piece not in STOP_WORDS)
