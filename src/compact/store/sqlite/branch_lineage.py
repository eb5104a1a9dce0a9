"""Branches, and the parts of their ancestors that belong to them."""

from __future__ import annotations

from typing import NamedTuple

import apsw

from compact.errors import NotFound
from compact.messages.chain import START
from compact.messages.sessions import Branch
from compact.store.sqlite import originals
from compact.store.sqlite.rows import (
    BITS,
    LAST,
    Row,
    Unreadable,
    first,
    position_in,
    query,
    text,
    text_of,
    time_of,
)

_END = f"""
    SELECT key FROM messages WHERE key BETWEEN b.key << {BITS} AND (b.key << {BITS}) + {LAST}
    ORDER BY key DESC LIMIT 1
"""
BRANCH = "b.id, s.id, p.id, b.fork, b.fork_tokens, b.created_at, m.key, m.total_tokens"
"""The columns that `branch_of` reads."""
BRANCHES = f"""
    FROM branches b JOIN sessions s ON s.key = b.session LEFT JOIN branches p ON p.key = b.parent
    LEFT JOIN messages m ON m.key = ({_END})
"""
"""The tables for `BRANCH`. `m` is the branch's last message. Append a WHERE."""
_TAIL = f"""
    SELECT b.key, b.fork, b.fork_tokens, b.fork_hash, m.key, m.total_tokens, m.chain_hash
    {BRANCHES} WHERE b.id = ?
"""
_LINEAGE = """
    WITH RECURSIVE line (key, parent, fork, high) AS (
        SELECT key, parent, fork, ? FROM branches WHERE id = ?
        UNION ALL
        SELECT b.key, b.parent, b.fork, min(line.fork, line.high)
        FROM line JOIN branches b ON b.key = line.parent
    )
    SELECT key, fork, high FROM line
"""


class Tail(NamedTuple):
    """The end of a branch."""

    key: int
    """The branch's key."""
    position: int
    tokens: int
    chain: bytes


class Stretch(NamedTuple):
    """A range of message keys: the part of a lineage that comes from one branch."""

    branch: int
    low: int
    """The position of the first message."""
    high: int
    """The position after the last possible message."""
    is_open: bool
    """Whether this is the branch's own part and may end before `high`. An ancestor's is whole."""

    @property
    def first(self) -> int:
        """Key of the first message."""
        return self.branch << BITS | self.low

    @property
    def last(self) -> int:
        """Key of the last possible message."""
        return self.branch << BITS | (self.high - 1)


def no_branch(branch_id: str) -> NotFound:
    """Return the error for an unknown branch."""
    return NotFound(f"no branch {branch_id!r} in this store")


def tail(db: apsw.Connection, branch_id: str) -> Tail:
    """Return the end of a branch.

    Raises:
        NotFound: no such branch.
    """
    row = first(db, _TAIL, (text(branch_id),))
    if row is None:
        raise no_branch(branch_id)
    branch, fork, fork_tokens, fork_hash, last, tokens, last_hash = row
    if last is None:
        return Tail(branch, fork, fork_tokens, fork_hash)
    return Tail(branch, position_in(last) + 1, tokens, last_hash)


def branch_of(row: Row) -> Branch:
    """Make a branch from a row of `BRANCH`."""
    branch_id, session_id, parent, fork, fork_tokens, created_at, last, tokens = row
    return Branch(
        id=text_of(branch_id),
        session_id=text_of(session_id),
        parent=None if parent is None else text_of(parent),
        fork=fork,
        messages=fork if last is None else position_in(last) + 1,
        tokens=fork_tokens if last is None else tokens,
        created_at=time_of(created_at),
    )


def branch(db: apsw.Connection, branch_id: str) -> Branch:
    """Return the branch as it is now."""
    row = first(db, f"SELECT {BRANCH} {BRANCHES} WHERE b.id = ?", (text(branch_id),))
    if row is None:
        raise no_branch(branch_id)
    return branch_of(row)


def branches(db: apsw.Connection, session_id: str) -> list[Branch]:
    """Return all branches of a session, oldest first."""
    sql = f"SELECT {BRANCH} {BRANCHES} WHERE s.id = ? ORDER BY b.key"
    rows = query(db, sql, (text(session_id),))
    return [branch_of(row) for row in rows]


def lineage(
    db: apsw.Connection, branch_id: str, *, low: int = 0, high: int = LAST
) -> list[Stretch]:
    """Return the stretches between two positions that make up a branch, oldest first."""
    rows = query(db, _LINEAGE, (high, text(branch_id)))
    if not rows:
        raise no_branch(branch_id)
    stretches = [
        Stretch(key, max(fork, low), high, is_open=number == 0)
        for number, (key, fork, high) in enumerate(rows)
    ]
    return [each for each in reversed(stretches) if each.low < each.high]


def tail_at(db: apsw.Connection, branch_id: str, length: int) -> Tail:
    """Return the end of a branch's first `length` messages, or the branch's end if it has fewer."""
    end = tail(db, branch_id)
    if length >= end.position:
        return end
    if length <= 0:
        return Tail(end.key, 0, 0, START)
    stretch = lineage(db, branch_id, low=length - 1, high=length)[-1]
    sql = "SELECT total_tokens, chain_hash FROM messages WHERE key = ?"
    row = first(db, sql, (stretch.last,))
    if row is None:
        originals.check_rows(db, stretch.branch)
        raise Unreadable(f"message {length - 1} of branch {branch_id!r} is missing")
    return Tail(end.key, length, *row)


def chain(db: apsw.Connection, branch_id: str, length: int) -> bytes:
    """Return the chain hash (`messages.chain`) after `length` messages."""
    return tail_at(db, branch_id, length).chain


_BEGINNING = """
    SELECT s.id, NOT EXISTS (SELECT 1 FROM messages n WHERE n.key = m.key + 1)
    FROM messages m JOIN branches b ON b.key = m.key >> ? JOIN sessions s ON s.key = b.session
    WHERE m.chain_hash = ? AND s.scope = ? ORDER BY m.key DESC LIMIT ?
"""


def beginning(
    db: apsw.Connection, chain: bytes, *, scope: str, most: int
) -> list[tuple[str, bool]]:
    """Return the sessions of a scope that have a branch with that chain hash, newest first, and
    whether the branch ends there.
    """
    rows = query(db, _BEGINNING, (BITS, chain, text(scope), most))
    return [(text_of(name), bool(ends)) for name, ends in rows]
