"""A session store in memory. It works like the store on disk, but keeps nothing on disk."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from itertools import islice
from typing import Any

from compact import forks
from compact.errors import InvalidInput, NotFound, Superseded
from compact.messages import chain, codec
from compact.messages.changes import Change
from compact.messages.checkpoints import Checkpoint, at_level
from compact.messages.sessions import (
    SHORTEST_ID,
    Branch,
    Entry,
    Found,
    Move,
    Projection,
    Session,
    Snapshot,
    Step,
    free_branch_id,
)
from compact.text.terms import index_words, looked_for, pieces_of, scored, searchable


class _BranchLog:
    """The entries that a branch itself holds, without its ancestors', and indexes over them."""

    def __init__(self, branch: Branch) -> None:
        self.branch = branch
        self.entries: list[Entry] = []
        self.marks: dict[int, list[int]] = defaultdict(list)
        """Mark → positions of entries with this mark, ascending."""
        self.places: dict[str, list[int]] = defaultdict(list)
        """Message id → positions of entries with this id, ascending."""
        self.links: list[bytes] = []
        """Chain hashes of the entries, computed when asked for."""
        self.findable = 0
        """How many of the entries are found by their chain hash."""
        self.index: dict[str, Counter[int]] = defaultdict(Counter)
        self.indexed = 0
        self.tokens = 0

    @property
    def stop(self) -> int:
        return self.branch.fork + len(self.entries)


class InMemoryStore:
    """Keeps sessions in dictionaries. One lock makes every call atomic. Errors are those of
    `SessionStore`.
    """

    def __init__(self) -> None:
        self._lock = forks.Lock()
        self._sessions: dict[str, Session] = {}
        self._lines: dict[str, _BranchLog] = {}
        self._moves: dict[str, list[Move]] = defaultdict(list)
        self._projections: dict[str, tuple[str, Projection]] = {}
        """Projection id → the session's id and the projection."""
        self._checkpoints: dict[str, dict[str, Checkpoint]] = defaultdict(dict)
        self._snapshots: dict[str, list[Snapshot]] = defaultdict(list)
        self._changes: dict[str, list[Change]] = defaultdict(list)
        self._notes: dict[str, dict[str, Mapping[str, Any]]] = defaultdict(dict)
        self._last_move = self._last_change = 0
        self._by_chain: dict[bytes, list[tuple[_BranchLog, int]]] = defaultdict(list)
        """Chain hash → branches with that hash, and how many own entries come before it."""
        self._grown: dict[str, _BranchLog] = {}
        """Branches with entries that are not in `_by_chain` yet."""

    def close(self) -> None:
        """Do nothing: there is nothing to close."""

    # --- sessions ---------------------------------------------------------------------------------

    def session(self, session_id: str, *, create: Session | None = None) -> Session:
        """Return the session with that id. If there is none, store `create` and return it."""
        if create is not None and {create.id, create.branch.session_id} != {session_id}:
            raise InvalidInput(f"the session to create is {create.id!r}, not {session_id!r}")
        with self._lock:
            if create is not None and session_id not in self._sessions:
                if create.branch.id in self._lines:
                    raise InvalidInput(f"there is a branch {create.branch.id!r} already")
                self._sessions[session_id] = create
                self._lines[create.branch.id] = _BranchLog(create.branch)
            return self._current(self._known(session_id))

    def _current(self, session: Session) -> Session:
        line = self._lines[session.branch.id]
        forked = line.branch.created_at if line.branch.parent else session.updated_at
        updated = line.entries[-1].message.timestamp if line.entries else forked
        branch = self.branch(session.branch.id)
        return session.model_copy(update={"branch": branch, "updated_at": updated})

    def sessions(self, *, scope: str | None = None) -> list[Session]:
        """Return the sessions of one scope or of all scopes, last changed first."""
        with self._lock:
            rows = [self._current(s) for s in self._sessions.values() if scope in (None, s.scope)]
        return sorted(rows, key=lambda s: codec.instant(s.updated_at), reverse=True)

    def describe(
        self, session_id: str, *, title: str | None, metadata: Mapping[str, Any]
    ) -> Session:
        """Replace a session's title and metadata; returns the session."""
        kept = codec.load(codec.dump(metadata))
        with self._lock:
            update = {"title": title, "metadata": kept}
            self._sessions[session_id] = self._known(session_id).model_copy(update=update)
            return self._current(self._sessions[session_id])

    def fork(self, branch_id: str, at: int) -> Branch:
        """Make a branch that continues another one from a position, and make it current."""
        with self._lock:
            session = self._sessions[self._line(branch_id).branch.session_id]
            own = len(self.branches(session.id))
            name = free_branch_id(session.id, own, self._lines.__contains__)
            branch = Branch(id=name, session_id=session.id, parent=branch_id, fork=at)
            self._check_beginning(branch)
            self._lines[name] = _BranchLog(branch)
            self._sessions[session.id] = session.model_copy(update={"branch": branch})
            return self.branch(name)

    def _check_beginning(self, branch: Branch) -> None:
        parent = self._line(branch.parent or "")
        if parent.branch.session_id != branch.session_id:
            raise NotFound(f"session {branch.session_id!r} has no branch {branch.parent!r}")
        if not 0 <= branch.fork <= parent.stop:
            raise NotFound(
                f"branch {branch.parent!r} has {parent.stop} messages, not {branch.fork}"
            )
        if branch.id in self._lines:
            raise Superseded(f"another branch {branch.id!r} came in between")

    def delete_session(self, session_id: str) -> None:
        """Delete a session for good."""
        with self._lock:
            self._known(session_id)
            del self._sessions[session_id]
            gone = [k for k, x in self._lines.items() if x.branch.session_id == session_id]
            for branch_id in gone:
                del self._lines[branch_id]
            for move in self._moves.pop(session_id, ()):
                self._projections.pop(move.projection_id or "", None)
            for kept in (self._checkpoints, self._snapshots, self._changes, self._notes):
                kept.pop(session_id, None)

    # --- histories --------------------------------------------------------------------------------

    def append(
        self, branch_id: str, entries: Sequence[Entry], *, expected: int | None = None
    ) -> int:
        """Append entries, all or none. Return the branch's new length."""
        with self._lock:
            line = self._line(branch_id)
            at = line.stop
            if expected is not None and expected != at:
                raise Superseded(f"the branch has {at} messages, not {expected}")
            for position, entry in enumerate(entries, at):
                codec.check(entry.message, f"messages[{position}]")
            for position, entry in enumerate(entries, at):
                line.places[entry.message.id].append(position)
                line.tokens += entry.tokens or 0
                for mark in (1, 2) if entry.marks else ():
                    if entry.marks & mark:
                        line.marks[mark].append(position)
            line.entries.extend(entries)
            self._grown[branch_id] = line
            return line.stop

    def read(self, branch_id: str, start: int, stop: int) -> list[Entry]:
        """Return the entries at these positions, in order. A negative start counts from the end."""
        with self._lock:
            end = self._line(branch_id).stop
            if start >= end:
                return []
            start = start if start >= 0 else max(0, end + start)
            entries: list[Entry] = []
            for line, low, high in self._lineage(branch_id):
                first, last = max(low, start), min(high, stop)
                if first < last:
                    entries += line.entries[first - low : last - low]
            return entries

    def marked(self, branch_id: str, mark: int, *, before: int, most: int) -> list[int]:
        """Return the newest positions below `before` whose entries have the mark, newest first."""
        positions: list[int] = []
        if most <= 0:
            return positions
        with self._lock:
            for line, _, high in reversed(self._lineage(branch_id)):
                for position in reversed(line.marks[mark]):
                    if position < min(high, before):
                        positions.append(position)
                        if len(positions) == most:
                            return positions
        return positions

    def position_of(self, branch_id: str, message_id: str) -> int | None:
        """Return the newest position of the message whose id is, or begins with, `message_id`."""
        with self._lock:
            lineage = self._lineage(branch_id)[::-1]
            for line, _, high in lineage:
                places = line.places.get(message_id, ())
                if (index := bisect_left(places, high)) > 0:
                    return places[index - 1]
            if len(message_id) < SHORTEST_ID:
                return None
            for line, _, high in lineage:
                rows = [p for k, ps in line.places.items() if k.startswith(message_id) for p in ps]
                if below := [p for p in rows if p < high]:
                    return max(below)
        return None

    def branch(self, branch_id: str) -> Branch:
        """Return the branch as it is now."""
        with self._lock:
            line = self._line(branch_id)
            tokens = sum(
                each.tokens
                if high == each.stop
                else sum(e.tokens or 0 for e in each.entries[: high - low])
                for each, low, high in self._lineage(branch_id)
            )
            return line.branch.model_copy(update={"messages": line.stop, "tokens": tokens})

    def branches(self, session_id: str) -> list[Branch]:
        """Return all branches of a session, oldest first."""
        with self._lock:
            own = [k for k, x in self._lines.items() if x.branch.session_id == session_id]
            return [self.branch(branch_id) for branch_id in own]

    def chain(self, branch_id: str, length: int) -> bytes:
        """Return the chain hash after `length` messages."""
        with self._lock:
            last = chain.START
            for line, low, high in self._lineage(branch_id):
                stop = min(high, length)
                if stop <= low:
                    break
                last = self._linked(line, last, stop - low)
            return last

    def beginning(self, chain: bytes, *, scope: str, most: int) -> list[tuple[str, bool]]:
        """Return the sessions of a scope that have a branch with that chain hash, newest first, and
        whether the branch ends there.
        """
        with self._lock:
            for branch_id, line in self._grown.items():
                if branch_id in self._lines:
                    self.chain(branch_id, line.stop)
                    for own in range(line.findable, len(line.links)):
                        self._by_chain[line.links[own]].append((line, own + 1))
                    line.findable = len(line.links)
            self._grown.clear()
            rows = (
                (line.branch.session_id, own == len(line.entries))
                for line, own in reversed(self._by_chain.get(chain, ()))
                if self._lines.get(line.branch.id) is line
                and self._sessions[line.branch.session_id].scope == scope
            )
            return list(islice(rows, most))

    def first_marked(self, branch_id: str, mark: int) -> int | None:
        """Return the position of the oldest entry with the mark; None if no entry has it."""
        with self._lock:
            for line, _, high in self._lineage(branch_id):
                for position in line.marks[mark][:1]:
                    if position < high:
                        return position
        return None

    # --- projections and moves --------------------------------------------------------------------

    def commit(self, step: Step) -> Move:
        """Store a step with its projection and checkpoints, and make it the current one."""
        with self._lock:
            session = self._known(step.session_id)
            last = self.moves(step.session_id, step.window, most=1)
            self._check(step, last[0].number if last else 0)
            notes = {name: _plain(value) for name, value in step.notes.items()}
            changes = list(map(_plain_change, step.changes))
            if step.begins is not None:
                self._lines[step.begins.id] = _BranchLog(step.begins)
            if step.projection is not None:
                self._keep(step.session_id, step.projection)
            self._last_move += 1
            move = step.move(self._last_move, last[0].projection_id if last else None)
            self._moves[step.session_id].append(move)
            if step.kind != "compress":
                branch = self._line(step.branch_id).branch
                self._sessions[step.session_id] = session.model_copy(update={"branch": branch})
            self._keep_changes(step.session_id, changes)
            self._notes[step.session_id].update(notes)
            for name in step.forget:
                self._notes[step.session_id].pop(name, None)
            return move

    def _check(self, step: Step, newest: int) -> None:
        if newest != step.base:
            raise Superseded(f"window {step.window}: another move came in between")
        begins = step.begins
        if begins is not None:
            self._check_beginning(begins)
        if begins is None or begins.id != step.branch_id:
            begins = self._line(step.branch_id).branch
        if begins.session_id != step.session_id:
            raise NotFound(f"session {step.session_id!r} has no branch {step.branch_id!r}")
        if step.projection is not None:
            known = self._projections.get(step.projection.id)
            if known is not None and known[0] != step.session_id:
                raise InvalidInput(
                    f"another session has a projection {step.projection.id!r} already"
                )

    def _keep(self, session_id: str, projection: Projection) -> None:
        """Store a projection. A projection or checkpoint whose id is stored already is not changed.
        The projection keeps its own level for each checkpoint.
        """
        known = self._checkpoints[session_id]
        live = tuple(at_level(known.setdefault(c.id, c), c.level) for c in projection.checkpoints)
        kept = projection.model_copy(update={"checkpoints": live})
        self._projections.setdefault(projection.id, (session_id, kept))

    def moves(self, session_id: str, window: int | None = None, *, most: int) -> list[Move]:
        """Return the newest moves of one window, or of all if `window` is None. Newest first."""
        with self._lock:
            newest: list[Move] = []
            for move in reversed(self._moves[session_id]):
                if len(newest) >= most:
                    break
                if window is None or move.window == window:
                    newest.append(move)
            return newest

    def projection(self, projection_id: str) -> Projection:
        """Return a projection with its checkpoints."""
        with self._lock:
            if projection_id not in self._projections:
                raise NotFound(f"no projection {projection_id!r} in this store")
            return self._projections[projection_id][1]

    def checkpoints(self, session_id: str) -> list[Checkpoint]:
        """Return all checkpoints ever committed, oldest first."""
        with self._lock:
            return list(self._checkpoints[session_id].values())

    # --- changes ----------------------------------------------------------------------------------

    def record(
        self, session_id: str, changes: Sequence[Change], *, instead_of: Collection[int] = ()
    ) -> None:
        """Append changes, and delete the entries they replace."""
        with self._lock:
            self._known(session_id)
            self._keep_changes(session_id, list(map(_plain_change, changes)))
            left = [c for c in self._changes[session_id] if c.number not in instead_of]
            self._changes[session_id] = left

    def _keep_changes(self, session_id: str, changes: Sequence[Change]) -> None:
        for change in changes:
            self._last_change += 1
            numbered = change.model_copy(update={"number": self._last_change})
            self._changes[session_id].append(numbered)

    def changes(self, session_id: str, *, after: int = 0) -> list[Change]:
        """Return the log entries with numbers above `after`, in order."""
        with self._lock:
            kept = self._changes[session_id]
            return kept[bisect_right(kept, after, key=lambda change: change.number) :]

    # --- snapshots and notes ----------------------------------------------------------------------

    def save_snapshot(self, snapshot: Snapshot) -> None:
        """Store a snapshot. If the id is stored already, the stored snapshot stays as it is."""
        with self._lock:
            self._known(snapshot.session_id)
            kept = self._snapshots[snapshot.session_id]
            if snapshot.id not in [each.id for each in kept]:
                kept.append(snapshot)

    def snapshots(self, session_id: str) -> list[Snapshot]:
        """Return the session's snapshots, oldest first."""
        with self._lock:
            return list(self._snapshots[session_id])

    def delete_snapshots(self, session_id: str, ids: Collection[str]) -> None:
        """Delete the session's snapshots with these ids; unknown ids are ignored."""
        with self._lock:
            kept = self._snapshots[session_id]
            self._snapshots[session_id] = [each for each in kept if each.id not in ids]

    def note(self, session_id: str, name: str, value: Mapping[str, Any] | None) -> None:
        """Store a note; None deletes it."""
        with self._lock:
            self._known(session_id)
            if value is None:
                self._notes[session_id].pop(name, None)
            else:
                self._notes[session_id][name] = _plain(value)

    def notes(self, session_id: str) -> dict[str, Mapping[str, Any]]:
        """Return the session's notes by name."""
        with self._lock:
            return dict(self._notes[session_id])

    # --- search -----------------------------------------------------------------------------------

    def search(self, branch_id: str, text: str, *, most: int) -> list[Found]:
        """Return messages that share words with the text, best first (`text.terms.scored`)."""
        names = looked_for(text)
        with self._lock:
            lineage = self._lineage(branch_id)
            total = self._line(branch_id).stop
            for line, _, _ in lineage:
                self._catch_up(line)
            holding = [
                [p for line, _, high in lineage for p in _holding(line, name, high)]
                for name in names
            ]
        return scored(holding, total, most)

    def _catch_up(self, line: _BranchLog) -> None:
        for own in range(line.indexed, len(line.entries)):
            position = line.branch.fork + own
            for piece in pieces_of(index_words(searchable(line.entries[own].message))):
                line.index[piece][position] += 1
        line.indexed = len(line.entries)

    # --- lines ------------------------------------------------------------------------------------

    def _known(self, session_id: str) -> Session:
        if session_id not in self._sessions:
            raise NotFound(f"no session {session_id!r} in this store")
        return self._sessions[session_id]

    def _line(self, branch_id: str) -> _BranchLog:
        if branch_id not in self._lines:
            raise NotFound(f"no branch {branch_id!r} in this store")
        return self._lines[branch_id]

    def _lineage(self, branch_id: str) -> list[tuple[_BranchLog, int, int]]:
        """Return the logs that make up a branch, oldest first, each with its start and stop."""
        rows: list[tuple[_BranchLog, int, int]] = []
        high: int | None = None
        name: str | None = branch_id
        while name is not None:
            line = self._line(name)
            stop = line.stop if high is None else min(high, line.stop)
            if line.branch.fork < stop:
                rows.append((line, line.branch.fork, stop))
            high = line.branch.fork if high is None else min(high, line.branch.fork)
            name = line.branch.parent
        return rows[::-1]

    @staticmethod
    def _linked(line: _BranchLog, before: bytes, own: int) -> bytes:
        """Return the chain hash after a log's first `own` entries. Each hash is computed once."""
        while len(line.links) < own:
            last = line.links[-1] if line.links else before
            line.links.append(chain.link(last, line.entries[len(line.links)].message))
        return line.links[own - 1] if own else before


def _plain(value: Mapping[str, Any]) -> Mapping[str, Any]:
    plain: Mapping[str, Any] = codec.load(codec.dump(value))
    return plain


def _plain_change(change: Change) -> Change:
    return Change.model_validate(_plain(change.model_dump(mode="json")))


def _holding(line: _BranchLog, name: tuple[str, ...], high: int) -> list[int]:
    """Return the positions of a log's messages that contain every piece of a name."""
    rows = [line.index.get(piece) for piece in name]
    if not all(rows):
        return []
    first, *others = sorted((row for row in rows if row), key=len)
    return [p for p in first if p < high and all(p in row for row in others)]
