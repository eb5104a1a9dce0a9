"""Removes the bytes of deleted rows from the file.

SQLite overwrites deleted rows (`secure_delete`). But a page may still hold a row's former place,
and the word index only marks words as deleted. So the index and the file are rewritten. The order
to sweep is stored with the deletion. After a failure or a crash the next opening carries it out.
"""

from __future__ import annotations

import apsw

from compact.store.sqlite.pool import Pool
from compact.store.sqlite.rows import query

_CHORE = "sweep"
WORTH_SHRINKING = 0.03
"""The share of free pages from which the file is rewritten. Rewriting a gigabyte takes seconds, so
one old session a day must not cause it."""


def order(db: apsw.Connection) -> None:
    """Order a sweep. Call this in the transaction that deletes."""
    db.execute("INSERT INTO chores VALUES (?) ON CONFLICT DO NOTHING", (_CHORE,))


def is_due(db: apsw.Connection) -> bool:
    """Return whether a sweep was ordered and is not done yet."""
    return bool(query(db, "SELECT 1 FROM chores WHERE name = ?", (_CHORE,)))


def sweep_if_due(pool: Pool) -> None:
    """Sweep the file, if that was ordered.

    Raises:
        StoreFailed: the disk is full, or others keep the file locked.
    """
    with pool.alone() as db:
        if not is_due(db):
            return
        _rewrite(pool, db)
        # Last, because this writes to the log, which must stay short.
        db.execute("DELETE FROM chores WHERE name = ?", (_CHORE,))


def _rewrite(pool: Pool, db: apsw.Connection) -> None:
    # removes deleted words from the index
    db.execute("INSERT INTO words (words) VALUES ('optimize')")
    db.execute("VACUUM")
    pool.empty_log()


def shrink(pool: Pool, freed: int) -> None:
    """Return free space to the file system, if there is enough of it. `freed` is how many bytes of
    texts were just moved away.

    Raises:
        StoreFailed: the disk is full, or another process keeps the file locked.
    """
    with pool.alone() as db:
        pages, free = int(db.pragma("page_count")), int(db.pragma("freelist_count"))
        if free + freed / int(db.pragma("page_size")) > WORTH_SHRINKING * pages:
            _rewrite(pool, db)
