"""Delete a session everywhere, and report what remains.

One transaction removes its rows. It also orders what a transaction cannot do: rewriting the file,
and removing the files of archives and copies. After a crash, the next opening carries out open
orders. SQLite's `secure_delete` and `VACUUM` take the bytes out of the file; tests search for them.
"""

from __future__ import annotations

import glob
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import apsw

from compact.errors import NotFound, StoreFailed
from compact.files import named_path
from compact.messages.codec import is_storable
from compact.store.archives import folder
from compact.store.archives.files import copies_in, discard_copies
from compact.store.reports import ForgottenReport
from compact.store.sqlite import archiving, originals, records, sweeping
from compact.store.sqlite import sessions as session_rows
from compact.store.sqlite.originals import Place
from compact.store.sqlite.pool import Pool
from compact.store.sqlite.rows import BITS, Row, first, json_of, query, text, text_of, value_of

_COPIES = "copies "
"""The prefix of a chore that removes a session's copies. The copies' folder follows it."""
_KEYED = (("messages", "key"), ("vectors", "message"), ("words_docsize", "id"))
"""Tables with a column of message keys."""
_RECALLED = f"""
    SELECT changes.number, s.id, {records.columns("changes")} FROM changes
    JOIN sessions s ON s.key = changes.session
    WHERE changes.kind = 'recalled' AND s.scope = ? AND s.id <> ? ORDER BY changes.number
"""


def delete(pool: Pool, session_id: str) -> None:
    """Remove a session from all tables, and quotes of it from other sessions.

    Raises:
        NotFound: no such session.
    """
    with pool.write() as db:
        _delete(db, session_id, _scope(db, session_id))


def _delete(
    db: apsw.Connection, session_id: str, scope: str
) -> tuple[dict[str, int], dict[str, int]]:
    """Like `delete`, within a transaction. Return the number of removed rows by table, and of
    changed log entries by session.
    """
    removed = session_rows.delete(db, session_id)
    return removed, _take_out_quotes(db, session_id, scope)


def _take_out_quotes(db: apsw.Connection, session_id: str, scope: str) -> dict[str, int]:
    """Remove a session's ids from other sessions' logs of recalled turns. Returns changed entries
    by session.
    """
    counts = Counter[str]()
    for number, name, *columns, digest in _recalling(db, session_id, scope):
        is_whole = records.digest(columns) == digest  # a damaged entry must stay damaged
        what = value_of(columns[-1])
        turns = [turn for turn in what["turns"] if not _names(turn, session_id)]
        columns[-1] = json_of({**what, "turns": turns})
        digest = records.digest(columns) if is_whole else digest
        sql = "UPDATE changes SET what = ?, digest = ? WHERE number = ?"
        db.execute(sql, (columns[-1], digest, number))
        counts[text_of(name)] += 1
    return dict(counts)


def _recalling(db: apsw.Connection, session_id: str, scope: str) -> list[Row]:
    """Entries of other sessions' logs that name a session: number, session, columns, digest."""
    rows = query(db, _RECALLED, (text(scope), text(session_id)))
    turns = [value_of(row[-2]).get("turns") or [] for row in rows]
    return [
        row for row, own in zip(rows, turns, strict=True) if any(_names(x, session_id) for x in own)
    ]


def _names(turn: Any, session_id: str) -> bool:  # noqa: ANN401 - any JSON value
    return isinstance(turn, dict) and turn.get("session_id") == session_id


def _scope(db: apsw.Connection, session_id: str) -> str:
    row = first(db, "SELECT scope FROM sessions WHERE id = ?", (text(session_id),))
    if row is None:
        raise NotFound(f"no session {session_id!r} in this store")
    return text_of(row[0])


# --- open orders ----------------------------------------------------------------------------------


def finish(pool: Pool) -> None:
    """Carry out what deletions ordered and is still open.

    Raises:
        StoreFailed: the file cannot be rewritten, or durability cannot be determined.
        OSError: a file cannot be removed.
    """
    sweeping.sweep_if_due(pool)
    discard(pool)


def discard(pool: Pool) -> None:
    """Remove files whose removal was ordered.

    Raises:
        StoreFailed: durability cannot be determined.
        OSError: a file cannot be removed.
    """
    archiving.discard_due(pool)
    with pool.read() as db:
        names = [str(row[0]) for row in query(db, "SELECT name FROM chores")]
    chores = [name for name in names if name.startswith(_COPIES)]
    if not chores or not pool.is_durable():
        return
    for chore in chores:
        discard_copies(Path(chore.removeprefix(_COPIES)))
        with pool.write() as db:
            originals.done(db, chore)


# --- with a report --------------------------------------------------------------------------------


class _Traces(NamedTuple):
    id: str
    scope: str
    key: int
    created: float
    branches: tuple[int, ...]
    archive: Place | None


def forget_session(pool: Pool, session_id: str, *, copies: Sequence[str] = ()) -> ForgottenReport:
    """Delete a session everywhere, and the folders `copies` that its compressions wrote. Then look
    for remains.

    Raises:
        NotFound: no such session.
        StoreFailed: it could not be deleted.
    """
    places = [named_path(each).absolute() for each in copies]
    files = [each for place in places for each in copies_in(place)]
    with pool.write() as db:
        traces = _traces(db, session_id)
        removed, quoted = _delete(db, session_id, traces.scope)
        for place in filter(is_storable, map(str, places)):
            sql = "INSERT INTO chores VALUES (?) ON CONFLICT DO NOTHING"
            db.execute(sql, (_COPIES + place,))
    if traces.archive is not None and traces.archive.folder:
        removed["files of archives"] = len(folder.files_of(traces.archive.name))
    if files:
        removed["copies"] = len(files)
    remains = (*_finish(pool, places), *_left(pool, traces, places))
    return ForgottenReport(session_id=session_id, removed=removed, quoted=quoted, remains=remains)


def _traces(db: apsw.Connection, session_id: str) -> _Traces:
    scope, key = _scope(db, session_id), records.key_of(db, session_id)
    branches = query(db, "SELECT key FROM branches WHERE session = ?", (key,))
    created = query(db, "SELECT unixepoch(created_at) FROM sessions WHERE key = ?", (key,))[0][0]
    keys = tuple(row[0] for row in branches)
    return _Traces(session_id, scope, key, created or 0.0, keys, originals.of_key(db, key))


def _finish(pool: Pool, places: Sequence[Path]) -> Iterator[str]:
    try:
        finish(pool)
        for place in places:
            discard_copies(place)
        pool.empty_log(wait=False)
    except (StoreFailed, OSError) as error:
        yield f"it goes on when the store is opened next: {error}"


def _left(pool: Pool, traces: _Traces, places: Sequence[Path]) -> Iterator[str]:
    with pool.read() as db:
        for table, where in _places(db, traces):
            if rows := query(db, f"SELECT count(*) FROM {table} WHERE {where}")[0][0]:
                yield f"{rows:,} rows of {table} are of it"
        if entries := _recalling(db, traces.id, traces.scope):
            yield f"{len(entries):,} entries of other sessions name it"
        if sweeping.is_due(db):
            yield "the file is still to be written anew: whoever opens it next does so"
    log = Path(f"{pool.path}-wal")
    if log.is_file() and log.stat().st_size:
        yield f"{log} still holds words of it, until nobody reads it"
    yield from _objects(pool, traces.archive)
    yield from (f"{path} is a copy of it" for place in places for path in copies_in(place))
    kept = [] if pool.in_memory else glob.glob(f"{glob.escape(pool.path)}.damaged-*")
    for name in kept:
        if Path(name).stat().st_mtime >= traces.created:
            yield f"{name}, which a repair kept, may still hold words of it"


def _places(db: apsw.Connection, traces: _Traces) -> Iterator[tuple[str, str]]:
    """Return, for each table that refers to sessions or branches, the table and the condition that
    finds a session's rows.
    """
    keys = ", ".join(map(str, traces.branches)) or "NULL"
    of_branch = f"IN ({keys})"
    for (table,) in query(db, "SELECT name FROM sqlite_schema WHERE type = 'table'"):
        columns = {row[1] for row in query(db, f"PRAGMA table_info({table})")}
        if "session" in columns:
            yield table, f"session = {traces.key:d}"
        elif "branch" in columns:
            yield table, f"branch {of_branch}"
    for table, column in _KEYED:
        yield table, f"{column} >> {BITS} {of_branch}"
    yield "sessions", f"key = {traces.key:d}"
    yield "packed", f"key >> {BITS} = {traces.key:d}"


def _objects(pool: Pool, archive: Place | None) -> Iterator[str]:
    if archive is None or not archive.folder:
        return
    blobs = pool.places.at(archive.folder)
    for name in folder.files_of(archive.name):
        try:
            blobs.get(name)
        except FileNotFoundError:
            continue
        except StoreFailed as error:
            yield f"whether it is gone cannot be told: {error}"
        else:
            yield f"{blobs.address(name)} is an archive of it"
