"""Read files up to a size limit. Write files and folders that survive a power cut whole."""

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
from typing import IO

from compact.errors import StoreFailed

try:
    import fcntl
except ImportError:  # Windows has no such locks, so abandoned folders stay there
    _LOCKS = False
else:
    _LOCKS = True


LARGEST_TEXT = 1_000_000
"""Largest size of a settings or instructions file, in bytes."""


def named_path(path: str | Path) -> Path:
    """Expand the `~` in a path; return the path unchanged if there is no such user."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        return Path(path)


def state_folder() -> Path:
    """Return the folder for what compact keeps between two runs. It may not exist.

    Raises:
        RuntimeError: the user has no home directory.
    """
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "compact"


def is_folder(path: Path) -> bool:
    """Return whether the path is a folder; False for an impossible name."""
    try:
        return path.is_dir()
    except OSError:
        return False


def is_file(path: Path) -> bool:
    """Return whether the path is a file; False for an impossible name."""
    try:
        return path.is_file()
    except OSError:
        return False


def is_other_kind(path: Path) -> bool:
    """Return whether the path is a pipe, device or the like, whose reading may never end."""
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def read_small(path: Path, most: int) -> bytes:
    """Read a whole file of at most `most` bytes.

    Raises:
        OSError: the file cannot be read, is not a regular file, or is larger.
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
    """Write a temporary file next to the path. Rename it once all of it is on the disk.

    It keeps the mode of the file that it replaces. A new file has `mode`, less the process's umask.

    Raises:
        FileExistsError: the path exists, and `replaces` is off.
        OSError: the file could not be written. The old file is untouched.
    """
    beside = path.with_name(unfinished(path, secrets.token_hex(8)))
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


def lock_file(stream: IO[bytes]) -> None:
    """Lock an open file until it is closed, or its process ends. Wait for another's lock to end."""
    if _LOCKS:
        fcntl.flock(stream, fcntl.LOCK_EX)


def unfinished(path: Path, attempt: str = "*") -> str:
    """The name of the file that `write_whole` renames; by default a pattern for what was killed."""
    return f".compact-{path.name[-40:]}-{attempt}.tmp"


def sync_folder(folder: Path) -> None:
    """Sync a folder so that its file names survive a power cut, if the system can do so."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def make_folders(folder: Path) -> None:
    """Make a folder and its parents, readable by the owner only, and sync them to the disk."""
    if is_folder(folder):
        return
    make_folders(folder.parent)
    folder.mkdir(mode=0o700, exist_ok=True)
    sync_folder(folder.parent)


@contextmanager
def made_beside(target: Path) -> Iterator[Path]:
    """Provide a temporary folder next to the target, and remove it afterwards. Also remove
    temporary folders that dead processes left there.

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
    # Another process may remove the folder before it is locked. Then a new one is made.
    while True:
        made = Path(mkdtemp(prefix=f".{target.name}.compact-", dir=target.parent))
        lock = _lock(made, waits=True)
        if made.is_dir():
            return made, lock
        if lock is not None:
            os.close(lock)


def _lock(folder: Path, *, waits: bool) -> int | None:
    """Lock a folder and return the lock's descriptor; None if a living process holds the lock."""
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
    """Sync a finished file or folder to the disk, and rename it to its target.

    Raises:
        StoreFailed: the target exists already.
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
