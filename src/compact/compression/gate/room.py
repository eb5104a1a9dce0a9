"""Room: which lines of a summary make place for what must be in it.

Rules and open tasks are put in by code, in the words of those who said them. Where the cap is full,
lists that code can make again go first, then the least worthy lines of the prose: whole ones, never
the last one below a heading, never one that tells of a rule or an open task, and never more than
half of what was written.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from compact.compression.extraction.extractive import COMMANDS, FILES, NAMES, TOOLS
from compact.compression.extraction.notes import GOAL, INSTRUCTIONS
from compact.compression.gate.marks import unmarked
from compact.compression.gate.matter import HEADING, Matter, is_ended
from compact.core.anchors import find_all
from compact.core.checkpoints import REFERENCE_LINE, Summary

CUT = ", its least worthy lines left out for them"
"""What a verdict says where lines of the prose made room."""
MOST_CUT = 0.5
"""Share of the characters that were written from which what is left is no longer its maker's."""
_LISTS = (NAMES, FILES, TOOLS, COMMANDS)
"""Sections that make room as a whole, the first one first."""
_KEPT = frozenset((GOAL, INSTRUCTIONS, *_LISTS))
"""Sections whose lines are no prose of the model's, or what a summary is for."""
_WORTH: Mapping[str, float] = {"Decisions": 1.6, "Open": 1.3, "Done": 1.2, "Errors": 1.1}
_OTHER_WORTH = 0.9
"""What a line is worth by its section, as the extractive summarizer weighs them."""
_BULLET = re.compile(r"(?:[-*+•>]|\d{1,3}[.)])\s")
_FENCE = re.compile(r"\s*(?:[-*+•] +)?(?:```|~~~)")

Test = Callable[[str], bool]


class _Item(NamedTuple):
    """A line and those that go on with it."""

    title: str
    numbers: list[int]
    words: str


def fitted(text: str, summary: Summary, matter: Matter, is_needed: Test) -> tuple[str, bool]:
    """The text with room for what was put into the summary, and whether lines of its prose were
    left out for that; none that is needed is. What was written too long is not made to fit.
    """
    text = _without_lists(text, matter, is_needed)
    if matter.fits(text) or not matter.fits(summary.text):
        return text, False
    shorter = shortened(text, matter, is_needed, matter.fits)
    return shorter, shorter != text


def _without_lists(text: str, matter: Matter, is_needed: Test) -> str:
    """The text without the lists that can be given up, as many as must be for it to fit, but for
    those of their lines that are needed.
    """
    for title in _LISTS:
        if matter.fits(text):
            break
        text = _without_section(text, title, is_needed)
    return text


def _without_section(text: str, title: str, is_needed: Test) -> str:
    def left(section: re.Match[str]) -> str:
        needed = [line for line in section[0].split("\n")[1:] if line.strip() and is_needed(line)]
        return "\n".join((f"## {title}", *needed, "", "")) if needed else ""

    section = rf"^## {title}\n(?:(?!## ).*(?:\n|\Z))*"
    return re.sub(section, left, text, flags=re.MULTILINE).rstrip()


def shortened(text: str, matter: Matter, is_needed: Test, fits: Test) -> str:
    """The text without its least worthy lines, as few as must go for it to fit, and none that is
    needed; as it is where that is not enough, or more than may go.
    """
    lines = text.split("\n")
    most = int(MOST_CUT * len(matter.written)) - _cut_before(text, matter)
    order = [item.numbers for item in _expendable(lines, matter, is_needed, most)]

    def is_enough(count: int) -> bool:
        return fits(_without(lines, order[:count]))

    fewest = bisect_left(range(len(order)), True, key=is_enough)
    return _without(lines, order[:fewest]) if is_enough(fewest) else text


def _cut_before(text: str, matter: Matter) -> int:
    """Characters of the prose that was written of which the text has nothing."""
    left = frozenset(unmarked(text).split("\n"))
    lines = unmarked(matter.written).split("\n")
    prose = (item for item in _items(lines) if item.title not in _LISTS)
    return sum(
        len(lines[number]) + 1
        for item in prose
        for number in item.numbers
        if lines[number] not in left
    )


def _without(lines: Sequence[str], items: Sequence[Sequence[int]]) -> str:
    gone = {number for item in items for number in item}
    return "\n".join(line for number, line in enumerate(lines) if number not in gone)


def _expendable(
    lines: Sequence[str], matter: Matter, is_needed: Test, most: int
) -> Iterator[_Item]:
    """What of the prose may be left out, the least worthy first, of equals the last; at most so
    many characters, and one item of each section stays.
    """
    items = list(_items(lines))
    left = Counter(item.title for item in items)
    known = matter.ledger.uses

    def rank(item: _Item) -> tuple[float, int]:
        named = sum(anchor.text in known for anchor in find_all(item.words))
        return _WORTH.get(item.title, _OTHER_WORTH) * (1 + named), -item.numbers[0]

    for item in sorted((item for item in items if item.title not in _KEPT), key=rank):
        size = len(item.words) + 1
        if left[item.title] < 2 or size > most or any(map(is_needed, item.words.split("\n"))):
            continue
        left[item.title] -= 1
        most -= size
        yield item


def _items(lines: Sequence[str]) -> Iterator[_Item]:
    """The lines that are neither blank nor headings, each with those that go on with it: what is
    indented, the rest of a sentence, a block of code.
    """
    title, numbers = "", list[int]()
    fenced = _fenced(lines)
    for number, line in enumerate((*lines, "## ")):
        if numbers and (number in fenced or _goes_on(line, lines[numbers[-1]])):
            numbers.append(number)
            continue
        if numbers:
            yield _Item(title, numbers, "\n".join(lines[i] for i in numbers))
            numbers = []
        if heading := HEADING.match(line):
            title = heading[1]
        elif number < len(lines) and line.strip() and line != REFERENCE_LINE:
            numbers.append(number)


def _goes_on(line: str, before: str) -> bool:
    """Whether a line is a part of the one before it."""
    if not line.strip() or HEADING.match(line):
        return False
    is_part = line[0].isspace() or _FENCE.match(line) is not None
    return is_part or not (_BULLET.match(line) or is_ended(before))


def _fenced(lines: Sequence[str]) -> frozenset[int]:
    """Numbers of the lines in blocks of code that are closed, but for the first of each."""
    fences = [number for number, line in enumerate(lines) if _FENCE.match(line)]
    blocks = zip(fences[::2], fences[1::2], strict=False)
    return frozenset(number for start, end in blocks for number in range(start + 1, end + 1))
