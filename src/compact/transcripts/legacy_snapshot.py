"""Reads snapshots of sessions by the assistant whose sessions `legacy_session` reads.

A snapshot has the ids of a session and the snapshot, a purpose or a summary, and the messages at
that time. Three forms are read: flat `messages`; `userMessages` and `archivedUserMessages` in
addition to `messages`; and all of this in a `conversationState`. Decisions:

- Summaries (`checkpoints[].summary`, and its own `summary`) come before the messages, as
  checkpoints, because their originals are not in the file.
- User messages from the other lists are inserted by time. Messages with the same id, or with the
  same role, text and time, appear once. Some archived messages have no role, and only their first
  hundred characters, as `summary`.
- The goals, and all other keys, are in the container's fields, as `record`.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from compact.errors import InvalidTranscript
from compact.json_text import write_json
from compact.messages.times import time_of
from compact.transcripts.documents import Document, json_object, objects_in
from compact.transcripts.legacy_session import add_summaries, take_messages
from compact.transcripts.roles import ByRole
from compact.transcripts.transcript import Container, Row, Transcript, newer_than, text_or

NAME, _VERSION = "legacy_snapshot", 1
_STATES = ("conversationState", "state", "context")
"""Keys for the object with the messages, if the snapshot itself does not have them."""
BEGINNING = 100
"""How many characters of an archived message such files contain."""
_LISTS = ("archivedUserMessages", "userMessages", "messages")
_MARKS = ("purpose", "reason", "summary", "description", "conversationState", "userMessages",
         "archivedUserMessages", "tokenCount", "snapshotId", "trigger")  # fmt: skip
"""Keys of a snapshot that a session does not have."""


def recognizes(document: Document) -> bool:
    """Whether the value is an object with an id, a session's id and messages."""
    value = json_object(document)
    own_id = text_or(value.get("id")) or text_or(value.get("snapshotId"))
    if not (own_id and _session_of(value) and _lists(_state(value))):
        return False
    match value:
        case {"timestamp": _, "messages": [{"role": _, "parts": _}, *_]}:
            return "lastActivity" not in value
    return bool(set(_MARKS) & value.keys())


def read(
    document: Document, *, conversation: int | None = None, active: bool = False
) -> Transcript:
    """Read the messages in the snapshot. `active` changes nothing.

    Raises:
        InvalidTranscript: names the wrong message.
    """
    value = json_object(document)
    state = _state(value)
    session = ByRole(document.source)
    add_summaries(session, (*objects_in(state.get("checkpoints")), value))
    for name in _lists(state):
        if not isinstance(state[name], list):
            raise InvalidTranscript(document.source, f"{name}: expected a list of messages")
    rows, repeated = _in_order(state)
    if repeated:
        session.left_out["message that is in two lists|messages that are in two lists"] = repeated
    if cut := sum(len(row["summary"]) >= BEGINNING for row in rows if _is_beginning(row)):
        words = "of which only the beginning is kept"
        session.left_out[f"message {words}|messages {words}"] = cut
    rows = [
        {**row, "role": "user", "content": row["summary"]} if _is_beginning(row) else row
        for row in rows
    ]
    take_messages(session, rows, calls=state.get("toolCalls") or value.get("toolCalls"))
    session.finish()
    record = {key: each for key, each in value.items() if key not in (*_LISTS, "toolCalls")}
    purpose = text_or(value.get("purpose")) or "snapshot"
    return session.transcript(
        document,
        NAME,
        whole=value,
        before=newer_than(_VERSION, value.get("version")),
        after=_goals(state),
        title=f"{purpose} of {_session_of(value)}",
        model=text_or(value.get("model")),
        session_id=_session_of(value),
        container=Container(fields={"record": record}),
    )


def _session_of(value: Row) -> str | None:
    return text_or(value.get("sessionId")) or text_or(value.get("session_id"))


def _state(value: Row) -> Row:
    for name in _STATES:
        state = value.get(name)
        if isinstance(state, dict) and _lists(state):
            return state
    return value


def _lists(state: Mapping[str, Any]) -> list[str]:
    return [name for name in _LISTS if name in state]


def _in_order(state: Row) -> tuple[list[Any], int]:
    """Return the messages of all lists by time, and how many of them are in two lists."""
    rows: list[Any] = []
    seen: set[str] = set()
    repeated = 0
    for name in reversed(_LISTS):
        own: set[str] = set()
        for row in state.get(name) or []:
            keys = _keys(row)
            if keys & seen:
                repeated += 1
                continue
            own |= keys
            rows.append(row)
        seen |= own
    if len(_lists(state)) == 1:
        return rows, repeated
    last = datetime.min.replace(tzinfo=UTC)
    timed: list[tuple[datetime, Any]] = []
    for row in rows:
        last = (time_of(row.get("timestamp")) if isinstance(row, dict) else None) or last
        timed.append((last, row))
    return [row for _, row in sorted(timed, key=lambda each: each[0])], repeated


def _is_beginning(row: object) -> bool:
    match row:
        case {"role": _} | {"content": _}:
            return False
        case {"summary": str()}:
            return True
    return False


def _keys(row: object) -> set[str]:
    """Return the keys of a message. Messages with a common key are the same."""
    if not isinstance(row, dict):
        return set()
    if own := text_or(row.get("id")):
        return {own}
    content = row["parts"] if "parts" in row else row.get("content")
    return {write_json([row.get("role"), content, row.get("timestamp")])}


def _goals(state: Row) -> tuple[str, ...]:
    goals = objects_in(state.get("goals"))
    if not goals:
        return ()
    return (f"{len(goals)} goal{'s' * (len(goals) > 1)}, which no message says",)
