"""The second step of `repair`: sessions from the salvaged rows. Rows without an owner get one,
placeholders mark missing messages, and hashes and sums are computed anew.

The first step of `repair`: copies everything readable of a damaged file into a new one, table by
table. SQLite does all the reading.

SQL reads a table from both ends, up to a damaged page. If a table was not read completely, every
page of the file is tried: SQLite is told that the table consists of that page alone. So it reads
the page even if the pages that led to it are lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import apsw

from compact.errors import CompactError
from compact.messages import chain, clock_and_ids
from compact.messages.changes import KINDS
from compact.messages.messages import ROLES, Message, MessageMetadata
from compact.messages.protocols import SessionStore
from compact.messages.sessions import Entry
from compact.store.sqlite import archiving, checking, messages, originals, records
from compact.store.sqlite.branch_lineage import Tail
from compact.store.sqlite.encryption import connect
from compact.store.sqlite.originals import BROKEN, Originals, OriginalsUnread
from compact.store.sqlite.rows import (
    BITS,
    LAST,
    MOVED,
    Row,
    Unreadable,
    columns_of,
    entry_of,
    first,
    position_in,
    query,
    text,
    text_of,
    text_or_none,
    time_of,
)

# --- salvage --------------------------------------------------------------------------------------

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
        scopes=named("key, scope FROM sessions INDEXED BY sessions_in_scope", "scope"),
        lengths={
            branch: _lengths_by_index(source, branch)
            for branch in {*branches, *owners, *(row[0] for row in branch_keys)}
            if 0 < branch < 1 << (BITS - 1)
        },
    )


def _lengths_by_index(source: apsw.Connection, branch: int) -> list[int]:
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


# --- recovery -------------------------------------------------------------------------------------

LOST = "[message lost: the file was damaged]"
"""Content of a placeholder."""
SCOPE = "recovered"
"""The scope for sessions whose scope was lost. It is separate, so that nobody sees other users'
sessions."""


@dataclass(frozen=True, slots=True)
class SavedBranch:
    """What was saved of a branch's own messages, by position in the branch."""

    session_id: str
    branch_id: str
    saved: int
    lost: int | None = 0
    """How many messages are missing; None if some after the newest saved one may be missing too."""
    missing: tuple[int, ...] = ()
    """Positions of placeholders."""
    altered: tuple[int, ...] = ()
    """Positions of messages that differ from what was stored."""
    unproven: tuple[int, ...] = ()
    """Positions that follow a missing message, so that the hash proves nothing about them."""

    @property
    def is_complete(self) -> bool:
        """Whether no message is missing or altered. It is False, too, if messages after the newest
        saved one may be missing.
        """
        return self.lost == 0 and not self.altered


def lost_in(store: SessionStore) -> dict[str, list[int]]:
    """Return positions of placeholders by branch, for branches that have any."""
    lost: dict[str, list[int]] = {}
    for session in store.sessions():
        for branch in store.branches(session.id):
            for start in range(branch.fork, branch.messages, checking.PAGE):
                entries = store.read(branch.id, start, min(start + checking.PAGE, branch.messages))
                for position, each in enumerate(entries, start):
                    source = each.message.metadata.source
                    if each.message.content == LOST and source == "injected":
                        lost.setdefault(branch.id, []).append(position)
    return lost


# --- owners ---------------------------------------------------------------------------------------


def adopt(db: apsw.Connection, hints: Hints) -> list[str]:
    """Give every message a branch and every branch a session; returns sentences about those it
    made.

    Vectors are not salvaged: all messages are pending in the new file.
    """
    db.execute("UPDATE messages SET embedding_id = NULL WHERE embedding_id IS NOT NULL")
    _forget_unreadable(db)
    remarks = _make_branches(db, hints)
    # The parent is lost, so its part becomes placeholders in the branch itself.
    orphans = "parent NOT IN (SELECT key FROM branches)"
    db.execute(f"UPDATE branches SET parent = NULL, fork = 0 WHERE {orphans}")
    remarks += [*_make_sessions(db, hints), *_put_branches_in_force(db)]
    return [*remarks, *originals.find_packed(db)]


def _forget_unreadable(db: apsw.Connection) -> None:
    """Delete unreadable rows, so that they are made anew as lost ones are."""
    db.execute(f"DELETE FROM messages WHERE key < 1 << {BITS}")
    db.execute(f"DELETE FROM branches WHERE key NOT BETWEEN 1 AND {LAST >> 1}")
    for table, texts, times in (
        ("sessions", "id, scope, wire, tokenizer", "created_at, updated_at"),
        ("branches", "id", "created_at"),
    ):
        for sql, read in ((texts, text_of), (times, time_of)):
            for key, *columns in query(db, f"SELECT key, {sql} FROM {table}"):
                try:
                    for each in columns:
                        read(each)
                except Unreadable:
                    db.execute(f"DELETE FROM {table} WHERE key = ?", (key,))


def _make_branches(db: apsw.Connection, hints: Hints) -> list[str]:
    remarks: list[str] = []
    sql = f"SELECT min(key) FROM messages WHERE key >> {BITS} NOT IN (SELECT key FROM branches)"
    for (key,) in query(db, f"{sql} GROUP BY key >> {BITS} ORDER BY 1"):
        branch = key >> BITS
        parent, session = _parent_of(db, key) or (None, None)
        name = _free_name(db, "branches", hints.branches.get(branch), branch)
        db.execute(
            """
            INSERT INTO branches
            SELECT ?1, ?2, coalesce(?3, ?4, max(key) + 1), ?5, ?6, 0, x'', ?6, ?7 FROM (
                SELECT key FROM sessions UNION SELECT session FROM branches UNION SELECT 0
            )
            """,
            (
                branch,
                text(name),
                hints.owners.get(branch),
                session,
                parent,
                position_in(key) if parent else 0,
                clock_and_ids.now().isoformat(),
            ),
        )
        remarks.append(f"a branch's row was lost: its messages are in branch {name!r}")
    return remarks


def _parent_of(db: apsw.Connection, key: int) -> tuple[int, int] | None:
    """Return the branch that a branch's first message continues, by hash, and its session."""
    sql = f"SELECT {checking.LINKED} FROM messages WHERE key = ?"
    row = _readable(db, sql, key)
    if row is None:
        return None
    sql = f"""
        SELECT b.key, b.session, m.chain_hash FROM branches b
        JOIN messages m ON m.key = (b.key << {BITS}) + ? ORDER BY b.key
    """
    for branch, session, before in query(db, sql, (position_in(key) - 1,)):
        if checking.linked(before, row) == row[-1]:
            return branch, session
    return None


def _readable(db: apsw.Connection, sql: str, *keys: int) -> Row | None:
    """Return the first row of a query; None where its text is in a file that cannot be read."""
    with suppress(OriginalsUnread):
        return first(db, sql, keys)
    return None


def _make_sessions(db: apsw.Connection, hints: Hints) -> list[str]:
    """Make sessions for branches without one, under their old names if known."""
    remarks: list[str] = []
    sql = "SELECT session, key, id FROM branches WHERE session NOT IN (SELECT key FROM sessions)"
    for key, branch, name in query(db, f"{sql} GROUP BY session HAVING key = min(key)"):
        named = _free_name(db, "sessions", hints.sessions.get(key, text_of(name)), branch)
        scope = hints.scopes.get(key, SCOPE)
        low, now = branch << BITS, clock_and_ids.now().isoformat()
        sql = f"SELECT {checking.LINKED} FROM messages WHERE key BETWEEN ? AND ? LIMIT 1"
        row = _readable(db, sql, low, low | LAST)
        entry = None if row is None else _entry(row)
        wire = entry.message.wire_format if entry else None
        db.execute(
            "INSERT INTO sessions VALUES (?, ?, ?, ?, NULL, NULL, NULL, ?, '', ?, ?, '{}')",
            (key, text(named), branch, text(scope), wire or "chat_completions", now, now),
        )
        remarks.append(
            f"a session's row was lost: its messages are in session {named!r}, scope {scope!r}"
        )
    return remarks


def _free_name(db: apsw.Connection, table: str, name: str | None, key: int) -> str:
    """Return the name, or another name if it is unknown or taken."""
    if name is None or first(db, f"SELECT 1 FROM {table} WHERE id = ?", (text(name),)):
        return f"recovered-{key}"
    return name


def _put_branches_in_force(db: apsw.Connection) -> list[str]:
    """Make the newest branch current in sessions whose current branch was lost."""
    newest = "(SELECT max(key) FROM branches WHERE session = sessions.key)"
    lost = checking.NO_BRANCH
    put = f"UPDATE sessions SET branch = {newest} WHERE {lost} AND {newest} RETURNING id"
    gone = f"DELETE FROM sessions WHERE {lost} RETURNING id"
    return [
        f"session {text_of(name)!r}: {what}"
        for sql, what in ((put, "the branch in force was lost"), (gone, "no branch of it is left"))
        for (name,) in query(db, sql)
    ]


# --- messages -------------------------------------------------------------------------------------


def settle(db: apsw.Connection, saved: Salvage, files: Originals) -> list[SavedBranch]:
    """Fill every branch up to a history without gaps; returns what was saved of each. `files` reads
    the originals of archived sessions.
    """
    sql = """
        SELECT b.key, b.id, p.id, b.fork, b.fork_hash, s.id, b.created_at FROM branches b
        JOIN sessions s ON s.key = b.session LEFT JOIN branches p ON p.key = b.parent ORDER BY b.key
    """
    return [_archived(db, row, files) or _settled(db, row, saved) for row in query(db, sql)]


_PAYLOAD = 8
"""The column of a row of `LINKED`."""
_IN_NO_FILE = b"\0"
"""The payload of a message whose text was moved to a file that does not know it."""


def _archived(db: apsw.Connection, row: Row, files: Originals) -> SavedBranch | None:
    """Leave a branch without texts as it is, if it has all its rows, or its file cannot be read
    now. Lost rows come from the file. Return None for any other branch: of texts that are in no
    file, and of packed ones behind the damage, `_settled` makes placeholders.
    """
    key, name, session = row[0], text_of(row[1]), text_of(row[5])
    place = originals.of_session(db, session)
    if place is None:
        return None
    db.execute("UPDATE branches SET indexed = fork WHERE key = ?", (key,))
    db.execute("INSERT OR IGNORE INTO unindexed VALUES (?)", (key,))
    with suppress(OriginalsUnread, *BROKEN):
        rows = files.rows(db, place)
        if name in rows:
            archiving.fill(db, key, rows[name])
        else:
            sql = f"UPDATE messages SET payload = ? WHERE key BETWEEN ? AND ? AND {MOVED}"
            db.execute(sql, (_IN_NO_FILE, key << BITS, key << BITS | LAST))
        return SavedBranch(session, name, 0) if not checking.of_branch(db, key) else None
    if place.folder:
        return SavedBranch(session, name, 0)
    originals.put_back_undamaged(db, place.session)
    originals.forget(db, place.session)
    return None


def _settled(db: apsw.Connection, row: Row, saved: Salvage) -> SavedBranch:
    key, name, parent, fork, link, session, created_at = row
    tokens, now = 0, chain.START
    with suppress(OriginalsUnread):
        tokens, now = checking.before_fork(db, text_or_none(parent), fork) or (tokens, now)
    sql = "UPDATE branches SET fork_tokens = ?, fork_hash = ?, indexed = fork WHERE key = ?"
    db.execute(sql, (tokens, now, key))
    branch = _Branch(db, Tail(key, fork, tokens, now), time_of(created_at))
    low, most = key << BITS, fork + saved.most
    db.execute("DELETE FROM messages WHERE key >= ? AND key < ?", (low, low | fork))
    without_text = 0
    before = {link} if link or not fork else set()  # empty where the chain at the fork is lost
    for each in checking.linked_messages(db, key, fork, before):
        entry = _entry(each.row)
        db.execute("DELETE FROM messages WHERE key = ?", (low | each.position,))
        if entry is not None and each.position < most:
            branch.fill(each.position)
            branch.take(each, entry)
        elif each.row[_PAYLOAD] in (None, _IN_NO_FILE):
            without_text = each.position + 1
    least = [*_least_lengths(db, saved.hints, key), without_text]
    branch.fill(max((each for each in least if each <= most), default=0))
    return SavedBranch(
        session_id=text_of(session),
        branch_id=text_of(name),
        saved=branch.end.position - fork - len(branch.missing),
        lost=len(branch.missing) if saved.knows_end_of(key) else None,
        missing=tuple(branch.missing),
        altered=tuple(branch.altered),
        unproven=tuple(branch.unproven),
    )


def _least_lengths(db: apsw.Connection, hints: Hints, branch: int) -> list[int]:
    sql = """
        SELECT at FROM moves WHERE branch = ?1
        UNION SELECT fork FROM branches WHERE parent = ?1
    """
    return [*(row[0] for row in query(db, sql, (branch,))), *hints.lengths.get(branch, ())]


@dataclass(slots=True)
class _Branch:
    db: apsw.Connection
    end: Tail
    at: datetime
    """The time of the last saved message."""
    missing: list[int] = field(default_factory=list)
    altered: list[int] = field(default_factory=list)
    unproven: list[int] = field(default_factory=list)

    def fill(self, stop: int) -> None:
        """Add placeholders up to a position."""
        for position in range(self.end.position, stop):
            self.missing.append(position)
            message = Message(
                role="assistant",
                content=LOST,
                id=f"m{position}",
                timestamp=self.at,
                metadata=MessageMetadata(source="injected"),
            )
            self._write(Entry(message))

    def take(self, found: checking.Linked, entry: Entry) -> None:
        """Add a saved message."""
        self.at = entry.message.timestamp
        if not found.is_proven:
            self.unproven.append(found.position)
        if found.is_altered:
            self.altered.append(found.position)
            old = entry.message.metadata
            metadata = old.model_copy(update={"tags": (*old.tags, "damaged")})
            entry = entry._replace(message=entry.message.model_copy(update={"metadata": metadata}))
        self._write(entry)

    def _write(self, entry: Entry) -> None:
        self.end = messages.append_after(self.db, self.end, [entry])


def _entry(row: Row) -> Entry | None:
    """Return the entry of a row; None where it cannot be stored again."""
    try:
        entry = entry_of(row[:-2])
        columns_of(entry, position_in(row[0]))
        chain.link(chain.START, entry.message)
    except (Unreadable, CompactError):
        return None
    return entry


# --- rows that refer to others --------------------------------------------------------------------


def tidy(db: apsw.Connection) -> list[str]:
    """Delete rows that refer to something lost; returns sentences about them."""
    remarks = originals.tidy(db)
    for table in records.COLUMNS:
        remarks += _without_altered(db, table)
        broken = ["session NOT IN (SELECT key FROM sessions)"]
        broken += [each[1] for each in checking.REFERENCES if each[0] == table]
        gone = query(db, f"DELETE FROM {table} WHERE {' OR '.join(broken)} RETURNING 1")
        if gone:
            remarks.append(f"{len(gone)} {table} tell of something that is lost and were left out")
    return remarks


_SET = {"changes": "what", "notes": "value"}
"""Table of settings that a person or program made → its column with the value."""


def _without_altered(db: apsw.Connection, table: str) -> list[str]:
    """Delete altered rows that can be computed again. Settings cannot, so they stay as they read if
    they are JSON.
    """
    altered = records.altered(db, table)
    for each in altered:
        if value := _SET.get(table):
            sql = f"UPDATE {table} SET digest = ? WHERE {each.where} AND json_valid({value})"
            db.execute(sql, (each.digest, *each.key))
        else:
            db.execute(f"DELETE FROM {table} WHERE {each.where}", each.key)
    if not altered:
        return []
    if table not in _SET:
        return [f"{len(altered)} {table} are not what was stored and were left out"]
    query(db, f"DELETE FROM {table} WHERE NOT json_valid({_SET[table]})")
    return [f"{len(altered)} {table} are not what was stored and stay as they read"]
