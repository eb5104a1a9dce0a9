"""Items: what was said, in order, for a chronology.

Memory is bounded. Words are not judged: the kind of an item follows from its speaker and time, and
its size says about how much it tells.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal, NamedTuple

from compact.engine.chronology.cutting import (
    ANNOUNCED,
    BLANK,
    UNIT,
    WORD,
    Cuttable,
    info_of,
    squeezed,
)
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
"""`host`: what must hold; `request`: what a person asks; `pasted`: what they pasted with it;
`aside`: what they say during work; `closing`: the last words of the assistant before a person
speaks; `said`: its other words; `earlier`: from an earlier checkpoint."""

MUST_STAY = 0.4
"""How clear a demand must be to stay when other sentences are cut."""
PERSONS: frozenset[Kind] = frozenset(("host", "request", "aside"))
"""Kinds that have to be followed."""
MOST_ITEMS = 800
"""With more items some are forgotten: the newer half stays, and of the older half the more
demanding half."""
LONGEST = 6_000
"""Characters of an item, half at each end. Its id finds the rest."""
MOST_QUESTION = 240
"""Characters of the end of a question, and of the start of what was refused."""
MOST_BEFORE = 3
"""Messages that are named for earlier values, the newest."""
FEW_WORDS = 12
"""A shorter answer says little without its question."""
PROSE = 0.2
"""Share of words of closed classes in prose: code and logs have .02 to .13, people .29 and more."""
_TOLD = regex(r"(User|Assistant)(?:, (?:to|asked) “(.*?)”| refused (.*?))?: ", re.DOTALL)
"""How lines of a chronology begin that name a speaker."""
_BEFORE = regex(r" ?\[before: ([^\]\n]{1,80})\]")
"""The mark of a sentence that once had another value, and in which messages."""
_SUPERSEDED = regex(r"\[… [\d,]+ words, [^\]\n]{1,80}\] ?")
_BULLET = regex(r"^\s*(?:(?:[-*•]|\d{1,2}[.)])\s+)?")
_PART = regex(r"[.!?]\s+|\n|[。！？]")


class Spoken(NamedTuple):
    """An item sentence by sentence."""

    said: Sequence[Said]
    opening: float
    """How much the first sentence tells."""
    question: str
    """The question at the end."""


@dataclass(slots=True)
class Item:
    """Something that was said."""

    position: int
    """Position of its message in the log."""
    kind: Kind
    text: str
    message_id: str = ""
    before: str = ""
    """The question that it answers, or what it refused."""
    is_refusal: bool = False
    info: float = 0.0
    """About how much it tells: telling words, names and numbers."""
    text_cut: Cuttable | None = field(default=None, repr=False, compare=False)
    """The text as it may be cut, once counted."""
    spoken: Spoken | None = field(default=None, repr=False, compare=False)
    """The text sentence by sentence, once used."""
    demands: float = 0.0
    """How clearly the most demanding sentence of a person demands, 0 to 1."""
    before_ids: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Its sentences that once had another value, and the messages with it."""


@dataclass(slots=True)
class Items:
    """The items so far, in the order of the log."""

    rows: list[Item] = field(default_factory=list)
    tells_work: bool = False
    """Whether an earlier checkpoint also tells what was done."""
    forgotten: int = 0
    """Items before this position were forgotten."""
    superseded: list[tuple[str, str]] = field(default_factory=list)
    """Sentences that are told no more, with the rest of their message and the later one. The reader
    empties it."""
    _said: dict[str, Item] = field(default_factory=dict)
    """What persons said, by its words in lower case."""
    _stated: Restatements[Item] = field(default_factory=Restatements[Item])

    def person(self, text: str, message_id: str, position: int, pasted: str = "") -> Item | None:
        """Take down words of a person. Pasted prose is an item of its own; of code and logs it is
        only said that they were there. Repeated words are told once, here. Words of the assistant
        just before become its closing words.
        """
        last = self._close()
        if not (text + pasted).strip():
            return None
        asked = question_of(last.text) if last and len(text.split()) < FEW_WORDS else ""
        item = Item(position, "request", cut(text), message_id, asked)
        self._forget_same(item)
        self._supersede(item)
        if pasted:
            item.text += f" [pasted: {len(pasted.split()):,} words, {short_id(message_id)}]"
        self._add(item)
        if prose := "\n".join(filter(_reads, BLANK.split(pasted))):
            self._add(Item(position, "pasted", cut(prose), message_id))
        return item

    def within(self, said: PersonWords, refused: str, message_id: str, position: int) -> None:
        """Take down words of a person in the result of a tool: an answer or a refusal."""
        before = beginning(said.question or refused, MOST_QUESTION)
        item = Item(position, "aside", cut(said.words), message_id, before, said.kind == "refusal")
        self._supersede(item)
        self._add(item)

    def assistant(self, text: str, message_id: str, position: int) -> None:
        """Take down words of the assistant."""
        if text.strip():
            self._repeat(self._add(Item(position, "said", cut(text), message_id)))

    def host(self, text: str, message_id: str, position: int) -> None:
        """Take down what a host repeats; each line is told once, where it stood last."""
        for line in map(str.strip, text.splitlines()):
            if line and not line.startswith("#") and not line.endswith(":"):
                item = Item(position, "host", f"Host: {_BULLET.sub('', line, count=1)}", message_id)
                self._forget_same(item)
                self._add(item)

    def earlier(self, text: str, message_id: str, position: int) -> None:
        """Take down an earlier checkpoint, an item a line; its lines of speakers become theirs
        again.
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
        """Make the last words of the assistant its closing words, unless others spoke since."""
        last = next((row for row in reversed(self.rows) if row.kind != "host"), None)
        if last is None or last.kind not in ("said", "closing"):
            return None
        last.kind = "closing"
        return last

    def _forget_same(self, item: Item) -> None:
        """Forget what a person said before in the same words, or the start of them just before."""
        same = " ".join(item.text.lower().split())
        before = self._said.pop(same, None)
        last = next((row for row in reversed(self.rows) if row.kind == "request"), None)
        if before is None and last and len(last.text.split()) >= FEW_WORDS:
            before = last if same.startswith(" ".join(last.text.lower().split())) else None
        if before is not None:
            self.rows = [row for row in self.rows if row is not before]
        self._said[same] = item

    def _supersede(self, item: Item) -> None:
        """Tell no more what was stated before with another value; the item says where it was."""
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
        """The assistant repeats a statement of a person: it goes when that goes."""
        if self._stated and len(item.text) < ANNOUNCED:
            for statement in statements_in(item.text):
                self._stated.repeat(statement, item)

    def _leave_out(self, item: Item, sentence: str, later: Item) -> None:
        """Leave out a sentence that a later message supersedes. An item with nothing new left is
        forgotten.
        """
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
        """Forget the oldest, so that memory stays bounded."""
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
    item.text_cut = item.spoken = None
    item.info = max(info_of(item.text), float(bool(item.before)))
    if item.kind in PERSONS:
        item.demands = max(map(demand_of, sentences_in(item.text)), default=0.0)


def marked(words: str, before_ids: Mapping[str, Sequence[str]]) -> str:
    """Return the words with marks behind sentences that once had another value."""
    for sentence, ids in before_ids.items():
        words = words.replace(sentence, f"{sentence} [before: {', '.join(ids)}]", 1)
    return words


def without_superseded(text: str) -> str:
    """Return a text without the marks for what is told no more."""
    return _SUPERSEDED.sub("\n", text)


def cuttable(item: Item, counter: TokenCounter) -> Cuttable:
    """Return the text of an item as it may be cut. Demands of a person stay."""
    if item.text_cut is None or item.text_cut.counter is not counter:
        words = squeezed(item.text)
        if item.kind in PERSONS:
            item.text_cut = Cuttable(words, counter, lambda said: demand_of(said) >= MUST_STAY)
        else:
            item.text_cut = Cuttable(words, counter)
    return item.text_cut


def _is_frame(line: str) -> bool:
    """Whether a line of a checkpoint only says what it is, or what is left out."""
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
    """Turn the marks of earlier values in the text of an item into data."""
    item.text, *rest = _BEFORE.split(item.text)
    for ids, more in zip(rest[::2], rest[1::2], strict=True):
        for sentence in [*sentences_of(item.text.rpartition("\n")[2])][-1:]:
            item.before_ids[sentence] = tuple(ids.split(", "))
        item.text += more
    return item


def cut(text: str) -> str:
    """Return a text; of a very long one head and tail."""
    text = text.strip()
    if len(text) <= LONGEST:
        return text
    half = LONGEST // 2
    head, tail = text[:half].rpartition(" ")[0], text[-half:].partition(" ")[2]
    gone = len(text[len(head) : -len(tail)].split())
    return f"{head} [… {gone:,} words] {tail}"


def _reads(text: str) -> bool:
    """Whether a text is prose, by the share of words of closed classes."""
    words = WORD.findall(text.lower())
    return sum(word in STOP_WORDS for word in words) >= PROSE * len(words) > 0


def question_of(text: str) -> str:
    """Return the question at the end of a text. Empty if there is none."""
    said = text.strip().rstrip("*_ ")
    if not said.endswith(("?", "？")):
        return ""
    last = _PART.split(said[:-1])[-1].strip()
    return f"{last[-MOST_QUESTION:]}{said[-1]}"


def sentences_in(text: str) -> Iterator[str]:
    """Return the sentences of a text."""
    return filter(None, map(str.strip, UNIT.split(text)))


@lru_cache(maxsize=4_096)
def demand_of(sentence: str) -> float:
    """Return how clearly a sentence of a person demands something, 0 to 1. A question does not."""
    return 0.0 if sentence.endswith(("?", "？")) else score_of(sentence.removeprefix("Host: "))
