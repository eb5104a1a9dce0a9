"""What other sessions hold of a session that is deleted.

Entries of their logs that say what was recalled hold ids and no words: what they name of it is left
out. A message that an application made of what it had found names the sessions it quotes
(`core.forgotten`): its text gives way to a note. It keeps its place, id and time. The chain of
hashes is made anew from it on, in each branch that goes on from there, so that the history is whole
again; where it was broken before, it stays broken. A hash that somebody noted of the history as it
was is no longer known: a list that a client resends is recognized up to the note, and a digest made
of the history is removed and made anew.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import apsw

from compact.core.forgotten import RECALLED_FROM, quotes, without_quotes
from compact.core.sessions import PERSON, Entry, Shown
from compact.errors import StoreDamaged
from compact.storage.memory_archives.packing import Unpackable
from compact.storage.sqlite import (
    archived_copies,
    archived_rows,
    branch_lineage,
    checking,
    records,
    search,
    vectors,
)
from compact.storage.sqlite.archived_rows import ArchivePlace
from compact.storage.sqlite.pool import Pool
from compact.storage.sqlite.rows import (
    BITS,
    LAST,
    MESSAGE,
    Row,
    columns_of,
    entry_of,
    first,
    json_of,
    position_in,
    query,
    text,
    text_of,
    text_or_none,
    value_of,
)

_MARKED = f"instr({{}}, CAST('\"{RECALLED_FROM}\"' AS BLOB))"
_QUOTING = f"""
    SELECT {MESSAGE} FROM messages
    WHERE key BETWEEN ? AND ? AND {_MARKED.format("payload")} ORDER BY key
"""
_RECALLED = f"""
    SELECT changes.number, s.id, {records.columns("changes")} FROM changes
    JOIN sessions s ON s.key = changes.session
    WHERE changes.kind = 'recalled' AND s.scope = ? AND s.id <> ? ORDER BY changes.number
"""
_WRITTEN = """
    UPDATE messages SET id = ?, role = ?, timestamp = ?, zone = ?, token_count = ?,
        importance_score = ?, marks = ?, payload = ?, content = ?, embedding_id = NULL
    WHERE key = ?
"""


def quoting(db: apsw.Connection, session_id: str, scope: str) -> dict[int, dict[int, Entry]]:
    """The messages of a scope's sessions that quote a session: by branch and position."""
    found: dict[int, dict[int, Entry]] = {}
    sql = """
        SELECT b.key FROM branches b JOIN sessions s ON s.key = b.session
        WHERE s.scope = ? AND s.id <> ? ORDER BY b.key
    """
    for (branch,) in query(db, sql, (text(scope), text(session_id))):
        for row in query(db, _QUOTING, (branch << BITS, branch << BITS | LAST)):
            entry = entry_of(row)
            if quotes(entry.message, session_id):
                found.setdefault(branch, {})[position_in(row[0])] = entry
    return found


def recalling(db: apsw.Connection, session_id: str, scope: str) -> list[Row]:
    """The entries of other sessions' logs that name a session: number, session, columns, digest."""
    rows = query(db, _RECALLED, (text(scope), text(session_id)))
    return [row for row in rows if any(map(partial(_names, session_id), _turns_of(row)))]


def _turns_of(row: Row) -> list[Any]:
    turns: list[Any] = value_of(row[6]).get("turns") or []
    return turns


def _names(session_id: str, turn: Any) -> bool:  # noqa: ANN401 - any JSON value
    return isinstance(turn, dict) and turn.get("session_id") == session_id


def _take_out_of_entries(db: apsw.Connection, session_id: str, scope: str) -> Counter[str]:
    """Leave out what entries name of a session; how many entries of which session."""
    counts = Counter[str]()
    for row in recalling(db, session_id, scope):
        number, name, *columns, digest = row
        is_whole = records.digest(columns) == digest
        turns = [turn for turn in _turns_of(row) if not _names(session_id, turn)]
        columns[-1] = json_of({**value_of(columns[-1]), "turns": turns})
        digest = records.digest(columns) if is_whole else digest
        sql = "UPDATE changes SET what = ?, digest = ? WHERE number = ?"
        db.execute(sql, (columns[-1], digest, number))
        counts[text_of(name)] += 1
    return counts


def take_out(pool: Pool, db: apsw.Connection, session_id: str, scope: str) -> dict[str, int]:
    """Take out what other sessions of the scope quote, as a part of a transaction that writes;
    from how many messages of which session. One that is archived is restored for that.
    """
    for place in archives(db, session_id, scope):
        with suppress(StoreDamaged):  # nobody can read it either; `traces` tells of it
            if is_quoting(archived_copies.read(pool, place), session_id):
                archived_copies.make_hot(pool, db, place)
    entries_of = _take_out_of_entries(db, session_id, scope)
    counts: dict[str, int] = {}
    found = quoting(db, session_id, scope)
    since = {branch: min(entries) for branch, entries in found.items()}
    for branch, entries in found.items():
        sql = "SELECT s.id FROM sessions s JOIN branches b ON b.session = s.key WHERE b.key = ?"
        name = text_of(query(db, sql, (branch,))[0][0])
        counts[name] = counts.get(name, 0) + len(entries)
    for name in counts:
        session, altered = records.key_of(db, name), _altered(db, name)
        sql = "SELECT key FROM branches WHERE session = ?"
        for (branch,) in query(db, sql, (session,)):
            for position, entry in found.get(branch, {}).items():
                _replace(db, branch << BITS | position, entry)
        db.execute("DELETE FROM digests WHERE session = ?", (session,))
        _take_out_of_projections(db, session, session_id)
        _chain_anew(db, name, since, altered)
    if counts:
        search.rewrite(db)
    return dict(entries_of + Counter(counts))


# --- archives -------------------------------------------------------------------------------------


def archives(db: apsw.Connection, session_id: str, scope: str) -> Iterator[ArchivePlace]:
    """Where other sessions of the scope are archived."""
    for name, kept in archived_rows.kept(db).items():
        sql = "SELECT 1 FROM sessions WHERE id = ? AND scope = ?"
        if name != session_id and first(db, sql, (text(name), text(scope))):
            yield kept.place


def is_quoting(originals: bytes, session_id: str) -> bool:
    """Whether an archive's messages may quote a session: their bytes say so.

    Raises:
        StoreDamaged: it cannot be read.
    """
    wanted = (f'"{RECALLED_FROM}"'.encode(), json_of(session_id).encode())
    try:
        rows = archived_rows.messages_in(originals)
        return any(
            all(each in cell for each in wanted)
            for row in rows
            for cell in row
            if isinstance(cell, bytes)
        )
    except Unpackable as error:
        raise StoreDamaged(f"an archive cannot be read: {error}") from error


# --- messages -------------------------------------------------------------------------------------


def _replace(db: apsw.Connection, key: int, entry: Entry) -> None:
    """Put the note in the place of a message, in the tables of what was made of it, too. It is
    counted by whoever shows it.
    """
    said = Entry(without_quotes(entry.message), None, entry.marks & ~PERSON)
    db.execute(_WRITTEN, (*columns_of(said, position_in(key)), key))
    vectors.remove_of_message(db, key)
    sql = "SELECT 1 FROM words_docsize WHERE id = ?"
    if first(db, sql, (key,)):
        db.execute("UPDATE words SET text = '' WHERE rowid = ?", (key,))


def _take_out_of_projections(db: apsw.Connection, session: int, forgotten: str) -> None:
    """Take it out of shortened forms of such messages, which projections hold."""
    sql = f"SELECT {records.columns('projections')} FROM projections WHERE session = ?"
    for row in query(db, f"{sql} AND instr(pieces, '\"{RECALLED_FROM}\"')", (session,)):
        columns = dict(zip(records.COLUMNS["projections"], row, strict=False))
        without = tuple(
            Shown(without_quotes(piece.message), piece.position)
            if isinstance(piece, Shown) and quotes(piece.message, forgotten)
            else piece
            for piece in records.pieces_of(columns["pieces"])
        )
        columns["pieces"] = records.column_of_pieces(without)
        is_whole = records.digest(row[:-1]) == row[-1]
        digest = records.digest(tuple(columns.values())) if is_whole else row[-1]
        change = "UPDATE projections SET pieces = ?, digest = ? WHERE session = ? AND id = ?"
        db.execute(change, (columns["pieces"], digest, session, columns["id"]))


# --- the chain ------------------------------------------------------------------------------------


def _altered(db: apsw.Connection, session_id: str) -> set[int]:
    """The messages of a session that are not what was stored, by their keys."""
    sql = f"SELECT key, fork, fork_hash FROM branches WHERE {records.OF_SESSION}"
    return {
        key << BITS | each.position
        for key, fork, link in query(db, sql, (text(session_id),))
        for each in checking.linked_messages(db, key, fork, {link})
        if each.is_altered
    }


def _chain_anew(
    db: apsw.Connection, session_id: str, changed: Mapping[int, int], altered: Container[int]
) -> None:
    """Make hashes and running totals anew in each branch from where it changed. Those that go on
    from it are younger.
    """
    since = dict(changed)
    sql = """
        SELECT b.key, b.id, p.id, b.fork FROM branches b JOIN sessions s ON s.key = b.session
        LEFT JOIN branches p ON p.key = b.parent WHERE s.id = ? ORDER BY b.key
    """
    for key, name, parent, fork in query(db, sql, (text(session_id),)):
        lineage = branch_lineage.lineage(db, text_of(name), high=fork)
        if any(each.high > since.get(each.branch, LAST) for each in lineage):
            since[key] = fork
            if (before := checking.before_fork(db, text_or_none(parent), fork)) is not None:
                sql = "UPDATE branches SET fork_tokens = ?, fork_hash = ? WHERE key = ?"
                db.execute(sql, (*before, key))
        if key in since:
            _link_anew(db, key, since[key], altered)


def _link_anew(db: apsw.Connection, branch: int, start: int, altered: Container[int]) -> None:
    sql = "SELECT total_tokens, chain_hash FROM messages WHERE key >= ? AND key < ?"
    before = first(db, f"{sql} ORDER BY key DESC", (branch << BITS, branch << BITS | start))
    sql = "SELECT fork_tokens, fork_hash FROM branches WHERE key = ?"
    total, link = before or query(db, sql, (branch,))[0]
    for row in checking.messages_of(db, branch, start):
        total += row[5] or 0
        link = row[-1] if row[0] in altered else checking.linked(link, row) or row[-1]
        sql = "UPDATE messages SET total_tokens = ?, chain_hash = ? WHERE key = ?"
        db.execute(sql, (total, link, row[0]))
