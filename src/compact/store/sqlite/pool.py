"""Connections to one file: one writer, many readers. Transactions, locks, forks.

A transaction is a `with` block. It commits when the block ends, and rolls back when the block
raises. In WAL mode readers and the writer do not wait for each other. Writers of one process wait
for a lock. Writers of several processes wait for SQLite's lock, up to the busy timeout. An
in-memory database has one connection, which threads use in turn.

Translates SQLite's errors into compact's, with advice.
"""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from threading import Condition, Lock, RLock, local
from typing import Literal
from urllib.parse import quote
from weakref import WeakSet

import apsw

from compact import forks
from compact.errors import InvalidArgument, StoreDamaged, StoreFailed
from compact.files import is_folder, is_other_kind
from compact.messages.calls import got
from compact.store.blobs.places import ArchivePlaces
from compact.store.blobs.sealing import Passphrase
from compact.store.sqlite import migrations
from compact.store.sqlite.encryption import WRITABLE, connect, key_for, refused
from compact.store.sqlite.originals import Originals
from compact.store.sqlite.rows import Unreadable, query

# --- failures -------------------------------------------------------------------------------------

EXPECTED = (apsw.Error, UnicodeDecodeError, Unreadable)
"""Errors that a transaction may raise: SQLite's, and unreadable values."""
_DAMAGED = (apsw.CorruptError, apsw.NotADBError, apsw.FormatError, UnicodeDecodeError, Unreadable)
_TEXTS: tuple[tuple[type[apsw.Error], str], ...] = (
    (
        apsw.BusyError,
        "{file} is locked: another process has been writing to it while this one waited{wait}. "
        "Try again when it is done, or (a store of your own) wait longer, by its busy_timeout",
    ),
    (
        apsw.LockedError,
        "{file} is locked by another connection of this process. Try again when it is done",
    ),
    (apsw.FullError, "there is no room left for {file}. Free some space and try again"),
    (
        apsw.ReadOnlyError,
        "{file} cannot be written: the file or its folder is read-only. Change its permissions, "
        "or work on a copy",
    ),
    (
        apsw.CantOpenError,
        "{file} cannot be opened. Check that its folder exists, and that this user may write there",
    ),
    (
        apsw.IOError,
        "reading or writing {file} failed. Check the disk and its free space, then try again",
    ),
    (apsw.ConnectionClosedError, "the store of {file} has been closed. Open another one"),
    (apsw.TooBigError, "a value is too large for {file}: SQLite holds up to 1 GB in one"),
)


def store_error(error: Exception, file: str, *, waited: float | None = None) -> StoreFailed:
    """Return the error to raise for one of `EXPECTED`. `waited`: seconds spent waiting so far."""
    if isinstance(error, apsw.NotADBError):
        return StoreDamaged(
            f"{file} is no database at all (SQLite: {error}). Give the name of another file. If it "
            f"was a store before, what can still be read of it is saved by: {_repair(file)}"
        )
    if isinstance(error, _DAMAGED):
        return damaged(file, str(error))
    for kind, text in _TEXTS:
        if isinstance(error, kind):
            wait = "" if waited is None else f" {waited:.1f} s"
            return StoreFailed(f"{text.format(file=file, wait=wait)} (SQLite: {error})")
    return StoreFailed(f"SQLite refused to go on with {file}: {type(error).__name__}: {error}")


def damaged(file: str, what: str) -> StoreDamaged:
    """Return the error for a file with unreadable content."""
    return StoreDamaged(
        f"{file} is damaged, or no database of compact: {what}. Everything that can still be read "
        f"is saved by: {_repair(file)}"
    )


def _repair(file: str) -> str:
    return f"compactctl doctor --store {shlex.quote(file)} --repair"


# --- pool -----------------------------------------------------------------------------------------

Durability = Literal["full", "normal"]
_ASKED_AGAIN = 0.002
"""Seconds between two attempts to lock a file that another process holds. SQLite's own timeout
waits longer each time, up to .1 s. If another process takes the lock every few milliseconds, for
example to update an index, SQLite's timeout can miss every gap for a second."""

MEMORY = ":memory:"
_IDLE_READERS = 8
"""How many idle read connections to keep open. Reuse saves opening; each holds a file open."""
_LARGEST_WAL = 64 << 20
"""The most bytes of the write-ahead log to keep on disk after a checkpoint."""

_SWEEP = "sweep"
"""The order to remove the bytes of deleted rows. After a failure the next opening does it."""
WORTH_SHRINKING = 0.03
"""The share of free pages from which the file is rewritten. Rewriting a gigabyte takes seconds, so
one old session a day must not cause it."""

WAITS = 10.0
"""The longest time, in seconds, that a fork waits for threads that are inside SQLite."""
_pools: WeakSet[Pool] = WeakSet()
"""All open pools of this process."""
_waiting: dict[Pool, None] = {}
"""Pools that the current fork has waited for so far."""
_forking, _opening = Lock(), Lock()
_left_behind: list[apsw.Connection] = []
"""Connections that a thread was using when the process forked. The child never touches them."""
_left_open: set[tuple[int, int]] = set()
"""The files of these connections. The child must not open them: SQLite would take the parent's
locks on them for the child's own."""


class _Commits:
    """Counts this process's commits and openings of a writer. It does not refer to the pool, so
    that a dropped pool closes its connections.
    """

    number = 0

    def __call__(self) -> bool:
        self.number += 1
        return False  # returning True would undo the transaction


class _Translating:
    """Translates SQLite's errors. A class, because a generator makes appends a tenth slower."""

    __slots__ = ("_pool", "_since")

    def __init__(self, pool: Pool) -> None:
        self._pool, self._since = pool, time.monotonic()

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, EXPECTED):
            raise self._pool.translated(error, self._since) from error


class _Block(local):
    """What a thread reads in one transaction (`Pool.at_once`)."""

    db: apsw.Connection | None = None
    version: tuple[int, int] | None = None


class Pool:
    """One process's connections to one file."""

    def __init__(
        self,
        path: str,
        *,
        durability: Durability,
        busy_timeout: float,
        passphrase: Passphrase | None = None,
        home: Path | None = None,
        is_plain: bool = False,
    ) -> None:
        if durability not in ("full", "normal"):
            reason = f"durability must be 'full' or 'normal', got {got(durability)}"
            raise InvalidArgument("durability", reason)
        if not busy_timeout >= 0:  # written like this to refuse NaN, which would wait for ever
            reason = f"busy_timeout must be at least 0 seconds, got {got(busy_timeout)}"
            raise InvalidArgument("busy_timeout", reason)
        self.path = path if path == MEMORY else str(Path(path).absolute())
        """The file's absolute path, so that the working directory may change later."""
        if path != MEMORY:
            _refuse_other_kinds(self.path)
        is_plain = is_plain or path == MEMORY
        self.key = None if is_plain else key_for(Path(self.path), passphrase)
        """The encryption key; None for an unencrypted file. With `is_plain` the passphrase is used
        for archives only."""
        self.places = ArchivePlaces(home or Path(self.path).parent, passphrase)
        """Opens the places of archives. Folders are relative to `home`, or to the file's folder."""
        self.originals = Originals(self.places)
        """Reads texts that were moved into archives."""
        self._durability = durability
        self._busy = busy_timeout
        self._closed = False
        self._log_is_full = False
        """Whether the write-ahead log may still hold deleted data."""
        self._commits = _Commits()
        self._process = os.getpid()
        self._writing = RLock()
        self._readers = Condition()
        self._idle: list[apsw.Connection] = []
        self._reading: set[apsw.Connection] = set()
        self._block = _Block()
        self._identity: tuple[int, int] | None = None
        """Device and inode of the open file."""
        self._writer: apsw.Connection | None = None
        with _opening:
            _pools.add(self)
        with self._writing:
            self._writer = self._open_writer()
            if not self.in_memory:
                self._identity = _identity(self.path)
        self.read_only: bool = self._writer.readonly("main")

    @property
    def in_memory(self) -> bool:
        """Whether the database is only in memory."""
        return self.path == MEMORY

    @property
    def writer(self) -> apsw.Connection:
        """The writing connection."""
        forks.refuse_child(self._process)
        if self._writer is None:
            raise StoreFailed(f"the store of {self.path} has been closed. Open another one")
        return self._writer

    # --- transactions -----------------------------------------------------------------------------

    @contextmanager
    def write(self) -> Iterator[apsw.Connection]:
        """Run the block in a write transaction. It is durable when the block ends, and undone if
        the block raises.

        Raises:
            StoreFailed: the file is locked, full or read-only.
            StoreDamaged: the file's content is not what was written.
        """
        forks.refuse_child(self._process)
        self._end_block()
        with self._writing:
            with _Translating(self):
                db = self.writer
                db.execute("BEGIN IMMEDIATE")
                try:
                    self._check_place()
                    yield db
                    db.execute("COMMIT")
                except BaseException:
                    _undo(db)
                    raise
            if self._log_is_full:
                self.empty_log(wait=False)

    @contextmanager
    def read(self) -> Iterator[apsw.Connection]:
        """Run the block in a read transaction: the whole block sees one state of the file."""
        if self._block.db is not None:
            with _Translating(self):
                try:
                    yield self._block.db
                except BaseException:
                    self._end_block()  # who tries again sees what is there by now
                    raise
            return
        with self._writing if self.in_memory else nullcontext(), _Translating(self):
            db = self.writer if self.in_memory else self._take()
            try:
                db.execute("BEGIN")
                self._check_place()
                yield db
            finally:
                _undo(db) if self.in_memory else self._give_back(db)

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """Within the block, all that this thread reads is in one transaction, until it writes or
        fails. `version` is the one before.
        """
        if self.in_memory or self._block.db is not None:
            yield
            return
        self._block.version = self.version()
        with _Translating(self):
            self._block.db = self._take()
            self._block.db.execute("BEGIN")
            self._check_place()
        try:
            yield
        finally:
            self._end_block()

    def _end_block(self) -> None:
        db, self._block.db = self._block.db, None
        if db is not None:
            self._give_back(db)

    def version(self) -> tuple[int, int] | None:
        """Return a value that changes with every commit: SQLite's `data_version`, which counts
        commits of other connections, and this process's own count. None if it cannot be read now,
        because another thread is writing or the file is read-only.
        """
        forks.refuse_child(self._process)
        if self._block.db is not None:
            return self._block.version
        if self.read_only or not self._writing.acquire(blocking=False):
            return None
        try:
            with _Translating(self):
                db = self.writer
                self._check_place()
                if db.in_transaction:
                    return None
                return self.version_in(db)
        finally:
            self._writing.release()

    def version_in(self, db: apsw.Connection) -> tuple[int, int]:
        """Return `version` for who holds the writing connection."""
        return int(db.pragma("data_version")), self._commits.number

    @contextmanager
    def alone(self) -> Iterator[apsw.Connection]:
        """Give the writing connection to the block, without a transaction."""
        forks.refuse_child(self._process)
        self._end_block()
        with self._writing, _Translating(self):
            yield self.writer

    def translated(self, error: Exception, since: float) -> StoreFailed:
        """Return the error to raise for one of SQLite's errors.

        Raises:
            StoreFailed: the file was deleted or replaced, which explains the error.
        """
        self._check_place()
        return self._error_for(error, time.monotonic() - since)

    def _error_for(self, error: Exception, waited: float | None = None) -> StoreFailed:
        """Return the translated error. If there is a key, it may be the wrong one."""
        wrong_key = None if self.key is None else refused(error, self.path)
        return wrong_key or store_error(error, self.path, waited=waited)

    def _check_place(self) -> None:
        """Check that the path still leads to the file that was opened. SQLite would keep writing to
        a deleted file, or create another one.

        Raises:
            StoreFailed: the file was deleted or replaced.
        """
        if self._identity is None or (now := _identity(self.path)) == self._identity:
            return
        what = f"{self.path} was deleted or moved away"
        if now is not None:
            what = f"another file has taken the place of {self.path}"
        raise StoreFailed(
            f"{what} while it was open, so that nothing more is stored in it or read from it. "
            "Put it back, or open the store again to go on with what is there; as long as this one "
            "is open, what was stored can be saved: store.db.execute(\"VACUUM INTO 'saved.db'\")"
        )

    def empty_log(self, *, wait: bool = True) -> None:
        """Checkpoint the write-ahead log and truncate it. If readers still need the log, the next
        write transaction does it.
        """
        forks.refuse_child(self._process)
        with self._writing:
            db = self.writer
            db.set_busy_handler(_asking(self._busy if wait else 0.0))
            try:
                rows = db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
                self._log_is_full = bool(rows[0][0])
            except apsw.Error:
                self._log_is_full = True
            finally:
                db.set_busy_handler(_asking(self._busy))

    def is_durable(self) -> bool:
        """Write everything committed to the disk. Return whether that succeeded. With
        `durability="full"` each commit has done so already.
        """
        if self.in_memory or self._durability == "full":
            return True
        self.empty_log()
        return not self._log_is_full

    # --- bytes of deleted rows ------------------------------------------------------------------

    def sweep_if_due(self) -> None:
        """Remove the bytes of deleted rows from the file, if that was ordered.

        Raises:
            StoreFailed: the disk is full, or others keep the file locked.
        """
        with self.alone() as db:
            if is_sweep_due(db):
                self._rewrite(db)
                # Last, because this writes to the log, which must stay short.
                db.execute("DELETE FROM chores WHERE name = ?", (_SWEEP,))

    def shrink(self, freed: int) -> None:
        """Return free space to the file system, if there is enough of it. `freed` is how many bytes
        of texts were just moved away. Raises the errors of `sweep_if_due`.
        """
        with self.alone() as db:
            pages, free = int(db.pragma("page_count")), int(db.pragma("freelist_count"))
            if free + freed / int(db.pragma("page_size")) > WORTH_SHRINKING * pages:
                self._rewrite(db)

    def _rewrite(self, db: apsw.Connection) -> None:
        # SQLite overwrites deleted rows (`secure_delete`). But a page may still hold a row's former
        # place, and the word index only marks words as deleted.
        db.execute("INSERT INTO words (words) VALUES ('optimize')")
        db.execute("VACUUM")
        self.empty_log()

    def _take(self) -> apsw.Connection:
        forks.refuse_child(self._process)
        with self._readers:
            if self._closed:
                raise StoreFailed(f"the store of {self.path} has been closed. Open another one")
            db = self._idle.pop() if self._idle else self._open_reader()
            self._reading.add(db)
            return db

    def _give_back(self, db: apsw.Connection) -> None:
        _undo(db)
        with self._readers:
            self._reading.discard(db)
            # An immutable connection does not see later changes, so it is not reused.
            is_kept = not self.read_only and not self._closed and not db.in_transaction
            if not is_kept or len(self._idle) >= _IDLE_READERS:
                db.close(True)
            else:
                self._idle.append(db)
            self._readers.notify_all()

    def close(self) -> None:
        """Close idle connections now, and busy ones when they are returned. Closing twice does no
        harm. A forked child closes nothing.
        """
        if os.getpid() != self._process:
            return
        with self._writing, self._readers:
            self._closed = True
            while self._idle:
                self._idle.pop().close(True)
            if self._writer is not None:
                self._writer.close(True)
                self._writer = None

    # --- opening ----------------------------------------------------------------------------------

    def _open_writer(self) -> apsw.Connection:
        """Return a writing connection, or a reading one if the file or its folder is read-only.

        SQLite locks a file exclusively for a moment to create it or to switch it to WAL, and does
        not wait for such a lock. So this tries again until the busy timeout.
        """
        self._check_place()
        if not self.in_memory and _identity(self.path) in _left_open:
            raise StoreFailed(
                f"this process was forked while another thread was using {self.path}. Fork again, "
                "or start the process with spawn"
            )
        if not self.in_memory and not is_folder(Path(self.path).parent):
            raise StoreFailed(f"no folder {Path(self.path).parent}; make it first")
        since = time.monotonic()
        while True:
            try:
                return self._try_to_open()
            except (apsw.BusyError, apsw.LockedError) as error:
                if (waited := time.monotonic() - since) > self._busy:
                    raise self._error_for(error, waited) from error
                time.sleep(0.01)
            except apsw.Error as error:
                raise self._error_for(error) from error

    def _try_to_open(self) -> apsw.Connection:
        if not self.in_memory:
            with suppress(OSError):  # the file exists, or SQLite will report why it cannot be made
                os.close(os.open(self.path, os.O_CREAT | os.O_EXCL, 0o600))
        try:
            return self._prepared(self._connect(self.path, WRITABLE))
        except (apsw.CantOpenError, apsw.ReadOnlyError):
            if not self._may_be_immutable():
                raise
        return self._prepared(self._connect_immutable())

    def _prepared(self, db: apsw.Connection) -> apsw.Connection:
        """Configure a connection, check that the file is ours, migrate it, and return it."""
        try:
            db.set_busy_handler(_asking(self._busy))
            db.set_commit_hook(self._commits)
            self._commits()  # a new connection has its own `data_version`, so the count must differ
            is_new = migrations.check(db, self.path)
            if not db.readonly("main"):
                self._set_up_writer(db)
                migrations.migrate(db, self.path)
        except BaseException:
            db.close(True)
            raise
        if is_new and db.readonly("main"):
            db.close(True)
            raise StoreFailed(f"{self.path} is empty, and cannot be written")
        return db

    def _set_up_writer(self, db: apsw.Connection) -> None:
        for name, value in (
            ("journal_mode", "wal"),
            ("synchronous", self._durability),
            ("secure_delete", "on"),
            ("journal_size_limit", _LARGEST_WAL),
            ("cell_size_check", "on"),
        ):
            db.pragma(name, value)

    def _open_reader(self) -> apsw.Connection:
        self._check_place()
        if self.read_only and self._may_be_immutable():
            return self._connect_immutable()
        flags = apsw.SQLITE_OPEN_READONLY if self.read_only else apsw.SQLITE_OPEN_READWRITE
        db = self._connect(self.path, flags)
        db.set_busy_timeout(int(self._busy * 1000))
        db.pragma("query_only", True)
        db.pragma("cell_size_check", True)
        return db

    def _may_be_immutable(self) -> bool:
        """Return whether to open the file as immutable: file or folder is read-only, so SQLite
        cannot create its shared-memory file; and there is no log, which would mean that somebody
        writes.
        """
        path, log = Path(self.path), Path(f"{self.path}-wal")
        try:
            has_log = log.exists() and log.stat().st_size > 0
            is_writable = _is_writable(path) and _is_writable(path.parent)
            return path.is_file() and not is_writable and not has_log
        except OSError:  # an invalid name, which SQLite will report
            return False

    def _connect_immutable(self) -> apsw.Connection:
        name = f"file:{quote(self.path)}?immutable=1"
        flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
        return self._connect(name, flags)

    def _connect(self, name: str, flags: int) -> apsw.Connection:
        db = connect(name, self.key, flags=flags)
        self.originals.serve(db)
        # Lists the words of the index. It holds nothing itself, so it is made for each connection.
        db.execute("CREATE VIRTUAL TABLE temp.terms USING fts5vocab(main, words, 'row')")
        return db

    # --- forks ------------------------------------------------------------------------------------

    def before_fork(self, until: float) -> None:
        """Wait until no other thread is inside SQLite, at most until `until` (monotonic clock)."""
        self._has_writer = self._writing.acquire(timeout=max(0.0, until - time.monotonic()))
        self._readers.acquire()
        left = max(0.0, until - time.monotonic())
        self._readers.wait_for(lambda: not self._reading, timeout=left)

    def after_fork(self) -> None:
        """Let threads continue, in the parent process."""
        self._readers.release()
        if self._has_writer:
            self._writing.release()

    def leave(self) -> None:
        """Give up the inherited connections, in the child process. Close them, or abandon them if
        they are in use. While one stays open, SQLite takes the parent's locks for the child's own.
        """
        inherited = [*self._idle, *self._reading]
        if self._writer is not None:
            inherited.append(self._writer)
        is_used = bool(self._reading) or not self._has_writer
        is_used = is_used or any(db.in_transaction for db in inherited)
        if is_used and (file := self._identity or _identity(self.path)) is not None:
            _left_open.add(file)
        if is_used or self.in_memory:
            _left_behind.extend(inherited)
        else:
            for db in inherited:
                with suppress(apsw.Error):
                    db.close(True)


def order_sweep(db: apsw.Connection) -> None:
    """Order `Pool.sweep_if_due`, in the transaction that deletes."""
    db.execute("INSERT INTO chores VALUES (?) ON CONFLICT DO NOTHING", (_SWEEP,))


def is_sweep_due(db: apsw.Connection) -> bool:
    """Return whether a sweep was ordered and is not done yet."""
    return bool(query(db, "SELECT 1 FROM chores WHERE name = ?", (_SWEEP,)))


def _before_fork() -> None:
    _forking.acquire()
    until = time.monotonic() + WAITS
    while True:
        _opening.acquire()
        if not (new := [pool for pool in _pools if pool not in _waiting]):
            return  # keeps `_opening`, so that no pool opens before the fork is over
        _opening.release()  # a thread that we wait for may have to open a pool
        for pool in new:
            pool.before_fork(until)
            _waiting[pool] = None


def _after_fork() -> None:
    while _waiting:
        _waiting.popitem()[0].after_fork()
    _opening.release()
    _forking.release()


def _in_child() -> None:
    while _waiting:
        _waiting.popitem()[0].leave()
    _pools.clear()
    _opening.release()
    _forking.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_in_child)


def _refuse_other_kinds(path: str) -> None:
    """Refuse a path that cannot be a database. SQLite would wait for ever for the other end of a
    pipe.

    Raises:
        StoreFailed: it is a folder, a pipe, a socket or a device.
    """
    if is_other_kind(Path(path)):
        what = "a pipe, a socket or a device"
    elif is_folder(Path(path)):
        what = "a folder"
    else:  # a file or a new name; SQLite reports an invalid one
        return
    raise StoreFailed(f"{path} is {what}, not a store; give the name of a file")


def _identity(file: str) -> tuple[int, int] | None:
    try:
        stat = os.stat(file)  # called in each transaction; `Path.stat` takes three times as long
    except OSError:
        return None
    return stat.st_dev, stat.st_ino


def _is_writable(path: Path) -> bool:
    return os.access(path, os.W_OK, effective_ids=os.access in os.supports_effective_ids)


def _undo(db: apsw.Connection) -> None:
    """Roll back an open transaction. Errors are ignored: they would hide the first one."""
    with suppress(apsw.Error):
        if db.in_transaction:
            db.execute("ROLLBACK")


def _asking(seconds: float) -> Callable[[int], bool]:
    since = 0.0

    def ask(times: int) -> bool:
        nonlocal since
        since = time.monotonic() if times == 0 else since
        is_in_time = time.monotonic() - since < seconds
        if is_in_time:
            time.sleep(_ASKED_AGAIN)
        return is_in_time

    return ask
