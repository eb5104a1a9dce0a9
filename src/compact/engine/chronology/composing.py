"""The chronology: what was said and done, in order and in its own words.

Each text has a weight by kind, age and how much it tells. One number gives all of them their
tokens: so many for each unit of weight. What fits stands whole. Of longer texts head and tail
stand, with a mark between; stubs are left out. Halving finds the largest number whose text fits.
What tools did between two texts stands between them in one line.
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
"""Halvings to find the number; its least and most, in tokens for a unit; the ratio of the larger
number to the other; and how often the text is made again, as tokens are only estimated."""
LINE_TOKENS, NEXT, ENOUGH = 5, 1.01, 0.03
"""Tokens of a line beside its words, about; least ratio between two numbers that are tried; and the
share of the room that may be left."""
POWER, PERSONS_POWER = 0.6, 1.0
"""Power of what a text tells in its weight: twice as long is not worth twice as much. For words of
a person, all of which may have to be followed, it is."""
OLD, NEAR, NOW = 0.35, 0.65, 0.8
"""Weight of any age, and what newer and the newest texts add."""
NOW_FADE, NEAR_FADE = 12, 30
"""Messages after which the newest keep 1/e of it; for the others at least so many, or a quarter of
all."""
SHORT, STUB, WHOLE = 40, 18, 0.55
"""Tokens up to which a text stands whole or not at all; least tokens of a cut text; and the part
from which on a short text, or one of a person, stands whole."""
DEED_WHOLE, MOST_LOOKS, MOST_DEFINED = 0.8, 8, 6
"""The same part for a deed; look-ups in one line; and functions and types of a file."""
MARKED = 1_000.0
"""Weight of an important message: more than any other."""
DEMANDED, MUST = 2.0, 60.0
"""Extra weight of the clearest demand, and of its sentences that stay."""
OUTSIDE_CODE = 16 / 6
"""Extra weight of words of a person where nobody works on files: what tools return is not
theirs."""
CALLED_OUTSIDE = 100.0
"""Weight of calls there: each is told, however little room there is."""
SPEAKERS = {
    "request": "- User: ",
    "pasted": "  Pasted: ",
    "aside": "- User",
    "earlier": "- ",
    "host": "- ",
}
"""How the line of an item begins. All others are of the assistant."""


_Parts = list[tuple[DeedKind, str, float, int]]
"""Deeds: kind, words, most tokens for one of them, and tokens."""


@dataclass
class Chronology:
    """Tells what the notes hold from position `first` to before `last`."""

    notes: Notes
    counter: TokenCounter
    first: int = 0
    last: int = 1 << 60
    seen: VisibleText = NOTHING
    """What the reader sees beside it. It is not repeated."""
    clipped: Collection[int] = ()
    """Positions of shortened messages in view. They are told as well."""
    weights: KindWeights = PLAIN
    level: Level = "detailed"
    """Older levels tell all of their span alike."""
    _costs: dict[float, float] = field(default_factory=dict, init=False, repr=False)
    """Tokens of the rows, by the numbers that were tried."""
    _cuts: dict[tuple[int, int], str] = field(default_factory=dict, init=False, repr=False)
    """Rows as they were cut, by place and room."""
    _parts: dict[tuple[int, int], _Parts] = field(default_factory=dict, init=False, repr=False)
    """The deeds between two rows, by the places of the first and the last."""

    def told(self, room: int) -> str:
        """Return the chronology in at most so many tokens. Empty if nothing fits."""
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
        """The largest number with which the rows take about so many tokens."""
        low, high = LEAST, MOST
        for _ in range(STEPS):
            middle = math.sqrt(low * high)
            if middle not in self._costs:  # the first halvings are those of each target
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
        """Tell as many of the newest rows as fit with a larger number. Rows of one weight come in
        all at once, so a number alone may leave room.
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
        """What was said and the reader does not see."""
        rows = (
            x
            for x in self.notes.items.rows
            if self.first <= x.position < self.last or x.position in self.clipped
        )
        return [x for x in rows if x.info and not self.seen.tells(x.text)]

    @cached_property
    def _rows(self) -> list[tuple[float, Item, Cuttable] | Deed]:
        """Texts with their weights, and deeds, in order."""
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
        """Of each row: weight, tokens, tokens that stay and their extra weight, the room from which
        on it stands whole, and the least room.
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
        """The weight of a kind of deed. In a service, calls change what people own."""
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
        """The weight of an age in messages."""
        if self.level != "detailed":
            return 1.0
        end = min(self.last, self.notes.position)
        age, fade = end - position, max(NEAR_FADE, (end - self.first) / 4)
        return OLD + NEAR * math.exp(-age / fade) + NOW * math.exp(-age / NOW_FADE)

    def _lines(self, smaller: float, larger: float = 0.0, since: int = 1 << 60) -> Iterator[str]:
        """Yield lines with so many tokens for each unit of weight; from row `since` on with
        more.
        """
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
        """What was done, in one line, and how much more there is."""
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
    """An item as a line; more lines of it are indented. What it answers stands with it, unless the
    line before ends so.
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
    """A file that was written, how often, and what was defined in it."""
    names = list(dict.fromkeys(" ".join(defined).split()))[:MOST_DEFINED]
    times = f" ×{len(defined)}" if len(defined) > 1 else ""
    return f"{file}{times}{' (' * bool(names)}{', '.join(names)}{')' * bool(names)}"


def count_ahead(notes: Notes, counter: TokenCounter, since: int) -> None:
    """Count what was said from a position on, as a chronology will."""
    for item in reversed(notes.items.rows):
        if item.position < since:
            break
        _ = cuttable(item, counter).least
