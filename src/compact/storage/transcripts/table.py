"""The formats, in the order in which they are tried, and what each is recognized by.

The first format that recognizes a document reads it. Each rule looks at a few keys only. Files that
are no conversations with an assistant are recognized too, to be refused in plain words.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from compact.errors import InvalidTranscript
from compact.storage.transcripts import chat_json, claude_code
from compact.storage.transcripts.documents import Document
from compact.storage.transcripts.transcript import Transcript


class Read(Protocol):
    """How a format reads a document: one conversation, numbered from 1, or its active part."""

    def __call__(
        self, document: Document, *, conversation: int | None = None, active: bool = False
    ) -> Transcript:
        """Read one conversation.

        Raises:
            InvalidTranscript: naming the line or the place, and the reason.
        """
        ...


@dataclass(frozen=True, slots=True)
class Format:
    """One file format: its name, what it is in words, its rule and its reader."""

    name: str
    title: str
    recognizes: Callable[[Document], bool]
    read: Read
    is_text: bool = False


FORMATS: tuple[Format, ...] = (
    Format("claude_code", "Claude Code session (JSONL)", claude_code.recognizes, claude_code.read),
    Format("chat", "chat messages (JSON or JSONL)", chat_json.recognizes, chat_json.read),
)


def by_name(name: str, *, source: str) -> Format:
    """The format of that name.

    Raises:
        InvalidTranscript: there is none.
    """
    for known in FORMATS:
        if known.name == name:
            return known
    names = ", ".join(x.name for x in FORMATS)
    raise InvalidTranscript(source, f"no format is called {name!r}; known are {names}")


def recognized(document: Document) -> Format:
    """The format of a document, by its content.

    Raises:
        InvalidTranscript: no format recognizes it.
    """
    for known in FORMATS:
        if known.recognizes(document):
            return known
    titles = "; ".join(x.title for x in FORMATS)
    raise InvalidTranscript(document.source, f"an unknown format; known are: {titles}")
