"""Translates SQLite's errors into compact's, with advice."""

from __future__ import annotations

from shlex import quote

import apsw

from compact.errors import StoreDamaged, StoreFailed
from compact.store.sqlite.rows import Unreadable

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
    return f"compactctl doctor --store {quote(file)} --repair"
