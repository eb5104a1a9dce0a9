"""The story by extraction: the ledger of turns as a text, in the order of time.

Each turn is a line of what was asked, in the person's words, and below it what was said and done
about it. The newest turns get more words than old ones; a turn that nobody would miss gets none.
Which statements are told is decided by their worth for their room; they are told in the order in
which they were said, never in another one.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from itertools import chain, groupby, repeat
from typing import Literal, NamedTuple

from compact.compression.extraction.notes import Notes
from compact.compression.extraction.turns import NAMED, Statement, Turn
from compact.compression.seen import NOTHING, Seen
from compact.core.checkpoints import Level
from compact.core.facts import Said, select
from compact.core.messages import short_id
from compact.core.outline import ABOUT, FILES, PLAIN, RULES, Emphasis
from compact.core.sentences import SHORTEST, topic_of
from compact.core.tokens import TokenCounter

FADE_TURNS: Mapping[Level, float] = {
    "detailed": 5.0,
    "moderate": 12.0,
    "compact": 30.0,
    "merged": 1e9,
}
"""Turns after which what was said counts 1/e of the newest (above `OLD_TURNS`): an old story tells
of all its span alike."""
OLD_TURNS = 0.22
"""What a turn counts besides, however old it is: with more of it, more of the beginning is told."""
HEAD, ASKED, CLOSING, NARRATED, OUTCOME = 4.0, 1.3, 1.0, 0.2, 2.2
"""Weights of the line that says what was asked, of what else a person said, of a turn's closing, of
what was said on the way, of what came of it."""
OPENING = 4.0
"""What the first statement of a closing counts more, the next one half of that, and so on: they say
how it went."""
UNNAMED, MOST_NAMED = 0.6, 1.5
"""What a statement counts without names, and what its names may count more together."""
TAKEN_BACK = 0.3
"""What is left of the weight of an answer that the next one takes back."""
THRIFT = 0.6
"""Power of its tokens by which a statement's worth is divided."""
LEAST_TOKENS = 12
"""Statements cost no less when they are compared: short ones gain nothing by being shorter."""
HEAD_FRAME = 12
"""Tokens of id and quotation marks in that line."""
HEAD_TOKENS, HEAD_SEEN = 40, 16
"""Tokens of what was asked in the line that opens a turn, and where the words stand in view."""
ALIKE = 0.7
"""Share of common words from which a statement says nothing new."""
LEAST_DWELT = 0.2
"""What a line counts at least that is about what the reader is to be told nothing of elsewhere: it
may say why."""
LINE_TOKENS = 3
"""Tokens that a line takes besides its words: its indent, and what joins it to the next."""
TOLD = ("  ", "- User: ", "- Assistant: ")
"""How a line begins that tells more than what was asked."""
SPEAKERS = {"person": "User", "assistant": "Assistant"}
SPOKEN = frozenset(f"{name}: " for name in (*SPEAKERS.values(), "System", "Tool"))
"""What is no name: nobody may speak as another by saying so."""
_NUMBER = re.compile(r"\d")
_ENDS = (".", "!", "?", "…", ":", ";", "。", "！", "？", "”", ".)", ".`")
"""How a statement ends that needs no mark before the next one."""
SPEAKER_TOKENS = 8
"""Tokens of a line's speaker, at most."""
MARKED = 1_000.0
"""What a line of a message that is marked important counts: more than any that is not."""
MOST_OF_FILE = 5
"""Names that are told of one file."""
EARLIER = -1
"""The turn under which stands what an earlier checkpoint told."""


class Line(NamedTuple):
    """A line that may be told of a turn."""

    turn: int
    place: tuple[int, int]
    """Where it stands within its turn: its position in the log, and its order there."""
    text: str
    weight: float
    """For its room."""
    cost: int
    names: tuple[str, ...] = ()
    under: str = ""
    kind: Literal["said", "quoted", "done"] = "said"

    @property
    def is_telling(self) -> bool:
        """Whether it says something by itself: no fragment, and nothing that only announces."""
        text = self.text
        whole = len(text) >= SHORTEST and (text.count(" ") >= 4 or not text.isascii())
        return not text or bool(whole or self.names or _NUMBER.search(text))


@dataclass(slots=True)
class Told:
    """The story while it grows."""

    left: int
    heads: dict[int, str] = field(default_factory=dict)
    lines: list[Line] = field(default_factory=list)
    led: set[tuple[int, str]] = field(default_factory=set)
    """What leads to lines that are told."""
    words: list[set[str]] = field(default_factory=list)
    """The words of what was told, so that nothing is told twice."""
    sizes: list[int] = field(default_factory=list)
    """How many they are."""
    where: dict[str, list[int]] = field(default_factory=dict)
    """In which of these each word stands."""
    names: set[str] = field(default_factory=set)

    def take(self, text: str) -> None:
        """Take down the words of what is told."""
        words = set(text.lower().split())
        for word in words:
            self.where.setdefault(word, []).append(len(self.words))
        self.words.append(words)
        self.sizes.append(len(words))

    def alike(self, words: set[str]) -> list[set[str]]:
        """The words of what was told that is much the same."""
        common = Counter(chain.from_iterable(map(self.where.get, words, repeat(()))))
        sizes, most = self.sizes, len(words)
        return [
            self.words[told]
            for told, count in common.items()
            if count > ALIKE * (size if (size := sizes[told]) < most else most)
        ]


@dataclass(frozen=True, slots=True)
class Teller:
    """Tells the turns of notes from position `first` to before `last`."""

    notes: Notes
    counter: TokenCounter
    first: int = 0
    last: int = 1 << 60
    seen: Seen = NOTHING
    """What the reader sees beside the story."""
    weights: Mapping[str, float] = field(default_factory=dict)
    """What a name counts, about 1 for a typical one."""
    fade: float = FADE_TURNS["detailed"]
    """Turns after which what was said counts 1/e of the newest (above `OLD_TURNS`)."""
    emphasis: Emphasis = PLAIN
    """What a line counts, by the section that is about the same."""

    def tell(self, cap: int) -> str:
        """The story within so many tokens; empty where nothing fits or there is nothing."""
        turns = [
            t for t in self.notes.turns.rows if self.first <= t.last and t.position < self.last
        ]
        turns = [t for t in turns if not t.is_empty]
        if self.notes.is_plain_talk:
            return self._talk(turns, cap)
        told, lines, names = Told(cap), list(self._earlier()), set[str]()
        for i in range(len(turns) - 1, -1, -1):
            taken_back = i + 1 < len(turns) and turns[i + 1].concedes
            said = self._lines(turns[i], i, len(turns), names, TAKEN_BACK if taken_back else 1.0)
            lines += [x for x in said if self.first <= x.place[0] < self.last and x.is_telling]
        while lines := self._choose(told, lines, turns):
            text = "\n".join(self._written(told, turns))
            spare = cap - self.counter.composed(text)
            if spare < told.left + LEAST_TOKENS:
                return text
            told.left = spare  # joined, the lines take less than one by one
        return "\n".join(self._written(told, turns))

    def _choose(self, told: Told, lines: Iterable[Line], turns: Sequence[Turn]) -> list[Line]:
        """Tell the lines that are worth most; those for which there was no room."""
        over: list[Line] = []
        queue = [(-self._worth(line, told), line.turn, line.place, line) for line in lines]
        heapify(queue)
        while queue:
            worth, *_, line = heappop(queue)
            if line.cost > told.left:
                over.append(line)
                continue
            now = -self._worth(line, told)
            if queue and now > worth and now > queue[0][0]:
                heappush(queue, (now, line.turn, line.place, line))
                continue
            if not self._says_new(told, line):
                continue
            if not self._add(told, line, turns[line.turn] if line.turn >= 0 else None):
                over.append(line)
        return over

    def _says_new(self, told: Told, line: Line) -> bool:
        """Whether a line says what stands neither in view nor in a line that is told. A number that
        was not told is new.
        """
        if not line.text:
            return True
        words = set(line.text.lower().split())
        return line.text not in self.seen and all(
            any(map(_NUMBER.search, words - other)) for other in told.alike(words)
        )

    def _worth(self, line: Line, told: Told) -> float:
        """What a line is worth beside what is told: names that were told count no more."""
        named = 0.0
        for name in line.names:
            if name not in told.names:
                named += self.weights.get(name, 0.0)
        return line.weight * (UNNAMED + min(MOST_NAMED, named))

    def _talk(self, turns: Sequence[Turn], cap: int) -> str:
        """What was said that tells most, where people only talk: who said what, in the order of
        time.
        """
        items = [item for turn in turns for item in _said_in(turn)]
        items = [x for x in items if self.first <= x.position < self.last]
        earlier = [s.text for s in self.notes.earlier if self.first <= s.position < self.last]
        told = [Said(i - len(earlier), "assistant", text) for i, text in enumerate(earlier)]
        new = [x for x in (*told, *items) if x.text not in self.seen]

        def cost(text: str) -> int:
            return self.counter.text(text) + 1

        named_turns = turns if self.notes.turns.is_record else ()  # else "Decision: " is no speaker
        openings = (
            (s.position, NAMED.match(s.text)) for turn in named_turns for s in _openings(turn)
        )
        named = {at: found[0] for at, found in openings if found and found[0] not in SPOKEN}
        named |= {said.position: "" for said in told}  # it says itself who spoke
        left = cap
        while left > LEAST_TOKENS and new:
            lines = "\n".join(_talked(self._select(new, left, cost), named))
            over = self.counter.text(lines) - cap
            if over <= 0:
                return lines
            left -= over + SPEAKER_TOKENS
        return ""

    def _select(
        self, said: Sequence[Said], budget: int, cost: Callable[[str], int]
    ) -> Sequence[Said]:
        """What tells most within the budget, of messages that are marked important first."""
        marked = [x for x in said if x.position in self.notes.marked]
        first = select(marked, budget, cost) if marked else []
        left = budget - sum(cost(x.text) for x in first)
        rest = select([x for x in said if x not in marked], left, cost)
        return sorted((*first, *rest), key=said.index) if first else rest

    def _head(self, turn: Turn) -> str:
        words = turn.said
        is_seen = bool(words) and words[:80] in self.seen
        said = shortened(words, HEAD_SEEN if is_seen else HEAD_TOKENS, self.counter)
        if turn.question:
            said = f"{said}” to: “{shortened(turn.question, HEAD_TOKENS, self.counter)}"
        head = f"({short_id(turn.message_id)}) “{said}”" if words else "(before)"
        is_last = turn is self.notes.turns.rows[-1]
        fate = " — not finished" if is_last and turn.calls and not turn.is_answered else ""
        fate = " — stopped by the person" if turn.is_stopped else fate
        return f"- {head}{fate}"

    def _lines(
        self, turn: Turn, i: int, count: int, names: set[str], holds: float
    ) -> Iterator[Line]:
        """The lines that may be told of a turn; what it said counts by how far it still holds."""
        fresh = OLD_TURNS + math.exp((i + 1 - count) / self.fade)
        words = turn.said
        size = self.counter.text(words)
        head = Statement("", tuple(n for s in turn.words for n in s.names), position=turn.position)
        yield self._line(i, head, 0, HEAD * fresh, cost=min(size, HEAD_TOKENS) + HEAD_FRAME)
        for order, said in enumerate(turn.words):
            if said.position > turn.position or (order and size > HEAD_TOKENS):
                yield self._line(i, said, order, ASKED * fresh, kind="quoted")
        for order, said in enumerate(turn.closing):
            yield self._line(i, said, order, CLOSING * (1 + OPENING / (1 + order)) * fresh * holds)
        for order, said in enumerate(turn.narration):
            late = (order + 1) / len(turn.narration)
            narrated = NARRATED if turn.is_answered else CLOSING * (0.5 + 2 * late)
            yield self._line(i, said, order, narrated * fresh)
        is_new = i + 1 == count and turn is self.notes.turns.rows[-1] and not turn.is_answered
        for order, said in enumerate(self._outcomes(turn, names)):
            weight = OUTCOME * fresh * (1 + is_new)
            yield self._line(i, said, 1_000 - order, weight, kind="done")

    def _line(
        self,
        turn: int,
        said: Statement,
        order: int,
        weight: float,
        *,
        kind: Literal["said", "quoted", "done"] = "said",
        cost: int = 0,
    ) -> Line:
        text = f"“{said.text}”" if kind == "quoted" else said.text
        cost = cost or self.counter.text(text) + LINE_TOKENS
        weight *= 0.5 if said.asks or said.is_plan else 1.0
        weight *= self._dwelt_on(said, kind)
        weight *= MARKED if said.position in self.notes.marked else 1.0
        weight /= math.pow(max(LEAST_TOKENS, cost), THRIFT)
        return Line(turn, (said.position, order), text, weight, cost, said.names, said.under, kind)

    def _dwelt_on(self, said: Statement, kind: Literal["said", "quoted", "done"]) -> float:
        """What a statement counts by what it is about: a person's words, what was written, or what
        an assistant said.
        """
        if not (self.emphasis.sections and said.text):
            return 1.0
        about = {"quoted": RULES, "done": FILES}.get(kind) or ABOUT[topic_of(said.text)]
        return max(LEAST_DWELT, self.emphasis.of(about))

    def _outcomes(self, turn: Turn, told: set[str]) -> Iterator[Statement]:
        """What a turn was about and left behind within the reach, as far as code can tell, the
        newest first; names that were told of a later file are not told again.
        """
        for file, it in reversed(turn.touched.items()):
            if (write := it.written(self.first, self.last)) is None:
                continue
            known = {name for name, at in (it.defined | it.edited).items() if at < self.last}
            names = [name for name in known & self.weights.keys() if name not in told]
            names = sorted(names, key=lambda x: (-self.weights[x], x))[:MOST_OF_FILE]
            told.update(names)
            why = write.why if write.why_at >= self.first else ""
            deed = f"Wrote {_name_of(file)} (“{why}”)" if why else f"Wrote {_name_of(file)}"
            text = f"{deed}: {', '.join(names)}" if names else deed
            place = write.why_at if why else write.position
            yield Statement(text, tuple(names), position=place)
        yield from reversed(turn.outcomes)
        if commits := [c for c in turn.commits if self.first <= c.position < self.last]:
            text = f"Committed {'; '.join(c.text for c in commits)}"
            hashes = tuple(name for c in commits for name in c.names)
            yield Statement(text, hashes, position=commits[-1].position)

    def _earlier(self) -> Iterable[Line]:
        """What an earlier checkpoint told, where the story begins with it."""
        rows = [s for s in self.notes.earlier if self.first <= s.position < self.last]
        return [self._line(EARLIER, said, order, CLOSING) for order, said in enumerate(rows)]

    def _add(self, told: Told, line: Line, turn: Turn | None) -> bool:
        """Tell a line if it fits, and before it what it belongs to."""
        cost, head = line.cost, ""
        if turn is not None and line.turn not in told.heads:
            head = self._head(turn)
            cost = self.counter.text(head) + LINE_TOKENS + (line.cost if line.text else 0)
        if line.under and (line.turn, line.under) not in told.led:
            cost += self.counter.text(line.under) + LINE_TOKENS
        if cost > told.left:
            return False
        told.left -= cost
        if head:
            told.heads[line.turn] = head
            told.take(head)
        if line.text:
            told.led.add((line.turn, line.under))
            told.lines.append(line)
            told.take(line.text)
        told.names.update(line.names)
        return True

    def _written(self, told: Told, turns: Sequence[Turn]) -> Iterator[str]:
        """The story as lines: of each turn what was asked, and a paragraph for each thing that is
        told of it.
        """
        by_turn: dict[int, list[Line]] = {}
        for line in told.lines:
            by_turn.setdefault(line.turn, []).append(line)
        for i in range(EARLIER, len(turns)):
            if i in told.heads:
                yield told.heads[i]
            rows = sorted((x for x in by_turn.get(i, ()) if x.text), key=lambda x: x.place)
            more = _untold(turns[i], rows) if i != EARLIER else Counter[str]()
            for (_, under), lines in groupby(rows, key=lambda x: (x.kind, x.under)):
                said = _joined([line.text for line in lines])
                if left := more.pop(under, 0):
                    said += f" (… {left} more)"
                yield f"  {under}: {said}" if under else f"  {said}"


def count_ahead(notes: Notes, counter: TokenCounter, since: int) -> None:
    """Count the statements from a position on that a story may be told of."""
    for turn in reversed(notes.turns.rows):
        if turn.last < since:
            break
        said = [s.text for s in (*turn.narration, *turn.closing, *turn.outcomes)]
        for text in (*said, turn.said, *(f"“{s.text}”" for s in turn.words)):
            counter.text(text)


def _untold(turn: Turn, rows: Iterable[Line]) -> Counter[str]:
    """How many statements below each heading, or line that leads to them, are not told."""
    said = Counter(s.under for s in (*turn.narration, *turn.closing) if s.under)
    return said - Counter(line.under for line in rows)


def _said_in(turn: Turn) -> Iterator[Said]:
    """The statements of a turn; an answer with the question that it answers."""
    for order, said in enumerate(turn.words):
        asked = f"(asked: {turn.question}) " if turn.question and order == 0 else ""
        yield Said(said.position, "person", asked + said.text)
    for said in (*turn.narration, *turn.closing):
        yield Said(said.position, "assistant", said.text)


def _openings(turn: Turn) -> Iterator[Statement]:
    """The first statement of each message of a turn."""
    at = -1
    for said in (*turn.words, *turn.narration, *turn.closing):
        if said.position != at:
            at = said.position
            yield said


def _talked(rows: Sequence[Said], names: Mapping[int, str]) -> Iterator[str]:
    """Statements as lines, those of one message in one line, each line with its speaker: the name
    under which its message was given, if there is one.
    """
    for (at, speaker), said in groupby(rows, key=lambda x: (x.position, x.speaker)):
        words = _joined([x.text for x in said])
        if name := names.get(at, f"{SPEAKERS[speaker]}: "):
            words = words.replace(name, "", 1) if at in names else words
        yield f"- {name}{words}"


def _joined(texts: Sequence[str]) -> str:
    """Statements as one paragraph."""
    *before, last = texts
    return "".join(f"{x} " if x.endswith(_ENDS) else f"{x}; " for x in before) + last


def _name_of(file: str) -> str:
    return "/".join(file.rsplit("/", 2)[-2:])


def shortened(words: str, most: int, counter: TokenCounter) -> str:
    """The beginning of the words, about so many tokens, cut between two of them."""
    if counter.text(words) <= most:
        return words
    while counter.text(words) > most and " " in words:
        words = words[: int(len(words) * 0.85)].rsplit(" ", 1)[0]
    return f"{words} …"
