"""What a memory search knows about each message besides its words: time, length, traits, speaker.

Traits are found when a message is indexed, by the words in `languages.json`. So a search does not
have to read messages.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import IntFlag
from functools import cache
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
    Keys = Any  # numpy is loaded only for searching

T = TypeVar("T")

FIELDS = (
    ("at", "<i8"),
    ("length", "<u2"),
    ("signs", "<u2"),
    ("role", "u1"),
    ("speaker", "u1"),
)
"""The columns of `TurnTable.rows` for numpy. `LAYOUT` describes the same columns for `struct`."""
LAYOUT = "<qHHBB"
POSITION_BITS = 32
"""How many low bits of a message's key hold the position. Its high bits hold the branch number."""
MOST_WORDS, MOST_SPEAKERS = 0xFFFF, 0xFF
"""The largest values that fit the columns `length` and `speaker`."""
ROLE_NUMBERS = {role: number for number, role in enumerate(sorted(ROLES))}
"""Role → its number in the column `role`."""
QUESTION_MARKS = "?？؟"

SELF = frozenset().union(*FIRST_PERSON.values())
"""First-person words of all languages."""
_TIMES = frozenset().union(*words_of("time_words").values())
_NUMBERS = frozenset().union(*words_of("number_words").values())
_YEAR_DIGITS = 4
"""A number with this many digits may be a year."""
_SENTENCE_ENDS = str.maketrans(dict.fromkeys(".!?;…。！？؟", "\n"))
_CLAUSE_ENDS = _SENTENCE_ENDS | dict.fromkeys(map(ord, ",:，、،"), "\n")
_REFUSES_AFTER = frozenset(("de", "nl", "sv", "da", "ja", "ko", "tr", "hi", "fa"))
"""Languages that may put `not` behind the verb: `vergiss es nicht`."""
NEAR_REFUSAL = 8
"""At most this many words (in Chinese, characters) are between a refusal and a word of speaking."""
NEXT = 2
"""A word of speaking behind a refusal is at most so many words away, if no wish says it."""
LONG = 200
"""A user's text of more words counts as a document. It is not searched for lasting wishes."""


class Trait(IntFlag):
    """Traits of a message's text."""

    QUESTION = 1
    SELF = 2
    """The text has first-person words."""
    TIME = 4
    NUMBER = 8
    NAME = 16
    """The text has a capitalized word within a sentence."""
    AFTER_QUESTION = 32
    """The previous message asks a question. This is computed for each search and not stored."""
    STANDING = 64
    """A user says something in general form (always, never, rather), or the message is marked."""
    CHANGE = 128
    """A user says that something changed, is withdrawn, or is not to be talked about."""
    FORGET = 256
    """A user asks to forget something."""
    BARRED = 512
    """A user asks not to talk about something."""


SCORED = 2 * Trait.AFTER_QUESTION - 1
"""The traits that raise or lower the score of any message."""
_QUESTION, _OF_SELF, _TIME, _NUMBER, _NAME, _, *_LASTING = map(int, Trait)
_STANDING, _CHANGE, _FORGET, _BARRED = _LASTING
"""The stored traits as plain numbers, since adding members of `Trait` takes ten times as long."""


@cache  # made when the first message is indexed: it takes longer than the rest of this module
def _phrases(kind: str) -> dict[str, list[str]]:
    """Return the phrases of one kind in all languages, by their first piece."""
    found: dict[str, list[str]] = {}
    for phrase in frozenset().union(*words_of(kind).values()):
        pieces = pieces_of(phrase.replace("_", " "))
        found.setdefault(pieces[0], []).append(f" {' '.join(pieces)} ")
    return found


_PHRASES = {_STANDING: "standing", _CHANGE: "changes"}
"""Trait → the kind of words that show it."""


class Noted(NamedTuple):
    """The columns of one message."""

    at: int
    """The message's time, in microseconds since 1970 (UTC)."""
    length: int
    """Number of words, without stop words."""
    signs: int
    """The sum of the traits' numbers."""
    role: int
    speaker: str | None
    """The speaker's name, if the message gives a name."""


def noted(message: Message, words: str | None = None) -> Noted:
    """Return the columns of a message. `words` is its searchable text, where that is known."""
    text, words = message.text, searchable(message) if words is None else words
    pieces = pieces_of(words)
    own = pieces if words == text else pieces_of(text)
    signs = _signs_of(text, set(own))
    if message.role == "user" and len(own) <= LONG:
        signs |= _STANDING if message.is_important or message.is_pinned else 0
        signs |= _lasting(own) | (_FORGET if forgotten_in(text) else 0)
        signs |= (_BARRED | _CHANGE) if is_barred_in(text) else 0
    return Noted(
        codec.instant(message.timestamp),
        min(len(pieces) - sum(map(STOP_WORDS.__contains__, pieces)), MOST_WORDS),
        signs,
        ROLE_NUMBERS[message.role],
        message.name,
    )


_Word = tuple[str, str, str]
"""How a word stands among the pieces of a sentence, its language, and the word itself."""


class _Known(NamedTuple):
    """Words of one kind in all languages."""

    whole: dict[str, list[_Word]]
    """The words by their first piece."""
    begun: list[_Word]
    """The words that may have other endings."""

    def found(self, padded: str) -> list[tuple[str, int, str]]:
        """Return the language, the place (index of a piece) and the word of each that is found."""
        own = [each for first in padded.split() for each in self.whole.get(first, ())]
        return [
            (code, padded.count(" ", 0, at), word)
            for needle, code, word in (*dict.fromkeys(own), *self.begun)
            if (at := padded.find(needle)) >= 0
        ]


@cache
def _known(kind: str) -> _Known:
    """Return the words of one kind. A word that ends in `*` may have other endings."""
    known = _Known({}, [])
    for code, words in words_of(kind).items():
        for word in words:
            pieces = pieces_of(word.replace("_", " "))
            row = known.begun if word.endswith("*") else known.whole.setdefault(pieces[0], [])
            row.append((f" {' '.join(pieces)}{'' if word.endswith('*') else ' '}", code, word))
    return known


@cache
def _of(kind: str, code: str) -> frozenset[str]:
    """Return the words of one kind in one language."""
    return frozenset(words_of(kind).get(code, ()))


def _parts(text: str, ends: Mapping[int, str], kinds: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield each part of a text, up to one of the ends, that may have words of one of these kinds,
    and its pieces with blanks around them.
    """
    for sentence in text.translate(ends).splitlines():
        pieces = pieces_of(sentence)
        if any(not _known(kind).whole.keys().isdisjoint(pieces) for kind in kinds):
            yield sentence, f" {' '.join(pieces)} "


def is_barred_in(text: str) -> bool:
    """Return whether a text asks not to talk about something: `Never mention Tobias`, `My weight is
    off limits`. The words are a refusal near a word of speaking, or say it alone.

    `I never mention him` is a report: after `I` or `he`, a refusal needs a wish (`I don't want`).
    """
    for _, padded in _parts(text, _CLAUSE_ENDS, ("taboo", "refuses")):
        if _known("taboo").found(padded):
            return True
        pieces, refused = padded.split(), _known("refuses").found(padded)
        told = _known("mentions").found(padded) if refused else []
        for code, at, _ in refused:
            own = [place - at for other, place, _ in told if other == code]
            least = -NEAR_REFUSAL if code in _REFUSES_AFTER else 1
            near = [away for away in own if least <= away <= NEAR_REFUSAL and away]
            polite = _of("courtesies", code) | _of("refuses", code)
            if near and not polite:
                return True
            for away in near:
                before = pieces[: at + min(away, 0)]
                if polite.issuperset(before) and away <= NEXT:
                    return True  # the sentence begins so: it asks
                wishes = (language for language, _, _ in _known("wishes").found(padded))
                own_words = FIRST_PERSON.get(code, frozenset())
                if not own_words.isdisjoint(pieces[: max(at, 1)]) and code in wishes:
                    return True
    return False


def _is_asked_of_you(before: Sequence[str], code: str) -> bool:
    """Return whether the words before a verb ask the listener: `please`, `can you`. `I` after
    `can you` begins something else.
    """
    you, polite = _of("asks_you", code), _of("courtesies", code)
    if polite.issuperset(before):
        return True
    # where the verb comes last, what it is about stands between
    near = before[:2] if code in ("de", "nl") else before[-3:]
    allowed = you | polite | _of("asks_how", code)
    return len(near) > (code == "en") and not you.isdisjoint(near) and allowed.issuperset(near)


def forgotten_in(text: str) -> str:
    """Return what a sentence asks to forget, as in `Forget my number` and `Can you forget it?`.
    Empty for others, such as `Don't forget it` and `I forget names`.
    """
    for sentence, padded in _parts(text, _CLAUSE_ENDS, ("forgets", "unkept")):
        pieces = padded.split()
        for code, at, word in (*_known("unkept").found(padded), *_known("forgets").found(padded)):
            before = pieces[:at]
            around = pieces if code in _REFUSES_AFTER else pieces[: at + 2]
            is_asked = word[0] == "!" or _is_asked_of_you(before, code)
            if word not in _of("unkept", code):  # whose words may refuse themselves
                is_asked &= _of("refuses", code).isdisjoint(around)
            if is_asked:
                own = r"[\W_]*".join(map(re.escape, pieces_of(word.replace("_", " "))))
                return re.sub(own, " ", sentence, count=1, flags=re.IGNORECASE).strip()
    return ""


def _lasting(pieces: list[str]) -> int:
    """Return the traits `STANDING` and `CHANGE` of a user's text."""
    held, padded = set(pieces), f" {' '.join(pieces)} "
    return sum(
        sign
        for sign, phrases in ((sign, _phrases(kind)) for sign, kind in _PHRASES.items())
        if any(
            phrase in padded for first in held.intersection(phrases) for phrase in phrases[first]
        )
    )


def _signs_of(text: str, pieces: set[str]) -> int:
    """Return the traits of a text as a number. `pieces` are the text's words."""
    digits = list(filter(str.isdecimal, pieces))
    signs = 0
    if any(map(text.__contains__, QUESTION_MARKS)):
        signs |= _QUESTION
    if not pieces.isdisjoint(SELF):
        signs |= _OF_SELF
    if not pieces.isdisjoint(_TIMES) or any(len(piece) == _YEAR_DIGITS for piece in digits):
        signs |= _TIME
    if digits or not pieces.isdisjoint(_NUMBERS):
        signs |= _NUMBER
    for before, word in pairwise(text.split()):
        if word[0].isupper() and (before[-1] == "," or before[-1].islower()):
            return signs | _NAME
    return signs


class TurnPart(NamedTuple):
    """Consecutive messages of one branch."""

    key: int
    """The key of the first message."""
    rows: NDArray[np.void]
    speakers: NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class TurnTable:
    """The messages of a scope's sessions, in order. Each session gives only its current branch."""

    sessions: tuple[str, ...]
    """Ids of the sessions."""
    branches: tuple[str, ...]
    """The current branch of each session."""
    starts: Keys
    """The place (index) of each session's first message, and after that the number of messages."""
    keys: Keys
    """The key of each message in the index. The low 32 bits are the position in the branch."""
    rows: NDArray[np.void]
    """The columns of each message, as in `FIELDS`. `speaker` is an index into its batch's list."""
    speakers: NDArray[np.int32]
    """The speaker of each message, as an index into `names`; 0 if there is no name."""
    names: tuple[str, ...]
    """Names of speakers. The first name is empty."""
    complete: bool = True
    """Whether the index holds all messages of these sessions."""
    derived: dict[str, Any] = field(default_factory=dict, repr=False)
    """Values computed from these columns, kept for the next search."""

    @classmethod
    def joined(
        cls, parts: Mapping[tuple[str, str], Sequence[TurnPart]], names: Iterable[str]
    ) -> TurnTable:
        """Return the table of sessions: session and branch → what the branch has, in order."""
        import numpy as np

        empty = np.empty(0, np.int64), np.empty(0, list(FIELDS)), np.empty(0, np.int32)
        columns: list[tuple[Any, ...]] = [empty]
        for own in parts.values():
            columns += [(np.arange(len(part.rows)) + part.key, *part[1:]) for part in own]
        keys, rows, speakers = (np.concatenate(column) for column in zip(*columns, strict=True))
        return cls(
            sessions=tuple(session for session, _ in parts),
            branches=tuple(branch for _, branch in parts),
            starts=np.cumsum([0, *(sum(len(x.rows) for x in own) for own in parts.values())]),
            keys=keys,
            rows=rows,
            speakers=speakers,
            names=tuple(names),
        )

    def __len__(self) -> int:
        return len(self.keys)

    def runs(self) -> tuple[Keys, Keys]:
        """Return the first and the last key of each run of consecutive keys, in table order. Each
        branch has at most one run.
        """
        import numpy as np

        def made() -> tuple[Keys, Keys]:
            ends = np.flatnonzero(np.diff(self.keys) != 1)
            at = np.append(0, ends + 1)[: len(self.keys)], np.append(ends, len(self.keys) - 1)
            return self.keys[at[0]], self.keys[at[1][: len(self.keys)]]

        return self.once("runs", made)

    def places(self, keys: Keys) -> Keys:
        """Return the places of messages in the table. Messages not in the table are left out."""
        return self.standing(keys)[1]

    def standing(self, keys: Keys) -> tuple[NDArray[np.bool_], Keys]:
        """Return for each key whether its message is here, and the places of those that are."""
        import numpy as np

        firsts, lasts = self.runs()
        if not len(firsts):
            return np.zeros(len(keys), bool), firsts

        def made() -> tuple[Keys, Keys]:
            # For each branch its run, and for each run the place at which it begins.
            branches = firsts >> POSITION_BITS
            run = np.full(int(branches.max()) + 2, -1)
            run[branches] = np.arange(len(branches))
            return run, np.cumsum(np.append(0, lasts - firsts + 1))

        run, begins = self.once("run of a branch", made)
        own = run[np.minimum(keys >> POSITION_BITS, len(run) - 1)]
        inside = (own >= 0) & (keys >= firsts[own]) & (keys <= lasts[own])
        return inside, (keys - firsts[own] + begins[own])[inside]

    def beside(self, place: int, most: int) -> range:
        """Return the places of a message and up to `most` messages on each side in its session."""
        session, _ = self.where(place)
        first, stop = int(self.starts[session]), int(self.starts[session + 1])
        return range(max(first, place - most), min(stop, place + most + 1))

    def where(self, place: int) -> tuple[int, int]:
        """Return the index of a message's session, and the message's position in the branch."""
        import numpy as np

        session = int(np.searchsorted(self.starts, place, "right")) - 1
        return session, place - int(self.starts[session])

    def of(self, sessions: Collection[str]) -> TurnTable:
        """Return a table with only these sessions."""
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
        """Return the value with this name in `derived`. Compute it first if it is missing."""
        if name not in self.derived:
            self.derived[name] = make()
        made: T = self.derived[name]
        return made


def instant_of(at: int) -> datetime:
    """Return the time for a value of the column `at`."""
    return datetime.fromtimestamp(at / 1e6, UTC)
