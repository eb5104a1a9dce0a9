"""The chronology: what was said and done, in order and in its own words.

Each text has a weight by kind, age and information. One number for all texts, tokens per unit of
weight, gives each text its tokens. A text that fits stays whole. A longer one keeps head and tail,
with a mark between. One with too few tokens is left out. Bisection finds the largest number whose
text fits. A row is a text or a deed. Deeds between two texts share one line.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop
from itertools import zip_longest
from typing import get_args

from compact.engine.chronology.cutting import SHORT, STUB, WHOLE
from compact.engine.chronology.items import (
    PERSONS,
    Item,
    Kind,
    marked,
    probe_of,
    sized,
)
from compact.engine.chronology.notes import Notes
from compact.engine.chronology.talk import Talk
from compact.engine.chronology.work import Deed, Run, WorkLog
from compact.engine.chronology.work import Kind as DeedKind
from compact.engine.visible import NOTHING, VisibleText
from compact.messages.cached import cached_property
from compact.messages.checkpoints import Level
from compact.messages.messages import short_id
from compact.messages.tokens import TokenCounter
from compact.text.modes import PLAIN, KindWeights
from compact.text.sentences import lines_of, topic_of

STEPS, LEAST, MOST, LARGER, TRIES = 9, 1e-3, 200.0, 1.05, 10
"""`STEPS`: bisection steps. `LEAST`, `MOST`: bounds of the number, in tokens per unit of weight.
`LARGER`: factor on the larger of two numbers in a mixed text. `TRIES`: how often the text is built
again, because tokens are only estimated."""
LINE_TOKENS, NEXT, ENOUGH = 5, 1.01, 0.03
"""`LINE_TOKENS`: about how many tokens a line adds to its words. `NEXT`: smallest ratio of two
numbers that are tried. `ENOUGH`: share of the room that may stay free."""
OLD, NEAR, NOW = 0.35, 0.65, 0.8
"""`OLD`: weight of any text. `NEAR`, `NOW`: added for newer and for the newest texts."""
NOW_FADE, NEAR_FADE = 12, 30
"""In how many messages the added weights fall to 1/e. `NEAR` falls in a quarter of all messages if
that is more."""
NEARLY = 1 + 1e-9
"""Slack for a first, rounded comparison. An exact one follows."""
FADED = 480
"""From this age on (in messages), the added weight `NOW` is too small to matter."""
DEED_WHOLE, MOST_LOOKS, MOST_DEFINED = 0.8, 8, 6
"""Share of its tokens that includes a deed; most look-ups in a line; most names of a file."""
MARKED = 1_000.0
"""Factor for an important message: larger than any other."""
DEMANDED = 2.0
"""Extra weight of the clearest demand."""
OUTSIDE_CODE = 16 / 6
"""Factor for the user's requests if no files are worked on: the rest is not the user's own."""
CALLED_OUTSIDE = 100.0
"""Factor for calls if no files are worked on: each is included, however little room there is."""
SPEAKERS = {
    "request": "- User: ",
    "pasted": "  Pasted: ",
    "aside": "- User",
    "earlier": "- ",
    "host": "- ",
}
"""Start of an item's line, by kind. All other kinds are the assistant's."""
NO_LINE = "", 0
MOST_RUNS = 2_000
"""How many joined runs of deeds are cached. With more, all are forgotten: memory is bounded."""


_Row = tuple[float, float, int, int, float, float, float]
"""A row: the smallest number that includes it; its weight; its tokens; its tokens that must stay,
and their extra weight; the room from which on it stays whole; the least room."""


class _Lines:
    """The lines for one number: items, the deeds before each, and the deeds after the last."""

    def __init__(self) -> None:
        self.items: list[int] = []
        """Indices of the items that are included."""
        self.said: list[str] = []
        self.did: list[str] = []
        """The lines of deeds: one more than items. Empty where no deed is included."""
        self.tokens: list[int] = []
        """Tokens of each line with its line end: deeds and items in turn."""

    def add(self, index: int, said: tuple[str, int], did: tuple[str, int]) -> None:
        """Add an item, and the line of deeds before it."""
        self.items.append(index)
        self.said.append(said[0])
        self.end(did)
        self.tokens.append(said[1])

    def end(self, did: tuple[str, int]) -> None:
        """Add the line of deeds after the last item."""
        self.did.append(did[0])
        self.tokens.append(did[1])

    def all(self) -> Iterator[str]:
        """Yield the lines in order."""
        for said, did in zip_longest(self.said, self.did):
            if did:
                yield did
            if said is not None:
                yield said


@dataclass
class Chronology:
    """Writes what the notes hold on the positions from `first` to `last` (not included)."""

    notes: Notes
    counter: TokenCounter
    first: int = 0
    last: int = 1 << 60
    seen: VisibleText = NOTHING
    """The text that the reader sees elsewhere. It is not repeated."""
    clipped: Collection[int] = ()
    """Positions of shortened messages in the prompt. The chronology includes them."""
    weights: KindWeights = PLAIN
    level: Level = "detailed"
    """The level. Levels other than `detailed` do not favour newer texts."""
    _costs: dict[float, tuple[float, bool]] = field(default_factory=dict, init=False, repr=False)
    """Number that was tried → estimated tokens of all rows, and whether all were added up."""
    _found: list[_Row] = field(default_factory=list, init=False, repr=False)
    """The rows found so far, ordered by the smallest number that includes each."""
    _texts: list[tuple[float, int]] = field(default_factory=list, init=False, repr=False)
    """The items among them: that number, and the item's index."""
    _news: dict[int, bool] = field(default_factory=dict, init=False, repr=False)
    """Index of an item → whether the reader does not see it elsewhere."""
    _cuts: dict[tuple[int, int, bool], tuple[str, int]] = field(
        default_factory=dict, init=False, repr=False
    )
    """(index, room, whether its question ends the line before) → an item's line and its tokens."""

    def told(self, room: int) -> str:
        """Return the chronology in at most `room` tokens. Empty if nothing fits."""
        if self.notes.is_plain_talk:
            return self._talk.told(room)
        if room < STUB:
            return ""

        best, low, high = "", 0.0, MOST
        target, number = float(room), self._number(room)
        for _ in range(TRIES):
            lines = self._lines(number)
            taken = self._tokens(lines)
            if taken <= room:
                best, low = self._text(lines), number
            else:
                high = number
            if 0 <= room - taken <= ENOUGH * room or low >= MOST or high <= LEAST:
                break
            target *= room / max(1, taken)
            number = self._number(target)
            if not low * NEXT < number < high / NEXT:
                number = math.sqrt(max(low, LEAST) * high)
        is_full = room - self.counter.composed(best) <= ENOUGH * room
        return best if is_full or high >= MOST else self._fuller(best, low, high, room)

    def _number(self, target: float) -> float:
        """Return the largest number with which the rows take about `target` tokens."""
        low, high = LEAST, MOST
        for _ in range(STEPS):
            middle = math.sqrt(low * high)
            is_more = self._takes_more(middle, target)
            low, high = (low, middle) if is_more else (middle, high)
        return low

    def _takes_more(self, number: float, target: float) -> bool:
        """Whether the rows take more than the target. Costs are cached for the next search."""
        total, is_complete = self._costs.get(number, (0.0, False))
        if total <= target and not is_complete:
            limit = 2 * target
            total = self._cost(number, limit)
            self._costs[number] = total, total <= limit
        return total > target

    def _cost(self, number: float, limit: float) -> float:
        """Estimate the tokens of all rows with this number, up to a limit. Rows that need a larger
        number are skipped.
        """
        total, place = 0.0, 0
        while total <= limit and (place < len(self._found) or self._find(number)):
            since, weight, size, least, must, whole, stub = self._found[place]
            if since > number * NEARLY:
                break
            place += 1
            room = number * weight
            if room >= whole:
                total += size + LINE_TOKENS
            elif room >= stub or (least and room * must >= least):
                total += max(room, least) + LINE_TOKENS
        return total

    def _find(self, number: float) -> bool:
        """Find the next row for which this number is enough; skip texts seen elsewhere."""
        waiting = self._waiting
        while waiting and waiting[0][0] <= number * NEARLY:
            since, index = heappop(waiting)
            if index < 0:
                weight, size, stub = self._deeds.weighed(~index)
                self._found.append((since, weight, size, 0, 0.0, size, stub))
                return True
            if self._is_new(index):
                sizes = sized(self._span[index], self.counter).sizes
                self._found.append((since, self._weights[index], *sizes))
                self._texts.append((since, index))
                return True
        return False

    def _fuller(self, text: str, number: float, larger: float, room: int) -> str:
        """Give a larger number to the newest rows, as many as fit. One number for all may leave
        room, because rows of equal weight come in all at once.
        """
        small, large = self._lines(number), self._lines(larger * LARGER)
        numbers, best = (number, larger * LARGER), None
        low, high = 0, len(self._span) + len(self._deeds.rows)
        while low < high:
            half = (low + high) // 2
            fuller = self._mixed(small, large, numbers, half)
            if self._tokens(fuller) <= room:
                best, high = fuller, half
            else:
                low = half + 1
        return text if best is None else self._text(best)

    @cached_property
    def _talk(self) -> Talk:
        return Talk(self._items, self.notes, self.counter, self.weights)

    @cached_property
    def _items(self) -> list[Item]:
        """The items of the span that the reader does not see elsewhere."""
        return [x for i, x in enumerate(self._span) if self._is_new(i)]

    @cached_property
    def _span(self) -> list[Item]:
        rows, span = self.notes.items.rows, (self.first, self.last)
        first, last = (bisect_left(rows, x, key=lambda row: row.position) for x in span)
        before, after = rows[:first] if self.clipped else [], rows[last:]
        clipped = [[x for x in some if x.position in self.clipped] for some in (before, after)]
        return [x for x in (*clipped[0], *rows[first:last], *clipped[1]) if x.info]

    def _is_new(self, index: int) -> bool:
        if index not in self._news:
            self._news[index] = not self.seen.shows(probe_of(self._span[index]))
        return self._news[index]

    @cached_property
    def _weights(self) -> list[float]:
        rows = range(len(self._span))
        last = next((i for i in reversed(rows) if self._is_new(i)), -1)
        return [self._weight(x, is_last=i == last) for i, x in enumerate(self._span)]

    @cached_property
    def _waiting(self) -> list[tuple[float, int]]:
        """A heap of (smallest number that includes a row, index). Deeds have `~index`."""
        rows, count = enumerate(zip(self._weights, self._span, strict=True)), self.counter
        found = [(sized(x, count).told_from / weight, i) for i, (weight, x) in rows if weight]
        found += [(since, ~i) for i, since in enumerate(self._deeds.told_from())]
        heapify(found)
        return found

    @cached_property
    def _deeds(self) -> DeedLines:
        by = {kind: self._counts(kind) for kind in get_args(DeedKind)}
        span = self.first, self.last
        return DeedLines(self.notes.work, self.counter, span, by, self._freshness)

    def _deeds_before(self, index: int) -> int:
        return bisect_left(self._deeds.positions, self._span[index].position)

    @cached_property
    def _persons(self) -> frozenset[int]:
        """Indices of the user's messages. If some are left out, a line says how many."""
        rows = enumerate(self._span)
        return frozenset(i for i, x in rows if x.kind in ("request", "aside") and self._is_new(i))

    def _counts(self, kind: DeedKind) -> float:
        """Return the weight of a kind of deed. Outside of code, calls change what users own."""
        by = 1.0 if kind != "called" or self.notes.is_code else CALLED_OUTSIDE
        return by * self.weights.of(kind)

    def _weight(self, item: Item, *, is_last: bool) -> float:
        fresh = max(self._freshness(item.position), item.demands)
        kind = "closing" if is_last and item.kind == "said" else item.kind
        weight = self._by_kind[kind] * fresh * (1 + DEMANDED * item.demands)
        if kind in ("closing", "said") and self.weights.decided != 1:
            weight *= self.weights.decided if _decides(item.text) else 1.0
        marked = MARKED if item.position in self.notes.marked else 1.0
        return weight * marked * item.worth

    @cached_property
    def _by_kind(self) -> dict[Kind, float]:
        found: dict[Kind, float] = {kind: self.weights.of(kind) for kind in get_args(Kind)}
        if not self.notes.is_code:
            found["request"] *= OUTSIDE_CODE
        return found

    @cached_property
    def _ages(self) -> tuple[int, float]:
        """The position from which ages are counted, and in how many messages `NEAR` fades."""
        end = min(self.last, self.notes.position)
        return end, max(NEAR_FADE, (end - self.first) / 4)

    def _freshness(self, position: int) -> float:
        """Return the weight of a position by its age in messages."""
        if self.level != "detailed":
            return 1.0
        end, fade = self._ages
        age = end - position
        fresh = OLD + NEAR * math.exp(-age / fade)
        return fresh + NOW * math.exp(-age / NOW_FADE) if age < FADED else fresh

    def _lines(self, number: float) -> _Lines:
        """Return the lines with `number` tokens per unit of weight."""
        lines, begin, before = _Lines(), 0, ""
        for index in self._shown(number):
            said = self._line(index, number, before)
            end = self._deeds_before(index)
            lines.add(index, said, self._deeds.line(begin, end, number))
            begin, before = end, said[0]
        lines.end(self._deeds.line(begin, len(self._deeds.rows), number))
        return lines

    def _shown(self, number: float) -> list[int]:
        """Return the indices of the included texts, in order."""
        while self._find(number):
            pass
        found = list[int]()
        for since, index in self._texts:
            if since > number * NEARLY:
                break
            if sized(self._span[index], self.counter).is_told(number * self._weights[index]):
                found.append(index)
        found.sort()
        return found

    def _line(self, index: int, number: float, before: str) -> tuple[str, int]:
        item = self._span[index]
        row, room = sized(item, self.counter), number * self._weights[index]
        size = row.sizes[0]
        if room >= WHOLE * size and (size < SHORT or item.kind in PERSONS):
            room = size
        key = index, int(room), bool(item.before) and before.endswith(item.before)
        if key not in self._cuts:
            shown = row.text.within(key[1], short_id(item.message_id))
            line = _line(item, marked(shown, item.before_ids), before)
            self._cuts[key] = line, self.counter.composed(f"{line}\n")
        return self._cuts[key]

    def _mixed(
        self, small: _Lines, large: _Lines, numbers: tuple[float, float], half: int
    ) -> _Lines:
        """Return the lines with the smaller number before row `half`, and the larger one after."""
        texts = range(len(self._span))
        first = bisect_left(texts, half, key=lambda i: i + self._deeds_before(i))
        a, b = bisect_left(small.items, first), bisect_left(large.items, first)
        mixed = _Lines()
        mixed.items = small.items[:a] + large.items[b:]
        mixed.said = small.said[:a] + large.said[b:]
        begin = self._deeds_before(small.items[a - 1]) if a else 0
        has_more = b < len(large.items)
        end = self._deeds_before(large.items[b]) if has_more else len(self._deeds.rows)
        did = self._deeds.mixed(begin, end, numbers, half - first)
        mixed.did = [*small.did[:a], did[0], *large.did[b + 1 :]]
        mixed.tokens = [*small.tokens[: 2 * a], did[1], *large.tokens[2 * b + 1 :]]
        if has_more:  # its question may end the line before
            said = self._line(large.items[b], numbers[1], small.said[a - 1] if a else "")
            mixed.said[a], mixed.tokens[2 * a + 1] = said
        return mixed

    def _left_out(self, lines: _Lines) -> str:
        """Return the line on the user's messages that are left out. Empty if there are none."""
        gone = len(self._persons) - len(self._persons.intersection(lines.items))
        return f"[{gone:,} messages of the user are left out]" if gone else ""

    def _text(self, lines: _Lines) -> str:
        return "\n".join(filter(None, (*lines.all(), self._left_out(lines))))

    def _tokens(self, lines: _Lines) -> int:
        """Count the text. If the counter counts line by line, the sum of the lines is the count."""
        count = self.counter.composed
        if self.counter.lines is None:
            return count(self._text(lines))
        if gone := self._left_out(lines):
            return sum(lines.tokens) + count(gone)
        last = lines.did[-1] or (lines.said[-1] if lines.said else "")
        return sum(lines.tokens) - (count(f"{last}\n") - count(last) if last else 0)


class DeedLines:
    """Writes the deeds of a span as one line between two texts."""

    def __init__(
        self,
        work: WorkLog,
        counter: TokenCounter,
        span: tuple[int, int],
        counts: Mapping[DeedKind, float],
        fresh: Callable[[int], float],
    ) -> None:
        self._work, self._counter, self._counts, self._fresh = work, counter, counts, fresh
        self._kinds = frozenset(kind for kind, by in counts.items() if by)
        begin, end = (bisect_left(work.deeds, x, key=lambda deed: deed.position) for x in span)
        places: Sequence[int] = range(begin, end)
        if len(self._kinds) < len(counts):
            places = [i for i in places if work.deeds[i].kind in self._kinds]
        self._sized = work.sized(counter, places)
        self._ids = places
        self.rows = [work.deeds[i] for i in places]
        """The deeds that count, in order."""
        self.positions = [deed.position for deed in self.rows]
        self._bounds: dict[tuple[int, int], tuple[Run, float]] = {}
        self._lines: dict[str, int] = {}

    def told_from(self) -> list[float]:
        """Return for each deed the smallest number that would include it alone."""
        fresh = {at: self._fresh(at) for at in dict.fromkeys(self.positions)}
        per = {kind: DEED_WHOLE / by for kind, by in self._counts.items() if by}
        rows = zip(self._sized, self.rows, strict=True)
        return [stub * per[deed.kind] / fresh[deed.position] for (_, stub), deed in rows]

    def weighed(self, place: int) -> tuple[float, int, float]:
        """Return a deed's weight, its tokens and its least room."""
        deed = self.rows[place]
        weight = self._counts[deed.kind] * self._fresh(deed.position) / DEED_WHOLE
        return weight, *self._sized[place]

    def line(self, begin: int, end: int, number: float) -> tuple[str, int]:
        """Return the line on the deeds from `begin` to before `end`, and its tokens."""
        if begin >= end:
            return NO_LINE
        run, most = self._bound(begin, end)
        if number * most * NEARLY < 1.0:
            return NO_LINE
        return self._told([(k, x, n, number * self._fresh(at)) for k, x, n, at in run.parts])

    def mixed(
        self, begin: int, end: int, numbers: tuple[float, float], half: int
    ) -> tuple[str, int]:
        """Return the line with the smaller number before deed `half`, and the larger one after."""
        if not begin < half < end:
            return self.line(begin, end, numbers[half <= begin])
        if max(numbers) * self._bound(begin, end)[1] * NEARLY < 1.0:
            return NO_LINE
        weights = [
            numbers[place >= half] * self._fresh(self.positions[place])
            for place in range(begin, end)
        ]
        parts = _joined(zip(self.rows[begin:end], weights, strict=True))
        return self._told([(k, x, self._counter.text(x), most) for k, x, most in parts])

    def _bound(self, begin: int, end: int) -> tuple[Run, float]:
        """Return the run of these deeds, and the largest weight per token in it."""
        if (begin, end) not in self._bounds:
            run = self._run(begin, end)
            most = max(self._counts[kind] * best for kind, best in run.best)
            self._bounds[begin, end] = run, most * self._fresh(self.positions[end - 1])
        return self._bounds[begin, end]

    def _run(self, begin: int, end: int) -> Run:
        runs = self._work.runs
        first, last = (self._work.forgotten + self._ids[place] for place in (begin, end - 1))
        key = self._counter, first, last, self._kinds
        if (run := runs.get(key)) is None:  # another window's thread may clear them meanwhile
            if len(runs) >= MOST_RUNS:
                runs.clear()
            run = runs[key] = _run_of(self.rows[begin:end], self._counter)
        return run

    def _told(self, parts: Sequence[tuple[DeedKind, str, int, float]]) -> tuple[str, int]:
        """Return the line for parts. Each is (kind, words, tokens, weight by age × number)."""
        told, looks = list[str](), 0
        looked = self._counts["looked"] * math.sqrt(sum(kind == "looked" for kind, *_ in parts))
        for kind, text, size, most in reversed(parts):  # the newest look-ups first
            if kind == "looked":
                looks += 1
                fits = looks <= MOST_LOOKS and looked * most >= looks * size
            else:
                fits = most * self._counts[kind] >= DEED_WHOLE * size
            if fits:
                told.append(text)
        if not told:
            return NO_LINE
        more = len(parts) - len(told)
        line = f"  Did: {' · '.join(reversed(told))}{f' · {more} more' if more else ''}"
        if line not in self._lines:
            self._lines[line] = self._counter.composed(f"{line}\n")
        return line, self._lines[line]


def _line(item: Item, shown: str, before: str) -> str:
    """Format an item as a line. The question that it answers comes first, unless the line before
    ends with it.
    """
    shown = shown.replace("\n", "\n    ")
    if item.kind == "aside" and item.is_refusal:
        return f"- User refused {item.before}: {shown}"
    if item.kind == "aside":
        return f"- User, asked “{item.before}”: {shown}" if item.before else f"- User: {shown}"
    if item.before and not before.endswith(item.before):
        return f"- User, to “{item.before}”: {shown}"
    return f"{SPEAKERS.get(item.kind, '  Assistant: ')}{shown}"


def _decides(text: str) -> bool:
    return any(topic_of(line) == "decisions" for line in lines_of(text))


def _run_of(deeds: Sequence[Deed], counter: TokenCounter) -> Run:
    parts = [
        (kind, text, counter.text(text), int(at))
        for kind, text, at in _joined((deed, deed.position) for deed in deeds)
    ]
    looks = [size for kind, _, size, _ in reversed(parts) if kind == "looked"]
    best = {kind: 1 / (DEED_WHOLE * max(1, size)) for kind, _, size, _ in parts}
    for kind, _, size, _ in parts:
        best[kind] = max(best[kind], 1 / (DEED_WHOLE * max(1, size)))
    if looks:
        rank = enumerate(looks[:MOST_LOOKS], 1)
        best["looked"] = math.sqrt(len(looks)) * max(1 / (n * max(1, size)) for n, size in rank)
    return Run(parts, [*best.items()])


def _joined(deeds: Iterable[tuple[Deed, float]]) -> Iterator[tuple[DeedKind, str, float]]:
    """Join deeds: checks with first and last outcome, files with how often they were written. Each
    part has the largest number of its deeds.
    """
    checks, files = dict[str, list[str]](), dict[str, list[str]]()
    told = dict[tuple[DeedKind, str], float]()
    for deed, number in deeds:
        what = deed.what
        if deed.kind == "checked":
            checks.setdefault(what, []).append(deed.came_to)
        elif deed.kind == "wrote":
            files.setdefault(what.rsplit("/", 1)[-1], []).append(deed.came_to)
            what = ""
        else:
            gave = f" → {deed.came_to}" if deed.came_to else ""
            what = f"{what}{' failed' * (deed.failed or deed.kind == 'failed')}{gave}"
        told[deed.kind, what] = max(number, told.get((deed.kind, what), 0.0))
    for (kind, what), number in told.items():
        text = what
        if kind == "checked":
            first, last = checks[what][0], checks[what][-1]
            if first.startswith("failed") and not last.startswith("failed"):
                first, kind = "failed", "wrote"  # work that bore fruit; its error is cleared
            text = f"`{what}`: {first if first == last else f'{first} → {last}'}"
        elif kind == "wrote":
            text = f"wrote {', '.join(_written(*each) for each in files.items())}"
        yield kind, text, number


def _written(file: str, defined: Sequence[str]) -> str:
    """Describe a written file: how often it was written, and what was defined in it."""
    names = list(dict.fromkeys(" ".join(defined).split()))[:MOST_DEFINED]
    times = f" ×{len(defined)}" if len(defined) > 1 else ""
    return f"{file}{times}{' (' * bool(names)}{', '.join(names)}{')' * bool(names)}"


def count_ahead(notes: Notes, counter: TokenCounter, since: int) -> None:
    """Count the items from a position on ahead of time, as a chronology will."""
    for item in reversed(notes.items.rows):
        if item.position < since:
            break
        sized(item, counter)
