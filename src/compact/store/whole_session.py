"""A session as one value: all branches, changes, projections, moves and snapshots. It can be stored
elsewhere under other ids.

Changes and moves are numbered from 1 here. A store assigns its own numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from pydantic import BaseModel

from compact.errors import NotFound
from compact.messages import chain
from compact.messages.changes import Change, GoalsTracked, PinSet, PutAside, TurnsRecalled, What
from compact.messages.characters import with_texts
from compact.messages.checkpoints import Checkpoint
from compact.messages.protocols import SessionStore
from compact.messages.sessions import (
    Branch,
    CheckpointRef,
    Entry,
    Move,
    Projection,
    Run,
    Session,
    Shown,
    Snapshot,
)

Notes = Mapping[str, Mapping[str, Any]]
Value = TypeVar("Value", bound=BaseModel)
_IDS = ("id", "session_id", "branch_id", "parent", "projection_id", "projection", "before")
"""Fields of a session's values that may hold its id, or that of a branch or a projection."""
_EVERY = 2**62
"""A limit higher than the number of moves of any session."""


@dataclass(frozen=True, slots=True)
class OwnPart:
    """A branch and the entries from its fork on, without its ancestors'."""

    branch: Branch
    entries: Sequence[Entry]

    @property
    def stop(self) -> int:
        """The branch's length, including its ancestors' messages."""
        return self.branch.fork + len(self.entries)


@dataclass(frozen=True, slots=True)
class WholeSession:
    """A session with everything that belongs to it."""

    session: Session
    parts: Sequence[OwnPart]
    """The session's branches. A branch comes after the one that it continues."""
    changes: Sequence[Change] = ()
    notes: Notes | None = None
    checkpoints: Sequence[Checkpoint] = ()
    projections: Sequence[Projection] = ()
    moves: Sequence[Move] = ()
    """The session's moves, oldest first."""
    snapshots: Sequence[Snapshot] = ()

    def line(self, branch_id: str) -> list[Entry]:
        """Return the entries along a branch, including its ancestors' entries."""
        parts = {part.branch.id: part for part in self.parts}
        part = parts[branch_id]
        entries, start = list(part.entries), part.branch.fork
        while part.branch.parent is not None:
            part = parts[part.branch.parent]
            own = part.entries[: max(0, start - part.branch.fork)]
            if own:
                entries[:0], start = own, part.branch.fork
        return entries

    def chains(self) -> dict[str, bytes]:
        """Return the chain's hash (`messages.chain`) at the end of each branch."""
        links: dict[str, list[bytes]] = {}
        for part in self.parts:
            parent = links.get(part.branch.parent or "", [chain.START])
            own = parent[: part.branch.fork + 1]
            for entry in part.entries:
                own.append(chain.link(own[-1], entry.message))
            links[part.branch.id] = own
        return {name: own[-1] for name, own in links.items()}

    def reach(self, branch_id: str, part: OwnPart) -> int:
        """Return how many of a part's own entries belong to a branch."""
        parts = {each.branch.id: each for each in self.parts}
        here, end = parts[branch_id], None
        while True:
            if here.branch.id == part.branch.id:
                last = part.stop if end is None else end
                return max(0, min(len(part.entries), last - part.branch.fork))
            if here.branch.parent is None:
                return 0
            end = here.branch.fork if end is None else min(end, here.branch.fork)
            here = parts[here.branch.parent]


# --- reading --------------------------------------------------------------------------------------


def read_whole(
    store: SessionStore,
    session_id: str,
    *,
    without: tuple[str, ...] = (),
    with_messages: bool = True,
) -> WholeSession:
    """Read everything that a store keeps of a session. Notes whose names begin with one of
    `without` are left out, and without `with_messages` the entries of all branches.

    Messages are read last, after everything that refers to them. So the value is consistent even if
    the session is in use.

    Raises:
        NotFound: there is no such session.
    """
    session = store.session(session_id)
    moves = store.moves(session_id, None, most=_EVERY)[::-1]
    snapshots = store.snapshots(session_id)
    changes = store.changes(session_id)
    ids = [each for move in moves for each in (move.before, move.projection_id)]
    ids += [snapshot.projection_id for snapshot in snapshots]
    projections = []
    for each in filter(None, dict.fromkeys(ids)):
        with suppress(NotFound):
            projections.append(store.projection(each))
    notes = store.notes(session_id)
    checkpoints = store.checkpoints(session_id)
    parts = [
        OwnPart(
            branch, store.read(branch.id, branch.fork, branch.messages) if with_messages else ()
        )
        for branch in store.branches(session_id)
    ]
    return WholeSession(
        session,
        parts,
        changes=_numbered(changes),
        notes={name: note for name, note in notes.items() if not name.startswith(without)},
        checkpoints=checkpoints,
        projections=projections,
        moves=[move.model_copy(update={"number": n}) for n, move in enumerate(moves, 1)],
        snapshots=snapshots,
    )


def _numbered(changes: Sequence[Change]) -> list[Change]:
    """Number the changes from 1. Adapt each `since`, which refers to a change by number."""
    numbered = []
    for number, change in enumerate(changes, 1):
        what = change.what
        if isinstance(what, GoalsTracked):
            before = sum(each.number <= what.since for each in changes)
            what = what.model_copy(update={"since": before})
        numbered.append(change.model_copy(update={"number": number, "what": what}))
    return numbered


# --- other ids ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NewIds:
    """Maps old ids to new ones."""

    session_id: str
    branches: Mapping[str, str]
    projections: Mapping[str, str]


def renamed(whole: WholeSession, ids: NewIds) -> WholeSession:
    """Return the session under other ids."""
    known = {**ids.branches, **ids.projections}
    own = {whole.session.id: ids.session_id}

    def other(value: Value) -> Value:
        """Return the value with the new ids in the fields that hold ids."""
        at = {name: getattr(value, name, None) for name in _IDS}
        names = {name: (own if name == "session_id" else known) for name in at}
        update = {name: names[name][old] for name, old in at.items() if old in names[name]}
        return value.model_copy(update=update)

    def changed(change: Change) -> Change:
        what = change.what
        if isinstance(what, TurnsRecalled):
            turns = (other(turn) if turn.session_id in own else turn for turn in what.turns)
            what = other(what).model_copy(update={"turns": tuple(turns)})
        return other(change).model_copy(update={"what": what})

    session = {"id": ids.session_id, "branch": other(whole.session.branch)}
    return replace(
        whole,
        session=whole.session.model_copy(update=session),
        parts=[replace(part, branch=other(part.branch)) for part in whole.parts],
        changes=list(map(changed, whole.changes)),
        notes=with_texts(whole.notes or {}, lambda text: known.get(text, text)),
        projections=[other(each) for each in whole.projections],
        moves=[other(each) for each in whole.moves],
        snapshots=[other(each) for each in whole.snapshots],
    )


def since(what: What, numbers: Sequence[int]) -> What:
    """Return the change with its `since`, which counts changes from 1, replaced by the number that
    the store gave that change.
    """
    if not isinstance(what, GoalsTracked) or not 0 < what.since <= len(numbers):
        return what
    return what.model_copy(update={"since": numbers[what.since - 1]})


# --- coherence ------------------------------------------------------------------------------------


def incoherence(whole: WholeSession) -> str | None:
    """Return a sentence about the first reference to something missing, or None."""
    parts: dict[str, OwnPart] = {}
    for part in whole.parts:
        branch = part.branch
        if branch.id in parts:
            return f"branch {branch.id!r} is there twice"
        parent = None if branch.parent is None else parts.get(branch.parent)
        if (branch.parent is None) is not (not parts):
            return f"branch {branch.id!r} begins nowhere, or the first one does not"
        if branch.parent is not None and parent is None:
            return f"branch {branch.id!r} goes on from {branch.parent!r}, which is not before it"
        if branch.fork > (0 if parent is None else parent.stop):
            return f"branch {branch.id!r} goes on from message {branch.fork}, which is not there"
        parts[branch.id] = part
    if whole.session.branch.id not in parts:
        return f"there is no branch {whole.session.branch.id!r}"
    stops = {name: part.stop for name, part in parts.items()}
    return _incoherent_view(whole, max(stops.values())) or _incoherent_log(whole, stops)


def _incoherent_view(whole: WholeSession, longest: int) -> str | None:
    """Check checkpoints and projections. `longest` is the length of the longest branch."""
    for checkpoint in whole.checkpoints:
        if max((checkpoint.span.last, *checkpoint.kept, *checkpoint.released)) >= longest:
            return f"checkpoint {checkpoint.id!r} stands for messages that are not there"
    checkpoints = {each.id for each in whole.checkpoints}
    for projection in whole.projections:
        live = {each.id for each in projection.checkpoints}
        if not live <= checkpoints:
            return f"projection {projection.id!r} has a checkpoint that is not there"
        reach = max((projection.at, projection.cut, *(at + 1 for at in projection.kept)))
        if reach > longest or not all(_stands(projection, live, x) for x in projection.pieces):
            return f"projection {projection.id!r} has a piece that is not there"
    return None


def _incoherent_log(whole: WholeSession, stops: Mapping[str, int]) -> str | None:
    """Check changes, moves and snapshots. `stops` is branch id → length."""
    known: set[str | None] = {None, *(each.id for each in whole.projections)}
    rows = [
        *(("change", each.branch_id, _last(each), None) for each in whole.changes),
        *(("move", each.branch_id, each.at, each.projection_id) for each in whole.moves),
        *(("snapshot", each.branch_id, each.at, each.projection_id) for each in whole.snapshots),
    ]
    for kind, branch_id, at, projection_id in rows:
        if branch_id not in stops:
            return f"a {kind} is of branch {branch_id!r}, which is not there"
        if at > stops[branch_id]:
            return f"a {kind} is at message {at} of branch {branch_id!r}, which is not there"
        if projection_id not in known:
            return f"a {kind} is of projection {projection_id!r}, which is not there"
    if any(move.before not in known for move in whole.moves):
        return "a move is from a projection that is not there"
    return None


def _last(change: Change) -> int:
    return change.at + isinstance(change.what, PinSet | PutAside)


def _stands(projection: Projection, live: set[str], piece: Run | Shown | CheckpointRef) -> bool:
    match piece:
        case Run(first=first, last=last):
            return 0 <= first <= last < projection.at
        case CheckpointRef(checkpoint_id=name):
            return name in live
        case Shown(position=position):
            return position is None or 0 <= position < projection.at
