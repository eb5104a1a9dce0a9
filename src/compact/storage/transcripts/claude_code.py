"""Reading Claude Code sessions: JSON Lines of events, of which the `user` and `assistant` rows are
the conversation.

What is decided here:

- Rows come in log order. Where a prompt was edited or rewound, `parentUuid` branches; every branch
  is kept, as the person wrote it. A row whose `uuid` was already seen is a retry and left out.
- Neighbouring rows of one reply (same `message.id`) are one message; pieces with other messages
  between them stay apart and share their `reply_id`. Parts keep the row's own block as `raw`, so
  that a writer finds the row again.
- `isMeta` rows are `injected`. Sidechain rows belong to a sub-agent's conversation, and rows that
  the tool made up in the assistant's name (`<synthetic>`: an API error, "No response requested.")
  were said by no model: both left out.
- An earlier summary (`isCompactSummary`) is a checkpoint where its originals are missing, that is
  where no message stands before it in the file; else it is left out, because we recompress from
  originals.
- A prompt that was typed while the model worked is a `queue-operation`. Whether the model saw it
  the file does not tell, so it is no message; the notes count those that no message repeats.
- `active` takes what follows the last boundary, its summary as a checkpoint.

Writing lives in `claude_code_writing`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from compact.core.formats.anthropic import Anthropic
from compact.core.messages import Message, MessageMetadata
from compact.errors import InvalidMessage, InvalidTranscript
from compact.storage.transcripts.choosing import choose
from compact.storage.transcripts.documents import Document, JsonLines, PlainText
from compact.storage.transcripts.timestamps import time_of
from compact.storage.transcripts.transcript import Container, Row, Transcript

NAME = "claude_code"
_EVENTS = frozenset(("user", "assistant", "system", "progress", "summary", "file-history-snapshot"))
_OTHER_EVENTS = frozenset(
    ("queue-operation", "attachment", "custom-title", "ai-title", "last-prompt")
)
_PEEK = 20
_SYNTHETIC = "<synthetic>"
_INJECTED = MessageMetadata(source="injected")
_CHECKPOINT = MessageMetadata(source="checkpoint")
_PARSER = Anthropic()


def recognizes(document: Document) -> bool:
    """Whether one of the first rows is an event of Claude Code."""
    if isinstance(document, PlainText):
        return False
    return any(_is_event(row) for _, row in document.rows[:_PEEK])


def read(
    document: Document, *, conversation: int | None = None, active: bool = False
) -> Transcript:
    """The file's one conversation.

    Raises:
        InvalidTranscript: naming the line of a row that is no event or holds no valid message.
    """
    assert not isinstance(document, PlainText)
    choose([document], conversation, source=document.source)
    log = _Log(document.source)
    rows = [(n, _checked(row, n, document.source)) for n, row in document.rows]
    start = _last_boundary(rows) if active else 0
    for number, row in rows[start:]:
        log.take(number, row)
    log.finish_reply()
    notes = document.notes if isinstance(document, JsonLines) else ()
    if active and not start:
        notes = (*notes, "no compaction boundary: active is the whole file")
    return Transcript(
        source=document.source,
        format=NAME,
        wire="anthropic",
        messages=tuple(log.messages),
        title=_title(rows),
        rows=log.rows,
        notes=(*log.notes(), *notes),
        container=Container(
            fields=_fields(rows),
            original=None if start else document.data,
        ),
    )


def _is_event(row: object) -> bool:
    if not isinstance(row, dict) or "role" in row:
        return False
    kind = row.get("type")
    if not isinstance(kind, str):
        return False
    if kind in ("user", "assistant"):
        return isinstance(row.get("message"), dict)
    return (
        kind in _OTHER_EVENTS or (kind in _EVENTS and "content" not in row) or "parentUuid" in row
    )


def _checked(row: object, number: int, source: str) -> dict[str, Any]:
    if not isinstance(row, dict) or not isinstance(row.get("type"), str):
        raise InvalidTranscript(source, "not an event with a type", line=number)
    return row


def _last_boundary(rows: list[tuple[int, dict[str, Any]]]) -> int:
    found = [i for i, (_, row) in enumerate(rows) if row.get("subtype") == "compact_boundary"]
    return found[-1] if found else 0


def _title(rows: list[tuple[int, dict[str, Any]]]) -> str | None:
    """The last title given to this session; `summary` rows at the head may belong to others."""
    title: str | None = None
    known = {row["uuid"] for _, row in rows if isinstance(row.get("uuid"), str)}
    for _, row in rows:
        given = row.get("customTitle") or row.get("aiTitle")
        if row["type"] == "summary" and str(row.get("leafUuid")) in known:
            given = row.get("summary")
        title = given if isinstance(given, str) else title
    return title


def _fields(rows: list[tuple[int, dict[str, Any]]]) -> Mapping[str, Any]:
    """What a writer needs beside the kept rows: the uuid of the last row."""
    last = next(
        (row["uuid"] for _, row in reversed(rows) if isinstance(row.get("uuid"), str)), None
    )
    return {"last_uuid": last}


@dataclass(slots=True)
class _Log:
    """Builds messages from rows as they come."""

    source: str
    messages: list[Message] = field(default_factory=list)
    rows: dict[str, tuple[Row, ...]] = field(default_factory=dict)
    left_out: Counter[str] = field(default_factory=Counter)
    _queued: list[str] = field(default_factory=list)
    _seen: set[str] = field(default_factory=set)
    _reply: list[tuple[int, dict[str, Any]]] = field(default_factory=list)
    _has_originals: bool = False

    def take(self, number: int, row: dict[str, Any]) -> None:
        """Take one row."""
        if row["type"] not in ("user", "assistant"):
            self.left_out[str(row["type"])] += 1
            if row.get("operation") == "enqueue" and isinstance(row.get("content"), str):
                self._queued.append(row["content"].strip())
            return
        message = row.get("message")
        if not isinstance(message, dict):
            raise InvalidTranscript(self.source, "the row has no message", line=number)
        reason = self._reason_to_leave_out(row, message)
        if reason:
            self.left_out[reason] += 1
            return
        row.pop("toolUseResult", None)
        if isinstance(row.get("uuid"), str):
            self._seen.add(row["uuid"])
        if row["type"] == "assistant" and self._continues(message):
            self._reply.append((number, row))
            return
        self.finish_reply()
        self._has_originals |= not row.get("isCompactSummary")
        self._reply.append((number, row))
        if row["type"] == "user":
            self.finish_reply()

    def finish_reply(self) -> None:
        """Make one message of the rows of a reply."""
        if not self._reply:
            return
        number, first = self._reply[0]
        try:
            wire = _joined([row["message"] for _, row in self._reply])
            message = _PARSER.parse(wire, len(self.messages))
        except InvalidMessage as error:
            where = error.path.partition(".")[2] or "message"
            raise InvalidTranscript(self.source, f"{where}: {error.reason}", line=number) from None
        uuid = first.get("uuid")
        update: dict[str, Any] = {"id": uuid if isinstance(uuid, str) else f"line-{number}"}
        time = time_of(first.get("timestamp"))
        if time is not None:
            update["timestamp"] = time
        if first.get("isCompactSummary"):
            update["metadata"] = _CHECKPOINT
        elif first.get("isMeta"):
            update["metadata"] = _INJECTED
        message = message.model_copy(update=update)
        self.messages.append(message)
        self.rows[message.id] = tuple(row for _, row in self._reply)
        self._reply = []

    def notes(self) -> Iterator[str]:
        """What was left out, in words."""
        for kind, count in sorted(self.left_out.items()):
            yield f"{count} {kind} {'row' if count == 1 else 'rows'}"
        said = "\n".join(m.text for m in self.messages) if self._queued else ""
        lost = sum(x not in said for x in self._queued if not x.startswith("<"))
        if lost:
            yield f"{lost} queued {'prompt' if lost == 1 else 'prompts'} that no message repeats"

    def _continues(self, message: dict[str, Any]) -> bool:
        if not self._reply or not message.get("id"):
            return False
        return bool(self._reply[-1][1]["message"].get("id") == message["id"])

    def _reason_to_leave_out(self, row: dict[str, Any], message: dict[str, Any]) -> str | None:
        if row.get("isSidechain"):
            return "sidechain"
        if str(row.get("uuid")) in self._seen:
            return "repeated"
        if row.get("isApiErrorMessage") or message.get("model") == _SYNTHETIC:
            return "synthetic assistant"
        if row.get("isCompactSummary") and self._has_originals:
            return "earlier summary"
        return None


def _joined(messages: list[dict[str, Any]]) -> dict[str, Any]:
    """One message of the rows of a reply; the last row's usage is the reply's."""
    if len(messages) == 1:
        return messages[0]
    blocks: list[Any] = []
    for message in messages:
        content = message.get("content")
        if isinstance(content, list):
            blocks += content
        elif content:
            blocks.append({"type": "text", "text": str(content)})
    return {**messages[-1], "content": blocks}
