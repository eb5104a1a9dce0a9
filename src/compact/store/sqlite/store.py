"""`SQLiteManager`: sessions in one SQLite file. The other modules of this folder do the work.

Many threads and processes may use one file at once. Readers never wait; writers take turns. With
`durability="full"`, everything that a call stores is on the disk when the call returns.

Turn functions that take a connection or a `Pool` into methods of the store.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, Protocol, Self, TypeVar

import apsw

from compact.errors import InvalidInput, NotFound, StoreFailed, Superseded
from compact.files import named_path
from compact.messages.codec import is_storable
from compact.messages.protocols import Version
from compact.messages.sessions import Entry, Found, Move, Session, Step
from compact.store.blobs.sealing import Passphrase
from compact.store.sqlite import (
    archiving,
    backup,
    branch_lineage,
    checking,
    digests,
    forgetting,
    memory_index,
    messages,
    originals,
    projections,
    search,
)
from compact.store.sqlite import changes as change_log
from compact.store.sqlite import sessions as session_rows
from compact.store.sqlite.branch_lineage import Tail
from compact.store.sqlite.originals import OriginalsMissing
from compact.store.sqlite.pool import MEMORY, Durability, Pool
from compact.store.whole_session import WholeSession
from compact.text.archived import BackupCounts
from compact.text.conversation import Conversation
from compact.text.turns import TurnTable

# --- methods --------------------------------------------------------------------------------------

Given = ParamSpec("Given")
T = TypeVar("T")


class Store(Protocol):
    """What these methods need of their object."""

    _pool: Pool


def on_pool(
    function: Callable[Concatenate[Pool, Given], T],
) -> Callable[Concatenate[Store, Given], T]:
    """Return a method that calls the function with the store's `Pool`."""

    @wraps(function)
    def method(self: Store, /, *args: Given.args, **given: Given.kwargs) -> T:
        return function(self._pool, *args, **given)

    _sign(method, function)
    return method


def in_transaction(
    transaction: Callable[[Pool], AbstractContextManager[apsw.Connection]],
    function: Callable[Concatenate[apsw.Connection, Given], T],
) -> Callable[Concatenate[Store, Given], T]:
    """Return a method that runs the function in a transaction of its own. It runs again if another
    process moved a session's originals meanwhile.
    """

    @wraps(function)
    def method(self: Store, /, *args: Given.args, **given: Given.kwargs) -> T:
        while True:
            try:
                with transaction(self._pool) as db:
                    return function(db, *args, **given)
            except OriginalsMissing as error:
                with self._pool.read() as db:
                    if originals.of_key(db, error.place.session) == error.place:
                        raise

    _sign(method, function)
    return method


def _sign(method: Callable[..., Any], function: Callable[..., Any]) -> None:
    """Give the method the function's signature, with `self` in place of the connection."""
    known = inspect.signature(function)
    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    connection, *others = known.parameters.values()
    method.__dict__["__signature__"] = known.replace(parameters=[own, *others])
    types = function.__annotations__
    method.__annotations__ = {name: types[name] for name in types if name != connection.name}
    method.__qualname__ = f"SQLiteManager.{function.__name__}"


# --- store ----------------------------------------------------------------------------------------

INDEXED_AFTER_COMMIT = 2_000
"""How many messages to index after a commit, to make a long session's first search quick."""
MOST_ENDS = 1_000
"""How many branch ends to keep in memory. An append to another branch takes three statements."""


class SQLiteManager:
    """A session store in a file, or in memory.

    `durability` says when an append returns: with `full` when the data is on the disk, with
    `normal` when the operating system has it. With `normal`, a power cut may lose the last moments,
    but never damages the file. `busy_timeout` is how many seconds a writer waits for other
    processes.

    With a `key` (default: `COMPACT_ENCRYPTION_KEY` in the environment) the file and its archives
    are encrypted. That needs `apsw-sqlite3mc` instead of `apsw`.

    Raises:
        StoreFailed: the file cannot be opened, or not with this key; or it belongs to a newer
            compact or to another application.
        StoreDamaged: the file is damaged, or not a database.
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
        """Branch id → the branch's end after this store's last append."""
        self._memory = memory_index.MemoryIndex(self._pool)
        with suppress(StoreFailed):
            self._pool.sweep_if_due()
            archiving.take_in_old(self._pool)
        self._discard()

    def _discard(self) -> None:
        """Remove archive files that no session needs. After a failure a later call tries again."""
        with suppress(StoreFailed, OSError):
            forgetting.discard(self._pool)

    @property
    def path(self) -> str:
        """The file's path, or `:memory:`."""
        return self._pool.path

    @property
    def pool(self) -> Pool:
        """The store's connections, for code that keeps other tables in the same file."""
        return self._pool

    @property
    def db(self) -> apsw.Connection:
        """The writing connection, for work that no method does. Leave no transaction open."""
        return self._pool.writer

    def version(self, branch_id: str = "") -> tuple[int, int] | None:
        """See `Versioned`. Never waits. The version is that of the whole file."""
        return self._pool.version()

    def at_once(self) -> AbstractContextManager[None]:
        """Within the block, this thread reads in one transaction (`ReadsAtOnce`)."""
        return self._pool.at_once()

    def close(self) -> None:
        """Close the file. Closing twice does no harm."""
        self._pool.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    # --- sessions ---------------------------------------------------------------------------------

    def session(self, session_id: str, *, create: Session | None = None) -> Session:
        """Return the session with that id. If there is none, store `create` and return it.

        Raises:
            NotFound: there is none, and `create` is not given.
            InvalidInput: `create` has another id, or its branch id is taken.
        """
        if create is not None and {create.id, create.branch.session_id} != {session_id}:
            raise InvalidInput(f"the session to create is {create.id!r}, not {session_id!r}")
        with self._pool.read() as db:
            stored = session_rows.session(db, session_id)
        if stored is None and create is not None:
            with self._pool.write() as db:
                if session_rows.session(db, session_id) is None:
                    session_rows.create(db, create)
                stored = session_rows.session(db, session_id)
        if stored is None:
            raise NotFound(f"no session {session_id!r} in this store")
        return stored

    def put_session(self, whole: WholeSession, *, replaces: Version | None = None) -> Session:
        """Store a new session, or instead of the one that was there at that version (`Versioned`).

        Raises:
            Superseded: a session with that id exists, or something was stored since.
            InvalidInput: another session has a branch or projection with one of its ids.
        """
        with self._pool.write() as db:
            if replaces is not None and self._pool.version_in(db) != replaces:
                raise Superseded(f"session {whole.session.id!r} was written since")
            return archiving.put(db, whole, replaces=replaces is not None)

    sessions = in_transaction(Pool.read, session_rows.sessions)
    describe = in_transaction(Pool.write, session_rows.describe)
    fork = in_transaction(Pool.write, session_rows.fork)

    def delete_session(self, session_id: str) -> None:
        """Delete a session for good. Afterwards no part of the file contains its words, nor does
        the log once no reader needs it. Quotes of it in other sessions of the scope are removed
        too.

        The whole file is rewritten. A gigabyte takes seconds, and as much free space again.

        Raises:
            NotFound: no such session.
            StoreFailed: it could not be deleted. Or it was deleted but traces remain; the message
                says so, and the next deletion or opening removes them.
        """
        forgetting.delete(self._pool, session_id)
        try:
            forgetting.finish(self._pool)
        except (StoreFailed, OSError) as error:
            raise StoreFailed(
                f"session {session_id!r} is deleted, but traces of its words are left in the file "
                f"or its archive until the store is opened again: {error}"
            ) from error

    forget_session = on_pool(forgetting.forget_session)
    forget_scope = on_pool(forgetting.forget_scope)

    def get_conversation(self, session_id: str) -> Conversation:
        """Return the session's messages, with their token counts, as one value.

        Raises:
            NotFound: no such session.
        """
        session = self.session(session_id)
        branch = session.branch
        return Conversation.of(session, self.read(branch.id, 0, branch.messages))

    # --- histories --------------------------------------------------------------------------------

    def append(
        self, branch_id: str, entries: Sequence[Entry], *, expected: int | None = None
    ) -> int:
        """Append entries, all or none. Return the branch's new length.

        Raises:
            Superseded: the branch no longer has `expected` messages.
            InvalidMessage: an entry cannot be stored.
        """
        end = self._ends.get(branch_id)
        if entries and end is not None and expected in (None, end.position):
            rows, after = messages.rows_after(end, entries)
            with self._pool.write() as db:
                if messages.append_if_after(db, end, rows):
                    self._ends[branch_id] = after
                    return after.position
        if len(self._ends) >= MOST_ENDS:
            self._ends.clear()
        after = self._ends[branch_id] = self._append(branch_id, entries, expected=expected)
        return after.position

    _append = in_transaction(Pool.write, messages.append)
    add_from_source = in_transaction(Pool.write, archiving.add_from_source)
    read = in_transaction(Pool.read, messages.read)
    marked = in_transaction(Pool.read, messages.marked)
    first_marked = in_transaction(Pool.read, messages.first_marked)
    position_of = in_transaction(Pool.read, messages.position_of)

    update_importance_score = in_transaction(Pool.write, messages.update_importance_score)

    # --- branches ---------------------------------------------------------------------------------

    branch = in_transaction(Pool.read, branch_lineage.branch)
    branches = in_transaction(Pool.read, branch_lineage.branches)
    chain = in_transaction(Pool.read, branch_lineage.chain)
    beginning = in_transaction(Pool.read, branch_lineage.beginning)

    # --- projections and moves --------------------------------------------------------------------

    def commit(self, step: Step) -> Move:
        """Store a step with its projection and checkpoints, all or none, and put it in force.

        Raises:
            Superseded: another move came first, or a branch with that id exists.
            NotFound: no such session, or it has no such branch.
            InvalidInput: another session has a projection with that id.
        """
        with self._pool.write() as db:
            move = projections.commit(db, step)
        # The step is stored, so a failure here is ignored. A search indexes what is missing.
        with suppress(StoreFailed, NotFound):
            search.catch_up_branch(self._pool, step.branch_id, most=INDEXED_AFTER_COMMIT)
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
    catch_up = on_pool(search.catch_up)

    def search(self, branch_id: str, text: str, *, most: int) -> list[Found]:
        """Return messages on a branch (ancestors included) that match the text, best first. If the
        index cannot be updated, only the newest 5,000 messages are scanned.
        """
        return search.search(self._pool, branch_id, text, most)

    def turns(self, scope: str | None) -> TurnTable:
        """Return the messages of a scope's sessions as memory's search needs them. `scope` None
        means all. Updates the index first, if it can.
        """
        return self._memory.turns(scope, complete=self.catch_up())

    holding = in_transaction(Pool.read, memory_index.holding)
    important = in_transaction(Pool.read, memory_index.important)
    told = on_pool(memory_index.told)

    # --- digests and leases -----------------------------------------------------------------------

    digest = in_transaction(Pool.read, digests.digest)
    digest_notes = in_transaction(Pool.read, digests.digest_notes)
    keep_digest = in_transaction(Pool.write, digests.keep_digest)
    stored_texts = in_transaction(Pool.read, digests.stored_texts)
    hold_lease = in_transaction(Pool.write, digests.hold_lease)
    release_lease = in_transaction(Pool.write, digests.release_lease)

    # --- archives ---------------------------------------------------------------------------------

    archive_sessions = on_pool(archiving.archive_sessions)
    pack_sessions = on_pool(archiving.pack_sessions)
    restore_session = on_pool(archiving.restore_session)
    moved_sessions = on_pool(archiving.moved_sessions)
    archived_sessions = on_pool(archiving.archived_sessions)
    archived_named = on_pool(archiving.archived_named)
    archive_faults = on_pool(archiving.archive_faults)

    def copy_into(
        self,
        file: str | Path,
        archive: str | Path,
        *,
        progress: Callable[[int, int], None] | None = None,
    ) -> BackupCounts:
        """Copy the database to a new file, and its sessions' archives into a new folder beside it.
        Others may read and write meanwhile. `progress` gets the number of bytes copied and the
        total.

        Raises:
            StoreFailed: a target exists, or something cannot be read or written.
            StoreDamaged: an archive is missing or was changed.
        """
        _check_name(file)
        made, kept = named_path(file).absolute(), named_path(archive).absolute()
        return backup.copy_into(self._pool, made, kept, progress)

    # --- integrity --------------------------------------------------------------------------------

    integrity_check = on_pool(checking.integrity_check)


def _check_name(path: str | Path) -> None:
    if not is_storable(str(path)):
        raise StoreFailed(f"{str(path)!r} is not a file's name")
