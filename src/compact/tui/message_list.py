"""The transcript: a row for each message, and lines from the program."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.widgets import Label, Markdown, Static
from textual.widgets.markdown import MarkdownStream

from compact.messages.messages import Message
from compact.session.history import SessionHistory
from compact.text.speakers import speaker_of
from compact.tui.looks import heading, transcript_text, visible


class MessageRow(Vertical):
    """Shows a message. The model's text is drawn as Markdown, the user's text unchanged."""

    DEFAULT_CSS = """
    MessageRow { height: auto; margin: 0 0 1 0; }
    MessageRow .heading { color: $text-muted; text-style: bold; }
    MessageRow .persons { color: $text-accent; }
    MessageRow Markdown { padding: 0; margin: 0; background: transparent; }
    MessageRow Markdown > * { margin: 0 0 1 0; }
    MessageRow Markdown > *:last-child { margin: 0; }
    """

    def __init__(self, heading: str, text: str, *, is_markdown: bool) -> None:
        super().__init__()
        self._heading, self._text, self._is_markdown = heading, visible(text), is_markdown
        self._stream: MarkdownStream | None = None
        self._written: list[str] = []

    def compose(self) -> ComposeResult:
        """Yield the heading and the text."""
        kind = "heading" if self._is_markdown else "heading persons"
        yield Label(self._heading, markup=False, classes=kind)
        if self._is_markdown:
            yield Markdown(self._text, open_links=False)
        else:
            yield Static(self._text, markup=False)

    async def grow(self, text: str) -> None:
        """Append text to an answer that is still arriving."""
        if self._stream is None:
            self._stream = Markdown.get_stream(self.query_one(Markdown))
        self._written.append(visible(text))
        await self._stream.write(self._written[-1])

    async def end(self, heading: str) -> None:
        """Show the final heading and the whole text of the answer."""
        if self._stream is not None:
            await self._stream.stop()
            markdown, whole = self.query_one(Markdown), "".join(self._written)
            if markdown.source != whole:  # it stopped before its last pieces
                await markdown.update(whole)
        self.query_one(Label).update(heading)


MOST_SHOWN = 40
"""How many messages are shown when a session opens. With more the terminal becomes slow."""


class MessageList(VerticalScroll):
    """Shows the messages. The newest is at the bottom."""

    DEFAULT_CSS = """
    MessageList { height: 1fr; padding: 0 1; scrollbar-size-vertical: 1; }
    MessageList .note { color: $text-muted; margin: 0 0 1 0; }
    MessageList .error { color: $text-error; margin: 0 0 1 0; }
    MessageList .done { color: $text-success; margin: 0 0 1 0; }
    """

    def on_mount(self) -> None:
        """Keep the newest message in view."""
        self.anchor()

    async def show(self, history: SessionHistory) -> None:
        """Show the newest messages of a history in place of the current rows."""
        await self.remove_children()
        start = max(0, len(history) - MOST_SHOWN)
        if start:
            await self.tell(f"{start:,} older messages: /history reads them")
        for position in range(start, len(history)):
            await self.add(history[position], position)

    async def add(self, message: Message, position: int) -> None:
        """Add a row for a message."""
        is_models = speaker_of(message) == "assistant" and bool(message.text.strip())
        row = MessageRow(
            heading(message, position), transcript_text(message), is_markdown=is_models
        )
        await self._mount(row)

    async def begin_answer(self, position: int) -> MessageRow:
        """Add a row for an answer that begins to arrive."""
        answer = MessageRow(f"Assistant · #{position}", "", is_markdown=True)
        await self._mount(answer)
        return answer

    async def tell(self, words: str, kind: str = "note") -> None:
        """Add a line from the program. Its kind is `note`, `error` or `done`."""
        await self._mount(Static(words, markup=False, classes=kind))

    async def _mount(self, row: MessageRow | Static) -> None:
        await self.mount(row)
        self.anchor()
