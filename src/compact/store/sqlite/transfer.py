"""Stores whole sessions, and appends what was added to their source. Each is one transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import apsw

from compact.errors import InvalidInput, Superseded
from compact.messages.sessions import Entry, Session
from compact.store.sqlite import branch_lineage, messages, projections, records
from compact.store.sqlite import changes as change_log
from compact.store.sqlite import sessions as session_rows
from compact.store.sqlite.rows import first, json_of, text
from compact.store.whole_session import WholeSession, since


def put(db: apsw.Connection, whole: WholeSession, *, replaces: bool = False) -> Session:
    """Store a new session with everything that belongs to it, and delete the one with its id if it
    `replaces` that. Return it.

    Raises:
        Superseded: a session with that id exists.
        InvalidInput: another session has a branch or projection with one of its ids.
    """
    session, (root, *branches) = whole.session, whole.parts
    if replaces and session_rows.session(db, session.id) is not None:
        session_rows.delete(db, session.id)
    if session_rows.session(db, session.id) is not None:
        raise Superseded(f"there is a session {session.id!r}")
    session_rows.create(db, session.model_copy(update={"branch": root.branch}))
    messages.append(db, root.branch.id, root.entries, expected=0)
    for part in branches:
        session_rows.begin(db, part.branch)
        messages.append(db, part.branch.id, part.entries, expected=part.branch.fork)
    key = records.key_of(db, session.id)
    session_rows.put_in_force(db, key, branch_lineage.tail(db, session.branch.id).key)
    _put_log(db, session.id, whole)
    _put_view(db, key, whole)
    stored = session_rows.session(db, session.id)
    assert stored is not None, "just stored"
    return stored


def _put_log(db: apsw.Connection, session_id: str, whole: WholeSession) -> None:
    numbers: list[int] = []
    for change in whole.changes:
        what = since(change.what, numbers)
        change_log.record(db, session_id, [change.model_copy(update={"what": what})])
        numbers.append(db.last_insert_rowid())
    for name, value in (whole.notes or {}).items():
        change_log.note(db, session_id, name, value)


def _put_view(db: apsw.Connection, key: int, whole: WholeSession) -> None:
    for checkpoint in whole.checkpoints:
        records.insert_value(db, "checkpoints", checkpoint, records.ONCE, session=key)
    for projection in whole.projections:
        known = first(db, "SELECT 1 FROM projections WHERE id = ?", (projection.id,))
        if known is not None:
            raise InvalidInput(f"there is a projection {projection.id!r} already")
        projections.keep(db, key, projection)
    for move in whole.moves:
        branch = branch_lineage.tail(db, move.branch_id).key
        records.insert_value(db, "moves", move, session=key, branch=branch)
    for snapshot in whole.snapshots:
        projections.save_snapshot(db, snapshot)


def add_from_source(
    db: apsw.Connection,
    branch_id: str,
    entries: Sequence[Entry],
    *,
    expected: int,
    metadata: Mapping[str, Any],
) -> None:
    """Append what was added to a session's source, and update the session's metadata.

    Raises:
        Superseded: the branch no longer has `expected` messages.
        InvalidMessage: an entry cannot be stored.
    """
    messages.append(db, branch_id, entries, expected=expected)
    session_id = branch_lineage.branch(db, branch_id).session_id
    session = session_rows.session(db, session_id)
    merged = {**(session.metadata if session else {}), **metadata}
    sql = "UPDATE sessions SET metadata = ? WHERE id = ?"
    db.execute(sql, (json_of(merged), text(session_id)))
