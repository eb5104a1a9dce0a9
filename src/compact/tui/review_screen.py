"""Shows a compression before it is applied. Its summaries can be edited."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Button, Footer, Label, Static, TextArea

from compact.session.views.review import CompressionProposal, ProposedCheckpoint
from compact.telemetry.plain_words import counted
from compact.tui.looks import one_line, visible


class ReviewScreen(ModalScreen[Mapping[str, str] | None]):
    """Returns the edited texts by checkpoint id. Returns None if the user refuses."""

    DEFAULT_CSS = """
    ReviewScreen { align: center middle; }
    ReviewScreen #title { width: 100%; background: $panel; text-style: bold; padding: 0 1; }
    ReviewScreen #problem { width: 100%; color: $text-error; background: $surface; padding: 0 1; }
    ReviewScreen #review { width: 100%; height: 1fr; background: $surface; padding: 0 1; }
    ReviewScreen .block { text-style: bold; color: $text-primary; }
    ReviewScreen .text { margin: 0 0 1 0; }
    ReviewScreen TextArea { height: auto; min-height: 4; max-height: 14; }
    ReviewScreen Horizontal { width: 100%; height: auto; background: $surface; padding: 0 1; }
    ReviewScreen Button { margin: 0 2 0 0; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        ("ctrl+s", "use", "Use it"),
        ("escape", "refuse", "Refuse"),
    ]

    def __init__(
        self, proposal: CompressionProposal, texts: Mapping[str, str], problem: str = ""
    ) -> None:
        super().__init__()
        self._proposal, self._texts, self._problem = proposal, texts, problem
        self._places = {each.id: n for n, each in enumerate(proposal.checkpoints)}

    def compose(self) -> ComposeResult:
        """Yield the sizes, the summaries and the two buttons."""
        proposal = self._proposal
        size = counted(len(proposal.messages), "message")
        what = f"{size}, {counted(proposal.freed, 'token')} freed"
        yield Label(f"Nothing is compressed yet: {what}", id="title", markup=False)
        if self._problem:
            yield Label(self._problem, id="problem", markup=False)
        with VerticalScroll(id="review", can_focus=False):
            for checkpoint in proposal.checkpoints:
                yield from self._block(checkpoint)
        with Horizontal():
            yield Button("Use it", id="use", variant="primary", compact=True)
            yield Button("Refuse", id="refuse", compact=True)
        yield Footer()

    def _block(self, checkpoint: ProposedCheckpoint) -> Iterator[Label | Static | TextArea]:
        of = checkpoint.messages
        span = f", #{of[0]} to #{of[-1]}" if of else ""
        about = f"{counted(len(of), 'message')}{span}, {counted(checkpoint.tokens, 'token')}"
        yield Label(f"{checkpoint.level}: {about}", classes="block", markup=False)
        text = self._texts.get(checkpoint.id, checkpoint.text)
        if checkpoint.room:
            yield TextArea(text, id=self._box(checkpoint.id), soft_wrap=True)
            return
        words = visible(text) or "What must hold is written by code, and stays as it is."
        yield Static(words, classes="text", markup=False)

    def _box(self, checkpoint_id: str) -> str:
        return f"text-{self._places[checkpoint_id]}"

    @on(Button.Pressed, "#use")
    def action_use(self) -> None:
        """Apply the compression with the edits."""
        changed = {}
        for each in self._proposal.checkpoints:
            if each.room:
                text = self.query_one(f"#{self._box(each.id)}", TextArea).text
                if text.strip() != each.text.strip():
                    changed[each.id] = text
        self.dismiss(changed)

    @on(Button.Pressed, "#refuse")
    def action_refuse(self) -> None:
        """Refuse the compression: nothing changes."""
        self.dismiss(None)


def refused_because(error: Exception) -> str:
    """Return the line above the summaries after a summary was rejected."""
    return f"Not taken: {one_line(str(error), 300)}"
