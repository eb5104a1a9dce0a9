"""Reads sessions of the pi coding agent: JSON Lines of entries `{type, timestamp, …}`.

The `message` entries are the conversation. Decisions:

- Entries come in log order. If the user went back, every branch is kept. `active` takes the branch
  that ends in the last entry.
- A command that the user ran (`bashExecution`) is a user message. Its output is an observation.
- Messages of extensions (`custom_message`, role `custom`) and summaries of abandoned branches are
  `injected`.
- A `compaction` after other messages is left out, because its originals are in the file. With
  `active`, or if nothing comes before it, it is a checkpoint. `active` continues with the first
  entry that the compaction kept (`firstKeptEntryId`, in older files `firstKeptEntryIndex`).
- Replies without content (aborted, failed), and all other entries, are left out and counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from compact.errors import InvalidTranscript
from compact.messages.messages import Image, Part, Text, Thinking, ToolResult
from compact.messages.times import time_of
from compact.transcripts.documents import Document, JsonLines, objects_in
from compact.transcripts.pairing import (
    CHECKPOINT,
    INJECTED,
    OBSERVATION,
    PERSON,
    Paired,
    image_of,
    unknown_role,
)
from compact.transcripts.transcript import (
    NO_BOUNDARY,
    Row,
    Transcript,
    has_type,
    newer_than,
    text_or,
)

NAME, _VERSION = "pi", 3
_SUMMARIES = {"branchSummary": INJECTED, "compactionSummary": CHECKPOINT}
_OTHERS = ("custom", "hookMessage")
"""Roles of messages from extensions."""

Entry = tuple[int, dict[str, Any]]
"""The line number of an entry, and the entry."""


def recognizes(document: Document) -> bool:
    """Whether the first row is the head of a session, or a message entry."""
    match document.rows:
        case [(_, {"type": "session", "id": str(), "cwd": str()}), *_]:
            return True
        case [(_, {"type": "message", "message": {"role": str()}, "timestamp": _}), *_]:
            return isinstance(document, JsonLines)
    return False


def read(
    document: Document, *, conversation: int | None = None, active: bool = False
) -> Transcript:
    """Read the file's one conversation.

    Raises:
        InvalidTranscript: names the line of a row that is no entry, or of a wrong message.
    """
    session = _Entries(document.source)
    entries = session.checked(document.rows, has_type, "an entry with a type")
    rows, has_boundary = _active(entries) if active else (entries, True)
    for number, row in rows:
        session.attempt(partial(session.take, number, row))
    session.finish()
    head = entries[0][1] if entries else {"type": ""}
    return session.transcript(
        document,
        NAME,
        before=newer_than(_VERSION, head.get("version")),
        after=(NO_BOUNDARY,) * (not has_boundary),
        title=session.title,
        model=session.model,
        session_id=text_or(head.get("id")) if head["type"] == "session" else None,
    )


def _active(entries: Sequence[Entry]) -> tuple[list[Entry], bool]:
    """Return the entries that a model still sees, and whether there was a compaction."""
    path = _branch(entries)
    bounds = [i for i, (_, row) in enumerate(path) if row["type"] == "compaction"]
    if not bounds:
        return path, False
    at = bounds[-1]
    boundary = path[at][1]
    first, index = boundary.get("firstKeptEntryId"), boundary.get("firstKeptEntryIndex")
    kept, first_row = at, None
    if isinstance(index, int) and 0 <= index < len(entries):
        first_row = entries[index][1]  # the head of the session has number 0
    for i, (_, row) in enumerate(path[:at]):
        is_first = row.get("id") == first if first else row is first_row
        kept = min(kept, i) if is_first else kept
    between = [each for each in path[kept:at] if each[1]["type"] != "compaction"]
    return [path[at], *between, *path[at + 1 :]], True


def _branch(entries: Sequence[Entry]) -> list[Entry]:
    """Return the branch that ends in the last entry. Without branches, return all entries."""
    by_id = {row["id"]: (n, row) for n, row in entries if isinstance(row.get("id"), str)}
    if not any("parentId" in row for _, row in entries):
        return list(entries)
    path: list[Entry] = []
    seen: set[str] = set()
    at: object = entries[-1][1].get("id")
    while isinstance(at, str) and at in by_id and at not in seen:
        seen.add(at)
        path.append(by_id[at])
        at = by_id[at][1].get("parentId")
    return path[::-1]


@dataclass(slots=True)
class _Entries(Paired):
    model: str | None = None
    title: str | None = None

    def take(self, number: int, row: dict[str, Any]) -> None:
        """Add one entry of the file.

        Raises:
            InvalidTranscript: names the line of an entry without a valid message.
        """
        match row:
            case {"type": "message", "message": {"role": str(role)} as message}:
                self._message(number, role, message, row)
                return
            case {"type": "message"}:
                raise InvalidTranscript(self.source, "the entry has no message", line=number)
            case {"type": "compaction", "summary": str(summary)} if not self.messages:
                self._say("user", [Text(summary)], row, metadata=CHECKPOINT)
                return
            case {"type": "branch_summary", "summary": str(summary)}:
                self._say("user", [Text(summary)], row, metadata=INJECTED)
                return
            case {"type": "custom_message"}:
                parts = self._parts(row.get("content"), number)
                self._say("user", parts, row, metadata=INJECTED)
                return
            case {"type": "model_change", "modelId": str(model)}:
                self.model = model
            case {"type": "session_info", "name": str(name)}:
                self.title = name
        self.left_out[f"{row['type']} entry|{row['type']} entries"] += 1

    def _message(self, number: int, role: str, message: Row, row: Row) -> None:
        match role:
            case "user":
                parts = self._parts(message.get("content"), number)
                self._say("user", parts, row, metadata=PERSON)
            case "assistant":
                self.model = text_or(message.get("model")) or self.model
                self._say("assistant", self._parts(message.get("content"), number), row)
            case "toolResult":
                self._result(number, message, row)
            case "bashExecution":
                mark = "!!" if message.get("excludeFromContext") else "!"
                self._say("user", [Text(f"{mark}{message.get('command')}")], row, metadata=PERSON)
                output = str(message.get("output") or "") or f"exit {message.get('exitCode')}"
                self._say("user", [Text(output)], row, metadata=OBSERVATION)
            case "branchSummary" | "compactionSummary" if not (
                role == "compactionSummary" and self.messages
            ):
                part = Text(str(message.get("summary") or ""))
                self._say("user", [part], row, metadata=_SUMMARIES[role])
            case "compactionSummary":
                self.left_out["earlier summary|earlier summaries"] += 1
            case _:
                if role not in _OTHERS:
                    self.left_out[unknown_role(role)] += 1
                parts = self._parts(message.get("content"), number)
                self._say("user", parts, row, metadata=INJECTED)

    def _say(self, role: str, parts: Sequence[Part], row: Row, **more: object) -> None:
        if not parts:
            self.left_out[f"empty {role} message"] += 1
            return
        time = time_of(row.get("timestamp"))
        self.say(role, parts, row, time=time, **self.own_id(row.get("id")), **more)

    def _result(self, number: int, message: Row, row: Row) -> None:
        parts = self._parts(message.get("content"), number)
        text = "\n".join(part.text for part in parts if isinstance(part, Text))
        images = tuple(part for part in parts if isinstance(part, Image))
        is_error = message.get("isError") is True
        result = ToolResult("", text, is_error=is_error, images=images)
        self.answer(message.get("toolCallId"), result, row, time=time_of(row.get("timestamp")))

    def _parts(self, content: object, number: int) -> list[Part]:
        if content is None or isinstance(content, str):
            return [Text(content)] if content else []
        if not isinstance(content, list) or len(objects_in(content)) < len(content):
            raise InvalidTranscript(
                self.source, "message.content: expected text or a list of parts", line=number
            )
        parts: list[Part] = []
        for part in content:
            match part:
                case {"type": "text", "text": str(text)}:
                    parts += [Text(text)] if text else []
                case {"type": "thinking", "thinking": str(text)}:
                    parts.append(Thinking(text, text_or(part.get("thinkingSignature"))))
                case {"type": "toolCall"}:
                    parts.append(self.call(part.get("id"), part.get("name"), part.get("arguments")))
                case {"type": "image", "data": str(data)}:
                    parts.append(image_of(f"data:{part.get('mimeType')};base64,{data}"))
                case _:
                    self.left_out[f"{part.get('type')} part"] += 1
        return parts
