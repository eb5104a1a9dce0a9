"""Reads a question: its words without speakers' names, the speaker it names, its times, and what
kind of answer it asks for.
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
"""Words that begin a question."""
_ASKED_CLAUSE = regex(rf"(?:[^,;!\n。，.{QUESTION_MARKS}]|\.(?!\s))+[{QUESTION_MARKS}]")
_TALK = frozenset().union(*words_of("talk").values(), STOP_WORDS)
"""Words of questions such as `What did we talk about yesterday?`. They name no matter."""


@dataclass(frozen=True, slots=True)
class Question:
    """Holds what a question asks."""

    text: str
    """The question without the names of speakers."""
    names: tuple[tuple[str, ...], ...]
    """Words to search for. If a name has several pieces, a message must have them all. Empty
    if the question asks only for what was said at a time."""
    speaker: int
    """The place of the one speaker that the question names. 0 if it names none or several."""
    names_speaker: bool
    """Whether it names one speaker or several."""
    times: tuple[Time, ...]
    """The times that the question names."""
    is_own: bool
    """Whether it has a word such as `my` or `I`."""
    is_asked: bool
    """Whether it names a time and is a question. Without a question mark, it begins with a word
    that asks. Statements of oneself have none: `I slept badly last night, ok?`"""
    asks: Trait
    """The traits that an answer must have."""


def understood(text: str, speakers: Sequence[str], now: datetime | None = None) -> Question:
    """Read a question about a talk of these speakers. The first entry is for unnamed speakers.
    Words such as `yesterday` count from `now`. Without it, no times are read.
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
    # The first piece is the name in `Ann's` too.
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
    """Tell whether a text is a question, for `Question.is_asked`."""
    if not _ASKS.isdisjoint(pieces[:1]) and SELF.isdisjoint(pieces[1:2]):  # no `what I bought …`
        return True
    asked = [piece for clause in _ASKED_CLAUSE.findall(text) for piece in pieces_of(clause)]
    is_own = not SELF.isdisjoint(pieces)
    return any(not is_own or piece in SELF or piece.isdecimal() for piece in asked)


def _alone(name: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield a name, then its pieces without stop words. Leave out single ASCII letters."""
    pieces = tuple(piece for piece in name if len(piece) > 1 or not piece.isascii())
    if pieces:
        yield pieces
    if len(pieces) > 1:
        yield from ((piece,) for piece in pieces if piece not in STOP_WORDS)
