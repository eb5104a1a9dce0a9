"""Histories: append entries and read them by position."""

from __future__ import annotations

from collections.abc import Sequence

import apsw

from compact.errors import InvalidInput, NotFound, Superseded
from compact.messages import chain
from compact.messages.sessions import SHORTEST_ID, Entry
from compact.store.sqlite import branch_lineage, originals
from compact.store.sqlite.branch_lineage import Stretch, Tail
from compact.store.sqlite.rows import (
    BITS,
    LAST,
    MESSAGE,
    MESSAGE_COLUMNS,
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

_COLUMNS = f"messages ({MESSAGE_COLUMNS}, total_tokens, chain_hash)"
_VALUES = "?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?"
_INSERT = f"INSERT INTO {_COLUMNS} VALUES ({_VALUES})"
_INSERT_AFTER = f"""
    INSERT OR IGNORE INTO {_COLUMNS}
    SELECT {_VALUES} FROM messages WHERE key = ? AND chain_hash = ?
    RETURNING EXISTS (SELECT 1 FROM unindexed WHERE branch = key >> {BITS})
"""
"""Inserts nothing if another message is at that position, or if the previous one is missing; then
the branch was continued or deleted. Otherwise returns whether the branch is already marked as not
fully indexed."""


def append(
    db: apsw.Connection, branch_id: str, entries: Sequence[Entry], *, expected: int | None = None
) -> Tail:
    """Append entries, all or none. Return the branch's new end.

    Raises:
        Superseded: the branch no longer has `expected` messages.
        InvalidMessage: an entry cannot be stored.
    """
    end = branch_lineage.tail(db, branch_id)
    if expected is not None and expected != end.position:
        raise Superseded(f"the branch has {end.position} messages, not {expected}")
    return append_after(db, end, entries)


def append_after(db: apsw.Connection, end: Tail, entries: Sequence[Entry]) -> Tail:
    """Append entries after `end`, and return the new end."""
    rows, after = rows_after(end, entries)
    if rows:
        db.executemany(_INSERT, rows)
        _mark_unindexed(db, end)
    return after


def append_if_after(db: apsw.Connection, end: Tail, rows: Sequence[Row]) -> bool:
    """Append rows if the branch still ends at `end`, in one statement. Return whether it did."""
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
    """Return the rows for entries that follow `end`, and the end after them."""
    rows: list[Row] = []
    total, last = end.tokens, end.chain
    for position, entry in enumerate(entries, end.position):
        total += entry.tokens or 0
        columns = columns_of(entry, position)  # first, because its error names the position
        last = chain.link(last, entry.message)
        rows.append((end.key << BITS | position, *columns, total, last))
    return rows, Tail(end.key, end.position + len(rows), total, last)


def read(db: apsw.Connection, branch_id: str, start: int, stop: int) -> list[Entry]:
    """Return the entries at these positions. Positions beyond the end are ignored. A negative start
    counts from the end.
    """
    low, high = start, min(stop, LAST)
    if low < 0:
        low = max(0, branch_lineage.tail(db, branch_id).position + low)
    return [
        entry_of(row)
        for stretch in branch_lineage.lineage(db, branch_id, low=low, high=high)
        for row in rows_of(db, stretch)
    ]


def rows_of(db: apsw.Connection, stretch: Stretch) -> list[Row]:
    """Return the rows of a stretch, in order, as `entry_of` reads them. The query asks for as many
    rows as the stretch has positions. So a missing row is noticed: there are too few rows, or the
    last row has a higher key than expected.

    Raises:
        OriginalsMissing: the rows are missing until the session's archive is put back.
        Unreadable: a row is missing.
    """
    end = stretch.branch << BITS | LAST if stretch.is_open else stretch.last
    wanted = stretch.high - stretch.low
    sql = f"SELECT {MESSAGE} FROM messages WHERE key BETWEEN ? AND ? ORDER BY key LIMIT ?"
    rows = query(db, sql, (stretch.first, end, wanted))
    after = stretch.first + len(rows)
    is_short = len(rows) < wanted and not stretch.is_open
    if is_short or (rows and rows[-1][0] != after - 1):
        originals.check_rows(db, stretch.branch)
        known = {row[0] for row in rows}
        missing = next(key for key in range(stretch.first, after + 1) if key not in known)
        raise Unreadable(f"message {position_in(missing)} of its branch is missing")
    return rows


def marked(db: apsw.Connection, branch_id: str, mark: int, *, before: int, most: int) -> list[int]:
    """Return the newest positions below `before` whose entries have the mark, newest first."""
    positions: list[int] = []
    if most <= 0:
        return positions
    for stretch in reversed(branch_lineage.lineage(db, branch_id, high=min(before, LAST))):
        sql = f"{_with_mark(mark)} ORDER BY key DESC LIMIT ?"
        rows = query(db, sql, (stretch.first, stretch.last, most - len(positions)))
        positions += [position_in(row[0]) for row in rows]
        if len(positions) >= most:
            break
    return positions


def first_marked(db: apsw.Connection, branch_id: str, mark: int) -> int | None:
    """Return the position of the oldest entry with the mark; None if no entry has it."""
    for stretch in branch_lineage.lineage(db, branch_id):
        sql = f"{_with_mark(mark)} ORDER BY key LIMIT 1"
        row = first(db, sql, (stretch.first, stretch.last))
        if row is not None:
            return position_in(row[0])
    return None


def _with_mark(mark: int) -> str:
    # A literal, because SQLite uses a partial index only for a literal.
    return f"SELECT key FROM messages WHERE marks & {mark:d} AND key BETWEEN ? AND ?"


def position_of(db: apsw.Connection, branch_id: str, message_id: str) -> int | None:
    """Return the newest position of the message whose id is, or begins with, `message_id`."""
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
    numbered = _numbered_position(message_id)
    for stretch in reversed(branch_lineage.lineage(db, branch_id)):
        keys = stretch.first, stretch.last
        named = first(
            db,
            "SELECT max(key) FROM messages WHERE id = ? AND key BETWEEN ? AND ?",
            (text(message_id), *keys),
        )
        candidates = [int(row[0]) for row in (named,) if row and row[0] is not None]
        if numbered is not None and stretch.low <= numbered < stretch.high:
            key = stretch.branch << BITS | numbered
            if first(db, "SELECT 1 FROM messages WHERE key = ? AND id IS NULL", (key,)):
                candidates.append(key)
        if candidates:
            return max(candidates)
    return None


def _numbered_position(message_id: str) -> int | None:
    digits = message_id[1:]
    if message_id[:1] != "m" or not digits.isascii() or not digits.isdigit():
        return None
    position = int(digits) if len(digits) <= 10 else LAST
    return position if position < LAST and message_id == f"m{position}" else None


def update_importance_score(
    db: apsw.Connection, message_id: str, score: float, *, session_id: str | None = None
) -> None:
    """Set the importance of the newest message with that id on the session's current branch.

    Raises:
        NotFound: no such session or message.
        InvalidInput: several sessions have such a message, or the score is not within 0 and 1.
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
