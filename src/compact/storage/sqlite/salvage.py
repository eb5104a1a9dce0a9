"""What can still be read of a damaged file, table by table, into a new one.

First by SQL, from both ends of a table up to where a page stops it; then, for tables that were not
read to the end, from every page of the file, whether or not SQLite finds a way to it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import apsw

from compact.core.messages import ROLES
from compact.storage.sqlite import migrations, pages
from compact.storage.sqlite.pages import Value
from compact.storage.sqlite.rows import BITS, query

_MAGIC = b"SQLite format 3\x00"
_MOVES = ("compress", "undo", "redo", "restore")


class Table(NamedTuple):
    """A table of ours, and how one of its rows is told from others of as many columns."""

    name: str
    columns: int
    is_row: Callable[[int, Sequence[Value]], bool]


def _has(values: Sequence[Value], *kinds: tuple[int, type]) -> bool:
    return all(isinstance(values[index], kind) for index, kind in kinds)


TABLES = (
    Table("sessions", 12, lambda key, v: key < 1 << BITS and _has(v, (2, int), (11, str))),
    Table("branches", 9, lambda _, v: _has(v, (2, int), (4, int), (6, bytes), (8, str))),
    Table("messages", 13, lambda key, v: key >= 1 << BITS and v[2] in ROLES),
    Table("checkpoints", 19, lambda _, v: _has(v, (1, int), (2, str), (5, int), (16, str))),
    Table("projections", 14, lambda _, v: _has(v, (1, str), (2, int), (11, str), (12, str))),
    Table("moves", 10, lambda _, v: v[3] in _MOVES and _has(v, (1, int), (4, int), (8, str))),
    Table("snapshots", 14, lambda _, v: _has(v, (1, int), (2, str), (6, int), (11, str))),
    Table("notes", 4, lambda *_: False),  # stands in an index, whose pages are not read one by one
)


class Salvage(NamedTuple):
    """How far the damaged file could be read."""

    remarks: list[str]
    """What could not be read by SQL, as sentences."""
    is_whole: bool
    """Whether the file is as long as it was, and its messages were read from one end to the other.
    Where not, messages and whole sessions may be lost without a trace."""
    before: int = 0
    """Branches with a key below it were read to their ends."""
    since: int = 1 << BITS
    """So were those from it on."""

    def knows_end_of(self, branch: int) -> bool:
        """Whether no message after the newest one that is left of a branch can have been lost."""
        return branch < self.before or branch >= self.since


def salvage(copy: Path, db: apsw.Connection) -> Salvage:
    """Fill the new database from a copy of the damaged one, whose log is worked off here."""
    remarks: list[str] = []
    if _give_head(copy):
        remarks.append("the file's head was lost and has been made anew")
    found = _by_sql(copy, db, remarks)
    short = _of_length(copy)
    remarks += short
    stopped = {name for name, extent in found.items() if not extent.is_whole}
    is_whole = not short and "messages" not in stopped
    if not is_whole:
        remarks.append(
            "messages after the newest one that is left of a branch may be lost without a trace, "
            "and so may whole sessions"
        )
    if "notes" in stopped:
        remarks.append("notes of sessions may be lost: goals, pins and what else stands there")
    if stopped:
        with copy.open("rb") as file:
            for rowid, values in pages.leaf_rows(file):
                for table in TABLES:
                    if table.name in stopped and len(values) == table.columns:
                        _insert_raw(db, table, rowid, values)
    read = found["messages"]
    return Salvage(remarks, is_whole, read.up >> BITS, read.down >> BITS)


class _Extent(NamedTuple):
    """How far SQL reads a table."""

    is_whole: bool = False
    up: int = 0
    """The first value of the last row that was read from the beginning."""
    down: int = 1 << 2 * BITS
    """That of the last row that was read from the end."""


def _by_sql(copy: Path, db: apsw.Connection, remarks: list[str]) -> dict[str, _Extent]:
    """Copy the tables as far as SQL reads them; how far that was, by their names."""
    found: dict[str, _Extent] = {}
    source = None
    try:
        source = apsw.Connection(str(copy), flags=apsw.SQLITE_OPEN_READWRITE)
        # Else nothing is read of a file that is shorter than its head says.
        query(source, "PRAGMA writable_schema = on")
        query(source, "PRAGMA wal_checkpoint(TRUNCATE)")
    except apsw.Error as error:
        remarks.append(f"the log beside the file could not be worked off: {error}")
    for table in TABLES:
        stopped: Exception | None = apsw.CantOpenError("it cannot be opened")
        found[table.name] = _Extent()
        if source is not None:
            found[table.name], stopped = _copy(source, db, table.name)
        if stopped is not None:
            remarks.append(f"table {table.name}: {stopped}")
    if source is not None:
        source.close(True)
    return found


def _copy(
    source: apsw.Connection, db: apsw.Connection, table: str
) -> tuple[_Extent, Exception | None]:
    """Copy a table from its beginning, and where that stops, from its end; how far it came, and
    what stopped it.
    """
    info = query(db, f"SELECT name, pk FROM pragma_table_info('{table}') ORDER BY cid")
    names = [name for name, _ in info]
    keys = [name for name, pk in sorted(info, key=lambda row: row[1]) if pk]
    # Bytes and not text: a damaged one may not be UTF-8, which is no reason to lose the row.
    columns = [
        f"CASE typeof({n}) WHEN 'text' THEN CAST({n} AS BLOB) ELSE {n} END, typeof({n}) = 'text'"
        for n in names
    ]
    sql = f"SELECT {', '.join(columns)} FROM {table} ORDER BY "
    ends: dict[str, Any] = {}
    try:
        for row in source.execute(sql + ", ".join(keys)):
            _insert(db, table, _texts(row))
            ends["up"] = row[0]
    except (apsw.Error, UnicodeDecodeError) as error:
        with suppress(apsw.Error, UnicodeDecodeError):
            for row in source.execute(sql + ", ".join(f"{key} DESC" for key in keys)):
                _insert(db, table, _texts(row))
                ends["down"] = row[0]
        return _Extent(**ends), error
    return _Extent(is_whole=True, down=0), None


def _texts(row: Sequence[Value]) -> list[Value]:
    pairs = zip(row[::2], row[1::2], strict=True)
    return [v.decode("utf-8", "replace") if t and isinstance(v, bytes) else v for v, t in pairs]


def _insert_raw(db: apsw.Connection, table: Table, rowid: int, values: list[Value]) -> None:
    if table.is_row(rowid, values):
        _insert(db, table.name, [rowid, *values[1:]])


def _insert(db: apsw.Connection, table: str, values: Sequence[Value]) -> None:
    marks = ", ".join("?" * len(values))
    with suppress(apsw.ConstraintError):  # not a value that this column can have
        db.execute(f"INSERT OR IGNORE INTO {table} VALUES ({marks})", values)


def _give_head(copy: Path) -> bool:
    """Put the first hundred bytes of a database of ours in the place of others."""
    with copy.open("r+b") as file:
        head = file.read(100)
        size = int.from_bytes(head[16:18], "big")
        if head[:16] == _MAGIC and size in {512 << shift for shift in range(7)} | {1}:
            return False
        count = file.seek(0, 2) // pages.PAGE_SIZE
        file.seek(0)
        file.write(_head(count))
    return True


def _of_length(copy: Path) -> list[str]:
    """Whether the file is as long as its head says; the log may hold what is beyond its end."""
    with copy.open("rb") as file:
        head = file.read(100)
        size = int.from_bytes(head[16:18], "big")
        told = int.from_bytes(head[28:32], "big") * (65536 if size == 1 else size)
        length = file.seek(0, 2)
    return [f"the file has {length:,} bytes, and had {told:,}"] if length < told else []


def _head(count: int) -> bytes:
    """The head of a database of so many pages: page size, WAL, UTF-8, our application id."""
    numbers = (1, count, 0, 0, 1, 4, 0, 0, 1, len(migrations.MIGRATIONS), 0)
    head = _MAGIC + pages.PAGE_SIZE.to_bytes(2, "big") + bytes((2, 2, 0, 64, 32, 32))
    head += b"".join(number.to_bytes(4, "big") for number in numbers)
    head += migrations.APPLICATION_ID.to_bytes(4, "big")
    return head + bytes(20) + (1).to_bytes(4, "big") + (3_046_000).to_bytes(4, "big")
