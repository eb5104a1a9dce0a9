"""Session logs (changes other than messages) and notes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import apsw

from compact.messages.changes import Change
from compact.store.sqlite import records
from compact.store.sqlite.rows import Row, json_of, query, reading, text, text_of, value_of


def record(
    db: apsw.Connection,
    session_id: str,
    changes: Sequence[Change],
    *,
    instead_of: Collection[int] = (),
) -> None:
    """Append changes to a session's log, all or none, numbered in order. Delete the entries that
    they replace; `instead_of` are those entries' numbers.
    """
    record_rows(db, records.key_of(db, session_id), changes, instead_of)


def record_rows(
    db: apsw.Connection, session: int, changes: Sequence[Change], instead_of: Collection[int] = ()
) -> None:
    """Like `record`, with the session's key instead of its id."""
    for change in changes:
        what = change.what.model_dump(mode="json")
        kind = what.pop("kind")
        records.insert_value(db, "changes", change, session=session, kind=kind, what=json_of(what))
    for number in instead_of:
        db.execute("DELETE FROM changes WHERE number = ? AND session = ?", (number, session))


def changes(db: apsw.Connection, session_id: str, *, after: int = 0) -> list[Change]:
    """Return the log entries with numbers above `after`, in order."""
    sql = f"""
        SELECT number, {records.columns("changes")} FROM changes
        WHERE {records.OF_SESSION} AND number > ? ORDER BY number
    """
    return [_change_of(row) for row in query(db, sql, (text(session_id), after))]


@reading()
def _change_of(row: Row) -> Change:
    number, *kept, kind, what, digest = row
    fields = {"kind": kind, **value_of(what)}
    return records.value_in(
        Change, "changes", (*kept, kind, what, digest), number=number, what=fields
    )


def note(db: apsw.Connection, session_id: str, name: str, value: Mapping[str, Any] | None) -> None:
    """Store a note; it replaces an earlier note of that name. None deletes it."""
    note_row(db, records.key_of(db, session_id), name, value)


def note_row(db: apsw.Connection, session: int, name: str, value: Mapping[str, Any] | None) -> None:
    """Like `note`, with the session's key instead of its id."""
    if value is None:
        db.execute("DELETE FROM notes WHERE session = ? AND name = ?", (session, text(name)))
        return
    instead = "ON CONFLICT DO UPDATE SET value = excluded.value, digest = excluded.digest"
    records.insert(db, "notes", (session, text(name), json_of(value)), instead)


def notes(db: apsw.Connection, session_id: str) -> dict[str, Mapping[str, Any]]:
    """Return the session's notes by name."""
    return dict(map(_note_of, records.of_session(db, "notes", session_id, order="name")))


@reading()
def _note_of(row: Row) -> tuple[str, Mapping[str, Any]]:
    _, name, value = records.checked("notes", row)
    return text_of(name), value_of(value)
