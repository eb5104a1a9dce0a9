"""Snapshots and notes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import apsw

from compact.core.goals import Goal
from compact.core.sessions import Snapshot
from compact.storage.sqlite import sessions
from compact.storage.sqlite.rows import Row, json_of, query, text, text_of, time_of, value_of

_OF_SESSION = "session = (SELECT key FROM sessions WHERE id = ?)"


def save_snapshot(db: apsw.Connection, snapshot: Snapshot) -> None:
    """Keep a snapshot; where there is one of its id, that one stays."""
    db.execute(
        """
        INSERT INTO snapshots (session, id, branch, purpose, note, at, window, projection,
            checkpoints, goals, policy, created_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
        ON CONFLICT DO NOTHING
        """,
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
    )


def snapshots(db: apsw.Connection, session_id: str) -> list[Snapshot]:
    """The session's snapshots, the oldest first."""
    rows = query(
        db,
        f"""
        SELECT id, branch, purpose, note, at, window, projection, checkpoints, goals, policy,
            created_at FROM snapshots WHERE {_OF_SESSION} ORDER BY key
        """,
        (text(session_id),),
    )
    return [_snapshot_of(session_id, row) for row in rows]


def _snapshot_of(session_id: str, row: Row) -> Snapshot:
    snapshot_id, branch, purpose, note, at, window, projection, *rest = row
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
    db.execute(
        "INSERT INTO notes VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET value = excluded.value",
        (session, text(name), json_of(value)),
    )


def notes(db: apsw.Connection, session_id: str) -> dict[str, Mapping[str, Any]]:
    """The session's notes by name."""
    sql = f"SELECT name, value FROM notes WHERE {_OF_SESSION}"
    return {text_of(name): value_of(value) for name, value in query(db, sql, (text(session_id),))}
