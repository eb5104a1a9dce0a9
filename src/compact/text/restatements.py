"""Finds statements that a later statement replaces: the later one gives a new value.

Only the form of a sentence counts. In doubt both statements are kept. A sentence replaces another
if both have the same content words, in any order, and differ in one value of the same kind: "The
port of the test server is 8080", "The test server's port is now 9090".

These replace nothing: questions, denials, guesses, sentences about the past, sentences with a
pronoun as subject, list items, files, and things that people have several of. A rule is replaced by
its opposite. Only English is supported; its words are in `restatement_words.json`.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from typing import Generic, Literal, NamedTuple, TypeVar

from compact.patterns import regex
from compact.text.anchors import is_file
from compact.text.instructions import score_of
from compact.text.sentences import bare, sentences_of
from compact.text.terms import STOP_WORDS

ValueKind = Literal["number", "money", "date", "name", "rule"]
T = TypeVar("T")

LONGEST, FEW_WORDS, FAR = 300, 2, 5
"""`LONGEST`: a statement has at most this many characters. `FEW_WORDS`: a subject has at least this
many content words, or one fewer if the later statement says that something changed. `FAR`: the verb
is at most this many words before the value."""
MOST_STATED, MOST_SAME = 2_000, 8
"""How many frames are remembered, the newest ones, and how many statements of each."""
_WORDS: Mapping[str, frozenset[str]] = {
    kind: frozenset(words.split())
    for kind, words in json.loads(
        (files("compact.text") / "restatement_words.json").read_text(encoding="utf-8")
    ).items()
}
_STATES, _CHANGED, _CUES = _WORDS["states"], _WORDS["changed"], _WORDS["cue"]
_NEUTRAL = _WORDS["neutral"].union(_STATES, _CHANGED, _CUES)
"""Words that say nothing about a statement's subject."""
_STOPS = _WORDS["break"].union(_STATES, _CHANGED)
"""Words that decide whether the sentence states the value after them."""
_PERSONS = dict(pair.split("/") for pair in _WORDS["person"])
_TOKEN = regex(
    r"“[^”\n]{1,40}”|\"[^\"\n]{1,40}\"|`[^`\n]{1,40}`|https?://\S{1,200}"
    r"|[$€£#]?\w(?:[\w.,:/@%+'’-]*[\w%€])?|[:=,;(?]"
)
_LABEL = regex(
    r"(?:(?:Quick )?(?:Update|Correction)|Reminder|Noted?|Got it|Okay|OK|Understood|Sure|Yes|No"
    r"|Actually)[:,] "
)
"""How a sentence begins that reports a change or answers."""
NAMED = regex(r"[A-ZÀ-ÞА-Я][\w'.-]*(?: [A-ZÀ-ÞА-Я][\w'.-]*){0,2}: ")
"""A name and a colon at the start of a line: the speaker's name, or a kind of text."""
_RULE = regex(
    r"(?:please )?(?:(?P<never>never|do not|don't|you must (?:not|never))"
    r"|(?P<always>always|you must)"
    r"|(?P<free>(?:there is |there's )?no need to|you (?:no longer|don't|do not) (?:need|have) to"
    r"|(?:you (?:may|can)|it(?:'s| is) (?:ok|okay|fine) to)(?=[^.]{1,200} (?:again|now)\W*$))) ",
    re.IGNORECASE,
)
"""How a rule begins, or a sentence that withdraws a rule."""


class Frame(NamedTuple):
    """A statement with one value left open. Statements with equal frames may conflict."""

    speaker: str
    subject: frozenset[str]
    others: tuple[str, ...]
    """The statement's other values."""
    kind: ValueKind


class Statement(NamedTuple):
    """A sentence that states a value."""

    text: str
    frames: Mapping[Frame, str]
    """Frame without one of the sentence's values → this value."""
    is_change: bool
    """Whether the sentence says that something changed."""


class Restatements(Generic[T]):
    """Holds statements in order, each with its owner: the message that contains it. At most `most`
    frames are remembered, the newest ones.
    """

    def __init__(self, most: int = MOST_STATED) -> None:
        self._most = most
        self._stated: dict[Frame, deque[tuple[str, T, str]]] = {}
        self._speaker = ""

    def __len__(self) -> int:
        """The number of remembered frames."""
        return len(self._stated)

    def state(self, statement: Statement, owner: T) -> list[tuple[T, str]]:
        """Add a statement; return the owners and texts of the statements that it replaces.

        A statement replaces none of the same message.
        """
        gone = list[tuple[T, str]]()
        for frame, value in statement.frames.items():
            said = self._stated.pop(frame, deque[tuple[str, T, str]](maxlen=MOST_SAME))
            if _is_clear(frame, is_change=statement.is_change):
                old = [x for x in said if x[0] != value and x[1] is not owner]
                gone += (x[1:] for x in old)
                said = deque((x for x in said if x not in old), MOST_SAME)
            said.append((value, owner, statement.text))
            self._stated[frame] = said
            self._speaker = frame.speaker
        while len(self._stated) > self._most:
            del self._stated[next(iter(self._stated))]
        return gone

    def repeat(self, statement: Statement, owner: T) -> None:
        """Add an answer that repeats the last value. A later value then replaces both."""
        for frame, value in statement.frames.items():
            subject = frozenset({"i": "you", "you": "i"}.get(x, x) for x in frame.subject)
            said = self._stated.get(frame._replace(speaker=self._speaker, subject=subject))
            if said and said[-1][0] == value:
                said.append((value, owner, statement.text))


def statements_in(text: str) -> Iterator[Statement]:
    """Yield the statements of a message in order. A name before a line is the speaker's."""
    speaker, lines = "", text.splitlines()
    for line in lines:
        if bare(line) == line.strip():  # not a list item
            named = None if _LABEL.match(line) else NAMED.match(line)
            speaker = named[0].lower() if named else speaker
            for said in sentences_of(line):
                if statement := _stated_in(said, speaker, is_row=len(lines) > 1):
                    yield statement


def _stated_in(text: str, speaker: str, *, is_row: bool) -> Statement | None:
    """Return what the sentence states; None if it states no value.

    In a text of several lines (`is_row`), a value after a colon does not count, since each line may
    be about something else.
    """
    label = _LABEL.match(text) or NAMED.match(text)
    said = text[label.end() if label else 0 :]
    is_code = any(x in "{}<>[]|\\" for x in said) or "(" in said.replace(" (", "")
    is_code |= said.endswith(";")
    tokens = _TOKEN.findall(said.replace("’", "'")) if len(said) <= LONGEST else []
    if is_code or not tokens:
        return None
    lower = [token.lower() for token in tokens]
    if rule := _RULE.match(said.replace("’", "'")):
        return Statement(text, _rule(rule, tokens, speaker), is_change=False)
    is_only = lower[:1] == ["only"] and not {"may", "can"}.isdisjoint(lower)
    doubts = _WORDS["doubt"] - {"may", "can"} if is_only else _WORDS["doubt"]
    if any(_plain(x) in doubts for i, x in enumerate(lower) if tokens[i] != "May" or not i):
        return None
    values = _values(tokens)
    inside = {i for value in values for i in range(value.first, value.end)}
    told = (x for i, x in enumerate(lower) if i not in inside and x not in _NEUTRAL)
    subject, frames = frozenset(map(_stem, told)), dict[Frame, str]()
    first = values[0].first if values and not is_row else 0
    for value in values:
        is_stated = (is_only and value.first == 1) or _is_stated(lower, value, first)
        if is_stated and not is_file(value.text):
            others = tuple(x.text for x in values if x is not value)
            frames[Frame(speaker, subject, others, value.kind)] = value.text
    is_change = not (_CUES | _CHANGED).isdisjoint(lower[lower[0] == "now" :])
    is_change |= label is not None and label[0].endswith(("pdate: ", "orrection: ", "ctually, "))
    return Statement(text, frames, is_change) if frames and score_of(said) else None


def _rule(rule: re.Match[str], tokens: Sequence[str], speaker: str) -> Mapping[Frame, str]:
    """Return the frame of a rule, and what the rule says: `never`, `always` or `free`."""
    about = frozenset(
        _stem(x) for x in map(str.lower, tokens) if x not in _NEUTRAL | _WORDS["rule"]
    )
    about -= _WORDS["rule"]
    return {Frame(speaker, about, (), "rule"): rule.lastgroup or ""}


def _is_clear(frame: Frame, *, is_change: bool) -> bool:
    """Whether two values in this frame are certainly about the same thing."""
    words = len(frame.subject - STOP_WORDS) + sum(map(str.isalpha, frame.others))
    is_one = is_change or _WORDS["several"].isdisjoint(frame.subject)
    return is_one and words >= FEW_WORDS - is_change


class _Value(NamedTuple):
    first: int
    end: int
    kind: ValueKind
    text: str


def _is_stated(words: Sequence[str], value: _Value, first: int) -> bool:
    """Whether the sentence states the value about a subject before it.

    After a colon this needs that no value comes before the colon. `first` is the index of the first
    value's first word.
    """
    reach = range(value.first - 1, max(0, value.first - 1 - FAR), -1)
    at = next((i for i in reach if words[i] in _STOPS), 0)
    word, before, between = words[at], words[:at], words[at + 1 : value.first]
    if word == ":":
        is_short = at <= FAR and len(words) - value.end <= FAR
        is_stated = is_short and first > at and len(between) < FEW_WORDS
    elif word in _CHANGED:
        is_stated = between[:1] == ["to"]
    else:
        is_stated = word in _STATES and _leads(between)
    these = (words[i + 1] for i, x in enumerate(before) if x == "this")
    return (
        is_stated
        and not STOP_WORDS.issuperset(before)
        and words[0] not in ("a", "an")
        and _WORDS["unbound"].isdisjoint(map(_stem, words[: value.first]))
        and _WORDS["period"].issuperset(these)
    )


def _leads(between: Sequence[str]) -> bool:
    """Whether the words between a verb and a value still let the verb state the value.

    They may contain one preposition: before it only participles, after it at most two content
    words.
    """
    places = [i for i, x in enumerate(between) if x in _WORDS["preposition"]]
    early, late = between[: places[0] if places else 0], between[places[0] + 1 if places else 0 :]
    is_led = all(x in _NEUTRAL or x.endswith("ed") for x in early)
    return len(places) < FEW_WORDS and is_led and len([x for x in late if x not in _NEUTRAL]) < 3


def _values(tokens: Sequence[str]) -> list[_Value]:
    """Return the values among the tokens. Neighbouring values of one kind are joined."""
    values = list[_Value]()
    for at, token in enumerate(tokens):
        kind, last = _kind_of(token, opens=at == 0), values[-1] if values else None
        if last and last.end == at and token.lower() in ("am", "pm"):
            kind = "date"
        if kind is None:
            continue
        if last and _are_one(last, kind, tokens[last.end : at]):
            kind = "date" if "date" in (kind, last.kind) else last.kind
            values[-1] = _Value(last.first, at + 1, kind, f"{last.text} {token.lower()}")
        else:
            values.append(_Value(at, at + 1, kind, _plain(token.lower())))
    return values


def _are_one(last: _Value, kind: ValueKind, between: Sequence[str]) -> bool:
    if "name" in (kind, last.kind):
        return kind == last.kind and not between
    return len(between) < 3 and _WORDS["within date"].issuperset(x.lower() for x in between)


def _kind_of(token: str, *, opens: bool) -> ValueKind | None:
    """Return the kind of value that a token is; None if it is an ordinary word."""
    word = _plain(token.lower())
    if any(map(str.isdigit, token)):
        if token[0] in "$€£" or token[-1] == "€":
            return "money"
        rest = word.strip("0123456789.,:/%-")
        if not rest:
            return "date" if any(x in "-/:" for x in word) else "number"
        return "date" if rest in _WORDS["date end"] else "name"
    if word in _WORDS["day"] or (word in _WORDS["month"] and token[0].isupper() and not opens):
        return "date"
    if token[0] in '“"`' or any(x in "_/@." for x in token[1:-1]):
        return "name"
    is_capital = any(map(str.isupper, token if not opens else token[1:]))
    return "name" if is_capital and word not in STOP_WORDS else None


def _plain(word: str) -> str:
    """Return the part of a word before its apostrophe."""
    return word.partition("'")[0] or word


def _stem(word: str) -> str:
    if word.endswith("n't"):
        return "not"
    word = _PERSONS.get(_plain(word), _plain(word))
    return word[:-1] if len(word) > 3 and word.endswith("s") and word[-2] not in "sui" else word
