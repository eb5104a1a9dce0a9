"""Marks: what the gate writes behind a line that it cannot let stand as it is.

The line stays its maker's, the mark is ours: `unmarked` gives the line as it was written.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence

from compact.compression.gate.matter import Matter

UNKNOWN = " (not in the source: "
SAID = " (a person said: “"
CLAIMED = " (said so; the "
_OPENINGS = (UNKNOWN, SAID, CLAIMED)


def unmarked(text: str, openings: Iterable[str] = _OPENINGS) -> str:
    """The text without the marks that open so."""
    lines = text.split("\n")
    for opening in openings:
        lines = [line.partition(opening)[0] for line in lines]
    return "\n".join(lines)


def marked(
    lines: Sequence[str], marks: Mapping[int, str], matter: Matter, may_go: Callable[[int], bool]
) -> str:
    """The lines with as many of their marks, by their numbers, as there is room for, the last
    first. A line that finds none is left out if it may go, else it stays as it is.
    """
    numbers = sorted(marks, reverse=True)

    def text(most: int) -> str:
        held, gone = set(numbers[:most]), set(filter(may_go, numbers[most:]))
        return "\n".join(
            f"{line}{marks[number]}" if number in held else line
            for number, line in enumerate(lines)
            if number not in gone
        )

    def is_too_long(most: int) -> bool:
        return not matter.fits(text(most))

    return text(bisect_left(range(1, len(numbers) + 1), True, key=is_too_long))
