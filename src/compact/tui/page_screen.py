"""A separate page for the history, checkpoints, search results or help."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Footer, Label, Static

from compact.tui.looks import ReadingPage
from compact.tui.slash import COMMANDS


class PageScreen(ModalScreen[None]):
    """Shows a title and texts under headings. Esc closes the page."""

    DEFAULT_CSS = """
    PageScreen { align: center middle; }
    PageScreen #page { width: 100%; height: 1fr; background: $surface; padding: 0 1; }
    PageScreen .block { text-style: bold; color: $text-primary; }
    PageScreen .text { margin: 0 0 1 0; }
    PageScreen #title { width: 100%; background: $panel; text-style: bold; padding: 0 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        ("escape", "dismiss_page", "Back"),
        ("q", "dismiss_page", "Back"),
    ]

    def __init__(self, page: ReadingPage) -> None:
        super().__init__()
        self._page = page

    def compose(self) -> ComposeResult:
        """Yield the title, the texts and the keys."""
        yield Label(self._page.title, id="title", markup=False)
        with VerticalScroll(id="page"):
            for heading, text in self._page.blocks:
                yield Static(heading, markup=False, classes="block")
                yield Static(text, markup=False, classes="text")
        yield Footer()

    def on_mount(self) -> None:
        """Give the texts the focus, so that the arrow keys scroll."""
        self.query_one("#page").focus()

    def action_dismiss_page(self) -> None:
        """Close the page."""
        self.dismiss(None)


KEYS = (
    ("Enter", "send"),
    ("Ctrl+J", "new line"),
    ("Esc", "stop an answer or a compression"),
    ("Tab", "complete a command"),
    ("Page up, Page down", "read what was said"),
    ("Ctrl+T", "light or dark"),
    ("F1", "this page"),
    ("Ctrl+Q", "quit; everything is kept"),
)


def _lines(rows: Sequence[tuple[str, str]]) -> str:
    width = max(len(left) for left, _ in rows)
    return "\n".join(f"{left.ljust(width)}  {right}" for left, right in rows)


HELP = ReadingPage(
    "Help",
    (
        ("Keys", _lines(KEYS)),
        ("Commands", _lines([(c.usage, c.help) for c in COMMANDS])),
        ("Numbers", "N is the number after a #, or that of a row in a list."),
        ("Slashes", "A message that begins with a slash is written with two: //usr is a folder."),
    ),
)
