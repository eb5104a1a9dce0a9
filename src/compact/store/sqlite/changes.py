"""Session logs (changes other than messages) and notes. Also converts notes of the first schema."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
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
        _insert(db, session, change)
    for number in instead_of:
        db.execute("DELETE FROM changes WHERE number = ? AND session = ?", (number, session))


def _insert(db: apsw.Connection, session: int, change: Change) -> None:
    what = change.what.model_dump(mode="json")
    kind = what.pop("kind")
    records.insert_value(db, "changes", change, session=session, kind=kind, what=json_of(what))


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


# --- notes of the first schema --------------------------------------------------------------------


def take_over_notes(db: apsw.Connection) -> None:
    """Convert notes of the first schema into log entries."""
    for (session,) in query(db, "SELECT DISTINCT session FROM notes ORDER BY session"):
        sql = "SELECT name, value FROM notes WHERE session = ? AND json_valid(value)"
        notes = {text_of(name): value_of(value) for name, value in query(db, sql, (session,))}
        numbers: dict[str, int] = {}
        for name in sorted(filter(_was_change, notes), key=_in_order):
            for change in _of_note(db, session, name, notes[name], numbers):
                _insert(db, session, change)
            numbers[name] = db.last_insert_rowid()
            key = (session, text(name))
            db.execute("DELETE FROM notes WHERE session = ? AND name = ?", key)


_TRACKED = ":tracked"


def _was_change(name: str) -> bool:
    return name == "system" or name.startswith(("goals:", "mode:", "pin:", "aside:"))


def _in_order(name: str) -> tuple[bool, str]:
    """Return a sort key that puts the progress of goals after the goals themselves."""
    return name.endswith(_TRACKED), name.removesuffix(_TRACKED)


def _of_note(
    db: apsw.Connection,
    session: int,
    name: str,
    note: Mapping[str, Any],
    numbers: Mapping[str, int],
) -> Iterator[Change]:
    kind, _, rest = name.partition(":")
    if kind in ("goals", "mode"):
        what = {"kind": kind, kind: note[kind]}
        if name.endswith(_TRACKED):
            before = [each for each in numbers if each[:6] == "goals:" and each < name]
            set_by = max(filter(lambda each: not each.endswith(_TRACKED), before), default="")
            since = numbers.get(set_by, 0)
            what = {"kind": "tracked", "goals": note["goals"], "since": since}
        yield Change(branch_id=note["branch"], at=note["at"], what=what)
    elif kind == "system":
        sql = "SELECT b.id FROM branches b JOIN sessions s ON b.key = s.branch WHERE s.key = ?"
        for (branch,) in query(db, sql, (session,)):
            what = {"kind": kind, **{name: note[name] for name in ("of", "messages", "tokens")}}
            yield Change(branch_id=text_of(branch), at=0, what=what)
    else:
        branch_id, _, position = rest.rpartition(":")
        if position.isdecimal():
            what = {"kind": kind, "tokens": note.get("tokens", 0)}
            if kind == "pin":
                what = {"kind": kind, "is_pinned": not note.get("gone")}
            yield Change(branch_id=branch_id, at=int(position), what=what)
