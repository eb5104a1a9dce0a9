"""The file of an archived session: naming, writing, reading, checking.

`YYYY/MM/NAME.json.zst` holds the session as `sessions export` writes it, compressed. The name
contains the start of the file's checksum. So a file is never overwritten with different content.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from hashlib import sha256

from compact.errors import StoreDamaged, StoreFailed, Superseded
from compact.messages.protocols import BlobStore
from compact.patterns import regex

ENDING, OLD_ENDING = ".json.zst", ".originals.zst"
"""Suffix of an archive file, and of one that schema 3 wrote. An archive of schema 3 also has a
description, in a second file with the suffix `.json`."""
_LONGEST = 60
"""Most characters of a session id in a name."""
_NOT_NAMED = regex(r"[^A-Za-z0-9._-]+")


def name_for(session_id: str, ended: datetime, data: bytes) -> str:
    """Return the name of a session's file."""
    at = ended if ended.tzinfo is None else ended.astimezone(UTC)
    shown = _NOT_NAMED.sub("-", session_id)[:_LONGEST].strip("-.") or "conversation"
    return f"{at:%Y}/{at:%m}/{shown}-{sum_of(data).hex()[:16]}{ENDING}"


def sum_of(data: bytes) -> bytes:
    """Return the checksum of a file."""
    return sha256(data).digest()


def check_free(blobs: BlobStore, name: str) -> None:
    """Check that a file with this name may be written and removed. It may not if it belongs to
    another store, which encrypts with another key.

    Raises:
        StoreFailed: a file of this name exists, and cannot be read with this key.
    """
    with suppress(FileNotFoundError, StoreDamaged):
        blobs.get(name)


def keep(blobs: BlobStore, name: str, data: bytes) -> None:
    """Write a file and read it back. A file that an earlier attempt left is replaced.

    Raises:
        StoreFailed: the file cannot be written, or differs when read back.
        Superseded: another process thought the file abandoned, and removed it.
    """
    try:
        try:
            blobs.put(name, data)
        except FileExistsError:  # a process may have died after naming the file, before syncing it
            blobs.put(name, data, replaces=True)
        written = blobs.get(name)
    except FileNotFoundError as error:
        raise Superseded(f"{name} was removed meanwhile") from error
    if written != data:
        at = blobs.address(name)
        raise StoreFailed(f"{at} does not hold what was written to it; nothing was removed")


def read(blobs: BlobStore, name: str, expected: bytes) -> bytes:
    """Return the content of a file, and check it against its checksum.

    Raises:
        FileNotFoundError: there is no such file.
        StoreDamaged: the file was changed.
        StoreFailed: the file cannot be read, or not with this key.
    """
    data = blobs.get(name)
    if sum_of(data) != expected:
        at = blobs.address(name)
        raise StoreDamaged(f"{at} is not the file that was written: its checksum differs")
    return data


def discard(blobs: BlobStore, name: str) -> None:
    """Remove the file, if it exists.

    Raises:
        StoreFailed: it cannot be removed.
    """
    for each in files_of(name):
        blobs.delete(each)


def files_of(name: str) -> list[str]:
    """Return the names of an archive's files: one, or two for an archive that schema 3 wrote."""
    if name.endswith(ENDING):
        return [name]
    stem = name.removesuffix(OLD_ENDING)
    return [stem + ".json", stem + OLD_ENDING]
