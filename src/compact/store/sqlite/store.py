"""`SQLiteManager`: sessions in one SQLite file. A table of contents; the chapters stand beside it.

One file may be used by many threads and processes at once: readers never wait, writers take turns.
What a call stored is on the disk when it returns (`durability="full"`), all of it or nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Self

import apsw

from compact.errors import InvalidInput, NotFound, StoreFailed
from compact.files import named_path
from compact.messages.codec import is_storable
from compact.messages.sessions import Entry, Found, Move, Session, Step
from compact.store.blobs.sealing import Passphrase
from compact.store.reports import BackupCounts, ForgottenReport
from compact.store.sqlite import (
    archived_copies,
    archived_rows,
    archiving,
    backup,
    branch_lineage,
    checking,
    digests,
    forgetting,
    memory_index,
    messages,
    projections,
    search,
    sweeping,
    transfer,
)
from compact.store.sqlite import changes as change_log
from compact.store.sqlite import sessions as session_rows
from compact.store.sqlite.archived_copies import ArchivedCopies
from compact.store.sqlite.branch_lineage import Tail
from compact.store.sqlite.methods import going_on, in_transaction, reading
from compact.store.sqlite.pool import MEMORY, Durability, Pool
from compact.text.archived import ArchivedConversation, ArchiveFault, ArchiveReport
from compact.text.conversation import Conversation
from compact.text.turns import TurnTable

INDEXED_AFTER_COMMIT = 2_000
"""Messages that are indexed after a commit, so that the first search of a long session is quick."""
MOST_ENDS = 1_000
"""Branches whose ends are known; one that is not costs an append three statements more."""


class SQLiteManager:
    """A session store in a file, or in memory.

    `durability` says when an append returns: `full` when it is on the disk, `normal` when the
    operating system has it (a power cut may take the last moments, never the file).
    `busy_timeout` is how many seconds a writer waits for those of other processes.

    With a `key` (by default the environment's `COMPACT_ENCRYPTION_KEY`) the file is encrypted,
    which needs `apsw-sqlite3mc` in the place of `apsw`, and so are archives of its sessions.

    Raises:
        StoreFailed: the file cannot be opened, or not with this key; or is of a newer compact or
            another application.
        StoreDamaged: it is no database, or a damaged one.
    """

    def __init__(
        self,
        path: str | Path = MEMORY,
        *,
        durability: Durability = "full",
        busy_timeout: float = 10.0,
        key: str | None = None,
    ) -> None:
        _check_name(path)
        name = MEMORY if str(path) == MEMORY else str(named_path(path))
        self._pool = Pool(
            name,
            durability=durability,
            busy_timeout=busy_timeout,
            passphrase=Passphrase.in_force(key),
        )
        self._ends: dict[str, Tail] = {}
        """Where branches ended when this store appended to them last."""
        self._memory = memory_index.MemoryIndex(self._pool)
        self._copies = ArchivedCopies(self._pool)
        with suppress(StoreFailed):
            sweeping.sweep_if_due(self._pool)
        self._discard()

    def _discard(self) -> None:
        """Remove files of archives that nobody needs any more; what fails, a later one makes up."""
        with suppress(StoreFailed, OSError):
            forgetting.discard(self._pool)

    @property
    def path(self) -> str:
        """The file's name, or `:memory:`."""
        return self._pool.path

    @property
    def pool(self) -> Pool:
        """Its connections, for what else is kept in the same file."""
        return self._pool

    @property
    def db(self) -> apsw.Connection:
        """The connection that writes, for what has no method. Leave no transaction open."""
        return self._pool.writer

    def version(self) -> tuple[int, int] | None:
        """As `Versioned` says; never waits."""
        return self._pool.version()

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
            found = session_rows.session(db, session_id)
        if found is None and create is not None:
            with self._pool.write() as db:
                if session_rows.session(db, session_id) is None:
                    session_rows.create(db, create)
                found = session_rows.session(db, session_id)
        if found is None:
            raise NotFound(f"no session {session_id!r} in this store")
        return found

    put_session = in_transaction(Pool.write, transfer.put)
    sessions = in_transaction(Pool.read, session_rows.sessions)
    describe = in_transaction(Pool.write, session_rows.describe)
    fork = going_on(session_rows.fork)

    def delete_session(self, session_id: str) -> None:
        """Remove a session for good: its words are in no part of the file afterwards, nor in the
        log beside it once nobody reads from there. The whole file is written anew, which takes
        seconds for a gigabyte and as much room again. Messages of other sessions of the scope that
        quote it say so no more.

        Raises:
            NotFound: there is no such session.
            StoreFailed: it could not be deleted; or it was, and the text says that traces are left,
                which the next deletion or whoever opens the file next makes up for.
        """
        forgetting.delete(self._pool, session_id)
        try:
            forgetting.finish(self._pool)
        except (StoreFailed, OSError) as error:
            raise StoreFailed(
                f"session {session_id!r} is deleted, but traces of its words are left in the file "
                f"or its archive until the store is opened again: {error}"
            ) from error

    def forget_session(self, session_id: str, *, copies: Sequence[str] = ()) -> ForgottenReport:
        """`delete_session`, and folders of copies that its compressions left behind. What is left
        is told and not raised.

        Raises:
            NotFound: there is no such session.
            StoreFailed: it could not be deleted.
        """
        return forgetting.forget(self._pool, session_id, copies)

    def get_conversation(self, session_id: str) -> Conversation:
        """The session's messages, with their tokens, as one value.

        Raises:
            NotFound: there is no such session.
        """
        with self._pool.read() as db:
            session = session_rows.session(db, session_id)
            if session is None:
                raise NotFound(f"no session {session_id!r} in this store")
        entries = self.read(session.branch.id, 0, session.branch.messages)
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
        """Append entries, durably and all or none; how many messages the branch has afterwards. Of
        a branch that it appended to before, the store knows the end, and does not ask for it.

        Raises:
            Superseded: the branch does not have `expected` messages any more.
            InvalidMessage: one holds something that cannot be stored.
        """
        end = self._ends.get(branch_id)
        if entries and end is not None and expected in (None, end.position):
            rows, after = messages.rows_after(end, entries)
            with self._pool.write() as db:
                if messages.go_on_if(db, end, rows):
                    self._ends[branch_id] = after
                    return after.position
        if len(self._ends) >= MOST_ENDS:
            self._ends.clear()
        after = self._ends[branch_id] = self._append(branch_id, entries, expected=expected)
        return after.position

    _append = going_on(messages.append)
    add_from_source = going_on(transfer.add_from_source)
    read = reading(messages.read)
    marked = reading(messages.marked)
    first_marked = reading(messages.first_marked)
    position_of = reading(messages.position_of)

    def update_importance_score(
        self, message_id: str, score: float, *, session_id: str | None = None
    ) -> None:
        """Set the importance of the newest message of that id, in the branch in force. Archived
        sessions have none to be found, unless the session is named: it is restored then.

        Raises:
            NotFound: no session, or none of its messages, has that id.
            InvalidInput: several sessions have one, or the score is not within 0 and 1.
        """
        archived_copies.going_on(
            self._pool,
            lambda db: None if session_id is None else archived_rows.of_session(db, session_id),
            lambda db: messages.update_importance_score(
                db, message_id, score, session_id=session_id
            ),
        )

    # --- what of a branch is told without reading it ----------------------------------------------

    branch = in_transaction(Pool.read, branch_lineage.branch)
    branches = in_transaction(Pool.read, branch_lineage.branches)

    chain = reading(branch_lineage.chain)

    # --- what is in force -------------------------------------------------------------------------

    def commit(self, step: Step) -> Move:
        """Store the step's projection and checkpoints, and put it in force: all or nothing.

        Raises:
            Superseded: another move came in between, or another branch of that id.
            NotFound: there is no such session, or it has no such branch.
            InvalidInput: another session has a projection of that id.
        """
        begins, name = step.begins is not None, step.session_id
        move = archived_copies.going_on(
            self._pool,
            lambda db: archived_rows.of_session(db, name) if begins else None,
            lambda db: projections.commit(db, step),
        )
        # The step is stored; what the index lacks, a search makes up for.
        with suppress(StoreFailed, NotFound):
            search.catch_up(self._pool, step.branch_id, most=INDEXED_AFTER_COMMIT)
        return move

    moves = in_transaction(Pool.read, projections.moves)
    projection = in_transaction(Pool.read, projections.projection)
    checkpoints = in_transaction(Pool.read, projections.checkpoints)

    # --- changes ----------------------------------------------------------------------------------

    record = in_transaction(Pool.write, change_log.record)
    changes = in_transaction(Pool.read, change_log.changes)

    # --- snapshots and notes ----------------------------------------------------------------------

    save_snapshot = in_transaction(Pool.write, projections.save_snapshot)
    snapshots = in_transaction(Pool.read, projections.snapshots)
    delete_snapshots = in_transaction(Pool.write, projections.delete_snapshots)
    note = in_transaction(Pool.write, change_log.note)
    notes = in_transaction(Pool.read, change_log.notes)

    # --- search -----------------------------------------------------------------------------------

    unindexed = in_transaction(Pool.read, search.unindexed)

    def search(self, branch_id: str, text: str, *, most: int) -> list[Found]:
        """Messages of a branch, its ancestors' part included, that share words with the text; the
        best first.

        Where the index cannot catch up, only the newest 5,000 messages are looked through.
        """
        with self._pool.read() as db:
            place = archived_rows.of_branch(db, branch_id)
        copy = None if place is None else self._copies.of(place)
        return search.search(copy or self._pool, branch_id, text, most)

    def catch_up(self, progress: Callable[[int, int], None] | None = None) -> bool:
        """Index what was stored since; whether that could be done. `progress` is told after each
        batch how many messages are done, and of how many.
        """
        return search.catch_up_all(self._pool, progress)

    def turns(self, scope: str | None) -> TurnTable:
        """The messages of a scope's sessions, or of all sessions, as a search of memory knows them,
        once the index has caught up as far as it can.
        """
        return self._memory.turns(scope, complete=self.catch_up())

    holding = in_transaction(Pool.read, memory_index.holding)
    important = in_transaction(Pool.read, memory_index.important)
    told = in_transaction(Pool.read, memory_index.told)

    # --- what age leaves --------------------------------------------------------------------------

    digest = in_transaction(Pool.read, digests.digest)
    digest_notes = in_transaction(Pool.read, digests.digest_notes)
    keep_digest = in_transaction(Pool.write, digests.keep_digest)
    stored_bytes = in_transaction(Pool.read, digests.stored_bytes)
    hold_lease = in_transaction(Pool.write, digests.hold_lease)
    release_lease = in_transaction(Pool.write, digests.release_lease)

    # --- archives ---------------------------------------------------------------------------------

    def archive_sessions(
        self,
        wanted: Iterable[tuple[str, str | None]],
        *,
        folder: str | Path,
        now: datetime,
        kms_key: str | None = None,
    ) -> ArchiveReport:
        """Move the messages of sessions into files in a folder, or below `s3://BUCKET/PREFIX`,
        there sealed by a KMS key where one is given; `wanted` is each session with what it says
        in short. Whoever reads one reads it there; whoever goes on with one restores it. Space is
        given back to the file system. Of a session that fails, nothing is removed, and the report
        says why.

        Raises:
            StoreFailed: the store cannot be used, or the folder's name cannot be stored.
        """
        return archiving.archive(self._pool, wanted, folder, now, kms_key)

    def restore_session(self, session_id: str) -> None:
        """Store the messages of an archived session again; where it is not archived, do nothing.

        Raises:
            NotFound: there is no such session.
            StoreDamaged: the archive is missing, or is not what was written; it stays as it is.
        """
        archiving.unarchive(self._pool, session_id)

    def archived_sessions(
        self, *, scope: str | None = None, query: str | None = None, most: int | None = None
    ) -> list[ArchivedConversation]:
        """What is archived of a scope, or of all; with a query those at most that share words with
        it in what they say in short, the best first.
        """
        return archiving.archived(self._pool, scope, query, most)

    def archive_faults(
        self, *, scope: str | None = None, progress: Callable[[int, int], None] | None = None
    ) -> list[ArchiveFault]:
        """What is wrong with the files of a scope's archived sessions, or of all. `progress` is
        told how many archives are done, and of how many.
        """
        return archiving.faults(self._pool, scope, progress)

    def copy_into(
        self,
        file: str | Path,
        archive: str | Path,
        *,
        progress: Callable[[int, int], None] | None = None,
    ) -> BackupCounts:
        """Copy all of the file to a new one, and the archives of its sessions into a new folder
        beside that, while others read and write. `progress` is told how many bytes are done, and of
        how many.

        Raises:
            StoreFailed: something of these names is there already, or cannot be read or written.
            StoreDamaged: an archive is missing or altered.
        """
        _check_name(file)
        made, kept = named_path(file).absolute(), named_path(archive).absolute()
        return backup.copy_into(self._pool, made, kept, progress)

    # --- is it whole? -----------------------------------------------------------------------------

    def integrity_check(self) -> list[str]:
        """What is wrong with the file, as sentences; an empty list where nothing is.

        SQLite checks its pages and indexes; each message's hash, position and running total are
        checked along its branch.
        """
        return checking.findings(self._pool)


def _check_name(path: str | Path) -> None:
    """Whether SQLite can open a file of that name.

    Raises:
        StoreFailed: it is no Unicode.
    """
    if not is_storable(str(path)):
        raise StoreFailed(f"{str(path)!r} is not a file's name")
