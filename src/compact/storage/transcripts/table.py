"""The formats, in the order in which they are tried, and what each is recognized by.

The first format that recognizes a document reads it. Each rule looks at a few keys only. Whoever
reads files of other formats too gives a longer table, as the evaluations do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from compact.errors import InvalidTranscript
from compact.storage.transcripts import chat_json, claude_code, codex_cli, gemini_cli, specstory
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
    Format("claude_code", "Claude Code (JSONL)", claude_code.recognizes, claude_code.read),
    Format("codex_cli", "Codex CLI (JSONL)", codex_cli.recognizes, codex_cli.read),
    Format("gemini_cli", "Gemini CLI (JSON)", gemini_cli.recognizes, gemini_cli.read),
    Format("chat", "chat messages (JSON, JSONL)", chat_json.recognizes, chat_json.read),
    Format("specstory", "SpecStory", specstory.recognizes, specstory.read, is_text=True),
)


def by_name(name: str, *, source: str, formats: Sequence[Format] = FORMATS) -> Format:
    """The format of that name.

    Raises:
        InvalidTranscript: there is none.
    """
    for known in formats:
        if known.name == name:
            return known
    names = ", ".join(x.name for x in formats)
    raise InvalidTranscript(source, f"no format is called {name!r}; known are {names}")


def recognized(document: Document, formats: Sequence[Format] = FORMATS) -> Format:
    """The format of a document, by its content.

    Raises:
        InvalidTranscript: no format recognizes it.
    """
    for known in formats:
        if known.recognizes(document):
            return known
    titles = "; ".join(x.title for x in formats)
    reason = f"an unknown format; known are: {titles}"
    raise InvalidTranscript(document.source, reason, is_foreign=True)
