"""Makes a new file from a damaged one, with everything readable and each message in its place.

A lost message becomes a placeholder, so that later messages and checkpoints keep their positions.
The placeholder is an assistant's message with the source `injected`, so nobody takes it for the
user's words. An altered message is kept as it reads, with the tag `damaged`. The hash chain
verifies messages. A message after a lost one cannot be verified, and is reported. How many messages
followed the last saved one is known only if an index shows it.

The damaged file is kept under another name, with its log. No process may use the file meanwhile.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import mkdtemp

import apsw

from compact.errors import StoreDamaged, StoreFailed
from compact.files import is_file, named_path, sync_folder
from compact.messages import clock_and_ids
from compact.store.blobs.sealing import Passphrase
from compact.store.sqlite import checking, migrations, recovery, search
from compact.store.sqlite.changes import take_over_notes
from compact.store.sqlite.encryption import connect, key_for
from compact.store.sqlite.originals import OriginalsUnread
from compact.store.sqlite.pool import Pool, store_error
from compact.store.sqlite.recovery import SavedBranch, salvage
from compact.store.sqlite.rows import query, text_of

_BUSY = 10.0
"""How many seconds to wait for other processes that use the file."""


@dataclass(frozen=True, slots=True)
class RepairReport:
    """What a repair saved and what was lost."""

    path: str
    kept_as: str | None
    """The damaged file's new name; None if nothing was wrong."""
    branches: tuple[SavedBranch, ...] = ()
    remarks: tuple[str, ...] = ()
    """What could not be read, and what was done about it, as sentences."""
    is_whole: bool = True
    """Whether the whole file could be searched for messages. If not, whole sessions may be lost
    without a trace."""

    @property
    def is_complete(self) -> bool:
        """Whether surely no message is missing or altered."""
        return self.is_whole and all(branch.is_complete for branch in self.branches)


def repair(path: str | Path, *, key: str | None = None) -> RepairReport:
    """Save what is readable of a damaged file into a new file, which takes its place. An encrypted
    file needs its key (default: the environment's). The new file is encrypted with the same key.

    Raises:
        StoreFailed: there is no such file; it is in use; it holds nothing of a store; its key is
            missing or wrong; or there is no room beside it.
    """
    file = named_path(path).absolute()
    if not is_file(file):
        raise StoreFailed(f"no file {file}")
    if file.stat().st_size == 0:
        raise StoreFailed(f"{file} is an empty file, not a store: there is nothing to be saved")
    passphrase = Passphrase.in_force(key)
    own = key_for(file, passphrase)
    if not _findings(file, passphrase):
        return RepairReport(str(file), None)
    try:
        with _alone(file, own):
            folder = Path(mkdtemp(prefix=f".{file.name}-repair-", dir=file.parent))
            try:
                report = _rebuilt(file, folder, passphrase, own)
                kept_as = _exchange(file, folder / "new")
            finally:
                shutil.rmtree(folder, ignore_errors=True)
    except StoreFailed:
        raise
    except OSError as error:
        raise StoreFailed(f"{file} could not be repaired, and is as it was: {error}") from error
    return replace(report, kept_as=str(kept_as))


def _findings(file: Path, passphrase: Passphrase | None) -> list[str]:
    try:
        pool = Pool(str(file), durability="full", busy_timeout=_BUSY, passphrase=passphrase)
    except StoreDamaged as error:
        return [str(error)]
    except StoreFailed as error:
        if not _is_ours(file, key_for(file, passphrase)):
            raise
        return [str(error)]
    try:
        return checking.integrity_check(pool)
    finally:
        pool.close()


def _is_ours(file: Path, key: bytes | None) -> bool:
    """Return whether a file with a wrong application id has our tables, in a known version."""
    try:
        db = connect(str(file), key, flags=apsw.SQLITE_OPEN_READONLY)
        names = {row[0] for row in query(db, "SELECT name FROM sqlite_schema")}
        version = query(db, "PRAGMA user_version")[0][0]
        db.close()
    except (apsw.Error, UnicodeDecodeError):
        return False
    is_known = isinstance(version, int) and version <= len(migrations.MIGRATIONS)
    return is_known and {"sessions", "branches", "messages", "words"} <= names


@contextmanager
def _alone(file: Path, key: bytes | None) -> Iterator[None]:
    """Keep other writers out, as far as a damaged file allows. Leave its log unchanged."""
    db = None
    try:
        db = connect(str(file), key, flags=apsw.SQLITE_OPEN_READWRITE)
        db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        db.set_busy_timeout(int(_BUSY * 1000))
        db.execute("BEGIN IMMEDIATE")
    except (apsw.BusyError, apsw.LockedError) as error:
        raise store_error(error, str(file), waited=_BUSY) from error
    except apsw.Error:
        pass  # the file is too damaged to be locked
    try:
        yield
    finally:
        if db is not None:
            db.close(True)


def _rebuilt(
    file: Path, folder: Path, passphrase: Passphrase | None, key: bytes | None
) -> RepairReport:
    copy = folder / "copy"
    for ending in ("", "-wal"):
        if Path(f"{file}{ending}").exists():
            shutil.copyfile(f"{file}{ending}", f"{copy}{ending}")
    pool = Pool(
        str(folder / "new"),
        durability="full",
        busy_timeout=_BUSY,
        passphrase=passphrase,
        home=file.parent,
        is_plain=key is None,
    )
    try:
        with pool.write() as db:
            saved = salvage(copy, db, key)
            remarks = saved.remarks + recovery.adopt(db, saved.hints)
            branches = recovery.settle(db, saved, pool.originals)
            if not branches:
                raise StoreFailed(f"nothing of a store is left in {file}, which stays as it is")
            remarks += recovery.tidy(db)
            take_over_notes(db)
            remarks += [
                f"branch {each.branch_id!r}: no message of its own is left"
                for each in branches
                if not each.saved and not each.is_complete
            ]
        for (name,) in query(pool.writer, "SELECT id FROM branches"):
            with suppress(OriginalsUnread):  # the integrity check reports it
                search.catch_up_branch(pool, text_of(name))
        remarks += [f"after the repair: {line}" for line in checking.integrity_check(pool)]
        pool.empty_log()
    finally:
        pool.close()
    return RepairReport(str(file), None, tuple(branches), tuple(remarks), saved.is_whole)


def _exchange(file: Path, new: Path) -> Path:
    stamp = f"{clock_and_ids.now():%Y%m%dT%H%M%S}"
    kept, number = Path(f"{file}.damaged-{stamp}"), 1
    while kept.exists():
        number += 1
        kept = Path(f"{file}.damaged-{stamp}-{number}")
    _give_to_owner_of(file, new)
    for ending in ("", "-wal"):
        if Path(f"{file}{ending}").exists():
            _link(Path(f"{file}{ending}"), Path(f"{kept}{ending}"))
    # Remove the old log before the new file appears. Otherwise SQLite would apply it to the new
    # file.
    for ending in ("-wal", "-shm"):
        Path(f"{file}{ending}").unlink(missing_ok=True)
    os.replace(new, file)
    sync_folder(file.parent)
    return kept


def _link(file: Path, name: Path) -> None:
    """Hard-link a file, or copy it if links are impossible."""
    try:
        os.link(file, name)
    except OSError:
        shutil.copyfile(file, name)
        _give_to_owner_of(file, name)


def _give_to_owner_of(old: Path, new: Path) -> None:
    """Give the new file the old one's owner and mode, if this user may; never wider permissions."""
    was = old.stat()
    if hasattr(os, "chown"):
        with suppress(OSError):
            os.chown(new, was.st_uid, was.st_gid)
    is_theirs = new.stat().st_gid == was.st_gid
    new.chmod(was.st_mode & (0o777 if is_theirs else 0o707))
