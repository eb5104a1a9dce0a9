"""Branches, and of which others' parts each consists."""

from __future__ import annotations

from typing import NamedTuple

import apsw

from compact.core import chain
from compact.core.sessions import Branch
from compact.errors import NotFound
from compact.storage.sqlite.rows import (
    BITS,
    LAST,
    Row,
    Unreadable,
    first,
    position_of,
    query,
    text,
    text_of,
    time_of,
)

_END = f"""
    SELECT key FROM messages WHERE key BETWEEN b.key << {BITS} AND (b.key << {BITS}) + {LAST}
    ORDER BY key DESC LIMIT 1
"""
_TAIL = f"""
    SELECT b.key, b.fork, b.fork_tokens, b.fork_hash, m.key, m.total_tokens, m.chain_hash
    FROM branches b LEFT JOIN messages m ON m.key = ({_END}) WHERE b.id = ?
"""
BRANCH = f"""
    SELECT b.id, s.id, p.id, b.fork, b.fork_tokens, b.created_at, m.key, m.total_tokens
    FROM branches b JOIN sessions s ON s.key = b.session LEFT JOIN branches p ON p.key = b.parent
    LEFT JOIN messages m ON m.key = ({_END})
"""
"""Rows of `branch_of`; a WHERE goes after it."""
_LINEAGE = """
    WITH RECURSIVE line (key, parent, fork, high) AS (
        SELECT key, parent, fork, ? FROM branches WHERE id = ?
        UNION ALL
        SELECT b.key, b.parent, b.fork, min(line.fork, line.high)
        FROM line JOIN branches b ON b.key = line.parent
    )
    SELECT key, fork, high FROM line
"""

MOST_TAILS = 1_000
"""Branches of which it is remembered where they go on."""


class Tail(NamedTuple):
    """Where a branch goes on."""

    key: int
    """The branch's."""
    position: int
    tokens: int
    chain: bytes


class Stretch(NamedTuple):
    """A range of keys: the part of a lineage that one branch gives."""

    branch: int
    low: int
    """Position of the first message."""
    high: int
    """Position after the last one that may be there."""
    is_open: bool
    """Whether it may end before that: it is the branch's own, and not a part of an ancestor."""

    @property
    def first(self) -> int:
        """Key of the first message."""
        return self.branch << BITS | self.low

    @property
    def last(self) -> int:
        """Key of the last message that may be there."""
        return self.branch << BITS | (self.high - 1)


def no_branch(branch_id: str) -> NotFound:
    """The error for a branch that is not there."""
    return NotFound(f"no branch {branch_id!r} in this store")


def tail(db: apsw.Connection, branch_id: str) -> Tail:
    """Where the branch goes on.

    Raises:
        NotFound: there is no such branch.
    """
    row = first(db, _TAIL, (text(branch_id),))
    if row is None:
        raise no_branch(branch_id)
    branch, fork, fork_tokens, fork_hash, last, tokens, last_hash = row
    if last is None:
        return Tail(branch, fork, fork_tokens, fork_hash)
    return Tail(branch, position_of(last) + 1, tokens, last_hash)


def length(db: apsw.Connection, branch_id: str) -> int:
    """How many messages the branch has.

    Raises:
        NotFound: there is no such branch.
    """
    row = first(db, f"SELECT b.fork, ({_END}) FROM branches b WHERE b.id = ?", (text(branch_id),))
    if row is None:
        raise no_branch(branch_id)
    return int(row[0]) if row[1] is None else position_of(row[1]) + 1


class Tails:
    """Where branches go on, remembered from one append to the next.

    What is remembered counts as long as nobody else has changed the file and this connection has
    written nothing else, nor taken anything back.
    """

    def __init__(self) -> None:
        self._seen: tuple[object, ...] = ()
        self._kept: dict[str, Tail] = {}

    def of(self, db: apsw.Connection, branch_id: str, undone: int) -> Tail:
        """Where the branch goes on, within a transaction that writes; `undone` counts the
        transactions that were taken back.

        Raises:
            NotFound: there is no such branch.
        """
        if self._state(db, undone) != self._seen:
            self._kept.clear()
        return self._kept.get(branch_id) or tail(db, branch_id)

    def keep(self, db: apsw.Connection, branch_id: str, end: Tail, undone: int) -> None:
        """Remember where the branch goes on after the rows that this transaction added to it."""
        state = self._state(db, undone)
        if len(self._kept) >= MOST_TAILS:
            self._kept.clear()
        self._kept[branch_id], self._seen = end, state

    def _state(self, db: apsw.Connection, undone: int) -> tuple[object, ...]:
        version = db.execute("PRAGMA data_version").fetchall()
        return db, version, db.total_changes(), undone


def branch_of(row: Row) -> Branch:
    """The branch of a row of `BRANCH`."""
    branch_id, session_id, parent, fork, fork_tokens, created_at, last, tokens = row
    return Branch(
        id=text_of(branch_id),
        session_id=text_of(session_id),
        parent=None if parent is None else text_of(parent),
        fork=fork,
        messages=fork if last is None else position_of(last) + 1,
        tokens=fork_tokens if last is None else tokens,
        created_at=time_of(created_at),
    )


def branch(db: apsw.Connection, branch_id: str) -> Branch:
    """The branch as it stands now."""
    row = first(db, BRANCH + "WHERE b.id = ?", (text(branch_id),))
    if row is None:
        raise no_branch(branch_id)
    return branch_of(row)


def branches(db: apsw.Connection, session_id: str) -> list[Branch]:
    """All branches of a session, the oldest first."""
    rows = query(db, BRANCH + "WHERE s.id = ? ORDER BY b.key", (text(session_id),))
    return [branch_of(row) for row in rows]


def lineage(
    db: apsw.Connection, branch_id: str, *, low: int = 0, high: int = LAST
) -> list[Stretch]:
    """The stretches that a branch consists of between two positions, the oldest first."""
    rows = query(db, _LINEAGE, (high, text(branch_id)))
    if not rows:
        raise no_branch(branch_id)
    stretches = [
        Stretch(key, max(fork, low), high, is_open=number == 0)
        for number, (key, fork, high) in enumerate(rows)
    ]
    return [each for each in reversed(stretches) if each.low < each.high]


def chain_at(db: apsw.Connection, branch_id: str, length: int) -> bytes:
    """The chain's hash after so many messages; of all where there are fewer."""
    end = tail(db, branch_id)
    if length >= end.position:
        return end.chain
    if length <= 0:
        return chain.START
    return bytes(_last_of(db, branch_id, length)[0])


def total_at(db: apsw.Connection, branch_id: str, length: int) -> int:
    """Tokens of the branch's first so many messages, of which there are enough."""
    if length <= 0:
        return 0
    return int(_last_of(db, branch_id, length)[1])


def _last_of(db: apsw.Connection, branch_id: str, length: int) -> Row:
    """Chain and running total at the last of so many messages."""
    stretch = lineage(db, branch_id, low=length - 1, high=length)[-1]
    sql = "SELECT chain_hash, total_tokens FROM messages WHERE key = ?"
    row = first(db, sql, (stretch.last,))
    if row is None:
        raise Unreadable(f"message {length - 1} of branch {branch_id!r} is missing")
    return row
