"""The formats, in the order in which they are tried, and what each is recognized by.

The first format that recognizes a document reads it. Each rule looks at a few keys only. Whoever
reads files of other formats too gives a longer table, as the evaluations do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from compact.errors import InvalidTranscript
from compact.storage.transcripts import (
    chat_json,
    chatgpt_export,
    claude_code,
    claude_export,
    codex_cli,
    copilot_cli,
    gemini_cli,
    legacy_session,
    legacy_snapshot,
    opencode,
    pi_agent,
    specstory,
    sqlite_chats,
)
from compact.storage.transcripts.documents import Document, Kind, kind_of
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
    kind: Kind = "JSON"
    titles: Callable[[Document], Sequence[str | None]] | None = None
    """The titles of a file's conversations, in the order of their numbers, where it may hold many;
    found without reading one."""


FORMATS: tuple[Format, ...] = (
    Format("claude_code", "Claude Code (JSONL)", claude_code.recognizes, claude_code.read),
    Format("codex_cli", "Codex CLI (JSONL)", codex_cli.recognizes, codex_cli.read),
    Format("copilot_cli", "Copilot CLI (JSONL)", copilot_cli.recognizes, copilot_cli.read),
    Format("pi", "pi (JSONL)", pi_agent.recognizes, pi_agent.read),
    Format("opencode", "OpenCode (JSON)", opencode.recognizes, opencode.read),
    Format(
        "chatgpt_export",
        "ChatGPT's export (conversations.json)",
        chatgpt_export.recognizes,
        chatgpt_export.read,
        titles=chatgpt_export.titles,
    ),
    Format(
        "claude_export",
        "Claude's export (conversations.json)",
        claude_export.recognizes,
        claude_export.read,
        titles=claude_export.titles,
    ),
    Format(
        "legacy_snapshot",
        "older assistants' snapshots (JSON)",
        legacy_snapshot.recognizes,
        legacy_snapshot.read,
    ),
    Format(
        "legacy_session",
        "older assistants' sessions (JSON)",
        legacy_session.recognizes,
        legacy_session.read,
    ),
    Format("gemini_cli", "Gemini CLI (JSON)", gemini_cli.recognizes, gemini_cli.read),
    Format(
        "chat",
        "chat messages (JSON, JSONL)",
        chat_json.recognizes,
        chat_json.read,
        titles=chat_json.titles,
    ),
    Format("specstory", "SpecStory", specstory.recognizes, specstory.read, kind="text"),
    Format(
        "sqlite_chats",
        "SQLite chats (conversations, messages)",
        sqlite_chats.recognizes,
        sqlite_chats.read,
        kind="a database",
        titles=sqlite_chats.titles,
    ),
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
    kind = kind_of(document)
    for known in formats:
        if known.kind == kind and known.recognizes(document):
            return known
    titles = "; ".join(x.title for x in formats)
    reason = f"an unknown format; known are: {titles}"
    raise InvalidTranscript(document.source, reason, is_foreign=True)
