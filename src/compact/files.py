"""Files and folders: as people name them, read within bounds, and written whole or not at all, so
that they last through a power cut.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import mkdtemp

from compact.errors import StoreFailed

try:
    import fcntl
except ImportError:  # a system without such locks: what was left behind there stays
    _LOCKS = False
else:
    _LOCKS = True


LARGEST_TEXT = 1_000_000
"""Bytes of a file of settings or instructions, at most."""


def named_path(path: str | Path) -> Path:
    """A path that somebody gave, with the folder that its `~` stands for; as it is where there is
    no such person.
    """
    try:
        return Path(path).expanduser()
    except RuntimeError:
        return Path(path)


def is_folder(path: Path) -> bool:
    """Whether it is one; a name that no file can have is none."""
    try:
        return path.is_dir()
    except OSError:
        return False


def is_file(path: Path) -> bool:
    """The same of a file."""
    try:
        return path.is_file()
    except OSError:
        return False


def is_other_kind(path: Path) -> bool:
    """Whether it is there and neither a file nor a folder: reading a pipe or a device may wait for
    ever.
    """
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def read_small(path: Path, most: int) -> bytes:
    """What a file holds that is read whole.

    Raises:
        OSError: it cannot be read, is no file, or has more than `most` bytes.
        ValueError: no file can have such a name.
    """
    if is_other_kind(path):
        raise OSError(errno.EINVAL, "a pipe or a device, not a file")
    with path.open("rb") as stream:
        data = stream.read(most + 1)
    if len(data) > most:
        raise OSError(errno.EFBIG, f"larger than {most // 1_000_000:,} MB")
    return data


def write_whole(path: Path, data: bytes, *, mode: int = 0o600, replaces: bool = True) -> None:
    """Write beside the path, and give that file its name when it is whole and on the disk.

    A file that is replaced leaves its mode; a new one has `mode`, less what the process masks.

    Raises:
        FileExistsError: there is such a file, and `replaces` is off.
        OSError: it could not be written; what was there before is untouched.
    """
    beside = path.with_name(f".compact-{secrets.token_hex(8)}.tmp")
    try:
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        if not replaces:
            os.link(beside, path)
        else:
            with suppress(FileNotFoundError):
                beside.chmod(stat.S_IMODE(path.stat().st_mode))
            beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder last through a power cut, where the system can."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def make_folders(folder: Path) -> None:
    """Make a folder with those above it, for their owner only, and have their names last."""
    if is_folder(folder):
        return
    make_folders(folder.parent)
    folder.mkdir(mode=0o700, exist_ok=True)
    sync_folder(folder.parent)


@contextmanager
def made_beside(target: Path) -> Iterator[Path]:
    """A folder beside, in which something is made; it is gone afterwards, and so are those that
    processes left there when they died, whatever they were making.

    Raises:
        StoreFailed: nothing can be written there.
    """
    if not is_folder(target.parent):
        raise StoreFailed(f"no folder {target.parent}; make it first")
    try:
        for left in target.parent.glob(".*.compact-*"):
            if left.is_dir() and (lock := _lock(left, waits=False)) is not None:
                shutil.rmtree(left, ignore_errors=True)
                os.close(lock)
        beside, lock = _locked_folder(target)
        try:
            yield beside
        finally:
            shutil.rmtree(beside, ignore_errors=True)
            if lock is not None:
                os.close(lock)
    except StoreFailed:
        raise
    except OSError as error:
        raise StoreFailed(f"{target} cannot be written: {error.strerror or error}") from error


def _locked_folder(target: Path) -> tuple[Path, int | None]:
    """A new folder beside, locked as long as this process lives; again where another process took
    it for one left behind before it was locked.
    """
    while True:
        made = Path(mkdtemp(prefix=f".{target.name}.compact-", dir=target.parent))
        lock = _lock(made, waits=True)
        if made.is_dir():
            return made, lock
        if lock is not None:
            os.close(lock)


def _lock(folder: Path, *, waits: bool) -> int | None:
    """The descriptor that holds a folder's lock; None where a process that lives holds it."""
    if not _LOCKS:
        return None
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if waits else fcntl.LOCK_NB))
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def put_in_place(made: Path, target: Path) -> None:
    """Give what was made its name, once it is on the disk.

    Raises:
        StoreFailed: there is something of that name by now.
    """
    for path in (made, *made.rglob("*")):
        if path.is_dir():
            sync_folder(path)
            continue
        with path.open("rb+") as file:
            os.fsync(file.fileno())
    try:
        if made.is_dir():
            made.rename(target)
        else:
            os.link(made, target)
            made.unlink()
    except FileExistsError:
        raise StoreFailed(f"{target} is there by now, and stays as it is: name another") from None
    with suppress(OSError):
        sync_folder(target.parent)
