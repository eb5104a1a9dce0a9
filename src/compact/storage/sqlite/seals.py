"""Rows that carry a digest of themselves, so that one which was altered in the file is noticed.

Messages have their chain instead; sessions and branches change as they go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b

import apsw

from compact.storage.sqlite.rows import Column, Row, Unreadable, query, text_of

_COLUMNS = {
    "checkpoints": "session id number level first_seq last_seq messages source_tokens token_count "
    "made_by until kept released parents anchors verdicts summary",
    "projections": "session id window number at cut tokens parent made_at kept checkpoints pieces",
    "moves": "session window kind branch at projection before made_at",
    "snapshots": "session id branch purpose note at window projection checkpoints goals policy "
    "created_at",
    "notes": "session name value",
}
COLUMNS: Mapping[str, Sequence[str]] = {name: text.split() for name, text in _COLUMNS.items()}
"""Table → the columns that its digest is made of, in their order."""
_NAMES = {"moves": "number", "notes": "name"}
"""Table → the column that names a row, where it is not the id."""


def seal(values: Sequence[Column]) -> bytes:
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
        (*values, seal(values)),
    )


def columns(table: str) -> str:
    """What `opened` takes, to be selected."""
    return ", ".join(f"{table}.{name}" for name in (*COLUMNS[table], "digest"))


def opened(table: str, row: Row) -> Row:
    """The values of a row of `columns`, in the order of `COLUMNS`.

    Raises:
        Unreadable: it is not the row that was stored.
    """
    *values, digest = row
    if seal(values) != digest:
        raise Unreadable(f"a row of {table} is not the one that was stored")
    return tuple(values)


def altered(db: apsw.Connection, table: str) -> list[str | int]:
    """The names of the rows that are not what was stored."""
    name = _NAMES.get(table, "id")
    rows = query(db, f"SELECT {columns(table)}, {name} FROM {table}")
    return [
        text_of(row[-1]) if isinstance(row[-1], bytes) else row[-1]
        for row in rows
        if seal(row[:-2]) != row[-2]
    ]
