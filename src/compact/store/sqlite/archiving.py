"""Move sessions to the archive and back.

Both files are written and read back before a transaction removes the messages. That transaction
compares the messages with the file's content, and the file with its checksum again. So a crash at
any instant leaves the session in the database, or whole in the archive.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import datetime
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import apsw

from compact.errors import CompactError, NotFound, StoreDamaged, StoreFailed, Superseded
from compact.files import named_path
from compact.messages.codec import instant, is_storable
from compact.messages.memory_protocols import BlobStore
from compact.messages.sessions import Session
from compact.store.archives import folder
from compact.store.archives.packing import Unpackable, fingerprint, packed
from compact.store.blobs.places import S3
from compact.store.sqlite import (
    archived_copies,
    archived_rows,
    branch_lineage,
    checking,
    records,
    sweeping,
)
from compact.store.sqlite import sessions as session_rows
from compact.store.sqlite.archived_rows import ArchivedRow, ArchivePlace
from compact.store.sqlite.pool import Pool
from compact.store.sqlite.rows import text
from compact.text.archived import ArchivedConversation, ArchiveFault, ArchiveReport

ATTEMPTS = 3
"""How often to pack a session that changes meanwhile, or whose files another process removes as
abandoned. Also how often to try a backup while sessions leave the archive."""


class WritingTo(NamedTuple):
    """Says where archives are written, and when."""

    folder: str
    """The folder's name as stored in the database."""
    blobs: BlobStore
    now: datetime


def archive_sessions(
    pool: Pool,
    wanted: Iterable[tuple[str, str | None]],
    *,
    folder: str | Path,
    now: datetime,
    kms_key: str | None = None,
) -> ArchiveReport:
    """Move the messages of sessions into files in a folder, or below `s3://BUCKET/PREFIX`, there
    sealed by a KMS key if given. `wanted` gives session ids with their digests.

    Reading an archived session reads its files; continuing one restores it. Freed space returns to
    the file system. A session that fails keeps its messages, and the report says why.

    Raises:
        StoreFailed: the store is unusable, or the folder's name cannot be stored.
        InvalidArgument: the address names no bucket.
    """
    folder_at = folder_name(pool, folder)
    place = WritingTo(folder_at, pool.places.at(folder_at, kms_key), now)
    before, failed, names = _bytes(pool), dict[str, str](), list[str]()
    for session_id, digest in wanted:
        names.append(session_id)
        try:
            _archive_one(pool, session_id, digest, place)
        except (CompactError, Unpackable) as error:
            failed[session_id] = str(error)
    with suppress(StoreFailed):  # the next opening tries again
        sweeping.sweep_if_due(pool)
    with suppress(StoreFailed):
        archived_copies.discard_due(pool)
    rows = {each.session_id: each for each in archived_sessions(pool)}
    return ArchiveReport(
        archived=tuple(rows[name] for name in names if name in rows),
        failed=failed,
        bytes_before=before,
        bytes_after=_bytes(pool),
    )


def folder_name(pool: Pool, at: str | Path) -> str:
    """Return a folder as stored: relative to the database's folder where it is inside that. An S3
    address stays as it is.

    Raises:
        StoreFailed: the name is not Unicode, or has a line break.
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


def _archive_one(pool: Pool, session_id: str, digest: str | None, to: WritingTo) -> None:
    reason = ""
    for _ in range(ATTEMPTS):
        try:
            return _attempt(pool, session_id, digest, to)
        except Superseded as error:
            reason = str(error)
    raise Superseded(f"session {session_id!r} was not archived, nothing was removed: {reason}")


def _attempt(pool: Pool, session_id: str, digest: str | None, to: WritingTo) -> None:
    with pool.read() as db:
        session = session_rows.session(db, session_id)
        if session is None:
            raise NotFound(f"no session {session_id!r} in this store")
        if archived_rows.of_session(db, session_id) is not None:
            return
        key = records.key_of(db, session_id)
        if damage := checking.of_session(db, key):
            raise StoreDamaged(f"{damage[0]}; run `compactctl doctor --repair` first")
        data = packed(text(session_id) or "", archived_rows.tables(db, key))
        counts = archived_rows.counts(db, key)
        branches = branch_lineage.branches(db, session_id)
    name = folder.name_for(session_id, session.updated_at, data)
    description = {
        **_description(session, digest, to.now),
        **counts,
        "branches": [each.model_dump(mode="json", exclude={"session_id"}) for each in branches],
        "originals": {"file": f"{PurePosixPath(name).name}{folder.ORIGINALS}", **_sizes(data)},
    }
    folder.check_free(to.blobs, name)
    with pool.write() as db:  # the files are garbage until the session refers to them
        archived_rows.order_discard(db, to.folder, name)
    try:
        sums = folder.keep(to.blobs, name, description, data)
    except CompactError:
        with pool.write() as db:  # another process may have done the first order
            archived_rows.order_discard(db, to.folder, name)
        raise
    holds = fingerprint(archived_rows.messages_in(data))
    place = ArchivePlace(key, to.folder, name, sums[1], sums[0])
    with pool.write() as db:
        is_archived = archived_rows.of_session(db, session_id) is not None
        wrong = "" if is_archived else _changed(pool, db, place, holds)
        if is_archived or wrong:
            archived_rows.order_discard(db, to.folder, name)
        else:
            sizes = counts["messages"], counts["tokens"], len(data)
            archived_rows.put_away(db, ArchivedRow(place, to.now, *sizes, digest))
            archived_rows.index_words(db, key, session, digest)
    if wrong:
        raise Superseded(wrong)


def _changed(pool: Pool, db: apsw.Connection, place: ArchivePlace, holds: bytes) -> str:
    """Return how a session or its files differ from when it was packed; empty where they do not."""
    if fingerprint(archived_rows.message_rows(db, place.session)) != holds:
        return "it goes on meanwhile; archive it later"
    faults = checking.faults_of(pool, place)
    return faults[0] if faults else ""


def _description(session: Session, digest: str | None, now: datetime) -> dict[str, Any]:
    fields = session.model_dump(mode="json", exclude={"branch"})
    return {
        "schema": folder.SCHEMA,
        "version": folder.VERSION,
        **fields,
        "tags": list(session.metadata.get("tags") or ()),
        "branch": session.branch.id,
        "archived_at": now.isoformat(),
        "digest": digest,
    }


def _sizes(data: bytes) -> dict[str, Any]:
    return {"sha256": sha256(data).hexdigest(), "bytes": len(data)}


def restore_session(pool: Pool, session_id: str) -> None:
    """Restore the messages of an archived session; does nothing where it is not archived.

    Raises:
        NotFound: no such session.
        StoreDamaged: the archive is missing or altered; it stays as it is.
    """
    archived_copies.restoring(
        pool,
        lambda db: archived_rows.of_session(db, session_id),
        lambda db: records.key_of(db, session_id),
    )


def archived_sessions(
    pool: Pool, *, scope: str | None = None, query: str | None = None, most: int | None = None
) -> list[ArchivedConversation]:
    """Return archived sessions of a scope, or of all, in the order of archiving; at most `most`.
    With a query only those whose title, tags or digest share words with it, best first.
    """
    with pool.read() as db:
        every = archived_rows.kept(db)
        names = list(every)
        if query is not None:
            names = archived_rows.matching(db, query, scope, len(every) if most is None else most)
        pairs = [
            (session, every[name])
            for name in names
            if (session := session_rows.session(db, name)) is not None
            and scope in (None, session.scope)
        ]
    return [
        ArchivedConversation(
            session_id=session.id,
            scope=session.scope,
            title=session.title,
            tags=tuple(map(str, session.metadata.get("tags") or ())),
            # An imported session is older than its row: then only its end is known here.
            begun=min(session.created_at, session.updated_at, key=instant),
            ended=session.updated_at,
            archived_at=each.archived_at,
            messages=each.messages,
            tokens=each.tokens,
            digest=each.digest,
            file=_file(pool, each.place),
            bytes=each.bytes,
        )
        for session, each in pairs[:most]
    ]


def archive_faults(
    pool: Pool,
    *,
    scope: str | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> list[ArchiveFault]:
    """Return defects of the files of a scope's archived sessions, or of all. `progress` gets the
    archives done and the total.
    """
    with pool.read() as db:
        every = archived_rows.kept(db)
        if scope is not None:
            names = {each.id for each in session_rows.sessions(db, scope=scope)}
            every = {name: each for name, each in every.items() if name in names}
    defects = list[ArchiveFault]()
    for done, (name, each) in enumerate(every.items(), start=1):
        file = _file(pool, each.place)
        for what in checking.of_archive(pool, each.place):
            defects.append(ArchiveFault(session_id=name, file=file, what=what))
        if progress is not None:
            progress(done, len(every))
    return defects


def _file(pool: Pool, place: ArchivePlace) -> str:
    return pool.places.at(place.folder).address(place.name + folder.DESCRIPTION)
