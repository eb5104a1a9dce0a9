"""Reads Claude Code sessions: JSON Lines of events. The conversation is in the `user` and
`assistant` rows.

Decisions:

- Rows come in log order. An edited or rewound prompt branches the log (`parentUuid`). Every branch
  is kept. A row with a known `uuid` is a retry and left out.
- Neighbouring rows of one reply (same `message.id`) are one message. So are rows of a reply that
  continues after the result of one of several parallel calls: a provider wants the calls together.
  Other pieces with results between them stay apart and share a `reply_id`. Parts keep the row's
  block as `raw`, so that a writer finds the row again.
- `isMeta` rows are `injected`. Sidechain rows belong to a sub-agent and are left out, unless the
  file has nothing else. Rows that the tool wrote in the assistant's name (`<synthetic>`: an API
  error, "No response requested.") are left out.
- An earlier summary (`isCompactSummary`) is a checkpoint if no message comes before it. Otherwise
  it is left out: compact summarizes originals, not summaries.
- A prompt that the user typed while the model worked is a user message (`claude_code_queue`). The
  user's answers to the tool's questions (`toolUseResult`) become the message's `said`.
- `active` starts at the last boundary, with its summary as a checkpoint.

`claude_code_writing` writes such files.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from compact.errors import InvalidTranscript
from compact.messages.formats.anthropic import Anthropic
from compact.messages.messages import Message, MessageMetadata, PersonWords
from compact.messages.times import time_of
from compact.text.said_within import refusal_in, said_of
from compact.text.speakers import person_text
from compact.transcripts.claude_code_queue import Queue
from compact.transcripts.documents import Document
from compact.transcripts.transcript import (
    NO_BOUNDARY,
    Collected,
    Container,
    Row,
    Transcript,
    has_type,
)

NAME = "claude_code"
_EVENTS = frozenset(("user", "assistant", "system", "progress", "summary", "file-history-snapshot"))
_OTHER_EVENTS = frozenset(
    ("queue-operation", "attachment", "custom-title", "ai-title", "last-prompt")
)
_SPOKEN = ("user", "assistant")
"""Types of rows that hold messages."""
_SYNTHETIC = "<synthetic>"
_OTHERS = "mcp__"
"""The beginning of the names of tools that are not Claude Code's own."""
_INJECTED = MessageMetadata(source="injected")
_CHECKPOINT = MessageMetadata(source="checkpoint")
_PERSON = MessageMetadata(source="person")
_PARSER = Anthropic()


def recognizes(document: Document) -> bool:
    """Whether one of the first rows is an event of Claude Code."""
    return any(_is_event(row) for _, row in document.rows[:20])


def read(
    document: Document, *, conversation: int | None = None, active: bool = False
) -> Transcript:
    """Read the file's one conversation.

    Raises:
        InvalidTranscript: names the line of a row that is no event or holds no valid message.
    """
    log = _Log(document.source)
    rows = log.checked(document.rows, has_type, "an event with a type")
    log.takes_sidechain = all(_is_side(row) for _, row in rows if row["type"] in _SPOKEN)
    bounds = [i for i, (_, row) in enumerate(rows) if is_boundary(row)]
    start = bounds[-1] if active and bounds else 0
    for number, row in rows[start:]:
        log.attempt(partial(log.take, number, row))
    log.finish()
    return log.transcript(
        document,
        NAME,
        after=(NO_BOUNDARY,) * (active and not start),
        wire="anthropic",
        title=_title(rows),
        compacted=log.compacted,
        session_id=_last_of(rows, "sessionId") or _last_of(rows, "session_id"),
        container=Container(
            fields={"last_uuid": _last_of(rows, "uuid")},
            original=None if start else document.data,
        ),
    )


def _is_event(row: object) -> bool:
    if not isinstance(row, dict) or "role" in row:
        return False
    kind = row.get("type")
    if not isinstance(kind, str):
        return False
    if kind in _SPOKEN:
        return isinstance(row.get("message"), dict)
    return (
        kind in _OTHER_EVENTS or (kind in _EVENTS and "content" not in row) or "parentUuid" in row
    )


def is_boundary(row: Row) -> bool:
    """Whether a row records that Claude Code compacted the conversation at this place."""
    return row.get("subtype") == "compact_boundary"


def _is_side(row: Row) -> bool:
    return bool(row.get("isSidechain") or row.get("parent_tool_use_id"))


def _title(rows: list[tuple[int, dict[str, Any]]]) -> str | None:
    """Return the session's last title. The first `summary` rows may belong to other sessions."""
    title: str | None = None
    uuids = {row["uuid"] for _, row in rows if isinstance(row.get("uuid"), str)}
    for _, row in rows:
        own = row.get("customTitle") or row.get("aiTitle")
        if row["type"] == "summary" and str(row.get("leafUuid")) in uuids:
            own = row.get("summary")
        title = own if isinstance(own, str) else title
    return title


def _last_of(rows: list[tuple[int, dict[str, Any]]], key: str) -> str | None:
    values = (row.get(key) for _, row in reversed(rows))
    return next((each for each in values if isinstance(each, str)), None)


@dataclass(slots=True)
class _Log(Collected):
    _numbers: dict[str, tuple[int, ...]] = field(default_factory=dict)
    _queue: Queue = field(default_factory=Queue)
    _seen: set[str] = field(default_factory=set)
    _reply: list[tuple[int, Row]] = field(default_factory=list)
    _later: list[Message] = field(default_factory=list)
    """Results that came before the rest of the reply that made the calls."""
    _has_originals: bool = False
    compacted: int = 0
    """The number of messages before the last compaction."""
    _boundary: int = 0
    """The line of that compaction's row."""
    takes_sidechain: bool = False
    """Whether the file is a sub-agent's own. Then its sidechain rows are the conversation."""

    def take(self, number: int, row: dict[str, Any]) -> None:
        """Add one row of the file."""
        if row["type"] not in _SPOKEN:
            self.left_out[f"{row['type']} row"] += 1
            if not row.get("isSidechain"):
                before = len(self.messages) + bool(self._reply) + len(self._later)
                self._queue.take(number, row, before)
                if is_boundary(row):
                    self.compacted, self._boundary = before, number
            return
        message = row.get("message")
        if not isinstance(message, dict):
            raise InvalidTranscript(self.source, "the row has no message", line=number)
        reason = self._reason_to_leave_out(row, message)
        if reason:
            self.left_out[f"{reason} row"] += 1
            return
        said = _answers_in(row.pop("toolUseResult", None), message)
        if isinstance(row.get("uuid"), str):
            self._seen.add(row["uuid"])
        if row["type"] == "assistant" and (self._continues(message) or self._reopened(message)):
            self._reply.append((number, row))
            return
        self._finish_reply()
        self._has_originals |= not row.get("isCompactSummary")
        self._reply.append((number, row))
        if row["type"] == "user":
            self._finish_reply(said)

    def finish(self) -> None:
        """Finish the last reply, and insert the prompts of the queue."""
        self._finish_reply()
        typed = self._queue.placed(self.messages, self.rows)
        for at, number, row in reversed(typed):
            message = self._message([(number, row)]).model_copy(update={"metadata": _PERSON})
            self.messages.insert(at, message)
            self.compacted += at <= self.compacted and number < self._boundary
            self.rows[message.id] = (row,)

    def _finish_reply(self, said: tuple[PersonWords, ...] = ()) -> None:
        if not self._reply:
            return
        message = self._message(self._reply)
        if words := person_text(message):
            self._queue.repeat(words)
        if said := said or self._refusals(message):
            metadata = message.metadata.model_copy(update={"said": said})
            message = message.model_copy(update={"metadata": metadata})
        self.messages += [message, *self._later]
        self.rows[message.id] = tuple(row for _, row in self._reply)
        self._numbers[message.id] = tuple(number for number, _ in self._reply)
        self._reply, self._later = [], []

    def _refusals(self, message: Message) -> tuple[PersonWords, ...]:
        """Return the user's reasons for refusals, from results of Claude Code's own tools. Errors
        of other tools may only look like a refusal.
        """
        refusals = [
            replace(words, call_id=result.call_id)
            for result in message.tool_results
            for words in refusal_in(result)
        ]
        calls = (call for each in self.messages[-20:] for call in each.tool_calls)
        names = {call.id: call.name for call in calls} if refusals else {}
        return tuple(x for x in refusals if not names.get(x.call_id, "").startswith(_OTHERS))

    def _message(self, rows: Sequence[tuple[int, Row]]) -> Message:
        number, first = rows[0]
        wire = _joined([row["message"] for _, row in rows])
        message = self.parsed(_PARSER, wire, "message", line=number)
        uuid = first.get("uuid")
        update: dict[str, Any] = {"id": uuid if isinstance(uuid, str) else f"line-{number}"}
        time = time_of(first.get("timestamp"))
        if time is not None:
            update["timestamp"] = time
        if first.get("isCompactSummary"):
            update["metadata"] = _CHECKPOINT
        elif first.get("isMeta") or _is_by_a_program(first):
            update["metadata"] = _INJECTED
        return message.model_copy(update=update)

    def _continues(self, message: dict[str, Any]) -> bool:
        last = self._reply[-1][1]["message"].get("id") if self._reply else None
        return bool(last and last == message.get("id"))

    def _reopened(self, message: dict[str, Any]) -> bool:
        """Reopen the last reply if the row continues it while a call waits. Return whether so."""
        at = len(self.messages) - 1
        while at > 0 and self.messages[at].tool_results:
            at -= 1
        if self._reply or at < 0 or not message.get("id"):
            return False
        last, later = self.messages[at], self.messages[at + 1 :]
        answered = {result.call_id for each in later for result in each.tool_results}
        if last.reply_id != message["id"] or answered.issuperset(c.id for c in last.tool_calls):
            return False
        self._reply = list(zip(self._numbers[last.id], self.rows[last.id], strict=True))
        self._later = later
        del self.messages[at:]
        return True

    def _reason_to_leave_out(self, row: dict[str, Any], message: dict[str, Any]) -> str | None:
        if _is_side(row) and not self.takes_sidechain:
            return "sidechain"
        if str(row.get("uuid")) in self._seen:
            return "repeated"
        if row.get("isApiErrorMessage") or message.get("model") == _SYNTHETIC:
            return "synthetic assistant"
        if row.get("isCompactSummary") and self._has_originals:
            return "earlier summary"
        return None


def _is_by_a_program(row: Row) -> bool:
    origin = row.get("origin")
    return isinstance(origin, dict) and origin.get("kind", "human") not in ("human", "user")


def _answers_in(recorded: object, message: dict[str, Any]) -> tuple[PersonWords, ...]:
    """Return the user's answers that are recorded with the row's only result."""
    blocks = message.get("content")
    if not isinstance(recorded, dict) or not isinstance(blocks, list) or len(blocks) != 1:
        return ()
    call_id = str(blocks[0].get("tool_use_id")) if isinstance(blocks[0], dict) else ""
    answers = said_of(recorded.get("answers"), recorded.get("annotations"))
    return tuple(replace(each, call_id=call_id) for each in answers if each.words)


def _joined(messages: list[dict[str, Any]]) -> dict[str, Any]:
    """Join the messages of a reply's rows into one. The last row's usage counts."""
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
