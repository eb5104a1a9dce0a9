"""Copies the database and its archives while they are in use, and restores such a backup.

The database is copied first, in one read transaction, while writers continue. Then the archives
that the copy names are copied. If a session left the archive meanwhile, its files are gone, and the
database is copied again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

import apsw

from compact.errors import StoreDamaged, StoreFailed
from compact.files import made_beside, put_in_place
from compact.messages.protocols import BlobStore
from compact.store.archives import folder as archive_folder
from compact.store.blobs.sealing import Passphrase
from compact.store.sqlite import archiving, checking, originals
from compact.store.sqlite.archiving import ATTEMPTS
from compact.store.sqlite.encryption import WRITABLE, connect
from compact.store.sqlite.originals import Place
from compact.store.sqlite.pool import EXPECTED, Pool, store_error
from compact.store.sqlite.rows import BITS, query, text
from compact.text.archived import BackupCounts

BESIDE = ("-wal", "-shm", "-journal")
"""Suffixes of the files that SQLite keeps next to a database."""
BUSY = 10_000
"""How long to wait for a writer, in milliseconds."""
PAGES = 4_096
"""How many database pages to copy between two calls of `progress`."""
Progress = Callable[[int, int], None]
"""A callback that gets the bytes copied so far, and the total."""


def copy_into(
    pool: Pool, file: Path, archive: Path, progress: Progress | None = None
) -> BackupCounts:
    """Copy the database to a new file, and its archives into a new folder beside it. Both are
    complete, or neither exists.

    Raises:
        StoreFailed: a target exists; something cannot be read or written; or sessions keep leaving
            the archive.
        StoreDamaged: an archive is missing or was changed.
    """
    for taken in (file, *(Path(f"{file}{x}") for x in BESIDE), archive):
        if os.path.lexists(taken):
            raise StoreFailed(f"{taken} is there already, and stays as it is: name a new one")
    missing = ""
    for _ in range(ATTEMPTS):
        with made_beside(file) as beside:
            made, kept = beside / file.name, beside / archive.name
            _copy_database(pool, made, progress)
            try:
                counts = _copy_archives(pool, made, kept, progress)
            except _LeftTheArchive as error:
                missing = str(error)
                continue
            if kept.is_dir():
                put_in_place(kept, archive)
            put_in_place(made, file)
            return counts
    raise StoreFailed(
        f"no backup was made: sessions left the archive {ATTEMPTS} times while it was copied, "
        f"{missing} the last time; try again"
    )


class _LeftTheArchive(Exception):
    """A session left the archive while it was being copied."""


def _copy_database(pool: Pool, file: Path, progress: Progress | None) -> None:
    # In one transaction, SQLite does not restart the copy when another connection writes.
    with pool.alone() if pool.in_memory else pool.read() as db:
        if not pool.in_memory:
            query(db, "SELECT 1 FROM sessions LIMIT 1")
        size = int(query(db, "PRAGMA page_size")[0][0])
        try:
            descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            os.close(descriptor)
            with (
                closing(connect(str(file), pool.key, flags=WRITABLE)) as copy,
                copy.backup("main", db, "main") as work,
            ):
                while not work.done:
                    work.step(PAGES)
                    if progress is not None:
                        done = work.page_count - work.remaining
                        progress(done * size, work.page_count * size)
        except EXPECTED as error:
            raise store_error(error, str(file), waited=0.0) from error


def _copy_archives(
    pool: Pool, file: Path, archive: Path, progress: Progress | None
) -> BackupCounts:
    with closing(connect(str(file), pool.key, flags=WRITABLE)) as copy:
        kept = _archived(copy)
        into = pool.places.at(str(archive.absolute()))
        total, done = sum(each.bytes for each in kept), 0
        for each in kept:
            _copy_archive(pool, each.place, into)
            done += each.bytes
            if progress is not None:
                progress(done, total)
        point_to(copy, archive.name)
        return _counts(copy)


def _copy_archive(pool: Pool, place: Place, into: BlobStore) -> None:
    blobs = pool.places.at(place.folder)
    try:
        for name in archive_folder.files_of(place.name):
            into.put(name, blobs.get(name), replaces=True)
        archive_folder.read(into, place.name, place.sum)
    except (FileNotFoundError, StoreDamaged) as error:
        raise _why(pool, place) from error


def _archived(db: apsw.Connection) -> list[originals.Moved]:
    return [each for each in originals.moved(db).values() if each.place.folder]


def _why(pool: Pool, place: Place) -> Exception:
    """Return the error for an archive that could not be copied. Either its session has left the
    archive, or the file is damaged.
    """
    if faults := checking.of_archive(pool, place):
        return StoreDamaged(
            f"no backup was made: {faults[0]}. Run `compactctl doctor --check`, put the file back "
            "or delete its session, then try again"
        )
    return _LeftTheArchive(place.name)


def point_to(copy: apsw.Connection, folder: str) -> None:
    """Make a copy of the database use the archives in a folder beside it. Delete the orders to
    remove files, which belong to the original.
    """
    with copy:
        copy.execute("UPDATE archived SET folder = ? WHERE folder <> ''", (text(folder),))
        copy.execute("DELETE FROM chores WHERE name <> 'sweep'")
    copy.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _counts(db: apsw.Connection) -> BackupCounts:
    return BackupCounts(
        *query(
            db,
            """
            SELECT (SELECT count(*) FROM sessions), (SELECT count(*) FROM messages),
                (SELECT count(*) FROM archived WHERE folder <> '')
            """,
        )[0]
    )


def put_to_work(file: Path, folder: str) -> BackupCounts:
    """Make a restored database use the archives in a folder beside it, and check it. Return what it
    holds.

    Raises:
        StoreDamaged: the database is damaged.
        StoreFailed: the database cannot be opened.
    """
    passphrase = Passphrase.in_force(None)
    pool = Pool(str(file), durability="full", busy_timeout=1.0, passphrase=passphrase)
    with closing(pool):
        with pool.alone() as db:
            point_to(db, folder)
        archiving.take_in_old(pool)
        with pool.read() as db:
            counts = _counts(db)
        if findings := checking.integrity_check(pool):
            raise StoreDamaged(f"the backup's database is damaged: {findings[0]}")
        pool.empty_log()
    return counts


def put_back(pool: Pool, file: Path, check: Callable[[Sequence[str]], None]) -> None:
    """Replace the store's content with that of a restored database, in one transaction.

    `check` is called once all other writers are locked out. It gets sentences about data other than
    sessions that would be lost. It raises an error to refuse.

    Raises:
        StoreFailed: the store cannot be written; it keeps its content.
    """
    try:
        with (
            closing(connect(str(file), pool.key, flags=WRITABLE)) as copy,
            closing(connect(pool.path, pool.key, flags=WRITABLE)) as live,
        ):
            live.set_busy_timeout(BUSY)
            live.pragma("synchronous", "full")
            with live.backup("main", copy, "main") as work:
                work.step(0)  # copies no page, but locks out other writers
                check(list(_lost_beside(pool, copy)))
                _keep_archives(pool, copy, file.parent)
                work.step(-1)
    except EXPECTED as error:
        raise store_error(error, pool.path, waited=0.0) from error
    pool.empty_log()
    archiving.discard_due(pool)


def _lost_beside(pool: Pool, copy: apsw.Connection) -> Iterator[str]:
    """Yield which data, other than sessions, differ from a restored database's."""
    own = f"SELECT count(*), max(key) FROM vectors WHERE message < 1 << {BITS}"
    scores = "SELECT key, importance_score FROM messages"
    with pool.read() as db:
        if query(db, own) != query(copy, own):
            yield "vectors of an application"
        known: dict[int, float | None] = dict(query(db, scores))
        if any(known.get(key, score) != score for key, score in copy.execute(scores)):
            yield "the importance of messages"


def _keep_archives(pool: Pool, copy: apsw.Connection, beside: Path) -> None:
    """Make a restored database use the store's own archive folders. Order the removal of archives
    that the restored database does not name.
    """
    with pool.read() as db:
        here = {each.place.name: each.place for each in _archived(db)}
        newest = query(db, "SELECT seq FROM sqlite_sequence WHERE name = 'vectors'")
    wanted = {each.place.name: each.place for each in _archived(copy)}
    with copy:
        for name, place in wanted.items():
            if name in here:
                sql = "UPDATE archived SET folder = ? WHERE name = ?"
                copy.execute(sql, (text(here[name].folder), text(name)))
            made, into = pool.places.at(str(beside / place.folder)), pool.places.at(place.folder)
            for each in archive_folder.files_of(name) if name not in here else ():
                into.put(each, made.get(each), replaces=True)
        for name in here.keys() - wanted.keys():
            originals.order_discard(copy, here[name])
        # Open searches hold vectors by key, so a key must not be used twice.
        copy.execute("UPDATE generations SET removed = removed + 1")
        if newest:
            copy.execute("DELETE FROM sqlite_sequence WHERE name = 'vectors'")
            copy.execute("INSERT INTO sqlite_sequence VALUES ('vectors', ?)", newest[0])
