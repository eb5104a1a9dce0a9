"""The bar of the window: how much of it is taken by what."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from textual.content import Content
from textual.widgets import Static

from compact.messages.budget import WindowUse


class BarPart(NamedTuple):
    """A part of the window, and what it looks like: a colour, and a mark for whoever sees none."""

    name: str
    mark: str
    style: str


PARTS = (
    BarPart("system", "█", "$primary"),
    BarPart("goals", "▚", "$error"),
    BarPart("checkpoints", "▒", "$success"),
    BarPart("recalled", "▞", "$secondary"),
    BarPart("recent", "▓", "$warning"),
    BarPart("free", "░", "$foreground 40%"),
)
"""The parts, in the order of a prompt."""


LONG, SHORT = 20, 5
"""Letters of a part's name, where there is room and where there is little."""


class WindowBar(Static):
    """Two lines: the bar, and what its parts are."""

    DEFAULT_CSS = """
    WindowBar { height: 2; padding: 0 1; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._use: WindowUse | None = None

    def show(self, use: WindowUse) -> None:
        """Draw a window as it is now."""
        self._use = use
        self.refresh()

    def render(self) -> Content:
        """The bar as it is now."""
        if self._use is None:
            return Content("")
        width = max(1, self.content_size.width)
        return Content("\n").join([_bar(self._use, width), _legend(self._use, width)])


def _sizes(use: WindowUse) -> list[tuple[BarPart, int]]:
    return [(part, int(getattr(use, part.name))) for part in PARTS]


def _bar(use: WindowUse, width: int) -> Content:
    """The parts side by side."""
    sizes = _sizes(use)
    cells = cells_of([tokens for _, tokens in sizes], width)
    drawn = zip(sizes, cells, strict=True)
    return Content.assemble(*((part.mark * count, part.style) for (part, _), count in drawn))


def cells_of(tokens: Sequence[int], width: int) -> list[int]:
    """Cells of each part, together exactly the width; what has tokens has one at least, as long as
    there are enough.
    """
    total = sum(tokens)
    if not total:
        return [0] * (len(tokens) - 1) + [width]
    cells = [max(1, round(each * width / total)) if each else 0 for each in tokens]
    while (over := sum(cells) - width) and any(cells):
        largest = cells.index(max(cells))
        cells[largest] -= 1 if over > 0 else -1
    return cells


def _legend(use: WindowUse, width: int) -> Content:
    """What the parts are, in fewer words where there is no room; always the share that is used."""
    how, short = ("exact", "exact") if use.exact else ("estimated", "est.")
    share = f"{use.used * 100 // max(1, use.usable)} % of {use.usable:,}"
    for most, gap, exactness, left_out in (
        (LONG, "  ", how, ""),
        (LONG, " ", short, ""),
        (LONG, " ", short, "free"),
        (SHORT, " ", short, "free"),
        (0, " ", short, "free"),
    ):
        end = Content.styled(f"{share}, {exactness}", "dim")
        line = Content(gap).join([*_named(use, most, left_out), end])
        if line.cell_length <= width:
            return line
    return Content(f"{share}, {how}")


def _named(use: WindowUse, most: int, left_out: str) -> Iterator[Content]:
    """The parts with their tokens, and so many letters of their names."""
    for part, tokens in _sizes(use):
        if part.name != left_out and (tokens or part.name in ("free", "recent")):
            yield Content.assemble((part.mark, part.style), f" {part.name[:most]} {tokens:,}")
