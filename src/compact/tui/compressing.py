"""What is seen while a compression lasts that somebody waits for."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.widgets import Label, ProgressBar

from compact.tui.following import ProgressStep, share_of

TITLE = "Compressing context…"
HINT = "Esc cancels, and nothing changes"


class Compressing(Vertical):
    """How far a compression is; shown from its first stage to its end."""

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
        """The stage, how far that is, and what is done in it."""
        yield Label(TITLE, id="stage", markup=False)
        yield ProgressBar(total=1.0, show_eta=False)
        yield Label(HINT, id="detail", markup=False)

    def show(self, step: ProgressStep) -> None:
        """Show that the compression has come this far."""
        self._done = share_of(step, self._done)
        self.display = True
        self.query_one("#stage", Label).update(f"{TITLE} {step.words}")
        self.query_one("#detail", Label).update(f"{HINT}. {step.detail}")
        self.query_one(ProgressBar).update(progress=self._done)

    def end(self) -> None:
        """Show nothing any more."""
        self._done = 0.0
        self.display = False
