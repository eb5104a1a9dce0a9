"""What is seen while a compression lasts that somebody waits for."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.widgets import Label, ProgressBar

from compact.apps.tui.following import ProgressStep, share_of
from compact.apps.tui.looks import one_line

TITLE = "Compressing context…"


class Compressing(Vertical):
    """How far a compression is; shown from its first stage to its end."""

    DEFAULT_CSS = """
    Compressing { height: auto; padding: 0 1; background: $boost; display: none; }
    Compressing Label { width: 1fr; text-style: bold; }
    Compressing ProgressBar Bar { width: 1fr; }
    Compressing ProgressBar { width: 1fr; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._done = 0.0

    def compose(self) -> ComposeResult:
        """A line and a bar."""
        yield Label(TITLE, markup=False)
        yield ProgressBar(total=1.0, show_eta=False)

    def show(self, step: ProgressStep) -> None:
        """Show that the compression has come this far."""
        self._done = share_of(step, self._done)
        self.display = True
        words = f"{TITLE} {step.words} (Esc cancels)"
        self.query_one(Label).update(one_line(words, max(20, self.size.width or 200)))
        self.query_one(ProgressBar).update(progress=self._done)

    def end(self) -> None:
        """Show nothing any more."""
        self._done = 0.0
        self.display = False
