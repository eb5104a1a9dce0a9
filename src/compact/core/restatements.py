"""What was said later wins: which statements of a person say again, with another value, what an
earlier one said.

By form alone, and rather never than wrongly: what is not recognized stands, so that both are told.
Two sentences make one statement where all their telling words are the same, in any order, and one
value of the same kind differs that stands in the predicate: "The port of the test server is 8080",
"The test server's port is now 9090". What is asked, denied, guessed or told of the past, what hangs
on a pronoun, and what may hold of several says nothing of what was said before.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Generic, Literal, NamedTuple, TypeVar

from compact.core.sentences import sentences_of
from compact.core.terms import STOP_WORDS

ValueKind = Literal["number", "money", "date", "name"]
T = TypeVar("T")

LONGEST, FEW_WORDS, FAR = 300, 2, 4
"""Characters of the longest statement; telling words that a subject has at least, unless the later
statement says that something changed; and words from what states a value to the value."""
MOST_STATED, MOST_SAME = 2_000, 8
"""Frames that are remembered, the newest, and statements with one value of each."""
_TOKEN = re.compile(
    r"[“\"`][^“”\"`\n]{1,60}[”\"`]|https?://\S{1,200}|[$€£#]?\w(?:[\w.,:/@%+'’-]*[\w%€])?|[:=,;(?]"
)
_LABEL = re.compile(
    r"(?:Quick )?(?:Update|Correction|Reminder|Noted?|Got it|Okay|OK|Understood|Sure|Yes|No|Actually)[:,] "
)
"""How a sentence opens that is news, or an answer."""
_NAMED = re.compile(r"(?!Update|Correction|Reminder|Note)[A-Z][\w'.-]*(?: [A-Z][\w'.-]*){0,2}: ")
"""How a line opens that says who speaks, or what it is."""
_ROW = re.compile(r"\s*(?:[-*•>|#]|\d+[.)]\s)")


def _set(text: str) -> frozenset[str]:
    return frozenset(text.split())


_BE = _set("is are be")
_STATES = _BE | _set(
    ": = runs lives starts begins ends opens closes expires leaves departs arrives costs belongs"
    " wants prefers"
)
_CHANGED = _set(
    "changed moved raised increased lowered reduced extended postponed switched updated renamed"
)
_CUES, _NEW = _set("now actually instead current currently"), frozenset(("new",))
_NEUTRAL = _set(
    "the a an in on at to of for and will must should shall has have been was were being so hosted"
    " located , ; ("
).union(_STATES, _CHANGED, _CUES)
_DOUBT = _set(
    "? if when whenever unless whether while maybe perhaps probably possibly think thought guess"
    " suppose might could would may can also too another other others else either both example eg"
    " who what which where why how please"
)
"""Words with which something is asked, guessed, or said beside what was said."""
_UNBOUND = _set(
    "not no never none without nothing nobody it he she they his her their its these those that"
    " there here some one"
)
"""Words before a value with which it is denied, or hangs on what stands before."""
_BREAKS = _set(", ; ( : and but or because since than as like that")
"""What ends the reach of a word that states."""
_SEVERAL = _set(
    "friend cousin brother sister son daughter child kid uncle aunt nephew niece neighbour neighbor"
    " colleague coworker classmate dog cat pet favourite favorite order reservation booking ticket"
    " item issue bug error test file"
)
"""What people have several of: another one is no news of the first."""
_PERIODS = _set("week month quarter year sprint release project session")
_PERSONS = {"me": "i", "my": "i", "mine": "i", "your": "you", "our": "we", "us": "we"}
_DAYS = _set("monday tuesday wednesday thursday friday saturday sunday today tomorrow")
_MONTHS = _set(
    "January February March April May June July August September October November December"
)
_BETWEEN = _set("of at on am pm , -")
"""What stands within a date, or a number out of a number."""


class Value(NamedTuple):
    """A value: from which token on it stands, up to before which, and what it is."""

    first: int
    end: int
    kind: ValueKind
    text: str


class Frame(NamedTuple):
    """What a statement says apart from one of its values."""

    speaker: str
    subject: frozenset[str]
    others: tuple[str, ...]
    kind: ValueKind


class Statement(NamedTuple):
    """A sentence that says of something which value it has."""

    text: str
    frames: Mapping[Frame, str]
    """Each with the value that stands in it."""
    is_change: bool
    """Whether it says that something changed."""


class Restatements(Generic[T]):
    """Statements in the order in which they are made, each with the message that it belongs to."""

    def __init__(self) -> None:
        self._stated: dict[Frame, tuple[str, deque[tuple[T, str]]]] = {}

    def state(self, statement: Statement, owner: T) -> list[tuple[T, str]]:
        """A statement is made in a message; those of other messages that it supersedes."""
        gone = list[tuple[T, str]]()
        for frame, value in statement.frames.items():
            before, said = self._stated.pop(frame, (value, deque[tuple[T, str]](maxlen=MOST_SAME)))
            is_clear = statement.is_change or _is_clear(frame)
            if before != value and is_clear and said[-1][0] is not owner:
                gone += said
                said.clear()
            said.append((owner, statement.text))
            self._stated[frame] = value, said
        while len(self._stated) > MOST_STATED:
            del self._stated[next(iter(self._stated))]
        return gone

    def repeat(self, statement: Statement, owner: T) -> None:
        """Somebody else says the same: it is superseded with what it repeats."""
        for frame, value in statement.frames.items():
            before, said = self._stated.get(frame, ("", None))
            if said is not None and before == value:
                said.append((owner, statement.text))


def statements_in(text: str) -> Iterator[Statement]:
    """The statements of a message, in order; where it says who speaks, as theirs."""
    speaker = ""
    for line in text.splitlines():
        named = _NAMED.match(line)
        speaker = named[0].lower() if named else speaker
        for said in sentences_of(line):
            if statement := _stated_in(said, speaker):
                yield statement


def _stated_in(text: str, speaker: str) -> Statement | None:
    """What a sentence states; None where it is no statement."""
    label = _LABEL.match(text) or _NAMED.match(text)
    said = text[label.end() if label else 0 :]
    is_code = not _set("{ } < > [ ] |").isdisjoint(said) or "(" in said.replace(" (", "")
    if len(said) > LONGEST or is_code or _ROW.match(said):
        return None
    tokens = _TOKEN.findall(said)
    lower = [token.lower() for token in tokens]
    is_only = lower[:1] == ["only"]
    doubts = _DOUBT - _set("may can") if is_only else _DOUBT
    if not doubts.isdisjoint(x for i, x in enumerate(lower) if tokens[i] != "May" or not i):
        return None
    values = _values(tokens)
    inside = {i for value in values for i in range(value.first, value.end)}
    words = frozenset(_stem(x) for i, x in enumerate(lower) if i not in inside) - _NEUTRAL
    frames = dict[Frame, str]()
    for value in values:
        if (is_only and value.first == 1) or _is_stated(lower, value):
            others = tuple(x.text for x in values if x is not value)
            subject = words - _NEW if value.kind != "name" else words
            frames[Frame(speaker, subject, others, value.kind)] = value.text
    is_change = not (_CUES | _CHANGED | _NEW).isdisjoint(lower)
    is_change |= label is not None and label[0].startswith(("Update", "Correction", "Actually"))
    return Statement(text, frames, is_change) if frames else None


def _is_clear(frame: Frame) -> bool:
    """Whether a subject is so clear that another value is news of the same thing."""
    return _SEVERAL.isdisjoint(frame.subject) and len(frame.subject - STOP_WORDS) >= FEW_WORDS


def _is_stated(words: Sequence[str], value: Value) -> bool:
    """Whether a value is what is said of a subject that stands before it."""
    for at in range(value.first - 1, max(0, value.first - 1 - FAR), -1):
        word, before = words[at], words[:at]
        is_stated = word in _STATES or (word in _CHANGED and "to" in words[at : value.first])
        if is_stated and word in (":", "="):
            is_stated = at >= value.first - FEW_WORDS and at - 1 <= FAR
            is_stated &= len(words) - value.end <= FAR
        if is_stated:
            nexts = words[at + 1] if at + 1 < value.first else ""
            if word in _BE and nexts.endswith("ing"):
                return False
            return (
                words[0] not in ("a", "an")
                and _UNBOUND.isdisjoint(words[: value.first])
                and not any(
                    x == "this" and words[i + 1] not in _PERIODS for i, x in enumerate(before)
                )
                and not STOP_WORDS.issuperset(before)
            )
        if word in _BREAKS:
            return False
    return False


def _values(tokens: Sequence[str]) -> list[Value]:
    """The values among tokens; those that stand together are one."""
    values = list[Value]()
    for at, token in enumerate(tokens):
        kind = _kind_of(token, opens=at == 0)
        if kind is None:
            continue
        last = values[-1] if values else None
        if last and _are_one(last, kind, tokens[last.end : at]):
            kind = "date" if "date" in (kind, last.kind) else last.kind
            text = f"{last.text} {token.lower()}"
            values[-1] = Value(last.first, at + 1, kind, text)
        else:
            values.append(Value(at, at + 1, kind, token.lower().removesuffix("'s")))
    return values


def _are_one(last: Value, kind: ValueKind, between: Sequence[str]) -> bool:
    if kind == "name" or last.kind == "name":
        return kind == last.kind and not between
    return len(between) < 3 and _BETWEEN.issuperset(x.lower() for x in between)


def _kind_of(token: str, *, opens: bool) -> ValueKind | None:
    """Of what kind the value is that a token is; None for a word."""
    if any(map(str.isdigit, token)):
        rest = set(token.lower()) - set("0123456789")
        if token[0] in "$€£" or token[-1] == "€":
            return "money"
        if rest <= set(".,%"):
            return "number"
        is_date = rest <= set("-/:") or token.lower().lstrip("0123456789:.") in (
            "st", "nd", "rd", "th", "am", "pm",
        )  # fmt: skip
        return "date" if is_date else "name"
    if token.lower() in _DAYS or (token in _MONTHS and not opens):
        return "date"
    inner = token[1:-1]
    if token[0] in "“\"`" or not set("_/@.\\").isdisjoint(inner):
        return "name"
    if token.lower().partition("'")[0].partition("’")[0] in STOP_WORDS:
        return None
    is_mixed = any(map(str.isupper, token[1:]))
    return "name" if is_mixed or (token[0].isupper() and not opens) else None


def _stem(word: str) -> str:
    word = word.replace("’", "'").removesuffix("'s").rstrip("'")
    if word.endswith("n't"):
        return "not"
    word = _PERSONS.get(word, word)
    return word[:-1] if len(word) > 3 and word.endswith("s") and word[-2] not in "sui" else word
