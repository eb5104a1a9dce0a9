"""A session is deleted everywhere, in one transaction and what follows it; and that is proved.

What the transaction cannot do, it orders: sweeping the file, removing the files of archives and of
copies. Whoever opens the store next does what a crash left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import apsw

from compact.core.codec import is_storable
from compact.core.forgotten import ForgottenReport
from compact.errors import NotFound, StoreFailed
from compact.files import named_path
from compact.storage.archives.files import copies_in, discard_copies
from compact.storage.memory_archives import folder
from compact.storage.sqlite import archived_copies, archived_rows, quotes, sweeping, traces
from compact.storage.sqlite import sessions as session_rows
from compact.storage.sqlite.pool import Pool
from compact.storage.sqlite.rows import first, query, text, text_of

_COPIES = "copies "
"""Begins a chore; the folder of a session's copies follows, which are to be removed."""


def delete(pool: Pool, session_id: str) -> None:
    """Remove a session from all tables, and what others quote of it.

    Raises:
        NotFound: there is no such session.
    """
    with pool.write() as db:
        _delete(pool, db, session_id, _scope(db, session_id))


def _delete(
    pool: Pool, db: apsw.Connection, session_id: str, scope: str
) -> tuple[dict[str, int], dict[str, int]]:
    """The same, within a transaction; how many rows of which table, and quotes of which session."""
    removed = session_rows.delete(db, session_id)
    return removed, quotes.take_out(db, session_id, scope)


def _scope(db: apsw.Connection, session_id: str) -> str:
    row = first(db, "SELECT scope FROM sessions WHERE id = ?", (text(session_id),))
    if row is None:
        raise NotFound(f"no session {session_id!r} in this store")
    return text_of(row[0])


# --- afterwards -----------------------------------------------------------------------------------


def finish(pool: Pool) -> None:
    """Do what deletions have ordered and is still to be done.

    Raises:
        StoreFailed: the file cannot be swept, or it cannot be told what is on the disk.
        OSError: a file cannot be removed.
    """
    sweeping.sweep_if_due(pool)
    discard(pool)


def discard(pool: Pool) -> None:
    """Remove the files that nobody needs any more.

    Raises:
        StoreFailed: it cannot be told what is on the disk.
        OSError: a file cannot be removed.
    """
    archived_copies.discard_due(pool)
    with pool.read() as db:
        names = [str(row[0]) for row in query(db, "SELECT name FROM chores")]
    chores = [name for name in names if name.startswith(_COPIES)]
    if not chores or not pool.is_durable():
        return
    for chore in chores:
        discard_copies(Path(chore.removeprefix(_COPIES)))
        with pool.write() as db:
            archived_rows.done(db, chore)


# --- with proof -----------------------------------------------------------------------------------


def forget(
    pool: Pool, session_id: str, copies: Sequence[str] = (), *, sweeps: bool = True
) -> ForgottenReport:
    """Delete a session everywhere, `copies` included: folders of what its compressions left behind.
    Then look for what is left of it. Without `sweeps` its rows go, and the file is swept and looked
    through with the next deletion: for who deletes several.

    Raises:
        NotFound: there is no such session.
        StoreFailed: it could not be deleted.
    """
    places = [named_path(each).absolute() for each in copies]
    with pool.write() as db:
        scope = _scope(db, session_id)
        forgotten = traces.of(pool, db, session_id, scope)
        files = [each for place in places for each in copies_in(place)]
        archived = _archive_of(pool, db, session_id)
        before = _size(pool, [*files, *archived])
        removed, quoted = _delete(pool, db, session_id, scope)
        for told in filter(is_storable, map(str, places)):
            sql = "INSERT INTO chores VALUES (?) ON CONFLICT DO NOTHING"
            db.execute(sql, (_COPIES + told,))
    if not sweeps:
        return ForgottenReport(
            session_id=session_id,
            removed=removed,
            quoted=quoted,
            bytes_before=before,
            bytes_after=before,
            remains=("the file is still to be swept: the next deletion does so",),
        )
    counts = {"files of archives": len(archived), "copies": len(files)}
    remains: list[str] = []
    try:
        finish(pool)
        for place in places:
            discard_copies(place)
        with pool.alone():
            pool.empty_log(wait=False)
    except (StoreFailed, OSError) as error:
        remains.append(f"it goes on when the store is opened next: {error}")
    remains += traces.left(pool, forgotten, places)
    return ForgottenReport(
        session_id=session_id,
        removed={**removed, **{kind: count for kind, count in counts.items() if count}},
        quoted=quoted,
        bytes_before=before,
        bytes_after=_size(pool, [*files, *archived]),
        looked_through=tuple(map(str, traces.files(pool, forgotten, places))),
        remains=tuple(remains),
    )


def _archive_of(pool: Pool, db: apsw.Connection, session_id: str) -> list[Path]:
    """The files in which a session is archived; objects by their addresses, which no file has."""
    place = archived_rows.of_session(db, session_id)
    if place is None:
        return []
    blobs = pool.places.at(place.folder)
    return [Path(blobs.address(name)) for name in folder.both(place.name)]


def _size(pool: Pool, files: Iterable[Path]) -> int:
    """Bytes of the database with its log, and of these files as far as they are there."""
    own = [] if pool.in_memory else [Path(pool.path), Path(f"{pool.path}-wal")]
    return sum(path.stat().st_size for path in (*own, *files) if path.is_file())
