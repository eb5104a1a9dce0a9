"""Rows that carry a digest of themselves, so that one which was altered in the file is noticed.

Messages have their chain instead; sessions and branches change as they go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import NamedTuple

import apsw

from compact.storage.sqlite.rows import Column, Row, Unreadable, query

_COLUMNS = {
    "checkpoints": "session id number level first_seq last_seq messages source_tokens token_count "
    "made_by until kept released parents anchors verdicts summary",
    "projections": "session id window number at cut tokens parent made_at kept checkpoints pieces",
    "moves": "session window kind branch at projection before made_at",
    "snapshots": "session id branch purpose note at window projection checkpoints goals policy "
    "created_at",
    "changes": "session branch at kind what",
    "notes": "session name value",
}
COLUMNS: Mapping[str, Sequence[str]] = {name: text.split() for name, text in _COLUMNS.items()}
"""Table → the columns that its digest is made of, in their order."""
_NAMES = {"moves": "number", "changes": "number", "notes": "name"}
"""Table → the column that names a row of a session, where it is not the id."""


class Altered(NamedTuple):
    """A row that is not what was stored."""

    where: str
    """What finds it in its table, with `key` bound."""
    key: tuple[Column, Column]
    """Its session's key, and its name."""
    digest: bytes
    """The digest of what it holds now."""


def digest(values: Sequence[Column]) -> bytes:
    """The digest of a row."""
    found = blake2b(digest_size=16)
    for value in values:
        data = value if isinstance(value, bytes) else str(value).encode()
        found.update(f"{type(value).__name__} {len(data)} ".encode() + data)
    return found.digest()


def insert(db: apsw.Connection, table: str, values: Sequence[Column], on_conflict: str) -> None:
    """Store a row, in the order of `COLUMNS`, with its digest."""
    names, marks = ", ".join(COLUMNS[table]), "?, " * len(values)
    db.execute(
        f"INSERT INTO {table} ({names}, digest) VALUES ({marks}?) {on_conflict}",
        (*values, digest(values)),
    )


def columns(table: str) -> str:
    """What `checked` takes, to be selected."""
    return ", ".join(f"{table}.{name}" for name in (*COLUMNS[table], "digest"))


def checked(table: str, row: Row) -> Row:
    """The values of a row of `columns`, in the order of `COLUMNS`.

    Raises:
        Unreadable: it is not the row that was stored.
    """
    *values, stored = row
    if digest(values) != stored:
        raise Unreadable(f"a row of {table} is not the one that was stored")
    return tuple(values)


def altered(db: apsw.Connection, table: str) -> list[Altered]:
    """The rows that are not what was stored."""
    name = _NAMES.get(table, "id")
    return [
        Altered(f"session = ? AND {name} = ?", (row[0], row[-1]), now)
        for row in query(db, f"SELECT {columns(table)}, {name} FROM {table}")
        if (now := digest(row[:-2])) != row[-2]
    ]
