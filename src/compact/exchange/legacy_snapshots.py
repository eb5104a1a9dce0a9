"""Turns a snapshot file of another program into a snapshot of its session.

The program is the one whose sessions `transcripts.legacy_session` reads. The snapshot is placed in
the session's history after the messages that the file has.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any, get_args

from compact.exchange.importing import RECORD
from compact.messages.goals import Goal
from compact.messages.messages import Message
from compact.messages.sessions import Purpose, Session, Snapshot
from compact.store.session_file import SessionFile

FORMAT = "legacy_snapshot"
"""The name of the transcript format of such files."""
NOTE = "legacy snapshot:"
"""Prefix of the name of the note that keeps the file's contents. The snapshot's id follows."""
_BEGINNING = 100
"""How many characters of a user's message such files contain, if the message was archived."""
_ENDED = frozenset(("completed", "done", "achieved"))
"""Status words that mean a finished goal in the other program's snapshot files."""


def as_snapshot(
    read: SessionFile, session: Session, history: Sequence[Message], window: int
) -> Snapshot | None:
    """Return the snapshot in a file, for a session with this history. Return None if the history
    does not contain the file's messages in the same order.
    """
    at = _position(read.messages, history)
    if at is None:
        return None
    record = read.session.metadata.get(RECORD, {})
    purpose = record.get("purpose")
    own = record.get("id") or record.get("snapshotId")
    note = record.get("summary") or record.get("description") or f"{own}, of an older program"
    return Snapshot(
        id=f"sn-{sha256(f'{session.id} {own}'.encode()).hexdigest()[:12]}",
        session_id=session.id,
        branch_id=session.branch.id,
        purpose=purpose if purpose in get_args(Purpose) else "recovery",
        note=str(note),
        at=at,
        window=window,
        goals=tuple(goals_in(record)),
        created_at=read.messages[-1].timestamp,
    )


def _position(messages: Sequence[Message], history: Sequence[Message]) -> int | None:
    """Return the position after the last of these messages and its tool results, or None."""
    at = 0
    for role, text in _texts(messages):
        while at < len(history) and not _says(history[at], role, text):
            at += 1
        if at == len(history):
            return None
        at += 1
    while 0 < at < len(history) and history[at].role == "tool":
        at += 1
    return at or None


def _says(message: Message, role: str, text: str) -> bool:
    own = message.text.strip()
    is_beginning = len(text) >= _BEGINNING and own.startswith(text.rstrip(".…"))
    return message.role == role and (own == text or is_beginning)


def _texts(messages: Sequence[Message]) -> Iterator[tuple[str, str]]:
    for message in messages:
        is_talk = message.role in ("user", "assistant") and message.metadata.source != "checkpoint"
        if is_talk and message.text.strip():
            yield message.role, message.text.strip()


def goals_in(record: Mapping[str, Any]) -> Iterator[Goal]:
    """Yield those goals of a file that have a text."""
    for name in ("conversationState", "state", "context"):
        if isinstance(inner := record.get(name), dict):
            record = {**record, **inner}
    stack = record.get("goalStack")
    if isinstance(stack, dict):
        listed = [stack.get("activeGoal"), *(stack.get("goals") or ())]
        record = {"goals": [each for each in listed if each], **record}
    rows = record.get("goals")
    for row in rows if isinstance(rows, list) else ():
        value = row if isinstance(row, dict) else {"text": row}
        text = next((value[k] for k in ("description", "text", "title") if value.get(k)), None)
        if isinstance(text, str) and text.strip():
            yield Goal(text=text, status="done" if value.get("status") in _ENDED else "active")
