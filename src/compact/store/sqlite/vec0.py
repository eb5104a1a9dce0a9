"""An optional backend: vectors in `vec0` tables of sqlite-vec (extra `vec`).

The table `vectors` is the original. Each generation has a copy, `vec_GENERATION`, in the same file,
which is updated before each search. A file with such tables opens without the extension too.
Removing a vector then empties the copy (docs/decisions/075).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import apsw

from compact.errors import InvalidArgument
from compact.store.sqlite.rows import Unreadable, first, query
from compact.text.embedding import Generation, Near

if TYPE_CHECKING:
    from compact.store.sqlite.pool import Pool

NAME = "sqlite-vec"
"""The name of this backend."""
MOST = 4_096
"""The most rows that a `vec0` table returns. If more are wanted, all rows are compared."""
PIECES = 4
"""How many rows to ask for per wanted message. A message may have several pieces."""
_PARTS = ("rowids", "chunks", "vector_chunks00", "metadatachunks00")
"""Suffixes of the tables in which `vec0` keeps its data."""


def load(db: apsw.Connection) -> None:
    """Load the extension into a connection.

    Raises:
        InvalidArgument: the package is not installed, or this SQLite loads no extensions.
    """
    try:
        db.execute("SELECT vec_version()").fetchall()
    except apsw.SQLError:
        pass
    else:
        return
    try:
        import sqlite_vec

        db.enable_load_extension(True)
        try:
            db.load_extension(sqlite_vec.loadable_path())
        finally:
            db.enable_load_extension(False)
    except (ImportError, AttributeError, apsw.Error) as error:
        how = "pip install 'compactctl[vec]'"
        raise InvalidArgument("backend", f"{NAME} cannot be loaded: {error}; {how}") from None


def catch_up(db: apsw.Connection, of: Generation) -> None:
    """Update the generation's copy from its rows. Needs a write transaction."""
    load(db)
    table = _table(of.key)
    db.execute(
        f"CREATE VIRTUAL TABLE IF NOT EXISTS {table} USING vec0("
        f"embedding float[{of.dimensions}] distance_metric=cosine, message integer)"
    )
    insert = f"""
        INSERT INTO {table} (rowid, embedding, message) SELECT key, vector, message FROM vectors
        WHERE generation = ? AND key > (SELECT coalesce(max(rowid), 0) FROM {table}_rowids)
    """
    try:
        db.execute(insert, (of.key,))
    except apsw.SQLError as error:
        raise Unreadable(str(error)) from None
    if not _is_current(db, of.key):
        gone = f"""
            SELECT rowid FROM {table}_rowids
            WHERE rowid NOT IN (SELECT key FROM vectors WHERE generation = ?)
        """
        keys = [row[0] for row in query(db, gone, (of.key,))]
        db.executemany(f"DELETE FROM {table} WHERE rowid = ?", ((key,) for key in keys))


def _is_current(db: apsw.Connection, key: int) -> bool:
    """Return whether the copy has exactly the generation's rows. Keys are never reused, so equal
    counts and highest keys mean equal rows.
    """
    if not _is_there(db, key):
        return False
    rows = "SELECT count(*), max(key) FROM vectors WHERE generation = ?"
    kept = f"SELECT count(*), max(rowid) FROM {_table(key)}_rowids"
    return first(db, rows, (key,)) == first(db, kept)


def _table(key: int) -> str:
    return f"vec_{key:d}"


def _is_there(db: apsw.Connection, key: int) -> bool:
    sql = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?"
    return first(db, sql, (_table(key),)) is not None


def remove(db: apsw.Connection, key: int, rows: Iterable[int]) -> None:
    """Remove rows of a generation from its copy. Without the extension the copy is emptied; the
    next search fills it again.
    """
    if not _is_there(db, key):
        return
    table = _table(key)
    try:
        db.executemany(f"DELETE FROM {table} WHERE rowid = ?", ((row,) for row in rows))
    except apsw.SQLError:
        for part in _PARTS:
            db.execute(f"DELETE FROM {table}_{part}")


def drop(db: apsw.Connection, key: int) -> None:
    """Drop the copy of a deleted generation. Without the extension an empty table remains."""
    if _is_there(db, key):
        with suppress(apsw.SQLError):
            db.execute(f"DROP TABLE {_table(key)}")


def nearest(
    pool: Pool, of: Generation, asked: bytes, most: int, ranges: Sequence[tuple[int, int]]
) -> list[Near]:
    """Return the messages nearest to the question, nearest first, older first among equals. A
    message counts by its best piece.
    """
    with pool.read() as db:
        is_current = _is_current(db, of.key)
    if not is_current:
        with pool.write() as db:
            catch_up(db, of)
    with pool.read() as db:
        load(db)
        total = (first(db, f"SELECT count(*) FROM {_table(of.key)}_rowids") or (0,))[0]
        wanted = PIECES * most
        while True:
            rows = _rows(db, of, asked, min(wanted, total), ranges)
            best: dict[int, Near] = {}
            for message, chunk, distance in rows:
                best.setdefault(message, Near(message, chunk, 1.0 - distance))
            if len(best) >= most or len(rows) < wanted or wanted >= total:
                return list(best.values())[: max(0, most)]
            wanted *= PIECES


def _rows(
    db: apsw.Connection,
    of: Generation,
    asked: bytes,
    most: int,
    ranges: Sequence[tuple[int, int]],
) -> list[tuple[int, int, float]]:
    """Return message, piece and distance of the nearest rows within the ranges, nearest first."""
    within = "EXISTS (SELECT 1 FROM json_each(?) r WHERE {} BETWEEN r.value->>0 AND r.value->>1)"
    spans = json.dumps([list(each) for each in ranges])
    if most > MOST:
        sql = f"""
            SELECT message, chunk, vec_distance_cosine(vector, ?) AS distance FROM vectors
            WHERE generation = ? AND {within.format("message")} ORDER BY distance, key LIMIT ?
        """
        return query(db, sql, (asked, of.key, spans, most))
    head = f"SELECT rowid, distance FROM {_table(of.key)} WHERE embedding MATCH ? AND k = ?"
    if len(ranges) == 1:
        pairs = query(db, f"{head} AND message BETWEEN ? AND ?", (asked, most, *ranges[0]))
    else:
        inside = f"SELECT key FROM vectors WHERE generation = ? AND {within.format('message')}"
        pairs = query(db, f"{head} AND rowid IN ({inside})", (asked, most, of.key, spans))
    sql_of_key = "SELECT message, chunk FROM vectors WHERE key = ?"
    near = sorted((distance, key) for key, distance in pairs)
    return [(*(first(db, sql_of_key, (key,)) or (0, 0)), distance) for distance, key in near]
