"""What is told of a session that was deleted everywhere, and how others say that they quote it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pydantic import BaseModel, Field

from compact.core.messages import Message, MessageMetadata, Part, Refusal, Text, ToolResult

RECALLED_FROM = "recalled_from"
"""The key in a message's metadata under which the ids stand of the sessions that it quotes."""
NOTE = "[Recalled: what stood here was deleted with the session it came from.]"
"""What a message says in the place of what it quoted."""


class ForgottenReport(BaseModel, frozen=True):
    """The proof that a session is deleted: what was removed, and what a search for it still found
    afterwards.
    """

    session_id: str
    removed: Mapping[str, int] = Field(default_factory=dict)
    """Kind → how many: rows by their tables, entries of the word index, and files."""
    quoted: Mapping[str, int] = Field(default_factory=dict)
    """Other session → how many of its messages quoted this one, and say `NOTE` now, and how many
    entries of its log named what was recalled of it."""
    bytes_before: int = 0
    """Of the database with its log, and of the files that went."""
    bytes_after: int = 0
    looked_through: tuple[str, ...] = ()
    """The files that were searched for it afterwards, byte by byte."""
    remains: tuple[str, ...] = ()
    """What the search found, as sentences; none where nothing is left."""

    @property
    def is_complete(self) -> bool:
        """Whether nothing is left."""
        return not self.remains

    @property
    def bytes_returned(self) -> int:
        """To the file system."""
        return max(0, self.bytes_before - self.bytes_after)


def quotes(message: Message, session_id: str) -> bool:
    """Whether a message says that it quotes a session."""
    named = getattr(message.metadata, RECALLED_FROM, None)
    return isinstance(named, list | tuple) and session_id in named


def without_quotes(message: Message) -> Message:
    """The message with `NOTE` in the place of every text; its calls and their ids stay."""
    content = message.content
    said = NOTE if isinstance(content, str) else tuple(map(_without, content))
    source = message.metadata.source or "injected"
    return Message(
        role=message.role,
        content=said,
        id=message.id,
        timestamp=message.timestamp,
        metadata=MessageMetadata(source=source, recalled=message.metadata.recalled),
        name=message.name,
        reply_id=message.reply_id,
        wire_format=message.wire_format,
    )


def _without(part: Part) -> Part:
    if isinstance(part, Text | Refusal):
        return replace(part, text=NOTE, raw=None)
    if isinstance(part, ToolResult):
        return replace(part, text=NOTE, raw=None, images=())
    return part
