"""Rows of archived sessions: which sessions are archived, and how messages leave and return.

An archived session keeps its row, branches, checkpoints, projections, moves, snapshots, notes and
changes. Its messages leave, with their words, turns and vectors. Vectors return with the messages.
Words and turns are computed again. The end of each branch stays in the database, so that listing
sessions needs no archive.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import apsw

from compact.errors import StoreDamaged
from compact.messages.sessions import Session
from compact.store.archives.packing import Cells, PackedTable, Unpackable, fingerprint, unpacked
from compact.store.sqlite import search, sweeping, vectors
from compact.store.sqlite.records import COLUMNS
from compact.store.sqlite.rows import BITS, LAST, Row, first, query, text, text_of, text_or_none
from compact.text.terms import looked_for

_OWN = f"key BETWEEN ?1 << {BITS} AND (?1 << {BITS}) + {LAST}"
"""Messages of one branch."""
_KEPT = {"sessions": "key = ?", **dict.fromkeys(("branches", *COLUMNS), "session = ?")}
"""Table → its rows of a session. The archive gets a copy; the rows stay."""
_LEFT_OUT = {"embedding_id"}
"""Columns of messages that have no meaning outside of the file: a vector's number."""
_COLUMNS = "a.session, a.folder, a.name, a.originals, a.description"
_PLACE = f"SELECT {_COLUMNS} FROM archived a"
_KEPT_ROWS = f"""
    SELECT {_COLUMNS}, s.id, a.archived_at, a.messages, a.tokens, a.bytes, a.digest
    FROM archived a JOIN sessions s ON s.key = a.session ORDER BY a.session
"""

_FOUND = """
    SELECT s.id FROM archived_words w JOIN sessions s ON s.key = w.rowid
    WHERE w.archived_words MATCH ?1 AND (?2 IS NULL OR s.scope = ?2)
    ORDER BY bm25(archived_words), w.rowid DESC LIMIT ?3
"""
"""Archived sessions that share words with a question."""
WRONG: tuple[tuple[str, str], ...] = (
    (
        f"messages WHERE key >> {BITS} IN (SELECT b.key FROM branches b JOIN archived a"
        " ON a.session = b.session)",
        "messages are in the database although their session is archived",
    ),
    (
        "archived WHERE session NOT IN (SELECT key FROM sessions)",
        "archives are of sessions that are not there",
    ),
    (
        "archived_branches WHERE branch NOT IN (SELECT b.key FROM branches b JOIN archived a"
        " ON a.session = b.session)",
        "branches are said to be archived, and are not",
    ),
)
"""Rows that should not exist, and the sentence that reports them."""


class ArchivePlace(NamedTuple):
    """Says where the originals of a session are."""

    session: int
    """The session's key."""
    folder: str
    """The archive folder: relative to the database's folder where it is inside that, or
    `s3://BUCKET/PREFIX`."""
    name: str
    originals: bytes
    """SHA-256 of the file with the originals."""
    description: bytes


class ArchivedRow(NamedTuple):
    """The stored facts of an archived session."""

    place: ArchivePlace
    archived_at: datetime
    messages: int
    tokens: int
    bytes: int
    digest: str | None


# --- archived sessions ----------------------------------------------------------------------------


def of_branch(db: apsw.Connection, branch_id: str) -> ArchivePlace | None:
    """Return where a branch's session is archived; None where it is not."""
    sql = f"{_PLACE} JOIN branches b ON b.session = a.session WHERE b.id = ?"
    return _place_of(first(db, sql, (text(branch_id),)))


def of_session(db: apsw.Connection, session_id: str) -> ArchivePlace | None:
    """Return where a session is archived; None where it is not."""
    sql = f"{_PLACE} JOIN sessions s ON s.key = a.session WHERE s.id = ?"
    return _place_of(first(db, sql, (text(session_id),)))


def of_key(db: apsw.Connection, session: int) -> ArchivePlace | None:
    """Like `of_session`, by the session's key."""
    return _place_of(first(db, f"{_PLACE} WHERE a.session = ?", (session,)))


def _place_of(row: Row | None) -> ArchivePlace | None:
    if row is None:
        return None
    session, folder, name, originals, description = row
    return ArchivePlace(session, text_of(folder), text_of(name), originals, description)


def kept(db: apsw.Connection) -> dict[str, ArchivedRow]:
    """Return all archived sessions, by session id."""
    rows = {}
    for *place, name, at, messages, tokens, size, digest in query(db, _KEPT_ROWS):
        where = _place_of(tuple(place))
        assert where is not None, "it has a row"
        rows[text_of(name)] = ArchivedRow(
            where, datetime.fromisoformat(at), messages, tokens, size, text_or_none(digest)
        )
    return rows


# --- out ------------------------------------------------------------------------------------------


def tables(db: apsw.Connection, session: int) -> Iterator[PackedTable]:
    """Yield all rows of a session, unchanged."""
    for name, where in _KEPT.items():
        columns = _columns(db, name)
        rows = db.execute(f"SELECT {', '.join(columns)} FROM {name} WHERE {where}", (session,))
        yield PackedTable(name, columns, rows)
    yield PackedTable("messages", _message_columns(db), message_rows(db, session))
    for name, (cells, origin) in vectors.PACKED.items():
        rows = db.execute(f"SELECT {cells} FROM {origin}", (session,))
        yield PackedTable(name, tuple(cells.split(", ")), rows)


def message_rows(db: apsw.Connection, session: int) -> Iterator[Cells]:
    """Yield messages of a session's branches, in order."""
    columns = ", ".join(_message_columns(db))
    for branch in _branches(db, session):
        yield from db.execute(
            f"SELECT {columns} FROM messages WHERE {_OWN} ORDER BY key", (branch,)
        )


def _branches(db: apsw.Connection, session: int) -> list[int]:
    rows = query(db, "SELECT key FROM branches WHERE session = ? ORDER BY key", (session,))
    return [row[0] for row in rows]


def _columns(db: apsw.Connection, table: str) -> tuple[str, ...]:
    return tuple(row[1] for row in query(db, f"PRAGMA table_info({table})"))


def _message_columns(db: apsw.Connection) -> tuple[str, ...]:
    return tuple(name for name in _columns(db, "messages") if name not in _LEFT_OUT)


def messages_in(data: bytes) -> Iterator[Cells]:
    """Yield messages of an archive's originals.

    Raises:
        Unpackable: the data was not packed by `packed`.
    """
    for table in unpacked(data):
        if table.name == "messages":
            yield from table.rows


def put_away(db: apsw.Connection, kept: ArchivedRow) -> None:
    """Remove a session's messages and record where they are, within a writing transaction. The
    caller has verified the file.
    """
    place, sizes = kept.place, (kept.messages, kept.tokens, kept.bytes, text(kept.digest))
    db.execute(
        "INSERT INTO archived (session, folder, name, originals, description, archived_at, "
        "messages, tokens, bytes, digest) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            place.session,
            text(place.folder),
            text(place.name),
            place.originals,
            place.description,
            kept.archived_at.isoformat(),
            *sizes,
        ),
    )
    for branch in _branches(db, place.session):
        db.execute(
            f"""
            INSERT INTO archived_branches
            SELECT ?1, key, total_tokens, chain_hash, timestamp, zone FROM messages
            WHERE {_OWN} ORDER BY key DESC LIMIT 1
            """,
            (branch,),
        )
        search.remove(db, branch)
        db.execute(f"DELETE FROM messages WHERE {_OWN}", (branch,))
        db.execute("DELETE FROM unindexed WHERE branch = ?", (branch,))
        db.execute("UPDATE branches SET indexed = fork WHERE key = ?", (branch,))
        vectors.remove_branch(db, branch)
    done(db, f"{_DISCARD}{place.folder}\n{place.name}")
    sweeping.order(db)


# --- back -----------------------------------------------------------------------------------------


def bring_back(db: apsw.Connection, place: ArchivePlace, data: bytes) -> None:
    """Restore a session's messages and vectors, within a writing transaction. The messages are not
    indexed yet. `discard_due` removes the files after the commit.

    Raises:
        StoreDamaged: the archive does not hold them.
    """
    here = dict[int, int]()
    try:
        for table in unpacked(data):
            if table.name == "messages":
                _insert(db, table)
            elif table.name in vectors.PACKED:
                vectors.put_back(db, table.name, table.rows, here)
    except Unpackable as error:
        raise StoreDamaged(f"the archive {place.name} cannot be read: {error}") from error
    branches = _branches(db, place.session)
    if fingerprint(message_rows(db, place.session)) != fingerprint(messages_in(data)):
        raise StoreDamaged(f"the archive {place.name} holds other messages than its session's")
    _check_ends(db, place, branches)
    for branch in branches:
        db.execute("DELETE FROM archived_branches WHERE branch = ?", (branch,))
        if first(db, f"SELECT 1 FROM messages WHERE {_OWN} LIMIT 1", (branch,)):
            db.execute("INSERT OR IGNORE INTO unindexed VALUES (?)", (branch,))
    forget(db, place)


def forget(db: apsw.Connection, place: ArchivePlace) -> None:
    """Remove a session's archive record, and order the removal of its files."""
    _remove_words(db, place.session)
    db.execute("DELETE FROM archived WHERE session = ?", (place.session,))
    order_discard(db, place.folder, place.name)


def replace_digest(db: apsw.Connection, session: int, digest: str) -> bool:
    """Replace the digest of an archived session; False where the session is not archived."""
    sql = "UPDATE archived SET digest = ? WHERE session = ? RETURNING 1"
    return bool(query(db, sql, (text(digest), session)))


def _check_ends(db: apsw.Connection, place: ArchivePlace, branches: Sequence[int]) -> None:
    """Compare the restored branches with the recorded end of each."""
    end = f"""
        SELECT key, total_tokens, chain_hash FROM messages WHERE {_OWN} ORDER BY key DESC LIMIT 1
    """
    known = "SELECT last, total_tokens, chain_hash FROM archived_branches WHERE branch = ?1"
    for branch in branches:
        if first(db, end, (branch,)) != first(db, known, (branch,)):
            raise StoreDamaged(f"the archive {place.name} does not hold a branch's last message")


def load(db: apsw.Connection, data: bytes) -> None:
    """Store everything the originals hold in an empty database.

    Raises:
        Unpackable: the data was not packed by `packed`.
    """
    for table in unpacked(data):
        if table.name not in vectors.PACKED:  # a copy is not searched by meaning
            _insert(db, table)
    db.execute("UPDATE branches SET indexed = fork")
    db.execute("INSERT INTO unindexed SELECT key FROM branches")


def _insert(db: apsw.Connection, table: PackedTable) -> None:
    if table.name not in {*_KEPT, "messages"} or set(table.columns) - {*_columns(db, table.name)}:
        raise Unpackable(f"no table {table.name!r} has these columns")
    marks = ", ".join("?" * len(table.columns))
    names = ", ".join(table.columns)
    db.executemany(f"INSERT INTO {table.name} ({names}) VALUES ({marks})", table.rows)


# --- search by digest -----------------------------------------------------------------------------


def matching(db: apsw.Connection, question: str, scope: str | None, most: int) -> list[str]:
    """Return ids of archived sessions that share words with a question, best BM25 first."""
    names = looked_for(question)
    if not names or most <= 0:
        return []
    wanted = " OR ".join(map(search.expression_of, names))
    rows = query(db, _FOUND, (wanted, None if scope is None else text(scope), most))
    return [text_of(row[0]) for row in rows]


def index_words(db: apsw.Connection, key: int, session: Session, digest: str | None) -> None:
    """Index an archived session by its title, tags and digest."""
    tags = map(str, session.metadata.get("tags") or ())
    words = "\n".join((session.title or "", *tags, digest or ""))
    _remove_words(db, key)
    sql = "INSERT INTO archived_words (rowid, text) VALUES (?, ?)"
    db.execute(sql, (key, search.indexed_text(words)))


def _remove_words(db: apsw.Connection, session: int) -> None:
    """Remove a session from the index; `sweeping` takes its words out of the file."""
    db.execute("DELETE FROM archived_words WHERE rowid = ?", (session,))


# --- removal of archive files ---------------------------------------------------------------------

_DISCARD = "discard "
_DISCARDS = f"SELECT name FROM chores WHERE name >= '{_DISCARD}' AND name < 'discard!'"


def order_discard(db: apsw.Connection, folder: str, name: str) -> None:
    """Order the removal of an archive's files, within the transaction that makes them needless.
    Files that a session uses when the order is carried out stay.
    """
    chore = f"{_DISCARD}{folder}\n{name}"
    db.execute("INSERT INTO chores VALUES (?) ON CONFLICT DO NOTHING", (chore,))


def has_discards(db: apsw.Connection) -> bool:
    """Return whether removals are ordered."""
    return first(db, f"{_DISCARDS} LIMIT 1") is not None


def due(db: apsw.Connection) -> list[tuple[str, str, str]]:
    """Return files to remove: the chore's name, the folder, the file name. Chores for files that a
    session uses again are deleted.
    """
    chores = []
    for (chore,) in query(db, _DISCARDS):
        folder, _, name = str(chore).removeprefix(_DISCARD).partition("\n")
        sql = "SELECT 1 FROM archived WHERE folder = ? AND name = ?"
        if first(db, sql, (text(folder), text(name))):
            db.execute("DELETE FROM chores WHERE name = ?", (chore,))
        else:
            chores.append((str(chore), folder, name))
    return chores


def done(db: apsw.Connection, chore: str) -> None:
    """Delete a chore."""
    db.execute("DELETE FROM chores WHERE name = ?", (chore,))


# --- repair ---------------------------------------------------------------------------------------


def branches(db: apsw.Connection) -> set[int]:
    """Return keys of the branches of archived sessions."""
    sql = "SELECT b.key FROM branches b JOIN archived a ON a.session = b.session"
    return {row[0] for row in query(db, sql)}


def tidy(db: apsw.Connection) -> list[str]:
    """Delete archive records whose session is lost; returns sentences about them. The files stay,
    because they hold the messages.
    """
    sql = "DELETE FROM archived WHERE session NOT IN (SELECT key FROM sessions) RETURNING name"
    lost = [text_of(row[0]) for row in query(db, sql)]
    db.execute(
        "DELETE FROM archived_branches WHERE branch NOT IN (SELECT b.key FROM branches b"
        " JOIN archived a ON a.session = b.session)"
    )
    return [
        f"the session of the archive {name} is lost; its files were left as they are"
        for name in lost
    ]


# --- counts ---------------------------------------------------------------------------------------


def counts(db: apsw.Connection, session: int) -> Mapping[str, Any]:
    """Return message and token counts of a session, over all its branches."""
    roles: dict[str, int] = {}
    tokens = 0
    sql = f"SELECT role, count(*), total(token_count) FROM messages WHERE {_OWN} GROUP BY role"
    for branch in _branches(db, session):
        for role, count, total in query(db, sql, (branch,)):
            roles[role] = roles.get(role, 0) + count
            tokens += int(total)
    return {"messages": sum(roles.values()), "tokens": tokens, "roles": roles}
