"""Room: which lines of a summary make place for what must be in it.

Rules and open tasks are put in by code, in the words of those who said them. Where the cap is full,
lists that code can make again go first, then the least worthy lines of the prose: whole ones, never
the last one below a heading, and never more than half of what was written.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from compact.compression.extraction.extractive import COMMANDS, FILES, NAMES, TOOLS
from compact.compression.extraction.notes import GOAL, INSTRUCTIONS
from compact.compression.gate.matter import HEADING, Matter
from compact.core.anchors import find_all
from compact.core.checkpoints import REFERENCE_LINE

MOST_CUT = 0.5
"""Share of a text's characters that may be left out: what is left then is no longer its maker's."""
_LISTS = (NAMES, FILES, TOOLS, COMMANDS)
"""Sections that make room as a whole, the first one first."""
_KEPT = frozenset((GOAL, INSTRUCTIONS, *_LISTS))
"""Sections whose lines are no prose of the model's, or what a summary is for."""
_WORTH: Mapping[str, float] = {"Decisions": 1.6, "Open": 1.3, "Done": 1.2, "Errors": 1.1}
_OTHER_WORTH = 0.9
"""What a line is worth by its section, as the extractive summarizer weighs them."""

Test = Callable[[str], bool]


class _Item(NamedTuple):
    """A line and those that are indented below it."""

    title: str
    numbers: list[int]
    words: str


def without_lists(text: str, matter: Matter) -> str:
    """The text without the lists that can be given up, as many as must be for it to fit."""
    for title in _LISTS:
        if matter.fits(text):
            break
        text = _without_section(text, title)
    return text


def _without_section(text: str, title: str) -> str:
    return re.sub(rf"^## {title}\n(?:(?!## ).*(?:\n|\Z))*", "", text, flags=re.MULTILINE).rstrip()


def shortened(text: str, written: str, matter: Matter, is_needed: Test, fits: Test) -> str:
    """The text without its least worthy lines, as few as must go for it to fit, and none that is
    needed; as it is where that is not enough, or too much of what was written.
    """
    lines = text.split("\n")
    order = [item.numbers for item in _expendable(lines, matter, is_needed)]
    low, high = 0, len(order)
    while low < high:  # the fewest that are enough: each one more makes the text shorter
        middle = (low + high) // 2
        if fits(_without(lines, order[:middle])):
            high = middle
        else:
            low = middle + 1
    shorter = _without(lines, order[:low])
    is_enough = fits(shorter) and len(text) - len(shorter) <= MOST_CUT * len(written)
    return shorter if is_enough else text


def _without(lines: Sequence[str], items: Sequence[Sequence[int]]) -> str:
    gone = {number for item in items for number in item}
    return "\n".join(line for number, line in enumerate(lines) if number not in gone)


def _expendable(lines: Sequence[str], matter: Matter, is_needed: Test) -> Iterator[_Item]:
    """What of the prose may be left out, the least worthy first, of equals the last; one item of
    each section stays.
    """
    items = list(_items(lines))
    left = {title: sum(item.title == title for item in items) for title, *_ in items}
    known = matter.ledger.uses

    def rank(item: _Item) -> tuple[float, int]:
        named = sum(anchor.text in known for anchor in find_all(item.words))
        return _WORTH.get(item.title, _OTHER_WORTH) * (1 + named), -item.numbers[0]

    for item in sorted((item for item in items if item.title not in _KEPT), key=rank):
        if left[item.title] > 1 and not any(map(is_needed, item.words.split("\n"))):
            left[item.title] -= 1
            yield item


def _items(lines: Sequence[str]) -> Iterator[_Item]:
    title, numbers = "", list[int]()
    for number, line in enumerate((*lines, "## ")):
        is_more = bool(numbers) and line[:1].isspace() and bool(line.strip())
        if numbers and not is_more:
            yield _Item(title, numbers, "\n".join(lines[i] for i in numbers))
            numbers = []
        if heading := HEADING.match(line):
            title = heading[1]
        elif number < len(lines) and line.strip() and line != REFERENCE_LINE:
            numbers.append(number)
