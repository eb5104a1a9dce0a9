"""Reads session files with a list `toolCalls` next to the messages, as one assistant wrote them.

The files are `{sessionId, startTime, lastActivity, model, provider, messages: [{role, parts,
timestamp}], toolCalls, metadata}`. Newer versions have checkpoints, and messages with a `content`.
Decisions:

- Tool calls are in a separate list, `toolCalls[{id, name, args, result, timestamp}]`. Each is added
  after the last message that is no later: a reply with the call, then its result. A call that is
  also in a message appears once, with the result from `toolCalls`.
- Summaries of checkpoints come before the messages, as checkpoints.
- Messages keep the order of the file.
- Roles and parts: see `roles`. The other keys are in the container's fields, as `record`. Counts in
  them are not used.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from compact.errors import InvalidTranscript
from compact.messages.messages import Text, ToolResult
from compact.messages.times import time_of
from compact.transcripts.documents import Document, json_object, objects_in, rows_at
from compact.transcripts.pairing import CHECKPOINT
from compact.transcripts.roles import ByRole, call_ids, result_of
from compact.transcripts.transcript import Container, Row, Transcript, text_or

NAME = "legacy_session"
_SESSION_KEYS = frozenset(("lastActivity", "toolCalls", "checkpointRecords"))
"""Keys that only these sessions have."""


def recognizes(document: Document) -> bool:
    """Whether the value is an object with a session id and messages with roles and parts."""
    value = json_object(document)
    if not isinstance(value.get("sessionId"), str) or not isinstance(value.get("messages"), list):
        return False
    match value["messages"]:
        case [{"role": _, "parts": _}, *_]:
            return True
        case [{"type": _}, *_]:
            return False
    return bool(_SESSION_KEYS & value.keys() or _checkpoints(value))


def _checkpoints(value: Row) -> list[dict[str, Any]]:
    metadata = value.get("metadata")
    beside = metadata.get("checkpoints") if isinstance(metadata, dict) else None
    return objects_in(beside) or objects_in(value.get("checkpoints"))


def read(
    document: Document, *, conversation: int | None = None, active: bool = False
) -> Transcript:
    """Read the one conversation. These files record no compactions, so `active` changes nothing.

    Raises:
        InvalidTranscript: names the wrong message or call.
    """
    value = json_object(document)
    session = ByRole(document.source)
    rows = rows_at(value, "messages", source=document.source)
    add_summaries(session, _checkpoints(value))
    take_messages(session, rows, calls=value.get("toolCalls"))
    session.finish()
    consumed = ("messages", "toolCalls")
    record = {key: each for key, each in value.items() if key not in consumed}
    return session.transcript(
        document,
        NAME,
        whole=value,
        title=text_or(value.get("title")) or text_or(value.get("name")),
        model=text_or(value.get("model")),
        session_id=text_or(value.get("sessionId")),
        container=Container(fields={"record": record}),
    )


def take_messages(session: ByRole, rows: Sequence[object], *, calls: object = None) -> None:
    """Add these messages, and insert the calls from a separate list at their times.

    Raises:
        InvalidTranscript: names the wrong message or call.
    """
    beside = _calls_beside(session.source, calls)
    times = [time_of(row.get("timestamp")) if isinstance(row, dict) else None for row in rows]
    latest = _latest(times)
    own = {call_id: at for at, row in enumerate(rows) for call_id in call_ids(row)}
    behind: dict[int, list[Row]] = {}
    for call in beside:
        at = own.get(str(call.get("id")))
        if at is None:  # after the last message that is no later; at the end without a time
            time = time_of(call.get("timestamp"))
            at = max(0, bisect_right(latest, time) - 1) if time else len(rows)
        behind.setdefault(at, []).append(call)
    for index, row in enumerate(rows):
        place = f"messages[{index}]"
        if not isinstance(row, dict):
            raise InvalidTranscript(session.source, f"{place}: expected an object")
        content = row["parts"] if "parts" in row else row.get("content")
        session.take(row.get("role"), content, row, place=place, time=times[index])
        _add_calls(session, behind.get(index, ()), own)
    _add_calls(session, behind.get(len(rows), ()), own)


def add_summaries(session: ByRole, rows: Iterable[Row]) -> None:
    """Add the summaries of these rows as checkpoints. A summary is a text, or an object with a
    text.
    """
    for row in rows:
        summary = row.get("summary")
        if isinstance(summary, dict):
            summary = summary.get("content") or summary.get("text")
        if text := text_or(summary):
            time = time_of(row.get("timestamp"))
            session.say("user", [Text(text)], row, time=time, metadata=CHECKPOINT)


def _calls_beside(source: str, calls: object) -> list[dict[str, Any]]:
    if calls is None:
        return []
    if not isinstance(calls, list):
        raise InvalidTranscript(source, "toolCalls: expected a list of calls")
    for index, call in enumerate(calls):
        if not isinstance(call, dict) or not text_or(call.get("name")):
            raise InvalidTranscript(source, f"toolCalls[{index}].name: a tool call needs one")
    return calls


def _latest(times: Sequence[datetime | None]) -> list[datetime]:
    """Return for each message the earliest time of itself and all later ones, ascending."""
    latest: list[datetime] = []
    last = datetime.max.replace(tzinfo=UTC)
    for time in reversed(times):
        last = min(last, time or last)
        latest.append(last)
    return latest[::-1]


def _add_calls(session: ByRole, calls: Iterable[Row], own: Mapping[str, int]) -> None:
    """Add each call as a reply, then its result. `own` has the ids of calls that are in messages.
    Of such a call, only the result is added.
    """
    for call in calls:
        time = time_of(call.get("timestamp"))
        tool_call = session.call_by_id(call.get("id")) if str(call.get("id")) in own else None
        if tool_call is None:
            arguments = next((call[k] for k in ("args", "arguments", "input") if k in call), None)
            tool_call = session.call(call.get("id"), call.get("name"), arguments)
            session.say("assistant", [tool_call], call, time=time)
        if (result := _result(call)) is not None:
            session.answer(tool_call, result, call, time=time)


def _result(call: Row) -> ToolResult | None:
    failed = call.get("status") in ("error", "cancelled") or bool(call.get("error"))
    output = call.get("error") if call.get("result") is None else call["result"]
    return None if output is None else result_of(output, {**call, "is_error": failed})
