"""Reads Copilot CLI sessions: JSON Lines of events `{type, data, id, timestamp, parentId}`.

The conversation is made of the messages and the ends of tool calls. Decisions:

- A user's text is what they typed (`content`). What the program added (`transformedContent`: the
  time, reminders) stays in the row. Messages from another `source`, notifications and selected
  texts are `injected`.
- Results are placed after their calls, whatever came in between. A tool that ran although no reply
  asked for it gets a call of its own.
- Events of a sub-agent (`parentToolCallId`, `agentId`) are left out.
- A summary (session.compaction_complete) is left out if its originals are in the file. With
  `active`, or if nothing comes before it, it is a checkpoint.
- All other events are the program's own records. They are left out, and counted.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any

from compact.errors import InvalidTranscript
from compact.messages.messages import Part, Text, Thinking, ToolResult
from compact.messages.times import time_of
from compact.transcripts.documents import Document, objects_in
from compact.transcripts.pairing import CHECKPOINT, INJECTED, PERSON, Paired, arguments_text
from compact.transcripts.transcript import NO_BOUNDARY, Row, Transcript, newer_than, text_or

NAME, _VERSION = "copilot_cli", 1
_COMPACTED, _SYSTEM = "session.compaction_complete", "system.message"


def recognizes(document: Document) -> bool:
    """Whether the first row is an event with data and a type such as session.start."""
    match document.rows:
        case [(_, {"type": str(kind), "data": dict(), "id": str()}), *_]:
            return "." in kind
    return False


def read(
    document: Document, *, conversation: int | None = None, active: bool = False
) -> Transcript:
    """Read the file's one conversation.

    Raises:
        InvalidTranscript: names the line of a row that is no event, or of a wrong message.
    """
    log = _Events(document.source)
    rows = log.checked(document.rows, _is_event, "an event with a type and data")
    bounds = [i for i, (_, row) in enumerate(rows) if _summary(row)]
    start = bounds[-1] if active and bounds else 0
    for index, (number, row) in enumerate(rows):
        if index >= start or row["type"] == _SYSTEM:
            log.attempt(partial(log.take, number, row))
    log.finish()
    starts = [row["data"] for _, row in rows if row["type"] == "session.start"]
    head: Row = starts[0] if starts else {}
    return log.transcript(
        document,
        NAME,
        before=newer_than(_VERSION, head.get("version")),
        after=(NO_BOUNDARY,) * (active and not bounds),
        title=log.title,
        model=log.model,
        session_id=text_or(head.get("sessionId")),
    )


def _is_event(row: Row) -> bool:
    return isinstance(row.get("type"), str) and isinstance(row.get("data"), dict)


def _summary(row: Row) -> str | None:
    return text_or(row["data"].get("summaryContent")) if row["type"] == _COMPACTED else None


@dataclass(slots=True)
class _Events(Paired):
    model: str | None = None
    title: str | None = None
    _asked: set[str] = field(default_factory=set)
    """Ids of the calls that are known so far."""

    def take(self, number: int, row: dict[str, Any]) -> None:
        """Add one event of the file.

        Raises:
            InvalidTranscript: names the line of a message without its content.
        """
        data = row["data"]
        if data.get("parentToolCallId") or row.get("agentId"):
            self.left_out[f"{row['type']} event of a sub-agent|"
                          f"{row['type']} events of sub-agents"] += 1  # fmt: skip
            return
        match row["type"]:
            case "user.message":
                mark = PERSON if data.get("source") in (None, "", "user") else INJECTED
                self._input("user", number, row, metadata=mark)
            case "system.message":
                self._input("system", number, row)
            case "system.notification":
                self._input("user", number, row, metadata=INJECTED)
            case "assistant.message":
                self._reply(number, row)
            case "tool.execution_start" | "tool.user_requested":
                self._start(row)
            case "tool.execution_complete":
                self._complete(row)
            case _:
                self._other(row)

    def _input(self, role: str, number: int, row: Row, **more: object) -> None:
        text = self._content(number, row)
        parts: list[Part] = [Text(text)] if text else []
        shown: list[Part] = []
        for attached in objects_in(row["data"].get("attachments")):
            name = attached.get("path") or attached.get("displayName") or attached.get("type")
            if selected := text_or(attached.get("text")):
                shown.append(Text(f"[attached {name}]\n{selected}"))
                continue
            parts.append(Text(f"[attached {name}]"))
            self.left_out["attachment, of which only the name is kept|"
                          "attachments, of which only the names are kept"] += 1  # fmt: skip
        self._say(role, parts, row, **more)
        if shown:
            self._say("user", shown, row, metadata=INJECTED)

    def _content(self, number: int, row: Row) -> str:
        content = row["data"].get("content")
        if not isinstance(content, str):
            raise InvalidTranscript(self.source, "data.content: expected text", line=number)
        return content

    def _reply(self, number: int, row: Row) -> None:
        data = row["data"]
        self.model = text_or(data.get("model")) or self.model
        parts: list[Part] = []
        if thought := text_or(data.get("reasoningText")):
            parts.append(Thinking(thought, text_or(data.get("reasoningOpaque"))))
        if text := self._content(number, row):
            parts.append(Text(text))
        for request in objects_in(data.get("toolRequests")):
            call_id = request.get("toolCallId")
            self._asked.add(str(call_id))
            parts.append(self.call(call_id, request.get("name"), request.get("arguments")))
        self._say("assistant", parts, row)

    def _start(self, row: Row) -> None:
        """Add the start of a call. A call that no reply asked for becomes a message here."""
        data = row["data"]
        call_id = data.get("toolCallId")
        if str(call_id) in self._asked:
            self.left_out[f"{row['type']} event"] += 1
            return
        self._asked.add(str(call_id))
        call = self.call(call_id, data.get("toolName"), arguments_text(data.get("arguments")))
        self._say("assistant", [call], row)

    def _complete(self, row: Row) -> None:
        data = row["data"]
        result, error = data.get("result"), data.get("error")
        value = result.get("content") if isinstance(result, dict) else result
        if data.get("success") is False or (error and value is None):
            value = error.get("message") if isinstance(error, dict) else error
        text = value if isinstance(value, str) else "" if value is None else arguments_text(value)
        answer = ToolResult("", text, is_error=data.get("success") is False)
        self.answer(data.get("toolCallId"), answer, row, time=time_of(row.get("timestamp")))

    def _other(self, row: Row) -> None:
        summary = _summary(row)
        if summary and all(message.role == "system" for message in self.messages):
            self._say("user", [Text(summary)], row, metadata=CHECKPOINT)
            return
        self.model = text_or(row["data"].get("newModel")) or self.model
        if row["type"] == "session.title_changed":
            self.title = text_or(row["data"].get("title")) or self.title
        self.left_out[f"{row['type']} event"] += 1

    def _say(self, role: str, parts: list[Part], row: Row, **more: object) -> None:
        if not parts:
            self.left_out[f"empty {row['type']} event"] += 1
            return
        time = time_of(row.get("timestamp"))
        self.say(role, parts, row, time=time, **self.own_id(row.get("id")), **more)
