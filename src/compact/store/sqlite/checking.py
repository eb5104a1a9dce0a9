"""Integrity checks: SQLite's own, and compact's checks of hashes, positions and running totals."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import NamedTuple

import apsw

from compact.errors import CompactError, NotFound, StoreFailed
from compact.messages import chain
from compact.store.sqlite import branch_lineage, originals, records, vectors
from compact.store.sqlite.originals import OriginalsUnread, Place
from compact.store.sqlite.pool import Pool
from compact.store.sqlite.rows import (
    BITS,
    LAST,
    MESSAGE,
    WRONG,
    Column,
    Row,
    Unreadable,
    entry_of,
    first,
    position_in,
    query,
    text_of,
    text_or_none,
)

PAGE = 500
"""How many messages to read at once."""
LINKED = f"{MESSAGE}, total_tokens, chain_hash"
"""A message's columns, with those that link it to the message before it."""
NO_BRANCH = "branch NOT IN (SELECT key FROM branches)"
"""SQL that matches rows whose branch is missing."""
_NO_CHECKPOINT = """
    EXISTS (SELECT 1 FROM json_each(projections.checkpoints) c WHERE c.key NOT IN
    (SELECT id FROM checkpoints k WHERE k.session = projections.session))
"""
_NO_PROJECTION = "projection IS NOT NULL AND projection NOT IN (SELECT id FROM projections)"
REFERENCES: tuple[tuple[str, str, str, str], ...] = (
    ("sessions", NO_BRANCH, "id", "session {}: the branch in force is missing"),
    ("projections", _NO_CHECKPOINT, "id", "projection {}: a checkpoint is missing"),
    ("moves", _NO_PROJECTION, "projection", "projection {} is missing"),
    ("moves", NO_BRANCH, "number", "move {}: its branch is missing"),
)
"""Table, condition for rows that refer to something missing, column that names a row, message."""


def integrity_check(pool: Pool) -> list[str]:
    """Return the file's defects, as sentences. An empty list means that there are none.

    SQLite checks its pages and indexes. compact checks each message's hash, position and running
    total along its branch.
    """
    checks: tuple[Callable[[apsw.Connection], Iterator[str]], ...] = (
        _of_pages,
        _of_branches,
        _of_index,
        _of_vectors,
        _of_references,
        _of_digests,
    )
    lines: list[str] = []
    for check in checks:
        try:
            with pool.read() as db:
                lines.extend(check(db))
        except (StoreFailed, *WRONG) as error:
            lines.append(str(error))
    return [*lines, *_of_archives(pool)]


def _of_archives(pool: Pool) -> list[str]:
    """Check that a session whose texts were moved has its file."""
    lines: list[str] = []
    try:
        with pool.read() as db:
            every = originals.moved(db)
            for condition, line in originals.WRONG:
                if rows := query(db, f"SELECT count(*) FROM {condition}")[0][0]:
                    lines.append(f"{rows:,} {line}")
    except (StoreFailed, *WRONG) as error:
        return [str(error)]
    for name, each in every.items():
        lines += [f"session {name!r}: {line}" for line in of_archive(pool, each.place)]
    return lines


def of_archive(pool: Pool, place: Place) -> list[str]:
    """Return the defects of a session's file; none if the session no longer uses the file."""
    with pool.read() as db:
        lines = pool.originals.faults(db, place)
    with pool.read() as db:
        return lines if originals.of_key(db, place.session) == place else []


def _of_pages(db: apsw.Connection) -> Iterator[str]:
    # FTS5's check uses this connection's cache of the index, and only a search refreshes the cache.
    query(db, "SELECT rowid FROM words WHERE words MATCH 'any' LIMIT 1")
    for (line,) in query(db, "PRAGMA integrity_check"):
        if line != "ok":
            yield f"SQLite: {line}"


_BRANCHES = """
    SELECT b.key, b.id, p.id, b.fork, b.fork_tokens, b.fork_hash
    FROM branches b LEFT JOIN branches p ON p.key = b.parent WHERE {} ORDER BY b.key
"""


def of_session(db: apsw.Connection, session: int) -> list[str]:
    """Return defects of a session's messages, as sentences."""
    return list(_of_branches(db, f"b.session = {session:d}"))


def of_branch(db: apsw.Connection, branch: int) -> list[str]:
    """Return defects of a branch's messages, as sentences."""
    return list(_of_branches(db, f"b.key = {branch:d}"))


def _of_branches(db: apsw.Connection, where: str = "true") -> Iterator[str]:
    for row in query(db, _BRANCHES.format(where)):
        with suppress(OriginalsUnread):  # `_of_archives` reports it
            for line in _of_branch(db, row):
                yield f"branch {text_of(row[1])!r}: {line}"


def _of_branch(db: apsw.Connection, row: Row) -> Iterator[str]:
    branch, _, parent, fork, total, link = row
    if before_fork(db, text_or_none(parent), fork) != (total, link):
        yield "it does not go on from what its parent says at the fork"
    next_one = fork
    for each in linked_messages(db, branch, fork, {link}):
        if each.position != next_one:
            yield f"messages {next_one} to {each.position - 1} are missing"
        tokens, sum_ = each.row[5], each.row[-2]
        total += tokens or 0
        if sum_ != total:
            yield f"message {each.position} has a running total of {sum_}, not {total}"
            total = sum_
        if each.is_altered:
            yield f"message {each.position} is not the one that was stored"
        next_one = each.position + 1


def before_fork(db: apsw.Connection, parent: str | None, fork: int) -> tuple[int, bytes] | None:
    """Return running total and chain hash at a branch's fork, from its ancestors, or None."""
    if fork == 0:
        return 0, chain.START
    try:
        end = branch_lineage.tail_at(db, parent or "", fork)
    except (Unreadable, NotFound):
        return None
    return (end.tokens, end.chain) if end.position == fork else None


class Linked(NamedTuple):
    """A message of a branch, checked against the message before it."""

    position: int
    row: Row
    """The row, with the columns of `LINKED`."""
    is_proven: bool
    """Whether the previous message exists. Otherwise this message's hash cannot be checked."""
    is_altered: bool
    """Whether the message differs from the one that was stored."""


def linked_messages(
    db: apsw.Connection, branch: int, fork: int, before: set[bytes]
) -> Iterator[Linked]:
    """Yield a branch's own messages. `before` are the possible chain hashes at its fork; empty if
    they are lost.

    If a message was altered, it is unknown whether its content or its hash changed. So the next
    message is checked against both.
    """
    position = fork
    for row in _messages_of(db, branch):
        if position_in(row[0]) != position:
            position, before = position_in(row[0]), set()
        after = {link for each in before if (link := linked(each, row)) is not None}
        yield Linked(position, row, bool(before), bool(before) and row[-1] not in after)
        position, before = position + 1, {row[-1], *after}


def _messages_of(db: apsw.Connection, branch: int) -> Iterator[Row]:
    sql = f"SELECT {LINKED} FROM messages WHERE key BETWEEN ? AND ? ORDER BY key LIMIT {PAGE}"
    low, high = branch << BITS, branch << BITS | LAST
    while rows := query(db, sql, (low, high)):
        yield from rows
        low = rows[-1][0] + 1


def linked(last: bytes, row: Row) -> bytes | None:
    """Return the chain hash after a row of `LINKED`; None if the row is unreadable."""
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


def _of_vectors(db: apsw.Connection) -> Iterator[str]:
    for condition, line in vectors.WRONG:
        row = first(db, f"SELECT count(*) FROM {condition}")
        if row is not None and row[0]:
            yield f"{row[0]:,} {line}"


def _of_references(db: apsw.Connection) -> Iterator[str]:
    for table, condition, name, line in REFERENCES:
        for (named,) in query(db, f"SELECT {name} FROM {table} WHERE {condition}"):
            yield line.format(_shown(named))


def _of_digests(db: apsw.Connection) -> Iterator[str]:
    for table in records.COLUMNS:
        for _, (_, name), _ in records.altered(db, table):
            yield f"{table.removesuffix('s')} {_shown(name)} is not the one that was stored"


def _shown(name: Column) -> str:
    return repr(text_of(name) if isinstance(name, bytes) else name)
