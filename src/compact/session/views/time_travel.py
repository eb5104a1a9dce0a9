"""Takes and restores snapshots, branches, undoes and redoes. Later messages are never lost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from pydantic import ValidationError

from compact.errors import InvalidConfig, NotFound
from compact.messages.changes import Change, GoalsSet, ModeSet
from compact.messages.policy import CompactPolicy
from compact.messages.sessions import Branch, Destination, Move, Projection, Purpose, Snapshot
from compact.session.entering import new_branch
from compact.session.intake import goals_by
from compact.session.state import ALL_MOVES, SessionState

if TYPE_CHECKING:
    from compact.engine.prompt_order import Fold
    from compact.messages.context import ActiveContext
    from compact.messages.goals import Goal
    from compact.messages.messages import Message
    from compact.session.open_session import OpenSession
    from compact.session.views.view import View


class TimeTravel:
    """`ctx.time`: snapshots and branches of a session, undo and redo. Messages are never lost."""

    def __init__(self, session: OpenSession) -> None:
        self._session = session

    def snapshot(self, note: str = "", *, purpose: Purpose = "recovery") -> Snapshot:
        """Save the session's state, to `restore` it later. Return the snapshot, which is tiny. At
        most `policy.snapshots_kept` are kept: old ones are deleted, but none with your note.
        """
        session = self._session
        return take_snapshot(session.state, session.view, purpose=purpose, note=note)

    def snapshots(self) -> list[Snapshot]:
        """Return the session's snapshots, oldest first."""
        state = self._session.state
        return state.store.snapshots(state.id)

    def delete_snapshot(self, snapshot: Snapshot | str) -> None:
        """Delete a snapshot. The history keeps all messages.

        Raises:
            NotFound: the session has no such snapshot.
        """
        state = self._session.state
        state.store.delete_snapshots(state.id, [_found(state, snapshot).id])

    def restore(self, snapshot: Snapshot | str) -> None:
        """Continue from a snapshot: its position, checkpoints, goals and policy. Later messages are
        kept on their own branch.

        Raises:
            NotFound: the session has no such snapshot.
            InvalidConfig: this version has no such policy or mode; nothing was changed.
        """
        state, view = self._session.state, self._session.view
        saved = _found(state, snapshot)
        policy = _policy_of(state, saved)
        state.catch_up()
        take_snapshot(state, view, purpose="rollback", note=f"before restoring {saved.id}")
        projection = _projection(state, saved.projection_id)
        there = (saved.branch_id, saved.at, saved.goals)

        def choose() -> Destination:
            if there == (state.branch_id, len(state.history), state.goals):
                return Destination(state.branch_id, len(state.history), projection)
            return on_new_branch(state, *there, projection)

        view.go("restore", choose)
        state.policy = policy
        state.set_mode(policy.mode)
        view.reload()

    def branch(self, *, at: int) -> Branch:
        """Start a new branch from the session's first `at` messages, and return it. Later messages
        stay on the old branch.

        Raises:
            NotFound: the session has fewer than `at` messages.
        """
        return branch_off(self._session.state, self._session.view, at)

    def branches(self) -> list[Branch]:
        """Return the session's branches, oldest first."""
        state = self._session.state
        return state.store.branches(state.id)

    def undo(self) -> None:
        """Undo the last compression, restore or branch. Messages are kept.

        Raises:
            NotFound: there is nothing to undo.
        """
        self._go("undo")

    def redo(self) -> None:
        """Reverse the last undo.

        Raises:
            NotFound: nothing was undone, or something else was done since.
        """
        self._go("redo")

    def _go(self, what: Literal["undo", "redo"]) -> None:
        state, view = self._session.state, self._session.view

        def there() -> Destination:
            done, undone = _places(state, view)
            places = done[:-1] if what == "undo" else undone
            if not places:
                raise NotFound(_nothing(what, state, view))
            branch_id, projection_id = places[-1]
            at = state.store.branch(branch_id).messages
            return Destination(branch_id, at, _projection(state, projection_id))

        view.go(what, there)

    def moves(self) -> list[Move]:
        """Return the compressions, undos, redos and restores of the open branch, oldest first: all
        that changed what prompts for the window show.
        """
        session = self._session
        return list(session.state.moves(session.view.window.size, most=ALL_MOVES))[::-1]

    def context_at(self, at: int) -> ActiveContext:
        """Return the context that a model saw when the session had `at` messages. If these are all
        messages, the context also quotes what recall finds for the user's newest message.

        Raises:
            NotFound: the session has fewer than `at` messages.
        """
        state, view = self._session.state, self._session.view
        _check_length(state, at)
        projection = _projection_at(state, view.size, at)
        tracked = projection.at if projection else 0
        goals = goals_by(state, at, view.window, tracked=tracked)
        preamble = view.preamble(goals, mode=state.mode_before(at))

        def fold_with(recalled: Mapping[int, Message]) -> Fold:
            fold = view.fold(preamble)
            fold.recalled = {place: message for place, message in recalled.items() if place < at}
            if projection is not None:
                fold.take(projection)
            fold.follow(at)
            return fold

        recalled = view.recalled.messages(projection)
        fold = fold_with(recalled)
        if at == len(view.history):
            in_view = [position for position, _ in fold.placed() if position is not None]
            room = view.window.trigger - fold.tokens
            if more := view.recalled.ahead(projection, in_view, room):
                fold = fold_with(recalled | more)
        return fold.context()


def _check_length(state: SessionState, at: int) -> None:
    if not 0 <= at <= len(state.history):
        raise NotFound(f"session {state.id!r} has {len(state.history)} messages, not {at}")


def take_snapshot(
    state: SessionState, view: View, *, purpose: Purpose = "recovery", note: str = ""
) -> Snapshot:
    """Save the session's state. An emergency snapshot is not saved twice for one state."""
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
    if purpose == "emergency" and (known := _same(state, snapshot)):
        return known
    state.store.save_snapshot(snapshot)
    _let_go(state, snapshot)
    return snapshot


def _let_go(state: SessionState, newest: Snapshot) -> None:
    """Delete the snapshots beyond the policy's limit: automatic ones first, then the oldest. The
    newest one, and the user's snapshots with a note, are kept.
    """
    snapshots = state.store.snapshots(state.id)
    excess = len(snapshots) - state.policy.snapshots_kept
    if excess <= 0:
        return
    others = (x for x in snapshots if x.id != newest.id)
    unnamed = [x for x in others if x.purpose != "recovery" or not x.note]
    unnamed.sort(key=lambda x: x.purpose == "recovery")
    state.store.delete_snapshots(state.id, [x.id for x in unnamed[:excess]])


def _same(state: SessionState, snapshot: Snapshot) -> Snapshot | None:
    """Return a snapshot that differs only in its id and time, or None."""
    own = {"id": "", "created_at": snapshot.created_at}
    wanted = snapshot.model_copy(update=own)
    snapshots = reversed(state.store.snapshots(state.id))
    return next((other for other in snapshots if other.model_copy(update=own) == wanted), None)


def _found(state: SessionState, snapshot: Snapshot | str) -> Snapshot:
    snapshot_id = snapshot if isinstance(snapshot, str) else snapshot.id
    snapshots = state.store.snapshots(state.id)
    for saved in snapshots:
        if saved.id == snapshot_id:
            return saved
    names = ", ".join(s.id for s in snapshots[-5:]) or "none"
    raise NotFound(f"no snapshot {snapshot_id!r} in session {state.id!r}; the newest: {names}")


def _policy_of(state: SessionState, snapshot: Snapshot) -> CompactPolicy:
    try:
        fields = {name.replace("_pct", "_ratio"): value for name, value in snapshot.policy.items()}
        policy = CompactPolicy.model_validate(fields)  # early snapshots had these names
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(("policy", *map(str, first["loc"])))
        reason = f"{first['msg']}, in the snapshot {snapshot.id}; the session stays as it is"
        raise InvalidConfig(place, reason) from None
    state.prompting.mode(policy.mode)
    return policy


def branch_off(state: SessionState, view: View, at: int) -> Branch:
    """Continue on a new branch, like `TimeTravel.branch`."""
    state.catch_up()
    _check_length(state, at)
    view.go("restore", lambda: forked(view, state.branch_id, at))
    return state.store.branch(state.branch_id)


def _projection_at(state: SessionState, window: int, length: int) -> Projection | None:
    moves = (move for move in state.moves(window, most=ALL_MOVES) if move.at <= length)
    move = next(moves, None)
    return _projection(state, move.projection_id if move else None)


def forked(view: View, parent_id: str, at: int) -> Destination:
    """Plan a new branch from a position, with the goals and the projection of that time."""
    state = view.state
    projection = _projection_at(state, view.size, at)
    goals = goals_by(state, at, view.window)
    return on_new_branch(state, parent_id, at, goals, projection)


def on_new_branch(
    state: SessionState,
    parent_id: str,
    at: int,
    goals: Sequence[Goal],
    projection: Projection | None,
) -> Destination:
    """Plan a new branch. The goals and the mode at its beginning are stored, because the parent
    branch may get others at the same position later.
    """
    begun = new_branch(state.store, state.id)
    branch = begun.model_copy(update={"parent": parent_id, "fork": at})
    begins = GoalsSet(goals=tuple(goals)), ModeSet(mode=state.log.mode_at(at))
    changes = tuple(Change(branch_id=branch.id, at=at, what=what) for what in begins)
    return Destination(branch.id, at, projection, branch, changes)


def _nothing(what: str, state: SessionState, view: View) -> str:
    text = f"nothing to {what} in session {state.id!r} for a window of {view.size:,} tokens"
    last = state.store.moves(state.id, most=1)
    if last and last[0].window != view.size:
        return f"{text}; its last {last[0].kind} was for a window of {last[0].window:,}"
    return text


Place = tuple[str, str | None]
"""A branch's id, and the id of the projection used on it."""


def _places(state: SessionState, view: View) -> tuple[list[Place], list[Place]]:
    """Return the places to go back to, the present one last, and the places that were undone.
    Compressions on a branch that was not open then are skipped. An undo or redo that does not match
    the step before counts as a new step.
    """
    moves = state.store.moves(state.id, most=ALL_MOVES)[::-1]
    own = [move for move in moves if move.window == view.size]
    done: list[Place] = [_before(state, own[0])] if own else []
    undone: list[Place] = []
    open_branch = state.store.branches(state.id)[0].id
    for move in moves:
        left = move.kind == "compress" and move.branch_id != open_branch
        if move.kind != "compress":
            open_branch = move.branch_id
        if left or move.window != view.size:
            continue
        place = (move.branch_id, move.projection_id)
        if move.kind == "undo" and done[-2:-1] == [place]:
            undone.append(done.pop())
        elif move.kind == "redo" and undone[-1:] == [place]:
            done.append(undone.pop())
        else:
            done.append(place)
            undone.clear()
    return done, undone


def _before(state: SessionState, first: Move) -> Place:
    """Return a window's place before its first move, where the history was not compressed."""
    branch = state.store.branch(first.branch_id)
    if first.kind == "restore" and branch.parent is not None and branch.fork == first.at:
        return branch.parent, None
    return branch.id, None


def _projection(state: SessionState, projection_id: str | None) -> Projection | None:
    return None if projection_id is None else state.projection(projection_id)
