"""Takes the bytes of what was deleted out of the file.

SQLite overwrites what it deletes (`secure_delete`). That misses what lay in a page before its rows
moved to another one, and words that the index merely marked as deleted. So the indexes and the file
are written anew. The order for it is stored with the deletion: the next opening makes up for a
failure or a crash.
"""

from __future__ import annotations

import apsw

from compact.store.sqlite.pool import Pool
from compact.store.sqlite.rows import query

_CHORE = "sweep"


def order(db: apsw.Connection) -> None:
    """Order it, as a part of the transaction that deletes."""
    db.execute("INSERT INTO chores VALUES (?) ON CONFLICT DO NOTHING", (_CHORE,))


def is_due(db: apsw.Connection) -> bool:
    """Whether an order is open."""
    return bool(query(db, "SELECT 1 FROM chores WHERE name = ?", (_CHORE,)))


def sweep_if_due(pool: Pool) -> None:
    """Carry out an open order.

    Raises:
        StoreFailed: there is no room for it, or others keep the file locked.
    """
    with pool.alone() as db:
        if not is_due(db):
            return
        for table in ("words", "archived_words"):  # without the words of deleted messages
            db.execute(f"INSERT INTO {table} ({table}) VALUES ('optimize')")
        db.execute("VACUUM")
        pool.empty_log()
        # Last: to store it syncs the log, which must not come back as long as it was.
        db.execute("DELETE FROM chores WHERE name = ?", (_CHORE,))
