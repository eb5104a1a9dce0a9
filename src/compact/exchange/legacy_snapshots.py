"""A snapshot of an older program as a snapshot of its session: where its messages stand in the
session's history, that position.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any, get_args

from compact.exchange.importing import RECORD
from compact.exchange.session_file import SessionFile
from compact.messages.goals import Goal
from compact.messages.messages import Message
from compact.messages.sessions import Purpose, Session, Snapshot

FORMAT = "legacy_snapshot"
"""The name of their format."""
NOTE = "legacy snapshot:"
"""How the name of the session's note begins that holds what the file says; the snapshot's id
follows."""
_BEGINNING = 100
"""Characters of an archived message of a person's that such programs keep."""
_ENDED = frozenset(("completed", "done", "achieved"))
"""What such programs call a goal that is done."""


def as_snapshot(
    read: SessionFile, session: Session, history: Sequence[Message], window: int
) -> Snapshot | None:
    """The snapshot of a session with that history that a file holds; None where something that was
    said in the file was not said in the session, in this order.
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


def _position(said: Sequence[Message], history: Sequence[Message]) -> int | None:
    """How many messages the history had when the last of these was said."""
    at, found = 0, False
    for role, text in _words(said):
        while at < len(history) and not _is_said(history[at], role, text):
            at += 1
        if at == len(history):
            return None
        at, found = at + 1, True
    while found and at < len(history) and history[at].role == "tool":
        at += 1
    return at if found else None


def _is_said(message: Message, role: str, text: str) -> bool:
    """Whether a message says that, or begins so where the file keeps only beginnings."""
    said = message.text.strip()
    is_beginning = len(text) >= _BEGINNING and said.startswith(text.rstrip(".…"))
    return message.role == role and (said == text or is_beginning)


def _words(messages: Sequence[Message]) -> Iterator[tuple[str, str]]:
    """What was said in them by the person and the assistant; a summary was not."""
    for message in messages:
        is_said = message.role in ("user", "assistant") and message.metadata.source != "checkpoint"
        if is_said and message.text.strip():
            yield message.role, message.text.strip()


def goals_in(record: Mapping[str, Any]) -> Iterator[Goal]:
    """The goals that a file holds, as far as it says them in words."""
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
