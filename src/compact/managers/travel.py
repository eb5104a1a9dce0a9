"""Time travel: snapshots, restore, branches, undo and redo. What came after is never lost."""

from __future__ import annotations

from compact.core.policy import CompactPolicy
from compact.core.sessions import Branch, Move, MoveKind, Projection, Purpose, Snapshot
from compact.errors import NotFound
from compact.managers.state import SessionState
from compact.managers.view import View

MOST_MOVES = 100_000


def take_snapshot(
    state: SessionState, view: View, *, purpose: Purpose = "recovery", note: str = ""
) -> Snapshot:
    """Keep where the session stands: a position and ids, whatever the session's size."""
    projection = view.projection
    snapshot = Snapshot(
        session_id=state.id,
        branch_id=state.branch_id,
        purpose=purpose,
        note=note,
        at=len(state.history),
        window=view.size,
        projection_id=projection.id if projection else None,
        checkpoint_ids=tuple(c.id for c in projection.checkpoints) if projection else (),
        goals=state.goals,
        policy=state.policy.model_dump(mode="json"),
    )
    state.store.save_snapshot(snapshot)
    return snapshot


def find_snapshot(state: SessionState, snapshot_id: str) -> Snapshot:
    """The session's snapshot of that id.

    Raises:
        NotFound: naming the newest ones there are.
    """
    known = state.store.snapshots(state.id)
    for snapshot in known:
        if snapshot.id == snapshot_id:
            return snapshot
    names = ", ".join(s.id for s in known[-5:]) or "none"
    raise NotFound(f"no snapshot {snapshot_id!r} in session {state.id!r}; the newest: {names}")


def restore(state: SessionState, view: View, snapshot: Snapshot) -> None:
    """Go on from a snapshot: position, checkpoints, goals and policy. What came after it stays on
    its own branch.
    """
    take_snapshot(state, view, purpose="rollback", note=f"before restoring {snapshot.id}")
    projection = _projection(state, snapshot.projection_id)
    state.policy = CompactPolicy.model_validate(snapshot.policy)
    if snapshot.branch_id != state.branch_id or snapshot.at < len(state.history):
        state.open(state.store.fork(snapshot.branch_id, snapshot.at))
    state.set_goals(snapshot.goals)
    view.go("restore", projection, at=snapshot.at)


def branch_off(state: SessionState, view: View, at: int) -> Branch:
    """Go on from a position on a branch of its own; what came after stays where it is.

    Raises:
        NotFound: the session has fewer messages.
    """
    if not 0 <= at <= len(state.history):
        raise NotFound(f"session {state.id!r} has {len(state.history)} messages, not {at}")
    goals = state.goals_before(at)
    move = view.move_at(at)
    projection = _projection(state, move.projection_id if move else None)
    branch = state.store.fork(state.branch_id, at)
    state.open(branch)
    state.set_goals(goals)
    view.go("restore", projection, at=at)
    return state.store.branch(branch.id)


def undo(state: SessionState, view: View) -> Move:
    """Go back to what was in force before the last compression, restore or branch.

    Messages stay; those that came since are in view.

    Raises:
        NotFound: there is nothing to undo.
    """
    done, _ = _places(state, view)
    if len(done) < 2:
        raise NotFound(f"nothing to undo: session {state.id!r} was never compressed or moved")
    return _go(state, view, "undo", done[-2])


def redo(state: SessionState, view: View) -> Move:
    """Take the last undo back.

    Raises:
        NotFound: nothing was undone, or something else came since.
    """
    _, undone = _places(state, view)
    if not undone:
        raise NotFound(f"nothing to redo in session {state.id!r}")
    return _go(state, view, "redo", undone[-1])


Place = tuple[str, str | None]
"""A branch and the projection in force on it."""


def _go(state: SessionState, view: View, kind: MoveKind, place: Place) -> Move:
    branch_id, projection_id = place
    projection = _projection(state, projection_id)
    if branch_id != state.branch_id:
        state.open(state.store.branch(branch_id))
    return view.go(kind, projection, at=len(state.history))


def _places(state: SessionState, view: View) -> tuple[list[Place], list[Place]]:
    """The places one can go back to, the present one last, and those that were undone."""
    moves = state.store.moves(state.id, view.size, most=MOST_MOVES)[::-1]
    done: list[Place] = [_before(state, moves[0])] if moves else []
    undone: list[Place] = []
    for move in moves:
        match move.kind:
            case "undo":
                undone.append(done.pop())
            case "redo":
                done.append(undone.pop())
            case "compress" | "restore":
                done.append((move.branch_id, move.projection_id))
                undone.clear()
    return done, undone


def _before(state: SessionState, first: Move) -> Place:
    """Where a window stood before its first move: on the bare history."""
    branch = state.store.branch(first.branch_id)
    if first.kind == "restore" and branch.parent is not None and branch.fork == first.at:
        return branch.parent, None
    return branch.id, None


def _projection(state: SessionState, projection_id: str | None) -> Projection | None:
    return None if projection_id is None else state.projection(projection_id)
