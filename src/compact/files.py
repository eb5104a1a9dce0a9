"""Files that are written whole or not at all, and that last through a power cut."""

from __future__ import annotations

import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path


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
    if folder.is_dir():
        return
    make_folders(folder.parent)
    folder.mkdir(mode=0o700, exist_ok=True)
    sync_folder(folder.parent)
