"""What was said, and what the program says of it."""

from __future__ import annotations

from textual.containers import VerticalScroll
from textual.widgets import Static

from compact.messages.messages import Message
from compact.session.history import SessionHistory
from compact.text.speakers import speaker_of
from compact.tui.looks import heading, shown
from compact.tui.message_row import MessageRow

SHOWN = 40
"""Messages that are shown when a session is opened; more make the terminal slow."""


class MessageList(VerticalScroll):
    """The messages of the session, the newest below."""

    DEFAULT_CSS = """
    MessageList { height: 1fr; padding: 0 1; scrollbar-size-vertical: 1; }
    MessageList .note { color: $text-muted; margin: 0 0 1 0; }
    MessageList .error { color: $text-error; margin: 0 0 1 0; }
    MessageList .done { color: $text-success; margin: 0 0 1 0; }
    """

    def on_mount(self) -> None:
        """Stay at the end while there is more."""
        self.anchor()

    async def show(self, history: SessionHistory) -> None:
        """Show the newest messages, in the place of all that was shown."""
        await self.remove_children()
        start = max(0, len(history) - SHOWN)
        if start:
            await self.tell(f"{start:,} older messages: /history reads them")
        for position in range(start, len(history)):
            await self.add(history[position], position)

    async def add(self, message: Message, position: int) -> None:
        """Show one more message."""
        is_models = speaker_of(message) == "assistant" and bool(message.text.strip())
        row = MessageRow(heading(message, position), shown(message), is_markdown=is_models)
        await self._mount(row)

    async def begin_answer(self, position: int) -> MessageRow:
        """Show that an answer comes; what of it is there, it is told."""
        answer = MessageRow(f"Assistant · #{position}", "", is_markdown=True)
        await self._mount(answer)
        return answer

    async def tell(self, words: str, kind: str = "note") -> None:
        """Say something that nobody said: a note, an error, or what was done."""
        await self._mount(Static(words, markup=False, classes=kind))

    async def _mount(self, row: MessageRow | Static) -> None:
        await self.mount(row)
        self.anchor()
