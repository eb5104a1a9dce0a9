"""Moves the message texts of sessions into one file per session, and back. A file is in the
archive, or compressed in the database.

The file is written and read back first. Then one transaction compares it with the messages, checks
its checksum again, and removes the texts. So after a crash each text is in the database, or in a
complete file.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import apsw

from compact.errors import (
    CompactError,
    InvalidInput,
    NotFound,
    StoreDamaged,
    StoreFailed,
    Superseded,
)
from compact.files import named_path
from compact.messages.codec import instant, is_storable
from compact.messages.protocols import BlobStore, SessionStore
from compact.messages.sessions import Entry, Session
from compact.messages.times import Times
from compact.store.archives import folder
from compact.store.blobs.places import S3
from compact.store.session_file import OwnRows, entry_in, packed
from compact.store.sqlite import (
    branch_lineage,
    changes,
    checking,
    digests,
    messages,
    originals,
    projections,
    records,
    search,
)
from compact.store.sqlite import sessions as session_rows
from compact.store.sqlite.branch_lineage import Tail
from compact.store.sqlite.originals import Moved, OriginalsMissing, Place
from compact.store.sqlite.pool import Pool
from compact.store.sqlite.rows import (
    BITS,
    LAST,
    MESSAGE_COLUMNS,
    MOVED,
    first,
    json_of,
    query,
    text,
    text_of,
)
from compact.store.whole_session import WholeSession, read_whole, since
from compact.text.archived import ArchivedConversation, ArchiveFault, ArchiveReport
from compact.text.terms import pieces_of

ATTEMPTS = 3
"""How often to try to pack a session that changes meanwhile, or whose file another process removed
as abandoned. Also how often to try a backup while sessions leave the archive."""


class WritingTo(NamedTuple):
    """Where and when originals are written."""

    folder: str
    """The folder's name, as the database stores it. An empty name means: pack into the database."""
    blobs: BlobStore | None
    now: datetime
    times: Times | None = None
    """Decides which messages lose their texts. None means all messages."""


def archive_sessions(
    pool: Pool,
    wanted: Iterable[str],
    *,
    folder: str | Path,
    now: datetime,
    kms_key: str | None = None,
) -> ArchiveReport:
    """Move the texts of sessions into files in a folder, or below `s3://BUCKET/PREFIX`. Files in S3
    are encrypted with a KMS key, if one is given.

    Reading an archived session reads its file. Its words and vectors stay in the index. Freed space
    returns to the file system. A session that fails keeps its texts; the report says why.

    Raises:
        StoreFailed: the store is unusable, or the folder's name cannot be stored.
        InvalidArgument: the address names no bucket.
    """
    folder_at = folder_name(pool, folder)
    to = WritingTo(folder_at, pool.places.at(folder_at, kms_key), now)
    before = _bytes(pool)
    names, failed = _moved(pool, wanted, to)
    rows = {each.session_id: each for each in archived_sessions(pool, names=names)}
    return ArchiveReport(
        archived=tuple(rows[name] for name in names if name in rows),
        failed=failed,
        bytes_before=before,
        bytes_after=_bytes(pool),
    )


def pack_sessions(
    pool: Pool, wanted: Iterable[str], *, now: datetime, times: Times | None = None
) -> dict[str, str]:
    """Move the texts of sessions into compressed files in the database. Archived sessions are left
    alone. With `times`, only old messages lose their texts, and only if they are the larger part of
    the session's text. Return session id → why it was not packed.
    """
    return _moved(pool, wanted, WritingTo("", None, now, times))[1]


def _moved(pool: Pool, wanted: Iterable[str], to: WritingTo) -> tuple[list[str], dict[str, str]]:
    """Move sessions. Return all the wanted names, and session id → why it was not moved."""
    names, failed, freed = list[str](), dict[str, str](), 0
    for session_id in wanted:
        names.append(session_id)
        try:
            freed += _move(pool, session_id, to)
        except CompactError as error:
            failed[session_id] = str(error)
    with suppress(StoreFailed):  # a later call tries again
        pool.shrink(freed)
    with suppress(StoreFailed):
        discard_due(pool)
    return names, failed


def folder_name(pool: Pool, at: str | Path) -> str:
    """Return a folder's name as the database stores it: relative to the database's folder if it is
    inside, else absolute. An S3 address stays as it is.

    Raises:
        StoreFailed: the name is not Unicode, or contains a line break.
    """
    whole = str(at).rstrip("/") if str(at).startswith(S3) else named_path(at).absolute()
    if not is_storable(str(whole)) or "\n" in str(whole):
        raise StoreFailed(f"{str(at)!r} cannot be the folder of archives: give it a plain name")
    if isinstance(whole, Path) and not pool.in_memory:
        with suppress(ValueError):
            return whole.relative_to(Path(pool.path).parent).as_posix()
    return str(whole)


def _bytes(pool: Pool) -> int:
    with pool.read() as db:
        return int(db.pragma("page_count")) * int(db.pragma("page_size"))


def _move(pool: Pool, session_id: str, to: WritingTo) -> int:
    """Move a session's texts. Return how many bytes this freed in the database."""
    reason = ""
    for _ in range(ATTEMPTS):
        try:
            return _attempt(pool, session_id, to)
        except Superseded as error:
            reason = str(error)
    raise Superseded(f"session {session_id!r} was not archived, nothing was removed: {reason}")


def _attempt(pool: Pool, session_id: str, to: WritingTo) -> int:
    with pool.read() as db:
        session = session_rows.session(db, session_id)
        if session is None:
            raise NotFound(f"no session {session_id!r} in this store")
        key = records.key_of(db, session_id)
        if _is_there(db, key, to):
            return 0
        if damage := checking.of_session(db, key):
            raise StoreDamaged(f"{damage[0]}; run `compactctl doctor --repair` first")
        data = packed(whole_session(db, session_id))
        names = [name for _, name in originals.branches(db, key)]
    for name in names:  # so that search finds them even while the archive is out of reach
        search.catch_up_branch(pool, name)
    name = "" if to.blobs is None else folder.name_for(session_id, session.updated_at, data)
    place = Place(key, to.folder, name, folder.sum_of(data))
    if to.blobs is not None:
        _write(pool, to.blobs, place, data)
    rows = originals.rows_in(data)
    with pool.write() as db:
        wrong = _changed(pool, db, place, rows)
        if wrong is None:
            messages_, tokens, size = originals.counts(db, key)
            before = originals.packed_bytes(db, key)
            kept = Moved(place, to.now, messages_, tokens, len(data))
            originals.take_out(db, kept, data, to.times)
            return size - originals.counts(db, key)[2] + (before if to.folder else 0)
        if to.folder:
            originals.order_discard(db, place)
    if wrong:
        raise Superseded(wrong)
    return 0


def _is_there(db: apsw.Connection, session: int, to: WritingTo) -> bool:
    """Return whether nothing has to move: the texts are archived, at their target, or too new."""
    place = originals.of_key(db, session)
    if to.times is not None:
        return not originals.is_mostly_old(db, session, to.times)
    if place is None or originals.has_texts(db, session):
        return False
    return bool(place.folder or not to.folder)


def _write(pool: Pool, blobs: BlobStore, place: Place, data: bytes) -> None:
    folder.check_free(blobs, place.name)
    with pool.write() as db:  # until the session refers to the file, it counts as garbage
        originals.order_discard(db, place)
    try:
        folder.keep(blobs, place.name, data)
    except CompactError:
        with pool.write() as db:  # another process may have carried out the first order
            originals.order_discard(db, place)
        raise


def _changed(pool: Pool, db: apsw.Connection, place: Place, rows: OwnRows) -> str | None:
    """Return how a session or its file has changed since it was packed; None if neither has. An
    empty string means that another process has archived it.
    """
    now = originals.of_key(db, place.session)
    if now is not None and now.folder and not originals.has_texts(db, place.session):
        return ""
    if not originals.holds(db, place.session, rows):
        return "it goes on meanwhile; archive it later"
    faults = pool.originals.faults(db, place) if place.folder else []
    return faults[0] if faults else None


# --- whole sessions -------------------------------------------------------------------------------


def whole_session(db: apsw.Connection, session_id: str) -> WholeSession:
    """Read everything that the store keeps of a session, in the caller's transaction."""
    functions: dict[str, Callable[..., Any]] = {
        "session": session_rows.session,
        "moves": projections.moves,
        "snapshots": projections.snapshots,
        "changes": changes.changes,
        "projection": projections.projection,
        "notes": changes.notes,
        "checkpoints": projections.checkpoints,
        "branches": branch_lineage.branches,
        "read": messages.read,
    }
    store = SimpleNamespace(**{name: partial(each, db) for name, each in functions.items()})
    return read_whole(cast("SessionStore", store), session_id)


def put(db: apsw.Connection, whole: WholeSession, *, replaces: bool = False) -> Session:
    """Store a new session with everything that belongs to it, and delete the one with its id if it
    `replaces` that. Return it.

    Raises:
        Superseded: a session with that id exists.
        InvalidInput: another session has a branch or projection with one of its ids.
    """
    session, (root, *branches) = whole.session, whole.parts
    if replaces and session_rows.session(db, session.id) is not None:
        session_rows.delete(db, session.id)
    if session_rows.session(db, session.id) is not None:
        raise Superseded(f"there is a session {session.id!r}")
    session_rows.create(db, session.model_copy(update={"branch": root.branch}))
    messages.append(db, root.branch.id, root.entries, expected=0)
    for part in branches:
        session_rows.begin(db, part.branch)
        messages.append(db, part.branch.id, part.entries, expected=part.branch.fork)
    key = records.key_of(db, session.id)
    session_rows.put_in_force(db, key, branch_lineage.tail(db, session.branch.id).key)
    _put_log(db, session.id, whole)
    _put_view(db, key, whole)
    stored = session_rows.session(db, session.id)
    assert stored is not None, "just stored"
    return stored


def _put_log(db: apsw.Connection, session_id: str, whole: WholeSession) -> None:
    numbers: list[int] = []
    for change in whole.changes:
        what = since(change.what, numbers)
        changes.record(db, session_id, [change.model_copy(update={"what": what})])
        numbers.append(db.last_insert_rowid())
    for name, value in (whole.notes or {}).items():
        changes.note(db, session_id, name, value)


def _put_view(db: apsw.Connection, key: int, whole: WholeSession) -> None:
    for checkpoint in whole.checkpoints:
        records.insert_value(db, "checkpoints", checkpoint, records.ONCE, session=key)
    for projection in whole.projections:
        known = first(db, "SELECT 1 FROM projections WHERE id = ?", (projection.id,))
        if known is not None:
            raise InvalidInput(f"there is a projection {projection.id!r} already")
        projections.keep(db, key, projection)
    for move in whole.moves:
        branch = branch_lineage.tail(db, move.branch_id).key
        records.insert_value(db, "moves", move, session=key, branch=branch)
    for snapshot in whole.snapshots:
        projections.save_snapshot(db, snapshot)


def add_from_source(
    db: apsw.Connection,
    branch_id: str,
    entries: Sequence[Entry],
    *,
    expected: int,
    metadata: Mapping[str, Any],
) -> None:
    """Append what was added to a session's source, and update the session's metadata.

    Raises:
        Superseded: the branch no longer has `expected` messages.
        InvalidMessage: an entry cannot be stored.
    """
    messages.append(db, branch_id, entries, expected=expected)
    session_id = branch_lineage.branch(db, branch_id).session_id
    session = session_rows.session(db, session_id)
    merged = {**(session.metadata if session else {}), **metadata}
    sql = "UPDATE sessions SET metadata = ? WHERE id = ?"
    db.execute(sql, (json_of(merged), text(session_id)))


# --- back -----------------------------------------------------------------------------------------


def restore_session(pool: Pool, session_id: str) -> None:
    """Move the texts of a session back into the database. Does nothing if they were not moved.

    Raises:
        NotFound: no such session.
        StoreDamaged: the archive is missing or was changed. It is left as it is.
    """
    with pool.read() as db:
        old = originals.of_session(db, session_id)
    if old is not None and not old.is_taken_in:
        with suppress(Exception):  # reading the file below reports the reason
            _take_in(pool, old)
    while True:
        with pool.read() as db:  # read before locking, so that no writer waits for a network
            key = records.key_of(db, session_id)
            place = originals.of_key(db, key)
            if place is None:
                return
            with suppress(OriginalsMissing):  # another process may have moved it
                pool.originals.rows(db, place)
        with pool.write() as db:
            if originals.of_key(db, key) != place:
                continue
            originals.put_back(db, place)
            if damage := checking.of_session(db, key):
                raise StoreDamaged(f"the archive {place.name} holds other messages: {damage[0]}")
        with suppress(StoreFailed):  # the next opening tries again
            discard_due(pool)
        return


def discard_due(pool: Pool) -> None:
    """Remove archive files that no session needs any more, once that change is on the disk.

    Raises:
        StoreFailed: it is unknown what is on the disk, or a file cannot be removed.
    """
    with pool.read() as db:
        if not originals.has_discards(db):
            return
    if not pool.is_durable():
        return
    with pool.write() as db:
        for chore, place, name in originals.due(db):
            folder.discard(pool.places.at(place), name)
            originals.done(db, chore)


# --- archives of schema 3 -------------------------------------------------------------------------


def take_in_old(pool: Pool) -> None:
    """Add rows and index entries for messages in archives of schema 3. The files are not changed. A
    file that cannot be read is skipped, and tried again at a later opening. A damaged file does not
    stop the opening; `archive_faults` reports it.
    """
    if pool.read_only:
        return
    with pool.read() as db:
        old = originals.not_taken_in(db)
    for place in old:
        with suppress(Exception):
            _take_in(pool, place)


def _take_in(pool: Pool, old: Place) -> None:
    place = old._replace(name=old.file)
    with pool.read() as db:
        rows = pool.originals.rows(db, place)
    with pool.write() as db:
        if originals.of_key(db, place.session) != old:
            return
        sql = "UPDATE archived SET name = ? WHERE session = ?"
        db.execute(sql, (text(place.name), place.session))
        own = originals.branches(db, place.session)
        for key, name in own:
            if name not in rows:  # the branch was made while the archive was out of reach
                continue
            end = branch_lineage.tail(db, name)
            fill(db, key, rows[name])
            if branch_lineage.tail(db, name) != end:
                raise StoreDamaged(
                    f"the archive {place.name} does not hold a branch's last message"
                )
    for _, name in own:
        search.catch_up_branch(pool, name)


def fill(db: apsw.Connection, branch: int, rows: tuple[int, Sequence[Mapping[str, Any]]]) -> None:
    """Insert rows without texts for a branch's messages in a file. Rows with a text are kept."""
    begun = first(db, "SELECT fork_tokens, fork_hash FROM branches WHERE key = ?", (branch,))
    assert begun is not None, "it has a row"
    fork, cells = rows
    made, _ = messages.rows_after(Tail(branch, fork, *begun), [entry_in(each) for each in cells])
    keys = branch << BITS, branch << BITS | LAST
    db.execute(f"DELETE FROM messages WHERE key BETWEEN ? AND ? AND {MOVED}", keys)
    sql = f"INSERT OR IGNORE INTO messages ({MESSAGE_COLUMNS}, total_tokens, chain_hash)"
    values = "?, ?, ?, ?, ?, ?, ?, ?, x'', NULL, ?, ?"
    db.executemany(f"{sql} VALUES ({values})", [(*row[:-4], *row[-2:]) for row in made])
    if made:
        db.execute("INSERT OR IGNORE INTO unindexed VALUES (?)", (branch,))


# --- what there is --------------------------------------------------------------------------------


def moved_sessions(pool: Pool, *, scope: str | None = None) -> dict[str, bool]:
    """Return sessions that have all their texts in their file. The value is True if the file is in
    the archive, and False if it is in the database. `scope` None means all scopes.
    """
    with pool.read() as db:
        return {
            name: bool(each.place.folder)
            for name, each in originals.moved(db).items()
            if _is_in_scope(db, name, scope) and not originals.has_texts(db, each.place.session)
        }


def _is_in_scope(db: apsw.Connection, session_id: str, scope: str | None) -> bool:
    sql = "SELECT 1 FROM sessions WHERE id = ? AND scope = ?"
    return scope is None or first(db, sql, (text(session_id), text(scope))) is not None


def archived_sessions(
    pool: Pool, *, scope: str | None = None, names: Collection[str] | None = None
) -> list[ArchivedConversation]:
    """Return the archived sessions of a scope (None: of all), in the order of archiving. `names`
    limits the result to these sessions.
    """
    with pool.read() as db:
        rows = [
            (session, each, digests.digest(db, name))
            for name, each in originals.moved(db, names).items()
            if each.place.folder
            and (session := session_rows.session(db, name)) is not None
            and scope in (None, session.scope)
        ]
    return [
        ArchivedConversation(
            session_id=session.id,
            scope=session.scope,
            title=session.title,
            tags=tuple(map(str, session.metadata.get("tags") or ())),
            # An imported session may have ended before its row was made. Then its beginning is
            # unknown here, and its end is used.
            begun=min(session.created_at, session.updated_at, key=instant),
            ended=session.updated_at,
            archived_at=each.at,
            messages=each.messages,
            tokens=each.tokens,
            digest=(digest.in_short or None) if digest else None,
            file=_file(pool, each.place),
            bytes=each.bytes,
        )
        for session, each, digest in rows
    ]


def archived_named(pool: Pool, words: Sequence[str], *, scope: str | None = None) -> list[str]:
    """Return the archived sessions whose title or tags have a word that begins with one of `words`.
    `scope` None means all scopes.
    """
    sql = """
        SELECT s.id, s.title, json_extract(s.metadata, '$.tags')
        FROM archived a JOIN sessions s ON s.key = a.session
        WHERE a.folder <> '' AND (?1 IS NULL OR s.scope = ?1)
    """
    with pool.read() as db:
        rows = query(db, sql, (text(scope),))
    pieces = ((row[0], pieces_of(" ".join(text_of(x) for x in row[1:] if x))) for row in rows)
    begins = tuple(words)
    return [text_of(name) for name, own in pieces if any(x.startswith(begins) for x in own)]


def archive_faults(
    pool: Pool,
    *,
    scope: str | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> list[ArchiveFault]:
    """Return the defects of archived sessions' files. `scope` None means all scopes. `progress`
    gets the number of archives checked and their total.
    """
    with pool.read() as db:
        every = [
            (name, each.place)
            for name, each in originals.moved(db).items()
            if each.place.folder and _is_in_scope(db, name, scope)
        ]
    defects = list[ArchiveFault]()
    for done, (name, place) in enumerate(every, start=1):
        for what in checking.of_archive(pool, place):
            defects.append(ArchiveFault(session_id=name, file=_file(pool, place), what=what))
        if progress is not None:
            progress(done, len(every))
    return defects


def _file(pool: Pool, place: Place) -> str:
    return pool.places.at(place.folder).address(place.name)
