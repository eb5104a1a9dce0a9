"""Items: what was said, in order, for a chronology.

Memory is bounded. The kind of an item follows from its speaker and time, not from its words. Its
information (`info`) is estimated from its distinct words, names and numbers.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal, NamedTuple

from compact.engine.chronology.cutting import (
    ANNOUNCED,
    BLANK,
    UNIT,
    WHOLE,
    WORD,
    Cuttable,
    info_of,
    squeezed,
    stub_of,
)
from compact.engine.visible import probed
from compact.messages.checkpoints import REFERENCE_LINE
from compact.messages.messages import PersonWords, short_id
from compact.messages.tokens import TokenCounter
from compact.patterns import regex
from compact.text.facts import Said
from compact.text.instructions import score_of
from compact.text.restatements import Restatements, statements_in
from compact.text.sentences import beginning, sentences_of
from compact.text.terms import STOP_WORDS

Kind = Literal["host", "request", "pasted", "aside", "closing", "said", "earlier"]
"""`host`: rules from the host application; `request`: what the user asks; `pasted`: text that the
user pasted; `aside`: what the user says inside tool results; `closing`: the assistant's last words
before the user speaks; `said`: its other words; `earlier`: from an earlier checkpoint."""

MUST = 60.0
"""Extra weight of the sentences that must stay, for the clearest demand."""
POWER, PERSONS_POWER = 0.6, 1.0
"""A text's information to this power is its worth: twice as much is not worth twice as much. It is
for the user's words (second number), each of which may have to be followed."""
MUST_STAY = 0.4
"""A demand at least this clear (0 to 1) stays when other sentences are cut."""
PERSONS: frozenset[Kind] = frozenset(("host", "request", "aside"))
"""Kinds whose demands have to be followed."""
MOST_ITEMS = 800
"""Most items. Beyond this, the newer half and the most demanding of the older half stay."""
LONGEST = 6_000
"""Longest item, in characters; of a longer one both ends are kept. Its id finds the rest."""
MOST_QUESTION = 240
"""Most characters kept of a question's end, and of the start of a refused call."""
MOST_BEFORE = 3
"""How many messages, the newest ones, are named as holding an earlier value."""
PASTED = " [pasted: "
"""Begins the mark for what the user pasted."""
FEW_WORDS = 12
"""An answer with fewer words says little without its question."""
PROSE = 0.2
"""Least share of function words in prose: code and logs have .02 to .13, people .29 and more."""
_TOLD = regex(r"(User|Assistant)(?:, (?:to|asked) “(.*?)”| refused (.*?))?: ", re.DOTALL)
"""The start of a chronology line that names its speaker."""
_BEFORE = regex(r" ?\[before: ([^\]\n]{1,80})\]")
"""A mark after a sentence whose value changed. It names the messages with the earlier value."""
_SUPERSEDED = regex(r"\[… [\d,]+ words, [^\]\n]{1,80}\] ?")
_BULLET = regex(r"^\s*(?:(?:[-*•]|\d{1,2}[.)])\s+)?")
_PART = regex(r"[.!?]\s+|\n|[。！？]")


class Spoken(NamedTuple):
    """An item split into sentences."""

    said: Sequence[Said]
    opening: float
    """How much information the first sentence has (`info_of`)."""
    question: str
    """The question that ends the item's text."""


class Sized(NamedTuple):
    """The room that a text needs in a chronology."""

    text: Cuttable
    sizes: tuple[int, int, float, float, float]
    """In this order: tokens; tokens that must stay; their extra weight; the room from which on the
    text stays whole; the least room."""
    told_from: float
    """The least room in which the text, or only the part that must stay, is included."""

    def is_told(self, room: float) -> bool:
        """Whether the text is included in this room."""
        _, least, must, _, stub = self.sizes
        return room >= stub or bool(least and room * must >= least)


@dataclass(slots=True)
class Item:
    """Something that was said."""

    position: int
    """Position of the message in the log."""
    kind: Kind
    text: str
    message_id: str = ""
    before: str = ""
    """The question that the text answers, or the call that it refuses."""
    is_refusal: bool = False
    info: float = 0.0
    """An estimate of the information: distinct words, names and numbers."""
    worth: float = 0.0
    """The information to the power of `POWER` or `PERSONS_POWER`."""
    text_cut: Sized | None = field(default=None, repr=False, compare=False)
    """The text as it may be cut, with its sizes; set when its tokens are first counted."""
    probe: tuple[str, frozenset[str]] | None = field(default=None, repr=False, compare=False)
    """What to search for to find the text in a prompt (`visible.probed`); set on first use."""
    spoken: Spoken | None = field(default=None, repr=False, compare=False)
    """The text split into sentences; set on first use."""
    demands: float = 0.0
    """How clearly the user's strongest request is a demand, from 0 to 1."""
    before_ids: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Sentence whose value changed → ids of the messages with the earlier value."""


@dataclass(slots=True)
class Items:
    """The items so far, in the order of the log."""

    rows: list[Item] = field(default_factory=list)
    tells_work: bool = False
    """Whether an earlier checkpoint also says what was done."""
    forgotten: int = 0
    """Items before this position were forgotten."""
    superseded: list[tuple[str, str]] = field(default_factory=list)
    """Sentences that a later message replaced, each with the texts that remain: the rest of its
    message, and the later one. The reader of the list clears it."""
    _said: dict[str, Item] = field(default_factory=dict)
    """The user's items, by their text in lower case."""
    _stated: Restatements[Item] = field(default_factory=Restatements[Item])

    def person(self, text: str, message_id: str, position: int, pasted: str = "") -> Item | None:
        """Record a user's message. Pasted prose becomes an item of its own; pasted code and logs
        are only mentioned. An earlier message with the same text is forgotten. What the assistant
        said just before becomes its closing words.
        """
        last = self._close()
        if not (text + pasted).strip():
            return None
        asked = question_of(last.text) if last and len(text.split()) < FEW_WORDS else ""
        item = Item(position, "request", cut(text), message_id, asked)
        self._forget_same(item)
        self._supersede(item)
        if pasted:
            item.text += f"{PASTED}{len(pasted.split()):,} words, {short_id(message_id)}]"
        self._add(item)
        if prose := "\n".join(filter(_reads, BLANK.split(pasted))):
            self._add(Item(position, "pasted", cut(prose), message_id))
        return item

    def within(self, said: PersonWords, refused: str, message_id: str, position: int) -> None:
        """Record what the user said inside a tool result: an answer or a refusal."""
        before = beginning(said.question or refused, MOST_QUESTION)
        item = Item(position, "aside", cut(said.words), message_id, before, said.kind == "refusal")
        self._supersede(item)
        self._add(item)

    def assistant(self, text: str, message_id: str, position: int) -> None:
        """Record what the assistant said."""
        if text.strip():
            self._repeat(self._add(Item(position, "said", cut(text), message_id)))

    def host(self, text: str, message_id: str, position: int) -> None:
        """Record the host's rules. A line that the host repeats is kept only where it came last."""
        for line in map(str.strip, text.splitlines()):
            if line and not line.startswith("#") and not line.endswith(":"):
                item = Item(position, "host", f"Host: {_BULLET.sub('', line, count=1)}", message_id)
                self._forget_same(item)
                self._add(item)

    def earlier(self, text: str, message_id: str, position: int) -> None:
        """Record an earlier checkpoint, one item per line. A line that names its speaker becomes
        that speaker's item again.
        """
        told = list[str]()
        for line in text.splitlines():
            if line.startswith("    ") and told:
                told[-1] += f"\n{line.strip()}"
            elif line.strip() and not _is_frame(line):
                told.append(_BULLET.sub("", line, count=1))
        self.tells_work = self.tells_work or any(words.startswith("Did: ") for words in told)
        for words in told:
            item = _item_of(words, message_id, position)
            self._forget_same(item)
            if item.kind == "closing":
                self._repeat(item)
            else:
                self._supersede(item)
            self._add(item)

    def _close(self) -> Item | None:
        """Mark the assistant's last words as closing, unless somebody else spoke since."""
        last = next((row for row in reversed(self.rows) if row.kind != "host"), None)
        if last is None or last.kind not in ("said", "closing"):
            return None
        last.kind = "closing"
        return last

    def _forget_same(self, item: Item) -> None:
        """Forget an earlier item with the same words, or a last request that this one extends."""
        same = " ".join(item.text.lower().split())
        before = self._said.pop(same, None)
        last = next((row for row in reversed(self.rows) if row.kind == "request"), None)
        if before is None and last and len(last.text.split()) >= FEW_WORDS:
            before = last if same.startswith(" ".join(last.text.lower().split())) else None
        if before is not None:
            self.rows = [row for row in self.rows if row is not before]
        self._said[same] = item

    def _supersede(self, item: Item) -> None:
        """Remove statements that this item replaces, and record which messages held them."""
        for statement in statements_in(item.text):
            ids = list[str]()
            for before, sentence in self._stated.state(statement, item):
                self._leave_out(before, sentence, item)
                if before.kind not in ("closing", "said"):
                    ids += (*before.before_ids.pop(sentence, ()), short_id(before.message_id))
            if ids:
                ids = [*item.before_ids.get(statement.text, ()), *ids]
                item.before_ids[statement.text] = tuple(dict.fromkeys(ids))[-MOST_BEFORE:]

    def _repeat(self, item: Item) -> None:
        """Link the assistant's repetition to the user's statement: both are removed together."""
        if self._stated and len(item.text) < ANNOUNCED:
            for statement in statements_in(item.text):
                self._stated.repeat(statement, item)

    def _leave_out(self, item: Item, sentence: str, later: Item) -> None:
        """Leave out a replaced sentence. Forget the item if nothing in it is new."""
        mark = f"[… {len(sentence.split()):,} words, {short_id(item.message_id)}]"
        item.text = item.text.replace(sentence, mark, 1)
        _weigh(item)
        self.superseded.append((sentence, f"{item.text}\n{later.text}"))
        if all(x in later.text for x in sentences_in(without_superseded(item.text))):
            self.rows = [row for row in self.rows if row is not item]

    def _add(self, item: Item) -> Item:
        _weigh(item)
        self.rows.append(item)
        return item

    def trim(self) -> None:
        """Forget older items, so that memory stays bounded."""
        if len(self.rows) > MOST_ITEMS:
            newest = MOST_ITEMS // 2
            self.forgotten = self.rows[-newest].position
            older = sorted(self.rows[:-newest], key=lambda x: (-x.demands, -x.position))[
                : newest // 2
            ]
            self.rows[:-newest] = sorted(older, key=lambda x: x.position)
            kept = set(map(id, self.rows))
            self._said = {said: x for said, x in self._said.items() if id(x) in kept}


def _weigh(item: Item) -> None:
    item.text_cut = item.spoken = item.probe = None
    item.info = max(info_of(item.text), float(bool(item.before)))
    item.worth = math.pow(item.info, PERSONS_POWER if item.kind in PERSONS else POWER)
    if item.kind in PERSONS:
        item.demands = max(map(demand_of, sentences_in(item.text)), default=0.0)


def marked(words: str, before_ids: Mapping[str, Sequence[str]]) -> str:
    """Return the words with a mark after each sentence whose value changed."""
    for sentence, ids in before_ids.items():
        words = words.replace(sentence, f"{sentence} [before: {', '.join(ids)}]", 1)
    return words


def without_superseded(text: str) -> str:
    """Return a text without the marks for replaced sentences."""
    return _SUPERSEDED.sub("\n", text)


def sized(item: Item, counter: TokenCounter) -> Sized:
    """Return an item's text as it may be cut. The user's demands stay."""
    row = item.text_cut
    if row is None or row.text.counter is not counter:
        words, is_persons = squeezed(item.text), item.kind in PERSONS
        text = Cuttable(words, counter, _must_stay) if is_persons else Cuttable(words, counter)
        must, whole = MUST * item.demands**2, WHOLE if is_persons else 1.0
        least, stub = text.least, stub_of(text.tokens)
        sizes = text.tokens, least, must, whole * text.tokens, stub
        item.text_cut = row = Sized(
            text, sizes, min(stub, least / must) if least and must else stub
        )
    return row


def probe_of(item: Item) -> tuple[str, frozenset[str]]:
    """Return what to search for to find an item's text in a prompt."""
    if item.probe is None:
        item.probe = probed(item.text)
    return item.probe


def _must_stay(sentence: str) -> bool:
    return demand_of(sentence) >= MUST_STAY


def _is_frame(line: str) -> bool:
    """Whether a checkpoint's line is only a heading, or only says that something is left out."""
    return line.startswith(("#", REFERENCE_LINE)) or line.endswith("left out]")


def _item_of(words: str, message_id: str, position: int) -> Item:
    told = _TOLD.match(words)
    if told is None:
        by: Kind = "host" if words.startswith("Host: ") else "earlier"
        return _unmarked(Item(position, by, cut(words), message_id))
    text, before = cut(words[told.end() :]), told[2] or told[3] or ""
    kind: Kind = "closing" if told[1] == "Assistant" else "aside" if told[3] else "request"
    return _unmarked(Item(position, kind, text, message_id, before, is_refusal=bool(told[3])))


def _unmarked(item: Item) -> Item:
    """Move the marks of earlier values from an item's text into `before_ids`."""
    item.text, *rest = _BEFORE.split(item.text)
    for ids, more in zip(rest[::2], rest[1::2], strict=True):
        for sentence in [*sentences_of(item.text.rpartition("\n")[2])][-1:]:
            item.before_ids[sentence] = tuple(ids.split(", "))
        item.text += more
    return item


def cut(text: str) -> str:
    """Return a text, or only head and tail if it is very long."""
    text = text.strip()
    if len(text) <= LONGEST:
        return text
    half = LONGEST // 2
    head, tail = text[:half].rpartition(" ")[0], text[-half:].partition(" ")[2]
    gone = len(text[len(head) : -len(tail)].split())
    return f"{head} [… {gone:,} words] {tail}"


def _reads(text: str) -> bool:
    """Whether a text is prose, judged by its share of function words."""
    words = WORD.findall(text.lower())
    return sum(word in STOP_WORDS for word in words) >= PROSE * len(words) > 0


def question_of(text: str) -> str:
    """Return the question that ends a text, or an empty string."""
    said = text.strip().rstrip("*_ ")
    if not said.endswith(("?", "？")):
        return ""
    last = _PART.split(said[:-1])[-1].strip()
    return f"{last[-MOST_QUESTION:]}{said[-1]}"


def sentences_in(text: str) -> Iterator[str]:
    """Return the sentences and lines of a text that are not empty."""
    return filter(None, map(str.strip, UNIT.split(text)))


@lru_cache(maxsize=4_096)
def demand_of(sentence: str) -> float:
    """Return how clearly a user's sentence demands something, 0 to 1. A question does not."""
    return 0.0 if sentence.endswith(("?", "？")) else score_of(sentence.removeprefix("Host: "))
