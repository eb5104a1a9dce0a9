"""Out of the file, not only out of the tables: what was deleted leaves no trace of its bytes.

SQLite overwrites what it deletes (`secure_delete`), but not what lay in a page before its rows
moved to another one, and an index keeps the words of what it has merely marked as deleted. So the
indexes and the whole file are written anew after a deletion. That it is still to be
done is stored with the deletion: where it fails, or the process dies, the next one that opens the
file makes up for it.
"""

from __future__ import annotations

import apsw

from compact.storage.sqlite import search
from compact.storage.sqlite.pool import Pool
from compact.storage.sqlite.rows import query

_CHORE = "sweep"


def order(db: apsw.Connection) -> None:
    """Have the file swept, as a part of the transaction that deletes."""
    db.execute("INSERT INTO chores VALUES (?) ON CONFLICT DO NOTHING", (_CHORE,))


def is_due(db: apsw.Connection) -> bool:
    """Whether the file is still to be swept."""
    return bool(query(db, "SELECT 1 FROM chores WHERE name = ?", (_CHORE,)))


def sweep_if_due(pool: Pool) -> None:
    """Write the file anew without the traces of what was deleted, if that is still to be done.

    Raises:
        StoreFailed: there is no room for it, or others keep the file locked.
    """
    with pool.alone() as db:
        if not is_due(db):
            return
        search.rewrite(db)
        db.execute("VACUUM")
        pool.empty_log()
        # Last: to store it syncs the log, which must not come back as long as it was.
        db.execute("DELETE FROM chores WHERE name = ?", (_CHORE,))
