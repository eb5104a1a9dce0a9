"""The lines around the transcript: head line, progress of a compression, window bar."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Label, ProgressBar, Static

from compact.messages.budget import WindowUse
from compact.tui.following import ProgressStep, share_of
from compact.tui.looks import one_line


class HeadLine(Static):
    """Shows the session, the model, the mode, and work in the background."""

    DEFAULT_CSS = """
    HeadLine { height: 1; background: $panel; color: $foreground; padding: 0 1; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._parts: tuple[str, ...] = ("compact",)
        self._beside = self._kept = ""

    def about(self, session: str, model: str, mode: str) -> None:
        """Set the session, model and mode."""
        self._parts = (one_line(session, 30), one_line(model, 40), mode)
        self.refresh()

    def show_work(self, words: str) -> None:
        """Show a text about background work at the right. An empty text removes it."""
        self._beside = words
        self.refresh()

    def keep(self, words: str) -> None:
        """Set the text that is shown while there is no background work."""
        self._kept = words
        self.refresh()

    def render(self) -> Content:
        """Return the line to draw."""
        first, *others = self._parts
        left = Content.assemble((first, "bold"), *(f" · {each}" for each in others))
        beside = self._beside or self._kept
        gap = self.content_size.width - left.cell_length - len(beside)
        if gap < 1:
            return left
        return Content.assemble(left, " " * gap, (beside, "dim"))


TITLE = "Compressing context…"
HINT = "Esc cancels, and nothing changes"


class Compressing(Vertical):
    """Shows the progress of a compression."""

    DEFAULT_CSS = """
    Compressing { height: auto; padding: 0 1; background: $boost; display: none; }
    Compressing Label { width: 1fr; height: 1; }
    Compressing #stage { text-style: bold; }
    Compressing #detail { color: $text-muted; }
    Compressing ProgressBar { width: 1fr; }
    Compressing ProgressBar Bar { width: 1fr; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._done = 0.0

    def compose(self) -> ComposeResult:
        """Yield the stage, a bar, and the current request to a model."""
        yield Label(TITLE, id="stage", markup=False)
        yield ProgressBar(total=1.0, show_eta=False)
        yield Label(HINT, id="detail", markup=False)

    def show(self, step: ProgressStep) -> None:
        """Show a step of the compression."""
        self._done = share_of(step, self._done)
        self.display = True
        self.query_one("#stage", Label).update(f"{TITLE} {step.words}")
        self.query_one("#detail", Label).update(f"{HINT}. {step.detail}")
        self.query_one(ProgressBar).update(progress=self._done)

    def end(self) -> None:
        """Hide the progress."""
        self._done = 0.0
        self.display = False


class BarPart(NamedTuple):
    """A part of the window: its name, a mark for displays without colours, and its colour."""

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
"""The parts of the window, in the order of a prompt."""


LONG, SHORT = 20, 5
"""The most characters of a part's name in the legend, with and without enough room."""


class WindowBar(Static):
    """Draws the window in two lines: a bar and its legend."""

    DEFAULT_CSS = """
    WindowBar { height: 2; padding: 0 1; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._use: WindowUse | None = None

    def show(self, use: WindowUse) -> None:
        """Draw the parts of this window."""
        self._use = use
        self.refresh()

    def render(self) -> Content:
        """Return the bar and the legend."""
        if self._use is None:
            return Content("")
        width = max(1, self.content_size.width)
        return Content("\n").join([_bar(self._use, width), _legend(self._use, width)])


def _sizes(use: WindowUse) -> list[tuple[BarPart, int]]:
    return [(part, int(getattr(use, part.name))) for part in PARTS]


def _bar(use: WindowUse, width: int) -> Content:
    sizes = _sizes(use)
    cells = cells_of([tokens for _, tokens in sizes], width)
    drawn = zip(sizes, cells, strict=True)
    return Content.assemble(*((part.mark * count, part.style) for (part, _), count in drawn))


def cells_of(tokens: Sequence[int], width: int) -> list[int]:
    """Return how many cells each part gets. Together they fill the width. A part that has tokens
    gets at least one cell, if there are enough cells.
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
    """Return the legend, shortened to the width. It always contains the used share."""
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
        line = Content(gap).join([*_legend_parts(use, most, left_out), end])
        if line.cell_length <= width:
            return line
    return Content(f"{share}, {how}")


def _legend_parts(use: WindowUse, most: int, left_out: str) -> Iterator[Content]:
    for part, tokens in _sizes(use):
        if part.name != left_out and (tokens or part.name in ("free", "recent")):
            yield Content.assemble((part.mark, part.style), f" {part.name[:most]} {tokens:,}")
