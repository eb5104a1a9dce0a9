"""Reads OpenCode exports: `{info, messages: [{info: {role, …}, parts: [{type, …}]}]}`.

Decisions:

- Parts of a user message that the program wrote (`synthetic`: files it read, notes) become an
  `injected` message. A command that starts a sub-agent (`subtask`) is the user's. The prompt made
  from it is the program's.
- Tool parts hold their results, which become tool messages after the reply.
- Marks of steps, snapshots and patches are the program's records: left out, and counted.
- A summary by the program (`info.summary`) is left out if its originals are in the file. With
  `active`, or if nothing comes before it, it is a checkpoint. `active` shows outputs that OpenCode
  has cleared as the model sees them.
- Undone messages (`info.revert`) are still in the file. They are read, and a note says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from compact.errors import InvalidTranscript
from compact.messages.messages import Image, Part, Text, Thinking, ToolCall, ToolResult
from compact.messages.times import time_of
from compact.transcripts.documents import Document, json_object, objects_in, rows_at
from compact.transcripts.pairing import CHECKPOINT, INJECTED, PERSON, Paired, image_of
from compact.transcripts.transcript import NO_BOUNDARY, Row, Transcript, text_or

NAME = "opencode"
_READ_OUT = ("text/plain", "application/x-directory")
"""Media types of files whose contents OpenCode adds as a text part."""
_NAME_ONLY = (
    "attached file, of which only the name is kept|attached files, of which only the names are kept"
)
_CLEARED = "[Old tool result content cleared]"
"""The text that OpenCode sends in place of an output that it cleared."""


def recognizes(document: Document) -> bool:
    """Whether the value is an object whose messages have an info and parts."""
    value = json_object(document)
    match value.get("messages"):
        case [{"info": dict(), "parts": list()}, *_]:
            return True
        case []:
            info = value.get("info")
            return isinstance(info, dict) and "id" in info
    return False


def read(
    document: Document, *, conversation: int | None = None, active: bool = False
) -> Transcript:
    """Read the file's one conversation.

    Raises:
        InvalidTranscript: names the wrong message.
    """
    value = json_object(document)
    rows = rows_at(value, "messages", source=document.source)
    info = value.get("info")
    info = info if isinstance(info, dict) else {}
    session = _ExportedSession(document.source, active=active)
    bounds = [i for i, row in enumerate(rows) if _is_summary(row)]
    start = bounds[-1] if active and bounds else 0
    for index, row in enumerate(rows[start:], start):
        session.take(index, row)
    session.finish()
    notes = [NO_BOUNDARY] * (active and not bounds)
    if isinstance(info.get("revert"), dict):
        undone = info["revert"].get("messageID")
        notes.insert(0, f"what follows {undone} was undone by the person, and is in the file")
    return session.transcript(
        document,
        NAME,
        after=notes,
        title=text_or(info.get("title")),
        model=session.model,
        session_id=text_or(info.get("id")),
    )


def _is_summary(row: object) -> bool:
    match row:
        case {"info": {"role": "assistant", "summary": True}}:
            return True
    return False


@dataclass(slots=True)
class _ExportedSession(Paired):
    active: bool = False
    model: str | None = None

    def take(self, index: int, row: object) -> None:
        """Add the message of one row.

        Raises:
            InvalidTranscript: it has no known role, or no valid parts.
        """
        path = f"messages[{index}]"
        fields = row if isinstance(row, dict) else {}
        info, parts = fields.get("info"), fields.get("parts")
        role = info.get("role") if isinstance(info, dict) else None
        if info is None or role not in ("user", "assistant") or not isinstance(parts, list):
            reason = f"{path}: expected an info with the role user or assistant, and parts"
            raise InvalidTranscript(self.source, reason)
        for number, part in enumerate(parts):
            if not isinstance(part, dict) or not isinstance(part.get("type"), str):
                raise InvalidTranscript(self.source, f"{path}.parts[{number}].type: needs one")
        if role == "user":
            self._user(info, parts, fields)
        elif _is_summary(fields):
            self._summary(info, parts, fields)
        else:
            self._reply(info, parts, fields)

    def _user(self, info: Row, parts: list[Row], row: Row) -> None:
        """Add the user's parts, then the parts that the program wrote for the user."""
        own_parts: list[Part] = []
        added: list[Part] = []
        for part in parts:
            match part:
                case {"type": "text", "ignored": True}:
                    self.left_out["ignored text part"] += 1
                case {"type": "text", "text": str(text)}:
                    (added if part.get("synthetic") else own_parts).append(Text(text))
                case {"type": "file"}:
                    own_parts.append(self._file(part))
                case {"type": "subtask", "prompt": str(prompt)}:
                    own_parts.append(Text(f"/{part.get('command') or part.get('agent') or 'task'}"))
                    added.append(Text(prompt))
                case _:
                    self.left_out[f"{part['type']} part"] += 1
        own, time = self.own_id(info.get("id")), _time(info)
        if own_parts:
            self.say("user", own_parts, row, time=time, metadata=PERSON, **own)
            own = {}
        if added:
            self.say("user", added, row, time=time, metadata=INJECTED, **own)
        if not parts:
            self.left_out["empty message"] += 1

    def _summary(self, info: Row, parts: list[Row], row: Row) -> None:
        if self.messages:
            self.left_out["earlier summary|earlier summaries"] += 1
            return
        texts = [Text(part["text"]) for part in parts if isinstance(part.get("text"), str)]
        own = self.own_id(info.get("id"))
        self.say("user", texts, row, time=_time(info), metadata=CHECKPOINT, **own)

    def _reply(self, info: Row, parts: list[Row], row: Row) -> None:
        self.model = text_or(info.get("modelID")) or self.model
        pieces: list[Part] = []
        calls: list[tuple[ToolCall, Row]] = []
        for part in parts:
            match part:
                case {"type": "text", "text": str(text)}:
                    pieces.append(Text(text))
                case {"type": "reasoning", "text": str(text)}:
                    pieces.append(Thinking(text))
                case {"type": "file"}:
                    pieces.append(self._file(part))
                case {"type": "tool", "state": dict(state)}:
                    call = self.call(part.get("callID"), part.get("tool"), state.get("input"))
                    pieces.append(call)
                    calls.append((call, state))
                case _:
                    self.left_out[f"{part['type']} part"] += 1
        if not pieces:
            self.left_out["empty reply|empty replies"] += 1
            return
        self.say("assistant", pieces, row, time=_time(info), **self.own_id(info.get("id")))
        for call, ran in calls:
            if (result := self._result(ran)) is not None:
                self.answer(call, result, row, time=_time(ran, "end"))

    def _result(self, state: Row) -> ToolResult | None:
        match state:
            case {"status": "error"}:
                return ToolResult("", str(state.get("error") or ""), is_error=True)
            case {"status": "completed", "time": {"compacted": time}} if self.active and time:
                return ToolResult("", _CLEARED)
            case {"status": "completed"}:
                shown = [self._file(part) for part in objects_in(state.get("attachments"))]
                images = tuple(part for part in shown if isinstance(part, Image))
                return ToolResult("", str(state.get("output") or ""), images=images)
        return None

    def _file(self, part: Row) -> Part:
        url, kind = str(part.get("url") or ""), str(part.get("mime") or "")
        if kind.startswith("image/") and url:
            return image_of(url)
        if kind not in _READ_OUT:
            self.left_out[_NAME_ONLY] += 1
        return Text(f"[file {part.get('filename') or url.partition(',')[0]}]")


def _time(row: Row, key: str = "created") -> datetime | None:
    times = row.get("time")
    return time_of(times.get(key)) if isinstance(times, dict) else None
