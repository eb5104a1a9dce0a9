"""Databases that are encrypted on the disk, by the apsw that can do that (`apsw-sqlite3mc`).

Whether a file is encrypted is seen by its first bytes, before SQLite touches it: a file that is
opened with the wrong key, or without one, stays as it is.
"""

from __future__ import annotations

from pathlib import Path

import apsw

from compact.errors import StoreFailed
from compact.store.blobs.sealing import VARIABLE, Passphrase

PLAIN = b"SQLite format 3\0"
"""How a database begins that is not encrypted."""
INSTALL = (
    "pip uninstall apsw, then pip install apsw-sqlite3mc: the same module, with encryption; the "
    "two cannot stand beside each other"
)
_FIXED = b"\x40\x20\x20"
"""Bytes 21 to 23 of every database of SQLite, which an encrypted one shows too, with the size of
its pages before them."""


WRITABLE = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
"""How a file is opened that is made where there is none."""


def is_available() -> bool:
    """Whether this apsw encrypts."""
    return hasattr(apsw, "mc_version")


def is_encrypted(file: Path) -> bool:
    """Whether a file looks like an encrypted database: one whose beginning is no plain one's, and
    whose pages have room for what encrypting adds.
    """
    head = _head(file)
    return head[:16] != PLAIN and head[21:24] == _FIXED and head[20] > 0


def key_for(file: Path, passphrase: Passphrase | None) -> bytes | None:
    """The key that a file is opened with; None for one that is not encrypted, and is not to be.

    A new file is encrypted where a passphrase was given, or the environment has one and this apsw
    can do it.

    Raises:
        StoreFailed: it is encrypted and there is no key, or it is not and one was given, or this
            apsw cannot encrypt.
    """
    if is_encrypted(file):
        if passphrase is None:
            raise StoreFailed(
                f"{file} is encrypted: give its key (SQLiteManager(key=), or {VARIABLE} in the "
                "environment)"
            )
        if not is_available():
            raise StoreFailed(f"{file} is encrypted, and this apsw reads no such file: {INSTALL}")
        return passphrase.revealed()
    if passphrase is None:
        return None
    if head := _head(file):
        if passphrase.is_given and head[:16] == PLAIN:
            raise StoreFailed(
                f"{file} is not encrypted: open it without a key. To encrypt it, have an sqlite3mc "
                "shell run PRAGMA rekey on a copy"
            )
        return None
    if passphrase.is_given and not is_available():
        raise StoreFailed(f"{file} cannot be encrypted by this apsw: {INSTALL}")
    return passphrase.revealed() if is_available() else None


def _head(file: Path) -> bytes:
    """A file's first bytes; none where it is new."""
    try:
        with file.open("rb") as stream:
            return stream.read(100)
    except OSError:  # SQLite says what is wrong with it
        return b""


def connect(name: str, key: bytes | None, *, flags: int) -> apsw.Connection:
    """A connection that has its key, before anything is read by it. What SQLite puts aside stays in
    memory then: its temporary files are not encrypted.
    """
    db = apsw.Connection(name, flags=flags)
    if key is not None:
        try:
            db.pragma("hexkey", key.hex())
            db.pragma("temp_store", "memory")
        except BaseException:
            db.close(True)
            raise
    return db


def refused(error: Exception, file: str) -> StoreFailed | None:
    """What is raised where a file cannot be read with its key; None for any other error."""
    if not isinstance(error, apsw.NotADBError):
        return None
    return StoreFailed(
        f"{file}: wrong key, or not a database. Give the key that it was made with (key=, or "
        f"{VARIABLE} in the environment); it stays as it is"
    )
