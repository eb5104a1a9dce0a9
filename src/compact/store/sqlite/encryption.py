"""Encrypted databases, with the apsw build `apsw-sqlite3mc`.

The file's first bytes show whether it is encrypted, before SQLite opens it. Opening a file with a
wrong key, or without one, does not change it.
"""

from __future__ import annotations

from pathlib import Path

import apsw

from compact.errors import StoreFailed
from compact.store.blobs.sealing import VARIABLE, Passphrase

PLAIN = b"SQLite format 3\0"
"""First bytes of an unencrypted database."""
INSTALL = (
    "pip uninstall apsw, then pip install apsw-sqlite3mc: the same module, with encryption; the "
    "two cannot stand beside each other"
)
_FIXED = b"\x40\x20\x20"
"""Bytes 21 to 23 of every SQLite database. sqlite3mc leaves them unencrypted, and also the page
size before them."""


WRITABLE = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
"""Flags that create a missing file."""


def is_available() -> bool:
    """Return whether this apsw can encrypt."""
    return hasattr(apsw, "mc_version")


def is_encrypted(file: Path) -> bool:
    """Return whether a file looks like an encrypted database: it has no plain header, and its pages
    reserve space for encryption.
    """
    head = _head(file)
    return head[:16] != PLAIN and head[21:24] == _FIXED and head[20] > 0


def key_for(file: Path, passphrase: Passphrase | None) -> bytes | None:
    """Return the key for a file; None for a file that is, or will be, unencrypted.

    A new file is encrypted if the caller gave a passphrase. It is also encrypted if the environment
    has one and this apsw can encrypt.

    Raises:
        StoreFailed: the file is encrypted and there is no key; or it is unencrypted and a key was
            given; or this apsw cannot encrypt.
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
    try:
        with file.open("rb") as stream:
            return stream.read(100)
    except OSError:  # SQLite will report the reason
        return b""


def connect(name: str, key: bytes | None, *, flags: int) -> apsw.Connection:
    """Return a connection that has its key before it reads. An encrypted database keeps temporary
    data in memory, because SQLite does not encrypt temporary files.
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
    """Return the error for a file that this key does not open; None for any other error."""
    if not isinstance(error, apsw.NotADBError):
        return None
    return StoreFailed(
        f"{file}: wrong key, or not a database. Give the key that it was made with (key=, or "
        f"{VARIABLE} in the environment); it stays as it is"
    )
