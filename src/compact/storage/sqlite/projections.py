"""What is in force for a window and what was: projections, their checkpoints, and moves."""

from __future__ import annotations

from typing import Any

import apsw

from compact.core import clock_and_ids, codec
from compact.core.checkpoints import Checkpoint, Level, Span, Verdict
from compact.core.levels import at_level
from compact.core.sessions import CheckpointRef, Move, Piece, Projection, Run, Shown, Step
from compact.errors import InvalidInput, NotFound, Superseded
from compact.storage.sqlite import branch_lineage, changes, row_digests, session_metadata, sessions
from compact.storage.sqlite.rows import (
    Column,
    Row,
    first,
    json_of,
    query,
    reading,
    text,
    text_of,
    time_of,
    value_of,
)

_CHECKPOINT = f"SELECT {row_digests.columns('checkpoints')} FROM checkpoints"
_MOVE = f"""
    SELECT {row_digests.columns("moves")}, moves.number, b.id
    FROM moves JOIN branches b ON b.key = moves.branch
"""


def commit(db: apsw.Connection, step: Step) -> Move:
    """Store a step and put it in force, within a transaction that writes.

    Raises:
        Superseded: another move came in between, or another branch of that id.
        NotFound: there is no such session, or it has no such branch.
        InvalidInput: another session has a projection of that id.
    """
    session = sessions.key_of(db, step.session_id)
    newest = "SELECT number, projection FROM moves WHERE session = ? AND window = ?"
    last = first(db, f"{newest} ORDER BY number DESC LIMIT 1", (session, step.window))
    if (last[0] if last else 0) != step.base:
        raise Superseded(f"window {step.window}: another move came in between")
    if step.begins is not None:
        sessions.begin(db, step.begins)
    branch = _branch_key(db, session, step)
    if step.projection is not None:
        _keep(db, session, step.projection)
    made_at = clock_and_ids.now()
    projection = step.projection.id if step.projection else None
    before = last[1] if last else None
    row = (session, step.window, step.kind, branch, step.at, projection, before)
    row_digests.insert(db, "moves", (*row, made_at.isoformat()), "")
    number = db.last_insert_rowid()
    if step.kind != "compress":
        sessions.put_in_force(db, session, branch)
    changes.record(db, session, step.changes)
    for name, value in step.notes.items():
        session_metadata.note(db, step.session_id, name, value)
    for name in step.forget:
        db.execute("DELETE FROM notes WHERE session = ? AND name = ?", (session, text(name)))
    return Move(
        number=number,
        kind=step.kind,
        branch_id=step.branch_id,
        window=step.window,
        at=step.at,
        projection_id=projection,
        before=before,
        made_at=made_at,
    )


def _branch_key(db: apsw.Connection, session: int, step: Step) -> int:
    row = first(db, "SELECT key, session FROM branches WHERE id = ?", (text(step.branch_id),))
    if row is None:
        raise branch_lineage.no_branch(step.branch_id)
    if row[1] != session:
        raise NotFound(f"session {step.session_id!r} has no branch {step.branch_id!r}")
    return int(row[0])


def _keep(db: apsw.Connection, session: int, projection: Projection) -> None:
    """Store a projection and its checkpoints; what is known by its id stays as it was first, but
    for a checkpoint's level, which each projection knows.
    """
    for checkpoint in projection.checkpoints:
        _keep_checkpoint(db, session, checkpoint)
    known = first(db, "SELECT session FROM projections WHERE id = ?", (projection.id,))
    if known is not None:
        if known[0] != session:
            raise InvalidInput(f"another session has a projection {projection.id!r} already")
        return
    row_digests.insert(
        db,
        "projections",
        (
            session,
            projection.id,
            projection.window,
            projection.number,
            projection.at,
            projection.cut,
            projection.tokens,
            projection.parent,
            projection.made_at.isoformat(),
            json_of(projection.kept),
            json_of({each.id: each.level for each in projection.checkpoints}),
            json_of([_value_of_piece(piece) for piece in projection.pieces]),
        ),
        "",
    )


def _keep_checkpoint(db: apsw.Connection, session: int, checkpoint: Checkpoint) -> None:
    span = checkpoint.span
    row_digests.insert(
        db,
        "checkpoints",
        (
            session,
            checkpoint.id,
            checkpoint.number,
            checkpoint.level,
            span.first,
            span.last,
            span.messages,
            span.tokens,
            checkpoint.token_count,
            checkpoint.made_by,
            checkpoint.until.isoformat(),
            json_of(checkpoint.kept),
            json_of(checkpoint.released),
            json_of(checkpoint.parents),
            json_of(checkpoint.anchors),
            json_of([verdict.model_dump() for verdict in checkpoint.verdicts]),
            text(checkpoint.summary),
        ),
        "ON CONFLICT DO NOTHING",
    )


def _value_of_piece(piece: Piece) -> object:
    match piece:
        case Run():
            return [piece.first, piece.last]
        case CheckpointRef():
            return piece.checkpoint_id
        case Shown():
            return {**codec.encode_whole(piece.message), "position": piece.position}


def _piece_of(value: Any) -> Piece:  # noqa: ANN401 - any JSON value
    if isinstance(value, list):
        return Run(*value)
    if isinstance(value, str):
        return CheckpointRef(value)
    return Shown(codec.decode_whole(value), value.get("position"))


@reading
def _checkpoint_of(row: Row) -> Checkpoint:
    _, checkpoint_id, number, level, first_seq, last_seq, messages, *rest = row_digests.checked(
        "checkpoints", row
    )
    source_tokens, token_count, made_by, until, kept, *rest = rest
    released, parents, anchors, verdicts, summary = rest
    return Checkpoint(
        id=checkpoint_id,
        span=Span(first=first_seq, last=last_seq, messages=messages, tokens=source_tokens),
        summary=text_of(summary),
        level=level,
        number=number,
        kept=tuple(value_of(kept)),
        released=tuple(value_of(released)),
        anchors=tuple(value_of(anchors)),
        token_count=token_count,
        made_by=made_by,
        parents=tuple(value_of(parents)),
        verdicts=tuple(Verdict(**each) for each in value_of(verdicts)),
        until=time_of(until),
    )


def moves(
    db: apsw.Connection, session_id: str, window: int | None = None, *, most: int
) -> list[Move]:
    """The newest moves, for a window or for all, newest first."""
    where = "WHERE moves.session = (SELECT key FROM sessions WHERE id = ?)"
    bindings: tuple[Column, ...] = (text(session_id),)
    if window is not None:
        where, bindings = f"{where} AND moves.window = ?", (*bindings, window)
    sql = f"{_MOVE} {where} ORDER BY moves.number DESC LIMIT ?"
    return [_move_of(row) for row in query(db, sql, (*bindings, max(0, most)))]


@reading
def _move_of(row: Row) -> Move:
    *kept, number, branch = row
    _, window, kind, _, at, projection, before, made_at = row_digests.checked("moves", tuple(kept))
    return Move(
        number=number,
        kind=kind,
        branch_id=text_of(branch),
        window=window,
        at=at,
        projection_id=projection,
        before=before,
        made_at=time_of(made_at),
    )


def projection(db: apsw.Connection, projection_id: str) -> Projection:
    """A projection with its checkpoints.

    Raises:
        NotFound: there is none of that id.
    """
    sql = f"SELECT {row_digests.columns('projections')} FROM projections WHERE id = ?"
    row = first(db, sql, (projection_id,))
    if row is None:
        raise NotFound(f"no projection {projection_id!r} in this store")
    return _projection_of(db, row)


@reading
def _projection_of(db: apsw.Connection, row: Row) -> Projection:
    session, name, window, number, at, cut, tokens, parent, made_at, *rest = row_digests.checked(
        "projections", row
    )
    kept, named, pieces = rest
    sql = f"{_CHECKPOINT} WHERE session = ? AND id IN (SELECT key FROM json_each(?))"
    found = [_checkpoint_of(each) for each in query(db, sql, (session, named))]
    by_id = {checkpoint.id: checkpoint for checkpoint in found}
    levels: dict[str, Level] = value_of(named)
    return Projection(
        id=name,
        window=window,
        number=number,
        at=at,
        cut=cut,
        kept=tuple(value_of(kept)),
        pieces=tuple(_piece_of(value) for value in value_of(pieces)),
        checkpoints=tuple(at_level(by_id[name], level) for name, level in levels.items()),
        tokens=tokens,
        parent=parent,
        made_at=time_of(made_at),
    )


def checkpoints(db: apsw.Connection, session_id: str) -> list[Checkpoint]:
    """All checkpoints that were ever committed, the oldest first."""
    where = "WHERE session = (SELECT key FROM sessions WHERE id = ?) ORDER BY key"
    rows = query(db, f"{_CHECKPOINT} {where}", (text(session_id),))
    return [_checkpoint_of(row) for row in rows]
