"""Items: what was said, in its order, as a chronology may tell it.

A fold over messages; memory is bounded. Nothing is judged by its words: an item has a kind, which
follows from who spoke and when, and a size, which says about how much it tells.
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
"""What a host says must hold; what a person asks; what they pasted with it; what they say in the
middle of work: an answer, a refusal; the assistant's last words before the person speaks again;
what else it says; what an earlier checkpoint tells."""

MUST_STAY = 0.4
"""How clearly a person's sentence demands something that stays when others are cut."""
PERSONS: frozenset[Kind] = frozenset(("host", "request", "aside"))
"""Kinds of what has to be followed."""
MOST_ITEMS = 800
"""Items from which some are forgotten: the newer half stays, and of the older one half, of these
what demands most."""
LONGEST = 6_000
"""Characters of an item, half of either end: what is left out is found by its id."""
MOST_QUESTION = 240
"""Characters of a question that is told with its answer, its end; of what was refused, its
beginning."""
MOST_BEFORE = 3
"""Messages that are named in which something was said with another value, the newest."""
FEW_WORDS = 12
"""Words below which a person's answer says little without the question."""
PROSE = 0.2
"""Share of words of closed classes from which a text is prose: code and logs have .02 to .13, what
people write .29 and more."""
_TOLD = regex(r"(User|Assistant)(?:, (?:to|asked) “(.*?)”| refused (.*?))?: ", re.DOTALL)
"""How the lines of a chronology begin that tell who spoke."""
_BEFORE = regex(r" ?\[before: ([^\]\n]{1,80})\]")
"""The mark behind a sentence that was said before with another value, and in which messages."""
_SUPERSEDED = regex(r"\[… [\d,]+ words, [^\]\n]{1,80}\] ?")
_BULLET = regex(r"^\s*(?:(?:[-*•]|\d{1,2}[.)])\s+)?")
_PART = regex(r"[.!?]\s+|\n|[。！？]")


class Spoken(NamedTuple):
    """What was said, sentence by sentence."""

    said: Sequence[Said]
    opening: float
    """How much the first sentence tells."""
    question: str
    """The question with which it ends."""


@dataclass(slots=True)
class Item:
    """Something that was said."""

    position: int
    """Of its message, in the log."""
    kind: Kind
    text: str
    message_id: str = ""
    before: str = ""
    """The question that it answers, or what it refused."""
    is_refusal: bool = False
    info: float = 0.0
    """About how much it tells: its telling words, its names and its numbers."""
    text_cut: Cuttable | None = field(default=None, repr=False, compare=False)
    """The text as it may be cut, once somebody has counted it."""
    spoken: Spoken | None = field(default=None, repr=False, compare=False)
    """The text as it is spoken, once talk was told of it."""
    demands: float = 0.0
    """How much the sentence of a person that demands most reads like something to be followed, 0 to
    1."""
    before_ids: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Its sentences that were said before with another value, and in which messages."""


@dataclass(slots=True)
class Items:
    """The items so far, in the order of the log."""

    rows: list[Item] = field(default_factory=list)
    tells_work: bool = False
    """Whether an earlier checkpoint tells what was done, too."""
    forgotten: int = 0
    """Position before which items were forgotten."""
    superseded: list[tuple[str, str]] = field(default_factory=list)
    """Sentences that are told no more, each with what still stands in its message and in the one
    that supersedes it, until somebody has taken note of them."""
    _said: dict[str, Item] = field(default_factory=dict)
    """What a person said, by its words in lower case."""
    _stated: Restatements[Item] = field(default_factory=Restatements[Item])

    def person(self, text: str, message_id: str, position: int, pasted: str = "") -> Item | None:
        """A person speaks; `pasted` is what else they sent: prose is an item of its own, of code
        and logs it is only said that they were there. What they said before and now say again is
        told once, here; the words of the assistant before it were its closing words.
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
        """A person says something in the result of a tool: answers, or says why they refuse."""
        before = beginning(said.question or refused, MOST_QUESTION)
        item = Item(position, "aside", cut(said.words), message_id, before, said.kind == "refusal")
        self._supersede(item)
        self._add(item)

    def assistant(self, text: str, message_id: str, position: int) -> None:
        """The assistant speaks."""
        if text.strip():
            self._repeat(self._add(Item(position, "said", cut(text), message_id)))

    def host(self, text: str, message_id: str, position: int) -> None:
        """A host repeats what must hold, line by line: each is told once, where it stood last."""
        for line in map(str.strip, text.splitlines()):
            if line and not line.startswith("#") and not line.endswith(":"):
                item = Item(position, "host", f"Host: {_BULLET.sub('', line, count=1)}", message_id)
                self._forget_same(item)
                self._add(item)

    def earlier(self, text: str, message_id: str, position: int) -> None:
        """An earlier checkpoint is read in place of its messages: each of its lines is an item,
        what a person said in it and what the assistant said theirs again.
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
        """What the assistant said last, now its closing words; None where others spoke since."""
        last = next((row for row in reversed(self.rows) if row.kind != "host"), None)
        if last is None or last.kind not in ("said", "closing"):
            return None
        last.kind = "closing"
        return last

    def _forget_same(self, item: Item) -> None:
        """Forget what a person said before in the same words; and their last words, if these begin
        with them.
        """
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
        """The assistant says again what the person before it stated: it goes with that."""
        if self._stated and len(item.text) < ANNOUNCED:
            for statement in statements_in(item.text):
                self._stated.repeat(statement, item)

    def _leave_out(self, item: Item, sentence: str, later: Item) -> None:
        """Leave a sentence out that a later message supersedes; an item of which nothing is left
        but what that says again is forgotten.
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
    """Note how much an item tells, and demands."""
    item.text_cut = item.spoken = None
    item.info = max(info_of(item.text), float(bool(item.before)))
    if item.kind in PERSONS:
        item.demands = max(map(demand_of, sentences_in(item.text)), default=0.0)


def marked(words: str, before_ids: Mapping[str, Sequence[str]]) -> str:
    """Words, behind each sentence that was said before with another value a mark of where."""
    for sentence, ids in before_ids.items():
        words = words.replace(sentence, f"{sentence} [before: {', '.join(ids)}]", 1)
    return words


def without_superseded(text: str) -> str:
    """A text without the marks for what is told no more."""
    return _SUPERSEDED.sub("\n", text)


def cuttable(item: Item, counter: TokenCounter) -> Cuttable:
    """What was said as it may be cut, counted by a counter; what a person demands stays."""
    if item.text_cut is None or item.text_cut.counter is not counter:
        words = squeezed(item.text)
        if item.kind in PERSONS:
            item.text_cut = Cuttable(words, counter, lambda said: demand_of(said) >= MUST_STAY)
        else:
            item.text_cut = Cuttable(words, counter)
    return item.text_cut


def _is_frame(line: str) -> bool:
    """Whether a line of a checkpoint says only what it is, or what it left out."""
    return line.startswith(("#", REFERENCE_LINE)) or line.endswith("left out]")


def _item_of(words: str, message_id: str, position: int) -> Item:
    """A line of a chronology as the item that it tells."""
    told = _TOLD.match(words)
    if told is None:
        by: Kind = "host" if words.startswith("Host: ") else "earlier"
        return _unmarked(Item(position, by, cut(words), message_id))
    text, before = cut(words[told.end() :]), told[2] or told[3] or ""
    kind: Kind = "closing" if told[1] == "Assistant" else "aside" if told[3] else "request"
    return _unmarked(Item(position, kind, text, message_id, before, is_refusal=bool(told[3])))


def _unmarked(item: Item) -> Item:
    """An item whose sentences are known that were said before with another value, without the
    marks that said so.
    """
    item.text, *rest = _BEFORE.split(item.text)
    for ids, more in zip(rest[::2], rest[1::2], strict=True):
        for sentence in [*sentences_of(item.text.rpartition("\n")[2])][-1:]:
            item.before_ids[sentence] = tuple(ids.split(", "))
        item.text += more
    return item


def cut(text: str) -> str:
    """A text, in the middle of a very long one a mark."""
    text = text.strip()
    if len(text) <= LONGEST:
        return text
    half = LONGEST // 2
    head, tail = text[:half].rpartition(" ")[0], text[-half:].partition(" ")[2]
    gone = len(text[len(head) : -len(tail)].split())
    return f"{head} [… {gone:,} words] {tail}"


def _reads(text: str) -> bool:
    """Whether a text is prose: many of its words are of closed classes. Code and logs have few."""
    words = WORD.findall(text.lower())
    return sum(word in STOP_WORDS for word in words) >= PROSE * len(words) > 0


def question_of(text: str) -> str:
    """The question with which a text ends; empty where it asks nothing."""
    said = text.strip().rstrip("*_ ")
    if not said.endswith(("?", "？")):
        return ""
    last = _PART.split(said[:-1])[-1].strip()
    return f"{last[-MOST_QUESTION:]}{said[-1]}"


def sentences_in(text: str) -> Iterator[str]:
    """The sentences of a text."""
    return filter(None, map(str.strip, UNIT.split(text)))


@lru_cache(maxsize=4_096)
def demand_of(sentence: str) -> float:
    """How much a person's sentence reads like something to be followed, 0 to 1; a question asks."""
    return 0.0 if sentence.endswith(("?", "？")) else score_of(sentence.removeprefix("Host: "))
