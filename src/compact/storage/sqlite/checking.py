"""Is the file what was written? SQLite's own checks, and ours: hashes, positions, sums."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import apsw

from compact.core import chain
from compact.errors import CompactError, StoreFailed
from compact.storage.sqlite import seals
from compact.storage.sqlite.pool import Pool
from compact.storage.sqlite.rows import (
    BITS,
    LAST,
    MESSAGE,
    Row,
    Unreadable,
    entry_of,
    first,
    position_of,
    query,
    text_of,
)

_PAGE = 500
"""Messages that are read at once."""


def findings(pool: Pool) -> list[str]:
    """What is wrong, as sentences."""
    checks: tuple[Callable[[apsw.Connection], Iterator[str]], ...] = (
        _of_pages,
        _of_branches,
        _of_index,
        _of_references,
        _of_seals,
    )
    found: list[str] = []
    for check in checks:
        try:
            with pool.read() as db:
                found.extend(check(db))
        except StoreFailed as error:
            found.append(str(error))
    return found


def _of_pages(db: apsw.Connection) -> Iterator[str]:
    # FTS5's check trusts what the connection remembers of the index, which a search brings up to
    # date and the check itself does not.
    query(db, "SELECT rowid FROM words WHERE words MATCH 'any' LIMIT 1")
    for (line,) in query(db, "PRAGMA integrity_check"):
        if line != "ok":
            yield f"SQLite: {line}"


def _of_branches(db: apsw.Connection) -> Iterator[str]:
    sql = "SELECT key, id, parent, fork, fork_tokens, fork_hash FROM branches ORDER BY key"
    for row in query(db, sql):
        for line in _of_branch(db, row):
            yield f"branch {text_of(row[1])!r}: {line}"


def _of_branch(db: apsw.Connection, row: Row) -> Iterator[str]:
    branch, _, parent, position, total, last = row
    if before_fork(db, parent, position) != (total, last):
        yield "it does not go on from what its parent says at the fork"
    for each in messages_of(db, branch):
        key, tokens, sum_, link = each[0], each[5], each[-2], each[-1]
        if position_of(key) != position:
            yield f"messages {position} to {position_of(key) - 1} are missing"
            position, last = position_of(key), None
        total += tokens or 0
        if sum_ != total:
            yield f"message {position} has a running total of {sum_}, not {total}"
            total = sum_
        if last is not None and link != linked(last, each):
            yield f"message {position} is not the one that was stored"
        position, last = position + 1, link


def before_fork(db: apsw.Connection, parent: int | None, fork: int) -> tuple[int, bytes] | None:
    """What a branch's ancestors say of its fork: running total and chain."""
    if fork == 0:
        return 0, chain.START
    while parent is not None:
        up = first(db, "SELECT parent, fork FROM branches WHERE key = ?", (parent,))
        if up is None:
            return None
        if fork > up[1]:
            sql = "SELECT total_tokens, chain_hash FROM messages WHERE key = ?"
            found = first(db, sql, (parent << BITS | (fork - 1),))
            return None if found is None else (found[0], found[1])
        parent = up[0]
    return None


def messages_of(db: apsw.Connection, branch: int) -> Iterator[Row]:
    """A branch's own rows of `MESSAGE`, running total and chain hash behind them."""
    sql = f"SELECT {MESSAGE}, total_tokens, chain_hash FROM messages WHERE key BETWEEN ? AND ?"
    low, high = branch << BITS, branch << BITS | LAST
    while rows := query(db, f"{sql} ORDER BY key LIMIT {_PAGE}", (low, high)):
        yield from rows
        low = rows[-1][0] + 1


def linked(last: bytes, row: Row) -> bytes | None:
    """The chain after a message; None where its row makes none."""
    try:
        return chain.link(last, entry_of(row[:-2]).message)
    except (Unreadable, CompactError):
        return None


def _of_index(db: apsw.Connection) -> Iterator[str]:
    for branch, name, fork, indexed in query(db, "SELECT key, id, fork, indexed FROM branches"):
        sql = "SELECT count(*) FROM words_docsize WHERE id BETWEEN ? AND ?"
        row = first(db, sql, (branch << BITS, branch << BITS | LAST))
        if row is None or row[0] != indexed - fork:
            yield f"branch {text_of(name)!r}: the search index does not hold what it should"


def _of_references(db: apsw.Connection) -> Iterator[str]:
    for sql, line in (
        (
            "SELECT id FROM sessions WHERE branch NOT IN (SELECT key FROM branches)",
            "session {}: the branch in force is missing",
        ),
        (
            "SELECT projection FROM moves WHERE projection IS NOT NULL "
            "AND projection NOT IN (SELECT id FROM projections)",
            "projection {} is missing",
        ),
        (
            "SELECT p.id FROM projections p, json_each(p.checkpoints) c WHERE NOT EXISTS "
            "(SELECT 1 FROM checkpoints k WHERE k.session = p.session AND k.id = c.key)",
            "projection {}: a checkpoint is missing",
        ),
    ):
        for (name,) in query(db, sql):
            yield line.format(repr(text_of(name)))


def _of_seals(db: apsw.Connection) -> Iterator[str]:
    for table in seals.COLUMNS:
        for name in seals.altered(db, table):
            yield f"{table.removesuffix('s')} {name!r} is not the one that was stored"
