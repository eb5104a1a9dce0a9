"""The first step of `repair`: copies everything readable of a damaged file into a new one, table by
table. SQLite does all the reading.

SQL reads a table from both ends, up to a damaged page. If a table was not read completely, every
page of the file is tried: SQLite is told that the table consists of that page alone. So it reads
the page even if the pages that led to it are lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import apsw

from compact.messages.changes import KINDS
from compact.messages.messages import ROLES
from compact.store.sqlite.encryption import connect
from compact.store.sqlite.rows import BITS, LAST, Row, query

_STOPS = (apsw.Error, UnicodeDecodeError)
"""Errors that reading a damaged page raises."""
_TABLES: dict[str, str] = {
    "sessions": "typeof(scope) IN ('text', 'blob')",
    "branches": "true",
    "messages": f"key >= 1 << {BITS} AND role IN {tuple(sorted(ROLES))}",
    "checkpoints": "true",
    "projections": "true",
    "moves": "true",
    "snapshots": "true",
    "changes": f"kind IN {tuple(sorted(KINDS))}",
    "notes": "true",
    "archived": "typeof(originals) = 'blob' AND length(originals) = 32",
    "packed": "typeof(data) = 'blob'",
    "digests": "true",
}
"""Table → a condition that tells its rows from other tables', if column types do not."""
_OLDER = tuple(f"no such table: {name}" for name in ("changes", "digests", "archived", "packed"))
"""Errors that only mean that the file has an older schema."""
_SMALLEST_ROW = 50
"""The fewest bytes that a message takes: its time, its hash and their header."""
_TABLE_LEAF, _INDEX_LEAF = 13, 10
"""First byte of a page of rows: in a table, and in one stored as an index (`notes`)."""


@dataclass(frozen=True, slots=True)
class Hints:
    """What the file's indexes show about lost rows. An index repeats some columns of its table."""

    branches: dict[int, str]
    """Branch key → branch id."""
    owners: dict[int, int]
    """Branch key → session key."""
    sessions: dict[int, str]
    """Session key → session id."""
    scopes: dict[int, str]
    """Session key → scope."""
    lengths: dict[int, list[int]]
    """Branch key → minimum lengths of the branch, one from each index."""


class Salvage(NamedTuple):
    """How far the damaged file could be read."""

    hints: Hints
    remarks: list[str]
    """What could not be read completely, as sentences."""
    is_whole: bool
    """Whether the file has its full length and all messages were read. If not, messages and whole
    sessions may be lost without a trace."""
    most: int
    """The most messages that the file had room for. A reference to a later position is damaged."""
    before: int
    """Branches with keys below this one were read to their ends."""
    since: int
    """Branches with keys from this one on were read to their ends too."""

    def knows_end_of(self, branch: int) -> bool:
        """Return whether the branch's newest saved message is surely its last."""
        return branch < self.before or branch >= self.since


def salvage(copy: Path, db: apsw.Connection, key: bytes | None = None) -> Salvage:
    """Fill the new database from a copy of the damaged one. The copy is destroyed. Of an encrypted
    file, single pages are not tried.
    """
    remarks: list[str] = []
    source = _opened(copy, db, remarks) if key is None else _decrypted(copy, key, remarks)
    is_whole = key is None or not remarks
    tables = [_table(db, name) for name in _TABLES]
    readers = {table.name: _copy(source, db, table) for table in tables}
    hints = _hints(source, db)
    source.close(True)
    stopped = {
        name: reading.stopped
        for name, reading in readers.items()
        if reading.stopped and not any(each in str(reading.stopped) for each in _OLDER)
    }
    remarks += [f"table {name}: {error}" for name, error in stopped.items()]
    page_size, length, had = _sizes(copy, is_readable=key is None)
    is_whole = is_whole and length >= had and "messages" not in stopped
    if length < had:
        remarks.append(f"the file has {length:,} bytes, and had {had:,}")
    if not is_whole:
        remarks.append(
            "messages after the newest one that is left of a branch may be lost without a trace, "
            "and so may whole sessions"
        )
    if "changes" in stopped or "notes" in stopped:
        remarks.append("goals, pins and what else was set in sessions may be lost")
    for table in tables:
        if table.name in stopped and key is None:
            for row in _from_pages(copy, table, page_size):
                _insert(db, table.name, row)
    read = readers["messages"]
    most = max(length, had) // _SMALLEST_ROW
    return Salvage(hints, remarks, is_whole, most, read.up >> BITS, read.down >> BITS)


def _opened(copy: Path, db: apsw.Connection, remarks: list[str]) -> apsw.Connection:
    """Open the copy and apply its log. If its header is unreadable, write a new one."""
    source = apsw.Connection(str(copy))
    try:
        query(source, "SELECT count(*) FROM sqlite_schema")
    except apsw.NotADBError:
        source.close(True)
        with copy.open("r+b") as file:
            file.write(_of_unknown_length(db.serialize("main")[:100]))
        remarks.append("the file's head was lost and has been made anew")
        source = apsw.Connection(str(copy))
    except apsw.Error:
        pass
    try:
        # Without this, SQLite reads nothing of a file that is shorter than its header says.
        query(source, "PRAGMA writable_schema = on")
        query(source, "PRAGMA wal_checkpoint(TRUNCATE)")
    except apsw.Error as error:
        remarks.append(f"the log beside the file could not be worked off: {error}")
    return source


def _decrypted(copy: Path, key: bytes, remarks: list[str]) -> apsw.Connection:
    source = connect(str(copy), key, flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        query(source, "SELECT count(*) FROM sqlite_schema")
    except apsw.Error as error:
        remarks.append(f"the file is shorter than it was, or its beginning is damaged: {error}")
    with suppress(apsw.Error):
        query(source, "PRAGMA writable_schema = on")
    return source


def _of_unknown_length(head: bytes) -> bytes:
    """Return the header without a page count, so that SQLite uses the file's length."""
    return head[:28] + bytes(4) + head[32:]


def _sizes(copy: Path, *, is_readable: bool) -> tuple[int, int, int]:
    """Return the size of a page, of the file, and of the file as its header says, in bytes. The
    header of an encrypted file is not readable; then the last is the file's size.
    """
    with copy.open("rb") as file:
        head = file.read(32)
        length = file.seek(0, 2)
    page_size = int.from_bytes(head[16:18], "big")
    page_size = 65_536 if page_size == 1 else page_size
    had = int.from_bytes(head[28:32], "big") * page_size if is_readable else length
    return page_size, length, had


# --- by the tables and indexes --------------------------------------------------------------------


class _TableReader:
    """Reads a query's rows from the start, and from the end if a damaged page stops it."""

    def __init__(self, source: apsw.Connection, sql: str, keys: Sequence[str]) -> None:
        self._source, self._sql, self._keys = source, sql, keys
        self.stopped: Exception | None = None
        """The first error."""
        self.up = 0
        """First column of the last row that was read from the start."""
        self.down = 1 << 2 * BITS
        """First column of the last row that was read from the end."""

    def __iter__(self) -> Iterator[Row]:
        for row in self._part("ASC"):
            self.up = row[0]
            yield row
        if self.stopped is None:
            self.down = 0
            return
        for row in self._part("DESC"):
            self.down = row[0]
            yield row

    def _part(self, way: str) -> Iterator[Row]:
        order = ", ".join(f"{key} {way}" for key in self._keys)
        try:
            yield from self._source.execute(f"{self._sql} ORDER BY {order}")
        except _STOPS as error:
            self.stopped = self.stopped or error


class _Table(NamedTuple):
    name: str
    columns: str
    """The declared columns with their types."""
    keys: Sequence[str]
    """The primary key's columns."""
    selected: str
    """The columns for a SELECT. Texts are read as bytes, because damaged ones may not be UTF-8."""


def _table(db: apsw.Connection, name: str) -> _Table:
    rows = query(db, "SELECT name, type, pk FROM pragma_table_info(?) ORDER BY cid", (name,))
    selected = (
        f"CASE typeof({n}) WHEN 'text' THEN CAST({n} AS BLOB) ELSE {n} END, typeof({n}) = 'text'"
        for n, _, _ in rows
    )
    columns = ", ".join(f"{column} {kind}" for column, kind, _ in rows)
    keys = [column for column, _, pk in sorted(rows, key=lambda row: row[2]) if pk]
    return _Table(name, columns, keys, ", ".join(selected))


def _copy(source: apsw.Connection, db: apsw.Connection, table: _Table) -> _TableReader:
    reading = _TableReader(source, f"SELECT {table.selected} FROM {table.name}", table.keys)
    for row in reading:
        _insert(db, table.name, row)
    return reading


def _insert(db: apsw.Connection, table: str, row: Row) -> None:
    values = [
        value.decode("utf-8", "replace") if is_text else value
        for value, is_text in zip(row[::2], row[1::2], strict=True)
    ]
    marks = ", ".join("?" * len(values))
    with suppress(apsw.ConstraintError):  # the damaged value does not fit the column
        db.execute(f"INSERT OR IGNORE INTO {table} VALUES ({marks})", values)


def _hints(source: apsw.Connection, db: apsw.Connection) -> Hints:
    def read(sql: str, *keys: str) -> list[Row]:
        return list(_TableReader(source, f"SELECT {sql}", keys))

    def named(sql: str, *keys: str) -> dict[int, str]:
        return {key: name for key, name in read(sql, *keys) if isinstance(name, str)}

    by_id = "{0} FROM {1} INDEXED BY sqlite_autoindex_{1}_1"
    branches = named(by_id.format("key, id", "branches"), "id")
    owners: dict[int, int] = dict(
        read("key, session FROM branches INDEXED BY branches_by_session", "session")
    )
    branch_keys = query(db, f"SELECT key FROM branches UNION SELECT key >> {BITS} FROM messages")
    return Hints(
        branches=branches,
        owners=owners,
        sessions=named(by_id.format("key, id", "sessions"), "id"),
        scopes=named("key, scope FROM sessions INDEXED BY sessions_by_scope", "scope"),
        lengths={
            branch: _least_lengths(source, branch)
            for branch in {*branches, *owners, *(row[0] for row in branch_keys)}
            if 0 < branch < 1 << (BITS - 1)
        },
    )


def _least_lengths(source: apsw.Connection, branch: int) -> list[int]:
    keys = branch << BITS, branch << BITS | LAST
    lengths: list[int] = []
    for newest in (
        "max(key) FROM messages INDEXED BY messages_fixed WHERE marks & 1 AND key",
        "max(key) FROM messages INDEXED BY messages_of_persons WHERE marks & 2 AND key",
        "max(id) FROM words_docsize WHERE id",
    ):
        with suppress(*_STOPS):
            [(key,)] = query(source, f"SELECT {newest} BETWEEN ? AND ?", keys)
            lengths += [] if key is None else [(key & LAST) + 1]
    return lengths


# --- by the pages ---------------------------------------------------------------------------------


def _from_pages(copy: Path, table: _Table, page_size: int) -> Iterator[Row]:
    """Yield a table's rows from every page. The copy's schema is reduced to this table."""
    for ending in ("-wal", "-shm"):
        Path(f"{copy}{ending}").unlink(missing_ok=True)
    with copy.open("r+b") as file:
        file.write(_first_page(table, page_size))
        file.flush()
        source = apsw.Connection(str(copy))
        with suppress(apsw.Error):  # the file has no second page
            query(source, "PRAGMA journal_mode = off; PRAGMA synchronous = off")
        leaf = _INDEX_LEAF if table.name == "notes" else _TABLE_LEAF
        for page in range(1, file.seek(0, 2) // page_size):
            file.seek(page * page_size)
            # Leaf pages only: damaged inner pages may lead in circles.
            if file.read(1)[0] == leaf:
                yield from _from_page(source, table, page + 1)
        source.close(True)


def _first_page(table: _Table, page_size: int) -> bytes:
    made = apsw.Connection(":memory:")
    query(made, f"PRAGMA page_size = {page_size}")
    rest = " WITHOUT ROWID" if table.name == "notes" else ""
    columns = f"{table.columns}, PRIMARY KEY ({', '.join(table.keys)})"
    query(made, f"CREATE TABLE {table.name} ({columns}){rest}")
    return _of_unknown_length(made.serialize("main")[:page_size])


def _from_page(source: apsw.Connection, table: _Table, page: int) -> list[Row]:
    """Read a page's rows one by one, because the end of a long row may be lost."""
    rows: list[Row] = []
    where = " AND ".join(f"{key} = ?" for key in table.keys)
    with suppress(*_STOPS):
        query(source, "PRAGMA writable_schema = on")
        query(source, "UPDATE sqlite_schema SET rootpage = ?", (page,))
        query(source, "PRAGMA writable_schema = reset")
        for key in query(source, f"SELECT {', '.join(table.keys)} FROM {table.name}"):
            with suppress(*_STOPS):
                sql = f"SELECT {table.selected} FROM {table.name} WHERE {where}"
                rows += query(source, f"{sql} AND {_TABLES[table.name]}", key)
    return rows
