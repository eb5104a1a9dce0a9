"""Deletes a session, or a whole scope, everywhere, and reports what remains.

One transaction removes the rows. It also orders the steps that a transaction cannot do: rewriting
the file, and removing archives and copies. After a crash the next opening carries out these orders.
SQLite's `secure_delete` and `VACUUM` remove the bytes from the file; tests search for them.
"""

from __future__ import annotations

import glob
import json
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import apsw

from compact.errors import NotFound, StoreFailed
from compact.files import named_path
from compact.messages.codec import is_storable
from compact.store.archives import folder
from compact.store.archives.files import copies_in, discard_copies
from compact.store.sqlite import archiving, originals, records
from compact.store.sqlite import sessions as session_rows
from compact.store.sqlite.originals import Place
from compact.store.sqlite.pool import Pool, is_sweep_due
from compact.store.sqlite.rows import BITS, Row, first, json_of, query, text, text_of, value_of
from compact.text.archived import ForgottenReport

_COPIES = "copies "
"""Prefix of a chore that removes a session's copies. The folder's path follows."""
_KEYED = (("messages", "key"), ("vectors", "message"), ("words_docsize", "id"))
"""Tables with a column that holds message keys."""
_AMONG = "IN (SELECT value FROM json_each(?))"
_RECALLED = f"""
    SELECT changes.number, s.id, {records.columns("changes")} FROM changes
    JOIN sessions s ON s.key = changes.session
    WHERE changes.kind = 'recalled' AND s.scope = ? ORDER BY changes.number
"""


def delete(pool: Pool, session_id: str) -> None:
    """Remove a session from all tables, and its quotes from other sessions.

    Raises:
        NotFound: no such session.
    """
    with pool.write() as db:
        scope = _scope(db, session_id)
        session_rows.delete(db, session_id)
        _take_out_names(db, {session_id}, scope)


def _take_out_names(db: apsw.Connection, ids: Collection[str], scope: str) -> dict[str, int]:
    """Remove deleted sessions from other sessions' logs of recalled turns. If the scope is empty
    now, remove its name from the leases. Return session id → how many entries changed.
    """
    if first(db, "SELECT 1 FROM sessions WHERE scope = ? LIMIT 1", (text(scope),)) is None:
        for name in ("age", "aged"):
            db.execute("DELETE FROM leases WHERE name = ?", (text(f"{name} {scope}"),))
    counts = Counter[str]()
    for number, name, *columns, digest in _recalling(db, ids, scope):
        is_whole = records.digest(columns) == digest  # a damaged entry must stay damaged
        what = value_of(columns[-1])
        turns = [turn for turn in what["turns"] if not _names(turn, ids)]
        columns[-1] = json_of({**what, "turns": turns})
        digest = records.digest(columns) if is_whole else digest
        sql = "UPDATE changes SET what = ?, digest = ? WHERE number = ?"
        db.execute(sql, (columns[-1], digest, number))
        counts[text_of(name)] += 1
    return dict(counts)


def _recalling(db: apsw.Connection, ids: Collection[str], scope: str) -> list[Row]:
    """Return the log entries that name deleted sessions: number, session, columns, digest."""
    rows = query(db, _RECALLED, (text(scope),))
    turns = [value_of(row[-2]).get("turns") or [] for row in rows]
    return [row for row, own in zip(rows, turns, strict=True) if any(_names(x, ids) for x in own)]


def _names(turn: Any, ids: Collection[str]) -> bool:  # noqa: ANN401 - any JSON value
    return isinstance(turn, dict) and turn.get("session_id") in ids


def _scope(db: apsw.Connection, session_id: str) -> str:
    row = first(db, "SELECT scope FROM sessions WHERE id = ?", (text(session_id),))
    if row is None:
        raise NotFound(f"no session {session_id!r} in this store")
    return text_of(row[0])


# --- open orders ----------------------------------------------------------------------------------


def finish(pool: Pool) -> None:
    """Carry out the open orders of deletions.

    Raises:
        StoreFailed: the file cannot be rewritten, or it is unknown what is on the disk.
        OSError: a file cannot be removed.
    """
    pool.sweep_if_due()
    discard(pool)


def discard(pool: Pool) -> None:
    """Remove the files whose removal was ordered.

    Raises:
        StoreFailed: it is unknown what is on the disk.
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
    ids: frozenset[str]
    scope: str
    whole: bool
    """Whether the whole scope was deleted."""
    created: float
    """Creation time of the oldest session, in seconds since 1970."""
    keys: str
    """The keys of the sessions, and of their branches, each as a JSON list."""
    branches: str
    archives: tuple[Place, ...]


def forget_session(pool: Pool, session_id: str, *, copies: Sequence[str] = ()) -> ForgottenReport:
    """Delete a session everywhere, and the folders `copies` that its compressions wrote. Then look
    for what remains.

    Raises:
        NotFound: no such session.
        StoreFailed: it could not be deleted.
    """
    return _forget(pool, session_id, None, copies)


def forget_scope(pool: Pool, scope: str, *, copies: Sequence[str] = ()) -> ForgottenReport:
    """Delete all sessions of a scope, like `forget_session`.

    Raises:
        StoreFailed: they could not be deleted; all of them are still there.
    """
    return _forget(pool, None, scope, copies)


def _forget(
    pool: Pool, session_id: str | None, scope: str | None, copies: Sequence[str]
) -> ForgottenReport:
    places = [named_path(each).absolute() for each in copies]
    files = [each for place in places for each in copies_in(place)]
    removed = Counter[str]()
    with pool.write() as db:
        traces = _traces(db, session_id, scope)
        for each in traces.ids:
            removed.update(session_rows.delete(db, each))
        quoted = _take_out_names(db, traces.ids, traces.scope)
        for place in filter(is_storable, map(str, places)):
            sql = "INSERT INTO chores VALUES (?) ON CONFLICT DO NOTHING"
            db.execute(sql, (_COPIES + place,))
    for archive in traces.archives:
        removed["files of archives"] += len(folder.files_of(archive.name))
    removed["copies"] += len(files)
    remains = (*_finish(pool, places), *_left(pool, traces, places))
    return ForgottenReport(
        session_id=session_id, scope=scope, removed=+removed, quoted=quoted, remains=remains
    )


def _traces(db: apsw.Connection, session_id: str | None, scope: str | None) -> _Traces:
    """Note what to look for after a session or a scope is deleted."""
    column, name = ("scope", scope) if session_id is None else ("id", session_id)
    scope = _scope(db, session_id) if session_id is not None else scope or ""
    sql = f"SELECT key, id, unixepoch(created_at) FROM sessions WHERE {column} = ?"
    rows = query(db, sql, (text(name or ""),))
    keys = json.dumps([row[0] for row in rows])
    branches = query(db, f"SELECT key FROM branches WHERE session {_AMONG}", (keys,))
    archives = filter(None, (originals.of_key(db, row[0]) for row in rows))
    return _Traces(
        ids=frozenset(text_of(row[1]) for row in rows),
        scope=scope,
        whole=session_id is None,
        created=min((row[2] or 0.0 for row in rows), default=0.0),
        keys=keys,
        branches=json.dumps([row[0] for row in branches]),
        archives=tuple(each for each in archives if each.folder),
    )


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
        for table, where, keys in _places(db, traces):
            if rows := query(db, f"SELECT count(*) FROM {table} WHERE {where}", (keys,))[0][0]:
                yield f"{rows:,} rows of {table} are of it"
        if entries := _recalling(db, traces.ids, traces.scope):
            yield f"{len(entries):,} entries of other sessions name it"
        if is_sweep_due(db):
            yield "the file is still to be written anew: whoever opens it next does so"
    log = Path(f"{pool.path}-wal")
    if log.is_file() and log.stat().st_size:
        yield f"{log} still holds words of it, until nobody reads it"
    for archive in traces.archives:
        yield from _objects(pool, archive)
    yield from (f"{path} is a copy of it" for place in places for path in copies_in(place))
    if not pool.in_memory:
        yield from _beside(Path(pool.path).absolute(), traces)


def _beside(path: Path, traces: _Traces) -> Iterator[str]:
    """Yield files that repairs and migrations kept, and that may hold the session."""
    for name in glob.glob(f"{glob.escape(str(path))}.damaged-*"):
        if Path(name).stat().st_mtime >= traces.created:
            yield f"{name}, which a repair kept, may still hold words of it"
    marks = [("scope", traces.scope)] if traces.whole else [("session_id", x) for x in traces.ids]
    names = [f'"{key}": {json.dumps(name, ensure_ascii=False)}' for key, name in marks]
    for kept in sorted(path.parent.glob("migrations/*")):
        file = kept / "manifest.json"
        if file.is_file() and any(map(file.read_text("utf-8", "replace").__contains__, names)):
            yield f"{file}, the list of a migration, names it"
        for file in sorted(kept.glob("*/sessions.db")):
            if _holds(file, traces):
                yield f"{file.parent}, which a migration kept, may hold it"


def _holds(file: Path, traces: _Traces) -> bool:
    """Return whether a backup has one of the sessions. True also if it cannot be read."""
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    try:
        db = apsw.Connection(f"{file.as_uri()}?immutable=1", flags=flags)
        with closing(db):
            rows = query(db, "SELECT id FROM sessions WHERE scope = ?", (text(traces.scope),))
        return any(traces.whole or text_of(row[0]) in traces.ids for row in rows)
    except apsw.Error:
        return True


def _places(db: apsw.Connection, traces: _Traces) -> Iterator[tuple[str, str, str]]:
    """Yield each table that refers to sessions or branches, the condition that finds the deleted
    ones' rows, and the keys for that condition.
    """
    for (table,) in query(db, "SELECT name FROM sqlite_schema WHERE type = 'table'"):
        columns = {row[1] for row in query(db, f"PRAGMA table_info({table})")}
        if "session" in columns:
            yield table, f"session {_AMONG}", traces.keys
        elif "branch" in columns:
            yield table, f"branch {_AMONG}", traces.branches
    for table, column in _KEYED:
        yield table, f"{column} >> {BITS} {_AMONG}", traces.branches
    yield "sessions", f"key {_AMONG}", traces.keys
    yield "packed", f"key >> {BITS} {_AMONG}", traces.keys


def _objects(pool: Pool, archive: Place) -> Iterator[str]:
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
