"""Reading the session files of an older assistant: `{sessionId, startTime, lastActivity, model,
provider, messages: [{role, parts, timestamp}], toolCalls, metadata}`; and those of its successor,
whose messages have a `content` and which tells of its checkpoints.

What is decided here:

- Tool calls stand beside the messages, `toolCalls[{id, name, args, result, timestamp}]`. Each is
  put at its time: behind the last message that is no later, as a reply that calls and its result.
  A call that a message makes itself is made once, its result taken from there.
- Summaries of checkpoints stand before the messages, as checkpoints.
- The messages are kept in the order of the file; what its times say decides nothing else.
- Roles and parts: see `roles`. The other keys are in the container's fields, as `record`; the
  counts in them are not believed.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from compact.errors import InvalidTranscript
from compact.messages.messages import Text, ToolResult
from compact.transcripts.documents import Document, json_object, objects_in, rows_at
from compact.transcripts.pairing import CHECKPOINT
from compact.transcripts.roles import ByRole, call_ids, made_result
from compact.transcripts.transcript import Container, Row, Transcript, text_or, time_of

NAME = "legacy_session"
_OWN = frozenset(("lastActivity", "toolCalls", "checkpointRecords"))
"""Keys that only these sessions have."""


def recognizes(document: Document) -> bool:
    """Whether the value is an object with a session id, and messages with roles and parts."""
    value = json_object(document)
    if not isinstance(value.get("sessionId"), str) or not isinstance(value.get("messages"), list):
        return False
    match value["messages"]:
        case [{"role": _, "parts": _}, *_]:
            return True
        case [{"type": _}, *_]:
            return False
    return bool(_OWN & value.keys() or _checkpoints(value))


def _checkpoints(value: Row) -> list[dict[str, Any]]:
    """The checkpoints that a session tells of."""
    known = value.get("metadata")
    beside = known.get("checkpoints") if isinstance(known, dict) else None
    return objects_in(beside) or objects_in(value.get("checkpoints"))


def read(
    document: Document, *, conversation: int | None = None, active: bool = False
) -> Transcript:
    """The file's one conversation; `active` changes nothing, these files know no boundaries.

    Raises:
        InvalidTranscript: naming the message or the call that is wrong.
    """
    value = json_object(document)
    session = ByRole(document.source)
    rows = rows_at(value, "messages", source=document.source)
    say_summaries(session, _checkpoints(value))
    take_messages(session, rows, calls=value.get("toolCalls"))
    session.finish()
    known = ("messages", "toolCalls")
    record = {key: each for key, each in value.items() if key not in known}
    return Transcript(
        source=document.source,
        format=NAME,
        wire="chat_completions",
        messages=tuple(session.messages),
        title=text_or(value.get("title")) or text_or(value.get("name")),
        model=text_or(value.get("model")),
        session_id=text_or(value.get("sessionId")),
        rows=session.rows,
        notes=session.notes(),
        container=Container(fields={"record": record}),
    )


def take_messages(
    session: ByRole, rows: Sequence[object], *, calls: object = None, path: str = "messages"
) -> None:
    """Take these messages, and the calls that stand beside them at their times.

    Raises:
        InvalidTranscript: naming the message or the call that is wrong.
    """
    asked = _asked(session.source, calls)
    times = [time_of(row.get("timestamp")) if isinstance(row, dict) else None for row in rows]
    latest = _latest(times)
    own = {known: at for at, row in enumerate(rows) for known in call_ids(row)}
    behind: dict[int, list[Row]] = {}
    for call in asked:
        at = own.get(str(call.get("id")))
        at = _place(time_of(call.get("timestamp")), latest) if at is None else at
        behind.setdefault(at, []).append(call)
    for index, row in enumerate(rows):
        place = f"{path}[{index}]"
        if not isinstance(row, dict):
            raise InvalidTranscript(session.source, f"{place}: expected an object")
        content = row["parts"] if "parts" in row else row.get("content")
        session.take(row.get("role"), content, row, place=place, time=times[index])
        _say_calls(session, behind.get(index, ()), own)
    _say_calls(session, behind.get(len(rows), ()), own)


def say_summaries(session: ByRole, rows: Iterable[Row]) -> None:
    """Say the summaries of these rows, as checkpoints: a text each, or a message that holds one."""
    for row in rows:
        summary = row.get("summary")
        if isinstance(summary, dict):
            summary = summary.get("content") or summary.get("text")
        if text := text_or(summary):
            time = time_of(row.get("timestamp"))
            session.say("user", [Text(text)], row, time=time, metadata=CHECKPOINT)


def _asked(source: str, calls: object) -> list[dict[str, Any]]:
    """The calls beside the messages, in the order of their times."""
    if calls is None:
        return []
    if not isinstance(calls, list):
        raise InvalidTranscript(source, "toolCalls: expected a list of calls")
    for index, call in enumerate(calls):
        if not isinstance(call, dict) or not text_or(call.get("name")):
            raise InvalidTranscript(source, f"toolCalls[{index}].name: a tool call needs one")
    return calls


def _latest(times: Sequence[datetime | None]) -> list[datetime]:
    """For each message the earliest time of it and of those behind it: these only ascend."""
    found: list[datetime] = []
    last = datetime.max.replace(tzinfo=UTC)
    for time in reversed(times):
        last = min(last, time or last)
        found.append(last)
    return found[::-1]


def _place(time: datetime | None, latest: Sequence[datetime]) -> int:
    """The message behind which a call stands: the last that is no later, or the first. A call
    without a time stands at the end.
    """
    if time is None:
        return len(latest)
    return max(0, bisect_right(latest, time) - 1)


def _say_calls(session: ByRole, calls: Iterable[Row], own: Mapping[str, int]) -> None:
    """Each call that no message made as a reply of its own, and its result behind it. `own` are the
    ids of those that messages made.
    """
    for call in calls:
        time = time_of(call.get("timestamp"))
        made = session.known(call.get("id")) if str(call.get("id")) in own else None
        if made is None:
            arguments = next((call[k] for k in ("args", "arguments", "input") if k in call), None)
            made = session.call(call.get("id"), call.get("name"), arguments)
            session.say("assistant", [made], call, time=time)
        if (result := _result(call)) is not None:
            session.answer(made, result, call, time=time)


def _result(call: Row) -> ToolResult | None:
    """What came of a call: its result, else the error that it failed with, else None."""
    failed = call.get("status") in ("error", "cancelled") or bool(call.get("error"))
    said = call.get("error") if call.get("result") is None else call["result"]
    return None if said is None else made_result(said, {**call, "is_error": failed})
