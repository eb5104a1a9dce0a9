"""The database and its archives, copied while they are in use, and put to work elsewhere.

The database is copied first, as one reader sees it: writers go on meanwhile. What the copy says is
archived is copied then. Where a session was restored in between, so that its files are gone, the
database is copied again.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import apsw

from compact.core.backups import BackupCounts
from compact.core.memory_protocols import BlobStore
from compact.errors import StoreDamaged, StoreFailed
from compact.files import made_beside, put_in_place
from compact.storage.blobs.sealing import Passphrase
from compact.storage.memory_archives import folder as archive_folder
from compact.storage.sqlite import archived_rows, checking
from compact.storage.sqlite.archiving import ATTEMPTS
from compact.storage.sqlite.encryption import WRITABLE, connect
from compact.storage.sqlite.failures import EXPECTED, said
from compact.storage.sqlite.pool import Pool
from compact.storage.sqlite.rows import query, text

BESIDE = ("-wal", "-shm", "-journal")
"""Ends of the names of files that belong to a database."""
PAGES = 4_096
"""Of the database that are copied before `progress` is told."""
Progress = Callable[[int, int], None]
"""Told how many bytes are done, and of how many."""


def copy_into(
    pool: Pool, file: Path, archive: Path, progress: Progress | None = None
) -> BackupCounts:
    """Copy the database to a new file, and its archives into a new folder beside that: both whole,
    or neither.

    Raises:
        StoreFailed: something of these names is there; it cannot be read or written; or archives
            leave again and again meanwhile.
        StoreDamaged: an archive is missing or altered.
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
    """A session is not archived any more."""


def _copy_database(pool: Pool, file: Path, progress: Progress | None) -> None:
    # One transaction sees one state: a copy is not begun anew when somebody writes.
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
            raise said(error, str(file), waited=0.0) from error


def _copy_archives(
    pool: Pool, file: Path, archive: Path, progress: Progress | None
) -> BackupCounts:
    with closing(connect(str(file), pool.key, flags=WRITABLE)) as copy:
        kept = list(archived_rows.kept(copy).values())
        into = pool.places.at(str(archive.absolute()))
        total, done = sum(each.bytes for each in kept), 0
        for each in kept:
            _copy_archive(pool, each.place, into)
            done += each.bytes
            if progress is not None:
                progress(done, total)
        point_to(copy, archive.name)
        return _counts(copy)


def _copy_archive(pool: Pool, place: archived_rows.ArchivePlace, into: BlobStore) -> None:
    blobs = pool.places.at(place.folder)
    for name in archive_folder.both(place.name):
        try:
            into.put(name, blobs.get(name), replaces=True)
        except (FileNotFoundError, StoreDamaged) as error:
            raise _why(pool, place) from error
    if archive_folder.faults(into, place.name, place.description, place.originals):
        raise _why(pool, place)


def _why(pool: Pool, place: archived_rows.ArchivePlace) -> Exception:
    """Why a session's files are not what the copy says: it has left the archive, or they are
    damaged.
    """
    if faults := checking.of_archive(pool, place):
        return StoreDamaged(
            f"no backup was made: {faults[0]}. Run `compactctl doctor --check`, put the file back "
            "or delete its session, then try again"
        )
    return _LeftTheArchive(place.name)


def point_to(copy: apsw.Connection, folder: str) -> None:
    """Have a copy's archives be in a folder beside it, and nothing removed that its original was to
    remove.
    """
    with copy:
        copy.execute("UPDATE archived SET folder = ?", (text(folder),))
        copy.execute("DELETE FROM chores WHERE name <> 'sweep'")
    copy.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _counts(db: apsw.Connection) -> BackupCounts:
    return BackupCounts(
        *query(
            db,
            """
            SELECT (SELECT count(*) FROM sessions), (SELECT count(*) FROM messages)
                + (SELECT coalesce(sum(messages), 0) FROM archived), (SELECT count(*) FROM archived)
            """,
        )[0]
    )


def put_to_work(file: Path, folder: str) -> BackupCounts:
    """Have a restored database use the archives in a folder beside it; what it holds, once it was
    seen to be whole.

    Raises:
        StoreDamaged: it is not what was written.
        StoreFailed: it cannot be opened.
    """
    passphrase = Passphrase.in_force(None)
    pool = Pool(str(file), durability="full", busy_timeout=1.0, passphrase=passphrase)
    with closing(pool):
        with pool.alone() as db:
            point_to(db, folder)
            counts = _counts(db)
        if findings := checking.findings(pool):
            raise StoreDamaged(f"the backup's database is damaged: {findings[0]}")
        pool.empty_log()
    return counts
