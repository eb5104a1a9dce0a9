"""What the readers of agent logs share: rows become chat completions messages, one by one.

A format module translates a row into a chat completions dictionary; here it is parsed, with errors
that name the row. Logs are kept as they are: a tool result without a call is no error in them.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from compact.messages.formats.chat_completions import ChatCompletions
from compact.messages.messages import MessageMetadata
from compact.transcripts.documents import Document, JsonValue
from compact.transcripts.transcript import Collected, Row, Transcript

_PARSER = ChatCompletions()


def json_list(document: Document) -> Sequence[Any]:
    """The document's JSON list; empty where it is none."""
    if isinstance(document, JsonValue) and isinstance(document.value, list):
        return document.value
    return ()


def is_row(value: object) -> bool:
    """Whether a value looks like a message with a role."""
    return isinstance(value, dict) and isinstance(value.get("role"), str)


class AgentLog:
    """Builds the messages of one log; `where` names the list in errors, such as `history`."""

    def __init__(self, source: str, where: str) -> None:
        self._where = where
        self._found = Collected(source)

    def add(
        self,
        index: int,
        wire: object,
        *,
        row: Row,
        speaker: str | None = None,
        time: datetime | None = None,
    ) -> None:
        """Take the chat completions dictionary made of the row at an index.

        `speaker` is who really speaks, where the log tells (`metadata.source`).

        Raises:
            InvalidTranscript: naming the field that is wrong.
        """
        message = self._found.parsed(_PARSER, wire, f"{self._where}[{index}]")
        update: dict[str, object] = {}
        if speaker is not None:
            update["metadata"] = MessageMetadata(source=speaker)
        if time is not None:
            update["timestamp"] = time
        self._found.add(message.model_copy(update=update) if update else message, row)

    def transcript(
        self,
        format: str,
        *,
        title: object = None,
        notes: tuple[str, ...] = (),
        conversations: int = 1,
    ) -> Transcript:
        """The messages taken so far; they will be written as chat completions JSON Lines."""
        return Transcript(
            source=self._found.source,
            format=format,
            wire="chat_completions",
            messages=tuple(self._found.messages),
            title=title if isinstance(title, str) else None,
            rows=self._found.rows,
            notes=notes,
            conversations=conversations,
        )
