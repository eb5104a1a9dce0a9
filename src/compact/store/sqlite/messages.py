"""Histories: entries that are appended and read by their positions."""

from __future__ import annotations

from collections.abc import Sequence

import apsw

from compact.errors import InvalidInput, NotFound, Superseded
from compact.messages import chain
from compact.messages.sessions import SHORTEST_ID, Entry
from compact.store.sqlite import branch_lineage
from compact.store.sqlite.branch_lineage import Stretch, Tail
from compact.store.sqlite.rows import (
    BITS,
    LAST,
    MESSAGE,
    Row,
    Unreadable,
    columns_of,
    entry_of,
    first,
    position_in,
    query,
    text,
    text_of,
)

_COLUMNS = f"messages ({MESSAGE}, total_tokens, chain_hash)"
_VALUES = "?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?"
_INSERT = f"INSERT INTO {_COLUMNS} VALUES ({_VALUES})"
_INSERT_AFTER = f"""
    INSERT OR IGNORE INTO {_COLUMNS}
    SELECT {_VALUES} FROM messages WHERE key = ? AND chain_hash = ?
    RETURNING EXISTS (SELECT 1 FROM unindexed WHERE branch = key >> {BITS})
"""
"""Nothing where another message stands there, or the one before it does not: of a branch that went
on, was deleted or archived. Else whether the branch is marked as one that the index lacks."""


def append(
    db: apsw.Connection, branch_id: str, entries: Sequence[Entry], *, expected: int | None = None
) -> Tail:
    """Append entries, all or none; where the branch ends afterwards.

    Raises:
        Superseded: the branch does not have `expected` messages any more.
        InvalidMessage: one holds something that cannot be stored.
    """
    end = branch_lineage.tail(db, branch_id)
    if expected is not None and expected != end.position:
        raise Superseded(f"the branch has {end.position} messages, not {expected}")
    return go_on(db, end, entries)


def go_on(db: apsw.Connection, end: Tail, entries: Sequence[Entry]) -> Tail:
    """Append entries to the branch that ends there; where it ends then."""
    rows, after = rows_after(end, entries)
    if rows:
        db.executemany(_INSERT, rows)
        _mark_unindexed(db, end)
    return after


def go_on_if(db: apsw.Connection, end: Tail, rows: Sequence[Row]) -> bool:
    """Append rows if the branch still ends there and its messages are in the file; whether that was
    so. One statement asks and appends.
    """
    last = end.key << BITS | (end.position - 1), end.chain
    if not (went := query(db, _INSERT_AFTER, (*rows[0], *last))):
        return False
    if len(rows) > 1:
        db.executemany(_INSERT, rows[1:])
    if not went[0][0]:
        _mark_unindexed(db, end)
    return True


def _mark_unindexed(db: apsw.Connection, end: Tail) -> None:
    db.execute("INSERT OR IGNORE INTO unindexed VALUES (?)", (end.key,))


def rows_after(end: Tail, entries: Sequence[Entry]) -> tuple[list[Row], Tail]:
    """The rows of entries that follow the end of a branch, and where it ends with them."""
    rows: list[Row] = []
    total, last = end.tokens, end.chain
    for position, entry in enumerate(entries, end.position):
        total += entry.tokens or 0
        columns = columns_of(entry, position)  # first: it says where what cannot be stored stands
        last = chain.link(last, entry.message)
        rows.append((end.key << BITS | position, *columns, total, last))
    return rows, Tail(end.key, end.position + len(rows), total, last)


def read(db: apsw.Connection, branch_id: str, start: int, stop: int) -> list[Entry]:
    """The entries at these positions that are there; a negative start counts from the end."""
    low, high = start, min(stop, LAST)
    if low < 0:
        low = max(0, branch_lineage.tail(db, branch_id).position + low)
    return [
        entry_of(row)
        for stretch in branch_lineage.lineage(db, branch_id, low=low, high=high)
        for row in rows_of(db, stretch)
    ]


def rows_of(db: apsw.Connection, stretch: Stretch) -> list[Row]:
    """The rows of a stretch, in order, as `entry_of` reads them.

    As many rows as it has positions are asked for: where one is missing, another comes that stands
    behind it.

    Raises:
        Unreadable: one is missing.
    """
    end = stretch.branch << BITS | LAST if stretch.is_open else stretch.last
    wanted = stretch.high - stretch.low
    sql = f"SELECT {MESSAGE} FROM messages WHERE key BETWEEN ? AND ? ORDER BY key LIMIT ?"
    rows = query(db, sql, (stretch.first, end, wanted))
    after = stretch.first + len(rows)
    is_short = len(rows) < wanted and not stretch.is_open
    if is_short or (rows and rows[-1][0] != after - 1):
        known = {row[0] for row in rows}
        missing = next(key for key in range(stretch.first, after + 1) if key not in known)
        raise Unreadable(f"message {position_in(missing)} of its branch is missing")
    return rows


def marked(db: apsw.Connection, branch_id: str, mark: int, *, before: int, most: int) -> list[int]:
    """Positions below `before` of the newest entries with the mark, newest first."""
    found: list[int] = []
    if most <= 0:
        return found
    for stretch in reversed(branch_lineage.lineage(db, branch_id, high=min(before, LAST))):
        sql = f"{_with_mark(mark)} ORDER BY key DESC LIMIT ?"
        rows = query(db, sql, (stretch.first, stretch.last, most - len(found)))
        found += [position_in(row[0]) for row in rows]
        if len(found) >= most:
            break
    return found


def first_marked(db: apsw.Connection, branch_id: str, mark: int) -> int | None:
    """The position of the oldest entry with the mark."""
    for stretch in branch_lineage.lineage(db, branch_id):
        sql = f"{_with_mark(mark)} ORDER BY key LIMIT 1"
        row = first(db, sql, (stretch.first, stretch.last))
        if row is not None:
            return position_in(row[0])
    return None


def _with_mark(mark: int) -> str:
    # The mark is written out: only so can SQLite see that a partial index fits.
    return f"SELECT key FROM messages WHERE marks & {mark:d} AND key BETWEEN ? AND ?"


def position_of(db: apsw.Connection, branch_id: str, message_id: str) -> int | None:
    """Where the newest message of that id, or of one that begins so, stands; None for none."""
    key = _key_of_id(db, branch_id, message_id)
    if key is None and len(message_id) >= SHORTEST_ID:
        key = _key_of_beginning(db, branch_id, message_id)
    return None if key is None else position_in(key)


def _key_of_beginning(db: apsw.Connection, branch_id: str, begins: str) -> int | None:
    low = text(begins)
    high = low + b"\xff" if isinstance(low, bytes) else begins + chr(0x10FFFF)
    for stretch in reversed(branch_lineage.lineage(db, branch_id)):
        named = first(
            db,
            "SELECT max(key) FROM messages WHERE id >= ? AND id < ? AND key BETWEEN ? AND ?",
            (low, high, stretch.first, stretch.last),
        )
        if named and named[0] is not None:
            return int(named[0])
    return None


def _key_of_id(db: apsw.Connection, branch_id: str, message_id: str) -> int | None:
    told = _told_position(message_id)
    for stretch in reversed(branch_lineage.lineage(db, branch_id)):
        keys = stretch.first, stretch.last
        named = first(
            db,
            "SELECT max(key) FROM messages WHERE id = ? AND key BETWEEN ? AND ?",
            (text(message_id), *keys),
        )
        found = [int(row[0]) for row in (named,) if row and row[0] is not None]
        if told is not None and stretch.low <= told < stretch.high:
            key = stretch.branch << BITS | told
            if first(db, "SELECT 1 FROM messages WHERE key = ? AND id IS NULL", (key,)):
                found.append(key)
        if found:
            return max(found)
    return None


def _told_position(message_id: str) -> int | None:
    """The position that an id of the form `m12` tells."""
    digits = message_id[1:]
    if message_id[:1] != "m" or not digits.isascii() or not digits.isdigit():
        return None
    position = int(digits) if len(digits) <= 10 else LAST
    return position if position < LAST and message_id == f"m{position}" else None


def update_importance_score(
    db: apsw.Connection, message_id: str, score: float, *, session_id: str | None = None
) -> None:
    """Set the importance of the newest message of that id, in the branch in force.

    Raises:
        NotFound: no session, or none of its messages, has that id.
        InvalidInput: several sessions have one, or the score is not within 0 and 1.
    """
    if not 0 <= score <= 1:
        raise InvalidInput(f"an importance is within 0 and 1, not {score!r}")
    sql = "SELECT b.id, s.id FROM sessions s JOIN branches b ON b.key = s.branch"
    if session_id is None:
        rows = query(db, sql)
    else:
        rows = query(db, f"{sql} WHERE s.id = ?", (text(session_id),))
        if not rows:
            raise NotFound(f"no session {session_id!r} in this store")
    keys = [key for row in rows if (key := _key_of_id(db, text_of(row[0]), message_id)) is not None]
    if not keys:
        raise NotFound(f"no message {message_id!r} in this store")
    if len(keys) > 1:
        raise InvalidInput(f"{len(keys)} sessions have a message {message_id!r}: say session_id")
    db.execute("UPDATE messages SET importance_score = ? WHERE key = ?", (score, keys[0]))
