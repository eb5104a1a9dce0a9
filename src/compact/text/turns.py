"""What a search of memory knows of each message without reading it: where it stands, when it was
said, how long it is, and signs of what it may answer.

An index holds which words stand in which message; this stands beside it. Signs are worked out when
a message is indexed, by words that are data (`languages.json`), so that a search reads none.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import IntFlag
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from compact.messages import codec
from compact.messages.messages import ROLES, Message
from compact.text.languages import FIRST_PERSON, words_of
from compact.text.terms import STOP_WORDS, pieces_of, searchable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Keys = NDArray[np.int64]
else:
    Keys = Any  # numpy is loaded by those who search

T = TypeVar("T")

FIELDS = (
    ("at", "<i8"),
    ("length", "<u2"),
    ("signs", "<u2"),
    ("role", "u1"),
    ("speaker", "u1"),
)
"""The columns of `TurnTable.rows` as numpy names them, and `LAYOUT` as `struct` does."""
LAYOUT = "<qHHBB"
POSITION_BITS = 32
"""Of a message's key, for its position; its branch's number stands above them."""
MOST_WORDS, MOST_SPEAKERS = 0xFFFF, 0xFF
"""What the columns hold at most."""
ROLE_NUMBERS = {role: number for number, role in enumerate(sorted(ROLES))}
"""How a role stands in its column."""
QUESTION_MARKS = "?？؟"

_SELF = frozenset().union(*FIRST_PERSON.values())
_TIMES = frozenset().union(*words_of("time_words").values())
_NUMBERS = frozenset().union(*words_of("number_words").values())
_YEAR_DIGITS = 4
"""Digits of a number that may be a year."""


class Trait(IntFlag):
    """What a message says, by its form."""

    QUESTION = 1
    SELF = 2
    """Somebody speaks of himself."""
    TIME = 4
    NUMBER = 8
    NAME = 16
    """A word within a sentence is capitalized."""
    AFTER_QUESTION = 32
    """The message before it asks; told from its neighbours, not noted."""


class Noted(NamedTuple):
    """What is noted of one message."""

    at: int
    """Microseconds since 1970, UTC."""
    length: int
    """Its words without stop words."""
    signs: Trait
    role: int
    speaker: str | None
    """The name of who speaks, where the message has one."""


def noted(message: Message) -> Noted:
    """What is noted of a message for searching."""
    length = sum(piece not in STOP_WORDS for piece in pieces_of(searchable(message)))
    return Noted(
        codec.instant(message.timestamp),
        min(length, MOST_WORDS),
        _signs_of(message.text),
        ROLE_NUMBERS[message.role],
        message.name,
    )


def _signs_of(text: str) -> Trait:
    pieces = set(pieces_of(text))
    digits = [piece for piece in pieces if piece.isdecimal()]
    is_dated = any(len(piece) == _YEAR_DIGITS for piece in digits)
    found = {
        Trait.QUESTION: any(mark in text for mark in QUESTION_MARKS),
        Trait.SELF: not _SELF.isdisjoint(pieces),
        Trait.TIME: is_dated or not _TIMES.isdisjoint(pieces),
        Trait.NUMBER: bool(digits) or not _NUMBERS.isdisjoint(pieces),
        Trait.NAME: any(_goes_on(before) and word[0].isupper() for before, word in _pairs(text)),
    }
    return Trait(sum(sign for sign, is_there in found.items() if is_there))


def _pairs(text: str) -> Any:  # noqa: ANN401 - pairwise has no type of its own
    return pairwise(text.split())


def _goes_on(word: str) -> bool:
    """Whether a sentence goes on behind a word."""
    return word[-1].islower() or word[-1] == ","


@dataclass(frozen=True, eq=False)
class TurnTable:
    """The messages of the sessions of a scope, each session's in order, those of its branch in
    force.
    """

    sessions: tuple[str, ...]
    """Ids of the sessions."""
    branches: tuple[str, ...]
    """The branch in force of each."""
    starts: Keys
    """Where each session begins, and where the last one ends."""
    keys: Keys
    """What the index calls each message; the low 32 bits are its position in its branch."""
    rows: NDArray[np.void]
    """What is noted of each, by `FIELDS`; a `speaker` there is a place in its batch's own list."""
    speakers: NDArray[np.int32]
    """Who speaks: the place in `names`, 0 for nobody."""
    names: tuple[str, ...]
    """Who speaks, by name; the first one is empty."""
    complete: bool = True
    """Whether the index holds all of these sessions' messages."""
    derived: dict[str, Any] = field(default_factory=dict, repr=False)
    """What a search made of these columns, for the next one."""

    def __len__(self) -> int:
        return len(self.keys)

    def runs(self) -> tuple[Keys, Keys]:
        """The first and the last keys of runs that follow each other, in the order of the table. No
        branch has more than one.
        """
        import numpy as np

        def made() -> tuple[Keys, Keys]:
            ends = np.flatnonzero(np.diff(self.keys) != 1)
            at = np.append(0, ends + 1)[: len(self.keys)], np.append(ends, len(self.keys) - 1)
            return self.keys[at[0]], self.keys[at[1][: len(self.keys)]]

        return self.once("runs", made)

    def places(self, keys: Keys) -> Keys:
        """Where messages stand in the table; those that do not are left out."""
        return self.standing(keys)[1]

    def standing(self, keys: Keys) -> tuple[NDArray[np.bool_], Keys]:
        """Which of the messages stand in the table, and where those do."""
        import numpy as np

        firsts, lasts = self.runs()
        if not len(firsts):
            return np.zeros(len(keys), bool), firsts

        def made() -> tuple[Keys, Keys]:
            """The run of each branch, and where each run begins."""
            branches = firsts >> POSITION_BITS
            run = np.full(int(branches.max()) + 2, -1)
            run[branches] = np.arange(len(branches))
            return run, np.cumsum(np.append(0, lasts - firsts + 1))

        run, begins = self.once("run of a branch", made)
        own = run[np.minimum(keys >> POSITION_BITS, len(run) - 1)]
        inside = (own >= 0) & (keys >= firsts[own]) & (keys <= lasts[own])
        return inside, (keys - firsts[own] + begins[own])[inside]

    def beside(self, place: int, most: int) -> range:
        """The places of a message and of as many at most before and after it in its session."""
        session, _ = self.where(place)
        first, stop = int(self.starts[session]), int(self.starts[session + 1])
        return range(max(first, place - most), min(stop, place + most + 1))

    def where(self, place: int) -> tuple[int, int]:
        """The place of a message's session, and its position in that session's branch."""
        import numpy as np

        session = int(np.searchsorted(self.starts, place, "right")) - 1
        return session, place - int(self.starts[session])

    def of(self, sessions: Collection[str]) -> TurnTable:
        """Only the messages of these sessions."""
        import numpy as np

        places = self.once("places", lambda: {name: n for n, name in enumerate(self.sessions)})
        own = sorted(places[name] for name in set(sessions) if name in places)
        parts = [slice(self.starts[place], self.starts[place + 1]) for place in own]
        lengths = [part.stop - part.start for part in parts]
        return TurnTable(
            sessions=tuple(self.sessions[place] for place in own),
            branches=tuple(self.branches[place] for place in own),
            starts=np.cumsum([0, *lengths]),
            keys=np.concatenate([self.keys[:0], *(self.keys[part] for part in parts)]),
            rows=np.concatenate([self.rows[:0], *(self.rows[part] for part in parts)]),
            speakers=np.concatenate([self.speakers[:0], *(self.speakers[part] for part in parts)]),
            names=self.names,
            complete=self.complete,
        )

    def once(self, name: str, make: Callable[[], T]) -> T:
        """What is made of these columns once, and then known by a name."""
        if name not in self.derived:
            self.derived[name] = make()
        made: T = self.derived[name]
        return made


def instant_of(at: int) -> datetime:
    """The time of a column `at`."""
    return datetime.fromtimestamp(at / 1e6, UTC)
