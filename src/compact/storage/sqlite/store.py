"""`SQLiteManager`: sessions in one SQLite file. A table of contents; the chapters stand beside it.

One file may be used by many threads and processes at once: readers never wait, writers take turns.
What a call stored is on the disk when it returns (`durability="full"`), all of it or nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import apsw

from compact.core.calls import checked_methods
from compact.core.changes import Change
from compact.core.checkpoints import Checkpoint
from compact.core.codec import is_storable
from compact.core.conversation import Conversation
from compact.core.sessions import (
    Branch,
    Entry,
    Found,
    Move,
    Projection,
    Session,
    Snapshot,
    Step,
)
from compact.errors import InvalidInput, NotFound, StoreFailed, Superseded
from compact.storage.sqlite import (
    branch_lineage,
    checking,
    messages,
    projections,
    search,
    session_metadata,
    sessions,
    sweeping,
)
from compact.storage.sqlite import changes as change_log
from compact.storage.sqlite.pool import MEMORY, Durability, Pool

INDEXED_AFTER_COMMIT = 2_000
"""Messages that are indexed after a commit, so that the first search of a long session is quick."""


@checked_methods
class SQLiteManager:
    """A session store in a file, or in memory.

    `durability` says when an append returns: `full` when it is on the disk, `normal` when the
    operating system has it (a power cut may take the last moments, never the file). Without
    `search_index` nothing is indexed, and search looks through the newest messages only.
    `busy_timeout` is how many seconds a writer waits for those of other processes.

    Raises:
        StoreFailed: the file cannot be opened, or is of a newer compact or another application.
        StoreDamaged: it is no database, or a damaged one.
    """

    def __init__(
        self,
        path: str | Path = MEMORY,
        *,
        durability: Durability = "full",
        search_index: bool = True,
        busy_timeout: float = 10.0,
    ) -> None:
        if not is_storable(str(path)):
            raise StoreFailed(f"{str(path)!r} is not a file's name")
        name = MEMORY if str(path) == MEMORY else str(Path(path).expanduser())
        self._pool = Pool(name, durability=durability, busy_timeout=busy_timeout)
        self._has_index = search_index
        with suppress(StoreFailed):
            sweeping.sweep_if_due(self._pool)

    @property
    def path(self) -> str:
        """The file's name, or `:memory:`."""
        return self._pool.path

    @property
    def db(self) -> apsw.Connection:
        """The connection that writes, for what this class has no method for. Leave no transaction
        open on it.
        """
        return self._pool.writer

    def close(self) -> None:
        """Let go of the file; closing twice is no error."""
        self._pool.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    # --- which sessions there are -----------------------------------------------------------------

    def session(self, session_id: str, *, create: Session | None = None) -> Session:
        """The session of that id, as it stands; `create` is stored where there is none.

        Raises:
            NotFound: there is none, and none is to be made.
            InvalidInput: `create` is of another id, or its branch is taken.
        """
        if create is not None and {create.id, create.branch.session_id} != {session_id}:
            raise InvalidInput(f"the session to create is {create.id!r}, not {session_id!r}")
        with self._pool.read() as db:
            found = sessions.session(db, session_id)
        if found is None and create is not None:
            with self._pool.write() as db:
                if sessions.session(db, session_id) is None:
                    sessions.create(db, create)
                found = sessions.session(db, session_id)
        if found is None:
            raise NotFound(f"no session {session_id!r} in this store")
        return found

    def put_session(
        self,
        session: Session,
        entries: Sequence[Entry],
        changes: Sequence[Change],
        notes: Mapping[str, Mapping[str, Any]],
    ) -> Session:
        """Store a new session with its messages, changes and notes, durably and all or none; it as
        it stands then.

        Raises:
            Superseded: there is a session of that id.
            InvalidInput: a branch of another session has its branch's id.
        """
        with self._pool.write() as db:
            if sessions.session(db, session.id) is not None:
                raise Superseded(f"there is a session {session.id!r}")
            sessions.create(db, session)
            messages.append(db, branch_lineage.tail(db, session.branch.id), entries, 0)
            change_log.record(db, sessions.key_of(db, session.id), changes)
            for name, value in notes.items():
                session_metadata.note(db, session.id, name, value)
        return self.session(session.id)

    def sessions(self, *, scope: str | None = None) -> list[Session]:
        """The sessions of a scope, or of all, the one that changed last first."""
        with self._pool.read() as db:
            return sessions.sessions(db, scope)

    def fork(self, branch_id: str, at: int) -> Branch:
        """A new branch that goes on from a position of another one, and is in force from now on."""
        with self._pool.write() as db:
            return sessions.fork(db, branch_id, at)

    def delete_session(self, session_id: str) -> None:
        """Remove a session for good: its words are in no part of the file afterwards, nor in the
        log beside it once nobody reads from there. The whole file is written anew, which takes
        seconds for a gigabyte and as much room again.

        Raises:
            NotFound: there is no such session.
            StoreFailed: it could not be deleted; or it was, and the text says that traces are left,
                which the next deletion or whoever opens the file next makes up for.
        """
        with self._pool.write() as db:
            sessions.delete(db, session_id)
        try:
            sweeping.sweep_if_due(self._pool)
        except StoreFailed as error:
            raise StoreFailed(
                f"session {session_id!r} is deleted, but traces of its words are left in the file "
                f"until it is opened again: {error}"
            ) from error

    def get_conversation(self, session_id: str) -> Conversation:
        """The session's messages, with their tokens, as one value.

        Raises:
            NotFound: there is no such session.
        """
        with self._pool.read() as db:
            session = sessions.session(db, session_id)
            if session is None:
                raise NotFound(f"no session {session_id!r} in this store")
            entries = messages.read(db, session.branch.id, 0, session.branch.messages)
        return Conversation(
            messages=tuple(
                message
                if message.token_count is not None or tokens is None
                else message.model_copy(update={"token_count": tokens})
                for message, tokens, _ in entries
            ),
            id=session.id,
            title=session.title,
            created_at=session.created_at,
            metadata=session.metadata,
        )

    # --- histories --------------------------------------------------------------------------------

    def append(
        self, branch_id: str, entries: Sequence[Entry], *, expected: int | None = None
    ) -> int:
        """Append entries, durably and all or none; how many messages the branch has afterwards.

        Raises:
            Superseded: the branch does not have `expected` messages any more.
            InvalidMessage: one holds something that cannot be stored.
        """
        with self._pool.write() as db:
            tail = branch_lineage.tail(db, branch_id)
            return messages.append(db, tail, entries, expected).position

    def read(self, branch_id: str, start: int, stop: int) -> list[Entry]:
        """The entries at these positions, in order; fewer where there are no more. A negative start
        counts from the end.
        """
        with self._pool.read() as db:
            return messages.read(db, branch_id, start, stop)

    def marked(self, branch_id: str, mark: int, *, before: int, most: int) -> list[int]:
        """Positions below `before` of the newest entries with the mark, newest first."""
        with self._pool.read() as db:
            return messages.marked(db, branch_id, mark, before, most)

    def position_of(self, branch_id: str, message_id: str) -> int | None:
        """Where the newest message of that id stands; None where there is none."""
        with self._pool.read() as db:
            return messages.position_of_id(db, branch_id, message_id)

    def update_importance_score(
        self, message_id: str, score: float, *, session_id: str | None = None
    ) -> None:
        """Set the importance of the newest message of that id, in the branch in force.

        Raises:
            NotFound: no session, or none of its messages, has that id.
            InvalidInput: several sessions have one, or the score is not within 0 and 1.
        """
        with self._pool.write() as db:
            messages.score(db, message_id, score, session_id)

    # --- what of a branch is told without reading it ----------------------------------------------

    def branch(self, branch_id: str) -> Branch:
        """The branch as it stands now."""
        with self._pool.read() as db:
            return branch_lineage.branch(db, branch_id)

    def branches(self, session_id: str) -> list[Branch]:
        """All branches of a session, the oldest first."""
        with self._pool.read() as db:
            return branch_lineage.branches(db, session_id)

    def chain(self, branch_id: str, length: int) -> bytes:
        """The chain's hash (`core.chain`) after so many messages."""
        with self._pool.read() as db:
            return branch_lineage.tail_at(db, branch_id, length).chain

    def first_marked(self, branch_id: str, mark: int) -> int | None:
        """The position of the oldest entry with the mark."""
        with self._pool.read() as db:
            return messages.first_marked(db, branch_id, mark)

    # --- what is in force -------------------------------------------------------------------------

    def commit(self, step: Step) -> Move:
        """Store the step's projection and checkpoints, and put it in force: all or nothing.

        Raises:
            Superseded: another move came in between, or another branch of that id.
            NotFound: there is no such session, or it has no such branch.
            InvalidInput: another session has a projection of that id.
        """
        with self._pool.write() as db:
            move = projections.commit(db, step)
        if self._has_index:
            # The step is stored; what the index lacks, a search makes up for.
            with suppress(StoreFailed, NotFound):
                search.catch_up(self._pool, step.branch_id, most=INDEXED_AFTER_COMMIT)
        return move

    def moves(self, session_id: str, window: int | None = None, *, most: int) -> list[Move]:
        """The newest moves, for a window or for all, newest first."""
        with self._pool.read() as db:
            return projections.moves(db, session_id, window, most)

    def projection(self, projection_id: str) -> Projection:
        """A projection with its checkpoints.

        Raises:
            NotFound: there is none of that id.
        """
        with self._pool.read() as db:
            return projections.projection(db, projection_id)

    def checkpoints(self, session_id: str) -> list[Checkpoint]:
        """All checkpoints that were ever committed, the oldest first."""
        with self._pool.read() as db:
            return projections.checkpoints(db, session_id)

    # --- changes ----------------------------------------------------------------------------------

    def record(
        self, session_id: str, changes: Sequence[Change], *, instead_of: Collection[int] = ()
    ) -> None:
        """Append changes to a session's log, each with the next number, all or none, and remove the
        entries of these numbers, which they make needless.
        """
        with self._pool.write() as db:
            change_log.record(db, sessions.key_of(db, session_id), changes, instead_of)

    def changes(self, session_id: str, *, after: int = 0) -> list[Change]:
        """The session's entries with greater numbers, in their order."""
        with self._pool.read() as db:
            return change_log.changes(db, session_id, after)

    # --- snapshots and notes ----------------------------------------------------------------------

    def save_snapshot(self, snapshot: Snapshot) -> None:
        """Keep a snapshot; where there is one of its id, that one stays."""
        with self._pool.write() as db:
            session_metadata.save_snapshot(db, snapshot)

    def snapshots(self, session_id: str) -> list[Snapshot]:
        """The session's snapshots, the oldest first."""
        with self._pool.read() as db:
            return session_metadata.snapshots(db, session_id)

    def note(self, session_id: str, name: str, value: Mapping[str, Any] | None) -> None:
        """Keep a note in the place of the one of that name; None removes it."""
        with self._pool.write() as db:
            session_metadata.note(db, session_id, name, value)

    def notes(self, session_id: str) -> dict[str, Mapping[str, Any]]:
        """The session's notes by name."""
        with self._pool.read() as db:
            return session_metadata.notes(db, session_id)

    # --- search -----------------------------------------------------------------------------------

    def search(self, branch_id: str, text: str, *, most: int) -> list[Found]:
        """Messages of a branch, its ancestors' part included, that share words with the text; the
        best first.

        Without an index, or where it cannot catch up, only the newest 5,000 messages are looked
        through.
        """
        look = search.search if self._has_index else search.scan
        return look(self._pool, branch_id, text, most)

    # --- is it whole? -----------------------------------------------------------------------------

    def integrity_check(self) -> list[str]:
        """What is wrong with the file, as sentences; an empty list where nothing is.

        SQLite checks its pages and indexes; each message's hash, position and running total are
        checked along its branch.
        """
        return checking.findings(self._pool)
