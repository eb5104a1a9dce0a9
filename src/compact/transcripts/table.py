"""Lists the file formats, in the order in which they are tried.

The first format that recognizes a document reads it. To recognize it, a format checks only a few
keys. A caller may pass another table, as the evaluations do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Protocol

from compact.errors import InvalidTranscript
from compact.transcripts import (
    chat_json,
    chatgpt_export,
    claude_code,
    claude_export,
    codex_cli,
    copilot_cli,
    legacy_session,
    legacy_snapshot,
    markdown_chats,
    opencode,
    pi_agent,
    shape_reading,
    shapes,
    specstory,
    sqlite_chats,
)
from compact.transcripts.documents import Document, Kind, PlainText, kind_of
from compact.transcripts.markdown_chats import AIDER, CURSOR
from compact.transcripts.transcript import Transcript


class Read(Protocol):
    """Reads one conversation (from 1) of a document. `active`: only after the last compaction."""

    def __call__(
        self, document: Document, *, conversation: int | None = None, active: bool = False
    ) -> Transcript:
        """Read one conversation.

        Raises:
            InvalidTranscript: names the place and the reason.
        """
        ...


@dataclass(frozen=True, slots=True)
class Format:
    """A file format: its name, its title for people, its test and its reader."""

    name: str
    title: str
    recognizes: Callable[[Document], bool]
    read: Read
    kind: Kind = "JSON"
    titles: Callable[[Document], Sequence[str | None]] | None = None
    """Returns the titles of the conversations in order, without reading a conversation. None if a
    file holds only one conversation."""


FORMATS: tuple[Format, ...] = (
    *(
        Format(
            shape.name,
            shape.title,
            partial(shape_reading.recognizes, shape),
            partial(shape_reading.read, shape),
            titles=partial(shape_reading.titles, shape),
        )
        for shape in shapes.SHAPES
    ),
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
    Format(
        "chat",
        "chat messages (JSON, JSONL)",
        chat_json.recognizes,
        chat_json.read,
        titles=chat_json.titles,
    ),
    Format(
        "guessed", "anything like it (JSON)", shapes.recognizes, shapes.read, titles=shapes.titles
    ),
    Format(
        "aider",
        "Aider's chat history (Markdown)",
        partial(markdown_chats.recognizes, AIDER),
        partial(markdown_chats.read, AIDER),
        kind="text",
    ),
    Format(
        "cursor_export",
        "Cursor's exports (Markdown)",
        partial(markdown_chats.recognizes, CURSOR),
        partial(markdown_chats.read, CURSOR),
        kind="text",
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
    """Return the format with this name.

    Raises:
        InvalidTranscript: there is no such format.
    """
    for each in formats:
        if each.name == name:
            return each
    names = ", ".join(x.name for x in formats)
    raise InvalidTranscript(source, f"no format is called {name!r}; known are {names}")


def recognized(document: Document, formats: Sequence[Format] = FORMATS) -> Format:
    """Return the format of a document. It is recognized by its content.

    Raises:
        InvalidTranscript: no format recognizes the document.
    """
    kind = kind_of(document)
    for each in formats:
        if each.kind == kind and each.recognizes(document):
            return each
    programs = len(formats) - 2  # "chat" and "guessed" are of no particular program
    reason = (
        f"an unknown format: {_contents(document)}. Looked for: what {programs} programs write "
        "(docs/guides/files.md names them), then any list of objects with a role and a text"
    )
    raise InvalidTranscript(document.source, reason, is_foreign=True)


def _contents(document: Document) -> str:
    if isinstance(document, PlainText):
        lines = document.data.decode().strip().split("\n")
        begins = f"{lines[0][:40]!r}"
        return f"text of {len(lines)} {'line' if len(lines) == 1 else 'lines'}, the first {begins}"
    values = [value for _, value in document.rows]
    listed = values[0] if len(values) == 1 else values
    if not isinstance(listed, list):
        return f"the file has {_kind(listed)}"
    kinds = list(dict.fromkeys(map(_kind, listed[:20])))
    return f"the file has {len(listed):,} values, {'; '.join(kinds[:3]) or 'none'}"


def _kind(value: object) -> str:
    """Return a short description of a JSON value: its type, or the keys of an object."""
    if not isinstance(value, dict):
        return f"a {type(value).__name__}"
    keys = [f"{key} ({type(each).__name__})" for key, each in islice(value.items(), 8)]
    more = ", …" * (len(value) > len(keys))
    return f"an object with {', '.join(keys) or 'no keys'}{more}"
