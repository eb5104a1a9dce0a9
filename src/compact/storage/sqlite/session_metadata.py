"""Snapshots and notes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import apsw

from compact.core.goals import Goal
from compact.core.sessions import Snapshot
from compact.storage.sqlite import row_digests, sessions
from compact.storage.sqlite.rows import (
    Row,
    json_of,
    query,
    reading,
    text,
    text_of,
    time_of,
    value_of,
)

_OF_SESSION = "session = (SELECT key FROM sessions WHERE id = ?)"


def save_snapshot(db: apsw.Connection, snapshot: Snapshot) -> None:
    """Keep a snapshot; where there is one of its id, that one stays."""
    row_digests.insert(
        db,
        "snapshots",
        (
            sessions.key_of(db, snapshot.session_id),
            snapshot.id,
            text(snapshot.branch_id),
            snapshot.purpose,
            text(snapshot.note),
            snapshot.at,
            snapshot.window,
            snapshot.projection_id,
            json_of(snapshot.checkpoint_ids),
            json_of([goal.model_dump(mode="json") for goal in snapshot.goals]),
            json_of(snapshot.policy),
            snapshot.created_at.isoformat(),
        ),
        "ON CONFLICT DO NOTHING",
    )


def snapshots(db: apsw.Connection, session_id: str) -> list[Snapshot]:
    """The session's snapshots, the oldest first."""
    sql = f"SELECT {row_digests.columns('snapshots')} FROM snapshots WHERE {_OF_SESSION}"
    rows = query(db, f"{sql} ORDER BY key", (text(session_id),))
    return [_snapshot_of(session_id, row) for row in rows]


@reading
def _snapshot_of(session_id: str, row: Row) -> Snapshot:
    _, snapshot_id, branch, purpose, note, at, window, projection, *rest = row_digests.checked(
        "snapshots", row
    )
    checkpoints, goals, policy, created_at = rest
    return Snapshot(
        id=snapshot_id,
        session_id=session_id,
        branch_id=text_of(branch),
        purpose=purpose,
        note=text_of(note),
        at=at,
        window=window,
        projection_id=projection,
        checkpoint_ids=tuple(value_of(checkpoints)),
        goals=tuple(Goal(**each) for each in value_of(goals)),
        policy=value_of(policy),
        created_at=time_of(created_at),
    )


def note(db: apsw.Connection, session_id: str, name: str, value: Mapping[str, Any] | None) -> None:
    """Keep a note in the place of the one of that name; None removes it."""
    session = sessions.key_of(db, session_id)
    if value is None:
        db.execute("DELETE FROM notes WHERE session = ? AND name = ?", (session, text(name)))
        return
    row_digests.insert(
        db,
        "notes",
        (session, text(name), json_of(value)),
        "ON CONFLICT DO UPDATE SET value = excluded.value, digest = excluded.digest",
    )


def notes(db: apsw.Connection, session_id: str) -> dict[str, Mapping[str, Any]]:
    """The session's notes by name."""
    sql = f"SELECT {row_digests.columns('notes')} FROM notes WHERE {_OF_SESSION}"
    return dict(_note_of(row) for row in query(db, sql, (text(session_id),)))


@reading
def _note_of(row: Row) -> tuple[str, Mapping[str, Any]]:
    _, name, value = row_digests.checked("notes", row)
    return text_of(name), value_of(value)
