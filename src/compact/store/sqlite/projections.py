"""Projections with their checkpoints, moves and snapshots."""

from __future__ import annotations

from collections.abc import Collection

import apsw

from compact.errors import InvalidInput, NotFound, Superseded
from compact.messages.checkpoints import Checkpoint, Level, at_level
from compact.messages.sessions import Move, Projection, Snapshot, Step
from compact.store.sqlite import branch_lineage, changes, records, sessions
from compact.store.sqlite.rows import (
    Column,
    Row,
    first,
    json_of,
    query,
    reading,
    text,
    text_of,
    value_of,
)

_CHECKPOINT = f"SELECT {records.columns('checkpoints')} FROM checkpoints"
_MOVE = f"""
    SELECT {records.columns("moves")}, moves.number, b.id
    FROM moves JOIN branches b ON b.key = moves.branch
"""


def commit(db: apsw.Connection, step: Step) -> Move:
    """Store a step and put it in force. Needs a write transaction."""
    session = records.key_of(db, step.session_id)
    newest = "SELECT number, projection FROM moves WHERE session = ? AND window = ?"
    last = first(db, f"{newest} ORDER BY number DESC LIMIT 1", (session, step.window))
    if (last[0] if last else 0) != step.base:
        raise Superseded(f"window {step.window}: another move came in between")
    if step.begins is not None:
        sessions.begin(db, step.begins)
    branch = _branch_key(db, session, step)
    if step.projection is not None:
        keep(db, session, step.projection)
    # The row gets its number when it is inserted; this one is a placeholder.
    move = step.move(step.base + 1, last[1] if last else None)
    records.insert_value(db, "moves", move, session=session, branch=branch)
    move = move.model_copy(update={"number": db.last_insert_rowid()})
    if step.kind != "compress":
        sessions.put_in_force(db, session, branch)
    changes.record_rows(db, session, step.changes)
    # includes notes that `forget` deletes: their values are checked too
    for name, value in step.notes.items():
        changes.note_row(db, session, name, value)
    for name in step.forget:
        changes.note_row(db, session, name, None)
    return move


def _branch_key(db: apsw.Connection, session: int, step: Step) -> int:
    row = first(db, "SELECT key, session FROM branches WHERE id = ?", (text(step.branch_id),))
    if row is None:
        raise branch_lineage.no_branch(step.branch_id)
    if row[1] != session:
        raise NotFound(f"session {step.session_id!r} has no branch {step.branch_id!r}")
    return int(row[0])


def keep(db: apsw.Connection, session: int, projection: Projection) -> None:
    """Store a projection and its checkpoints. Those whose id is stored already are not changed."""
    for checkpoint in projection.checkpoints:
        records.insert_value(db, "checkpoints", checkpoint, records.ONCE, session=session)
    known = first(db, "SELECT session FROM projections WHERE id = ?", (projection.id,))
    if known is not None:
        if known[0] != session:
            raise InvalidInput(f"another session has a projection {projection.id!r} already")
        return
    levels = json_of({each.id: each.level for each in projection.checkpoints})
    records.insert_value(db, "projections", projection, session=session, checkpoints=levels)


def moves(
    db: apsw.Connection, session_id: str, window: int | None = None, *, most: int
) -> list[Move]:
    """Return the newest moves of a window, or of all if `window` is None. Newest first."""
    where = f"WHERE moves.{records.OF_SESSION}"
    bindings: tuple[Column, ...] = (text(session_id),)
    if window is not None:
        where, bindings = f"{where} AND moves.window = ?", (*bindings, window)
    sql = f"{_MOVE} {where} ORDER BY moves.number DESC LIMIT ?"
    return [
        records.value_in(Move, "moves", tuple(kept), number=number, branch_id=text_of(branch))
        for *kept, number, branch in query(db, sql, (*bindings, max(0, most)))
    ]


def projection(db: apsw.Connection, projection_id: str) -> Projection:
    """Return a projection with its checkpoints.

    Raises:
        NotFound: no projection of that id.
    """
    sql = f"SELECT {records.columns('projections')} FROM projections WHERE id = ?"
    row = first(db, sql, (text(projection_id),))
    if row is None:
        raise NotFound(f"no projection {projection_id!r} in this store")
    return _projection_of(db, row)


@reading()
def _projection_of(db: apsw.Connection, row: Row) -> Projection:
    kept = records.checked("projections", row)
    columns = dict(zip(records.COLUMNS["projections"], kept, strict=True))
    named = columns["checkpoints"]
    sql = f"{_CHECKPOINT} WHERE session = ? AND id IN (SELECT key FROM json_each(?))"
    by_id = {row[1]: _checkpoint_of(row) for row in query(db, sql, (columns["session"], named))}
    levels: dict[str, Level] = value_of(named)
    live = tuple(at_level(by_id[name], level) for name, level in levels.items())
    return records.value_in(Projection, "projections", row, checkpoints=live)


def _checkpoint_of(row: Row) -> Checkpoint:
    return records.value_in(Checkpoint, "checkpoints", row)


def checkpoints(db: apsw.Connection, session_id: str) -> list[Checkpoint]:
    """Return all checkpoints ever committed, oldest first."""
    return list(map(_checkpoint_of, records.of_session(db, "checkpoints", session_id)))


def save_snapshot(db: apsw.Connection, snapshot: Snapshot) -> None:
    """Store a snapshot. If its id is stored already, nothing changes."""
    session = records.key_of(db, snapshot.session_id)
    records.insert_value(db, "snapshots", snapshot, records.ONCE, session=session)


def snapshots(db: apsw.Connection, session_id: str) -> list[Snapshot]:
    """Return the session's snapshots, oldest first."""
    rows = records.of_session(db, "snapshots", session_id)
    return [records.value_in(Snapshot, "snapshots", row, session_id=session_id) for row in rows]


def delete_snapshots(db: apsw.Connection, session_id: str, ids: Collection[str]) -> None:
    """Delete the session's snapshots with these ids. Unknown ids are ignored."""
    sql = f"DELETE FROM snapshots WHERE {records.OF_SESSION} AND id = ?"
    db.executemany(sql, [(text(session_id), text(each)) for each in ids])
