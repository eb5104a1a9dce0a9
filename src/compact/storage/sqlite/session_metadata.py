"""Snapshots and notes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import apsw

from compact.core.sessions import Snapshot
from compact.storage.sqlite import records, sessions
from compact.storage.sqlite.rows import (
    Row,
    json_of,
    query,
    reading,
    text,
    text_of,
    value_of,
)

_OF_SESSION = "session = (SELECT key FROM sessions WHERE id = ?)"


def save_snapshot(db: apsw.Connection, snapshot: Snapshot) -> None:
    """Keep a snapshot; where there is one of its id, that one stays."""
    session = sessions.key_of(db, snapshot.session_id)
    records.insert_value(db, "snapshots", snapshot, records.ONCE, session=session)


def snapshots(db: apsw.Connection, session_id: str) -> list[Snapshot]:
    """The session's snapshots, the oldest first."""
    sql = f"SELECT {records.columns('snapshots')} FROM snapshots WHERE {_OF_SESSION} ORDER BY key"
    rows = query(db, sql, (text(session_id),))
    return [records.value_in(Snapshot, "snapshots", row, session_id=session_id) for row in rows]


def note(db: apsw.Connection, session_id: str, name: str, value: Mapping[str, Any] | None) -> None:
    """Keep a note in the place of the one of that name; None removes it."""
    session = sessions.key_of(db, session_id)
    if value is None:
        db.execute("DELETE FROM notes WHERE session = ? AND name = ?", (session, text(name)))
        return
    records.insert(
        db,
        "notes",
        (session, text(name), json_of(value)),
        "ON CONFLICT DO UPDATE SET value = excluded.value, digest = excluded.digest",
    )


def notes(db: apsw.Connection, session_id: str) -> dict[str, Mapping[str, Any]]:
    """The session's notes by name."""
    sql = f"SELECT {records.columns('notes')} FROM notes WHERE {_OF_SESSION}"
    return dict(_note_of(row) for row in query(db, sql, (text(session_id),)))


@reading
def _note_of(row: Row) -> tuple[str, Mapping[str, Any]]:
    _, name, value = records.checked("notes", row)
    return text_of(name), value_of(value)
