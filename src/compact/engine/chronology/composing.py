"""The chronology: what was said and done, in order and in its own words.

Each text has a weight by kind, age and information. One number, tokens per unit of weight, gives
each text its tokens. A text that fits stays whole. A longer one keeps head and tail, with a mark
between; one with too few tokens is left out. Bisection finds the largest number whose text fits.
What tools did between two texts is told between them in one line.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from compact.engine.chronology.cutting import Cuttable
from compact.engine.chronology.items import PERSONS, Item, cuttable, marked
from compact.engine.chronology.notes import Notes
from compact.engine.chronology.talk import Talk
from compact.engine.chronology.work import Deed
from compact.engine.chronology.work import Kind as DeedKind
from compact.engine.visible import NOTHING, VisibleText
from compact.messages.cached import cached_property
from compact.messages.checkpoints import Level
from compact.messages.messages import short_id
from compact.messages.tokens import TokenCounter
from compact.text.modes import PLAIN, KindWeights
from compact.text.sentences import lines_of, topic_of

STEPS, LEAST, MOST, LARGER, TRIES = 9, 1e-3, 200.0, 1.05, 10
"""Bisection steps to find the number; its smallest and largest value, in tokens per unit of weight;
the ratio of the larger number to the other; and how often the text is built again, as tokens are
only estimated."""
LINE_TOKENS, NEXT, ENOUGH = 5, 1.01, 0.03
"""About how many tokens a line adds to its words; smallest ratio between two numbers that are
tried; and the share of the room that may be left."""
POWER, PERSONS_POWER = 0.6, 1.0
"""Exponent of a text's information in its weight: twice as much is not worth twice as much. It is
for the user's words, all of which may have to be followed."""
OLD, NEAR, NOW = 0.35, 0.65, 0.8
"""Weight of a text of any age, and the weights that newer and the newest texts get in addition."""
NOW_FADE, NEAR_FADE = 12, 30
"""The extra weight of the newest texts falls to 1/e after the first number of messages; that of
newer ones after the second, or a quarter of all if that is more."""
SHORT, STUB, WHOLE = 40, 18, 0.55
"""A text below this many tokens stays whole or is left out; fewest tokens of a cut text; and the
share of its tokens from which on a short text, or the user's, stays whole."""
DEED_WHOLE, MOST_LOOKS, MOST_DEFINED = 0.8, 8, 6
"""The same share for a deed; most look-ups in a line; most functions and types of a file."""
MARKED = 1_000.0
"""Factor for an important message: larger than any other."""
DEMANDED, MUST = 2.0, 60.0
"""Extra weight of the clearest demand, and of its sentences that must stay."""
OUTSIDE_CODE = 16 / 6
"""Factor for the user's requests if nobody works on files: tool output is then not the user's."""
CALLED_OUTSIDE = 100.0
"""Factor for calls in that case: each is told, however little room there is."""
SPEAKERS = {
    "request": "- User: ",
    "pasted": "  Pasted: ",
    "aside": "- User",
    "earlier": "- ",
    "host": "- ",
}
"""Start of an item's line, by kind. All other kinds are the assistant's."""


_Parts = list[tuple[DeedKind, str, float, int]]
"""Deeds: kind, words, weight by age (times the number if it differs among them), and tokens."""


@dataclass
class Chronology:
    """Tells what the notes hold on the positions from `first` to before `last`."""

    notes: Notes
    counter: TokenCounter
    first: int = 0
    last: int = 1 << 60
    seen: VisibleText = NOTHING
    """The text that the reader sees elsewhere. It is not repeated."""
    clipped: Collection[int] = ()
    """Positions of shortened messages in the prompt. The chronology tells them as well."""
    weights: KindWeights = PLAIN
    level: Level = "detailed"
    """The level. Levels other than `detailed` do not favour newer texts."""
    _costs: dict[float, float] = field(default_factory=dict, init=False, repr=False)
    """Estimated tokens of all rows, by the number that was tried."""
    _cuts: dict[tuple[int, int], str] = field(default_factory=dict, init=False, repr=False)
    """The cut text of rows, by row and room."""
    _parts: dict[tuple[int, int], _Parts] = field(default_factory=dict, init=False, repr=False)
    """The deeds between two rows, by the indices of the first and last deed."""

    def told(self, room: int) -> str:
        """Return the chronology in at most `room` tokens. Empty if nothing fits."""
        if self.notes.is_plain_talk:
            return self._talk.told(room)
        if room < STUB or not self._rows:
            return ""

        best, low, high = "", 0.0, MOST
        target, number = float(room), self._number(room)
        for _ in range(TRIES):
            text = "\n".join(self._lines(number))
            taken = self.counter.composed(text)
            if taken <= room:
                best, low = text, number
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
            if middle not in self._costs:  # all targets share the first steps
                self._costs[middle] = self._cost(middle)
            low, high = (middle, high) if self._costs[middle] <= target else (low, middle)
        return low

    def _cost(self, number: float) -> float:
        total = 0.0
        for weight, size, least, must, whole, stub in self._sizes:
            room = number * weight
            if room >= whole:
                total += size + LINE_TOKENS
            elif room >= stub or (least and room * must >= least):
                total += max(room, least) + LINE_TOKENS
        return total

    def _fuller(self, text: str, number: float, larger: float, room: int) -> str:
        """Give as many of the newest rows as possible a larger number: one number for all may leave
        room, as rows of one weight come in all at once.
        """
        low, high = 0, len(self._rows)
        while low < high:
            half = (low + high) // 2
            fuller = "\n".join(self._lines(number, larger * LARGER, half))
            if self.counter.composed(fuller) <= room:
                text, high = fuller, half
            else:
                low = half + 1
        return text

    @cached_property
    def _talk(self) -> Talk:
        return Talk(self._items, self.notes, self.counter, self.weights)

    @cached_property
    def _items(self) -> list[Item]:
        """The items of the span that the reader does not see elsewhere."""
        rows = (
            x
            for x in self.notes.items.rows
            if self.first <= x.position < self.last or x.position in self.clipped
        )
        return [x for x in rows if x.info and not self.seen.tells(x.text)]

    @cached_property
    def _rows(self) -> list[tuple[float, Item, Cuttable] | Deed]:
        """The texts with their weights, and the deeds, in order."""
        deeds = [x for x in self.notes.work.deeds if self.first <= x.position < self.last]
        items = [(self._weight(x), x, cuttable(x, self.counter)) for x in self._items]
        told = [row for row in items if row[0]]
        rows: list[tuple[int, int, tuple[float, Item, Cuttable] | Deed]] = [
            *((row[1].position, 0, row) for row in told),
            *((deed.position, 1, deed) for deed in deeds if self._counts(deed.kind)),
        ]
        rows.sort(key=lambda row: row[:2])
        return [row for *_, row in rows]

    @cached_property
    def _sizes(self) -> list[tuple[float, int, int, float, float, float]]:
        """For each row: weight, tokens, tokens that must stay, their extra weight, the room from
        which on it stays whole, and the least room.
        """
        found = list[tuple[float, int, int, float, float, float]]()
        for row in self._rows:
            if isinstance(row, Deed):
                weight = self._counts(row.kind) * self._freshness(row.position) / DEED_WHOLE
                size = self.counter.text(row.what) + self.counter.text(row.came_to)
                least, must, whole = 0, 0.0, 1.0
            else:
                weight, item, text = row
                size, least, must = text.tokens, text.least, MUST * item.demands**2
                whole = WHOLE if item.kind in PERSONS else 1.0
            stub = WHOLE * size if size < SHORT else min(STUB, WHOLE * size)
            found.append((weight, size, least, must, whole * size, stub))
        return found

    def _counts(self, kind: DeedKind) -> float:
        """Return the weight of a kind of deed. In a service, calls change what users own."""
        by = 1.0 if kind != "called" or self.notes.is_code else CALLED_OUTSIDE
        return by * self.weights.of(kind)

    def _weight(self, item: Item) -> float:
        fresh = max(self._freshness(item.position), item.demands)
        kind = "closing" if item is self._items[-1] and item.kind == "said" else item.kind
        weight = self.weights.of(kind) * fresh * (1 + DEMANDED * item.demands)
        if item.kind == "request" and not self.notes.is_code:
            weight *= OUTSIDE_CODE
        if kind in ("closing", "said") and self.weights.decided != 1:
            weight *= self.weights.decided if _decides(item.text) else 1.0
        marked = MARKED if item.position in self.notes.marked else 1.0
        power = PERSONS_POWER if item.kind in PERSONS else POWER
        return weight * marked * math.pow(item.info, power)

    def _freshness(self, position: int) -> float:
        """Return the weight of a position by its age in messages."""
        if self.level != "detailed":
            return 1.0
        end = min(self.last, self.notes.position)
        age, fade = end - position, max(NEAR_FADE, (end - self.first) / 4)
        return OLD + NEAR * math.exp(-age / fade) + NOW * math.exp(-age / NOW_FADE)

    def _lines(self, smaller: float, larger: float = 0.0, since: int = 1 << 60) -> Iterator[str]:
        """Yield lines with `smaller` tokens per unit of weight; `larger` from row `since` on."""
        done, before, left_out = list[tuple[int, float, Deed]](), "", 0
        for place, (row, sizes) in enumerate(zip(self._rows, self._sizes, strict=True)):
            number = smaller if place < since else larger
            if isinstance(row, Deed):
                done.append((place, number, row))
                continue
            weight, item, text = row
            room, (size, least, must, _, stub) = number * weight, sizes[1:]
            if room < stub and not (least and room * must >= least):
                left_out += item.kind in ("request", "aside")
                continue
            yield from self._done(done)
            done.clear()
            whole = room >= WHOLE * size and (size < SHORT or item.kind in PERSONS)
            key = place, size if whole else int(room)
            if key not in self._cuts:
                shown = text.within(key[1], short_id(item.message_id))
                self._cuts[key] = marked(shown, item.before_ids)
            before = _line(item, self._cuts[key], before)
            yield before
        yield from self._done(done)
        if left_out:
            yield f"[{left_out:,} messages of the user are left out]"

    def _done(self, deeds: Sequence[tuple[int, float, Deed]]) -> Iterator[str]:
        """Yield one line on what was done, and how much more there is."""
        if not deeds:
            return
        (first, number, _), (last, other, _) = deeds[0], deeds[-1]
        if number != other:
            parts, number = self._parts_of((n, deed) for _, n, deed in deeds), 1.0
        else:
            if (first, last) not in self._parts:
                self._parts[first, last] = self._parts_of((1.0, deed) for *_, deed in deeds)
            parts = self._parts[first, last]
        told, looks = list[str](), 0
        looked = self.weights.looked * math.sqrt(sum(kind == "looked" for kind, *_ in parts))
        for kind, text, most, size in reversed(parts):  # the newest look-ups first
            if kind == "looked":
                looks += 1
                fits = looks <= MOST_LOOKS and looked * (number * most) >= looks * size
            else:
                fits = number * most * self._counts(kind) >= DEED_WHOLE * size
            if fits:
                told.append(text)
        if told:
            more = len(parts) - len(told)
            yield f"  Did: {' · '.join(reversed(told))}{f' · {more} more' if more else ''}"

    def _parts_of(self, deeds: Iterable[tuple[float, Deed]]) -> _Parts:
        rows = [(deed, number * self._freshness(deed.position)) for number, deed in deeds]
        return [(*part, self.counter.text(part[1])) for part in _parts_of(rows)]


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


def _parts_of(deeds: Sequence[tuple[Deed, float]]) -> Iterator[tuple[DeedKind, str, float]]:
    """Join deeds: checks with first and last outcome, files with how often they were written."""
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
            what = f"{what}{' failed' * (deed.kind == 'failed')}{gave}"
        told[deed.kind, what] = max(number, told.get((deed.kind, what), 0.0))
    for (kind, what), number in told.items():
        text = what
        if kind == "checked":
            first, last = checks[what][0], checks[what][-1]
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
        _ = cuttable(item, counter).least
