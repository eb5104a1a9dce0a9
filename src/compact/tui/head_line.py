"""The first line: which session, which model, which mode, and what is done in the background."""

from __future__ import annotations

from textual.content import Content
from textual.widgets import Static

from compact.tui.looks import one_line


class HeadLine(Static):
    """One line over the transcript."""

    DEFAULT_CSS = """
    HeadLine { height: 1; background: $panel; color: $foreground; padding: 0 1; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._parts: tuple[str, ...] = ("compact",)
        self._beside = self._kept = ""

    def about(self, session: str, model: str, mode: str) -> None:
        """Say what is talked to."""
        self._parts = (one_line(session, 30), one_line(model, 40), mode)
        self.refresh()

    def aside(self, words: str) -> None:
        """Say what is done in the background; nothing where the words are empty."""
        self._beside = words
        self.refresh()

    def keep(self, words: str) -> None:
        """Say this while nothing is done in the background."""
        self._kept = words
        self.refresh()

    def render(self) -> Content:
        """The line as it is now."""
        first, *others = self._parts
        left = Content.assemble((first, "bold"), *(f" · {each}" for each in others))
        beside = self._beside or self._kept
        gap = self.content_size.width - left.cell_length - len(beside)
        if gap < 1:
            return left
        return Content.assemble(left, " " * gap, (beside, "dim"))
