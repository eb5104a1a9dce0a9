"""One message in the transcript."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.widgets import Label, Markdown, Static
from textual.widgets.markdown import MarkdownStream

from compact.tui.looks import visible


class MessageRow(Vertical):
    """Who says it, and what; a model's words are drawn as Markdown, a person's as they are."""

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
        """A heading, and the words."""
        kind = "heading" if self._is_markdown else "heading persons"
        yield Label(self._heading, markup=False, classes=kind)
        if self._is_markdown:
            yield Markdown(self._text, open_links=False)
        else:
            yield Static(self._text, markup=False)

    async def grow(self, text: str) -> None:
        """Show more of an answer that is being written."""
        if self._stream is None:
            self._stream = Markdown.get_stream(self.query_one(Markdown))
        self._written.append(visible(text))
        await self._stream.write(self._written[-1])

    async def end(self, heading: str) -> None:
        """Show that nothing more comes."""
        if self._stream is not None:
            await self._stream.stop()
            markdown, whole = self.query_one(Markdown), "".join(self._written)
            if markdown.source != whole:  # stopped before its last pieces
                await markdown.update(whole)
        self.query_one(Label).update(heading)
