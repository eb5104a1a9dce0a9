"""The second step of `repair`: sessions from the salvaged rows. Rows without an owner get one,
placeholders mark missing messages, and hashes and sums are computed anew.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime

import apsw

from compact.errors import CompactError
from compact.messages import chain, clock_and_ids
from compact.messages.messages import Message, MessageMetadata
from compact.messages.protocols import SessionStore
from compact.messages.sessions import Entry
from compact.store.sqlite import archiving, checking, messages, originals, records
from compact.store.sqlite.branch_lineage import Tail
from compact.store.sqlite.originals import BROKEN, Originals, OriginalsUnread
from compact.store.sqlite.rows import (
    BITS,
    LAST,
    MOVED,
    Row,
    Unreadable,
    columns_of,
    entry_of,
    first,
    position_in,
    query,
    text,
    text_of,
    text_or_none,
    time_of,
)
from compact.store.sqlite.salvage import Hints, Salvage

LOST = "[message lost: the file was damaged]"
"""Content of a placeholder."""
SCOPE = "recovered"
"""The scope for sessions whose scope was lost. It is separate, so that nobody sees other users'
sessions."""


@dataclass(frozen=True, slots=True)
class SavedBranch:
    """What was saved of a branch's own messages, by position in the branch."""

    session_id: str
    branch_id: str
    saved: int
    lost: int | None = 0
    """How many messages are missing; None if some after the newest saved one may be missing too."""
    missing: tuple[int, ...] = ()
    """Positions of placeholders."""
    altered: tuple[int, ...] = ()
    """Positions of messages that differ from what was stored."""
    unproven: tuple[int, ...] = ()
    """Positions that follow a missing message, so that the hash proves nothing about them."""

    @property
    def is_complete(self) -> bool:
        """Whether no message is or may be missing or altered."""
        return self.lost == 0 and not self.altered


def lost_in(store: SessionStore) -> dict[str, list[int]]:
    """Return positions of placeholders by branch, for branches that have any."""
    lost: dict[str, list[int]] = {}
    for session in store.sessions():
        for branch in store.branches(session.id):
            for start in range(branch.fork, branch.messages, checking.PAGE):
                entries = store.read(branch.id, start, min(start + checking.PAGE, branch.messages))
                for position, each in enumerate(entries, start):
                    source = each.message.metadata.source
                    if each.message.content == LOST and source == "injected":
                        lost.setdefault(branch.id, []).append(position)
    return lost


# --- owners ---------------------------------------------------------------------------------------


def adopt(db: apsw.Connection, hints: Hints) -> list[str]:
    """Give every message a branch and every branch a session; returns sentences about those it
    made.

    Vectors are not salvaged: all messages are pending in the new file.
    """
    db.execute("UPDATE messages SET embedding_id = NULL WHERE embedding_id IS NOT NULL")
    _forget_unreadable(db)
    remarks = _make_branches(db, hints)
    # The parent is lost, so its part becomes placeholders in the branch itself.
    orphans = "parent NOT IN (SELECT key FROM branches)"
    db.execute(f"UPDATE branches SET parent = NULL, fork = 0 WHERE {orphans}")
    remarks += [*_make_sessions(db, hints), *_put_branches_in_force(db)]
    return [*remarks, *originals.find_packed(db)]


def _forget_unreadable(db: apsw.Connection) -> None:
    """Delete unreadable rows, so that they are made anew as lost ones are."""
    db.execute(f"DELETE FROM messages WHERE key < 1 << {BITS}")
    db.execute(f"DELETE FROM branches WHERE key NOT BETWEEN 1 AND {LAST >> 1}")
    for table, texts, times in (
        ("sessions", "id, scope, wire, tokenizer", "created_at, updated_at"),
        ("branches", "id", "created_at"),
    ):
        for sql, read in ((texts, text_of), (times, time_of)):
            for key, *columns in query(db, f"SELECT key, {sql} FROM {table}"):
                try:
                    for each in columns:
                        read(each)
                except Unreadable:
                    db.execute(f"DELETE FROM {table} WHERE key = ?", (key,))


def _make_branches(db: apsw.Connection, hints: Hints) -> list[str]:
    remarks: list[str] = []
    sql = f"SELECT min(key) FROM messages WHERE key >> {BITS} NOT IN (SELECT key FROM branches)"
    for (key,) in query(db, f"{sql} GROUP BY key >> {BITS} ORDER BY 1"):
        branch = key >> BITS
        parent, session = _parent_of(db, key) or (None, None)
        name = _free_name(db, "branches", hints.branches.get(branch), branch)
        db.execute(
            """
            INSERT INTO branches
            SELECT ?1, ?2, coalesce(?3, ?4, max(key) + 1), ?5, ?6, 0, x'', ?6, ?7 FROM (
                SELECT key FROM sessions UNION SELECT session FROM branches UNION SELECT 0
            )
            """,
            (
                branch,
                text(name),
                hints.owners.get(branch),
                session,
                parent,
                position_in(key) if parent else 0,
                clock_and_ids.now().isoformat(),
            ),
        )
        remarks.append(f"a branch's row was lost: its messages are in branch {name!r}")
    return remarks


def _parent_of(db: apsw.Connection, key: int) -> tuple[int, int] | None:
    """Return the branch that a branch's first message continues, by hash, and its session."""
    sql = f"SELECT {checking.LINKED} FROM messages WHERE key = ?"
    row = _readable(db, sql, key)
    if row is None:
        return None
    sql = f"""
        SELECT b.key, b.session, m.chain_hash FROM branches b
        JOIN messages m ON m.key = (b.key << {BITS}) + ? ORDER BY b.key
    """
    for branch, session, before in query(db, sql, (position_in(key) - 1,)):
        if checking.linked(before, row) == row[-1]:
            return branch, session
    return None


def _readable(db: apsw.Connection, sql: str, *keys: int) -> Row | None:
    """Return the first row of a query; None where its text is in a file that cannot be read."""
    with suppress(OriginalsUnread):
        return first(db, sql, keys)
    return None


def _make_sessions(db: apsw.Connection, hints: Hints) -> list[str]:
    """Make sessions for branches without one, under their old names if known."""
    remarks: list[str] = []
    sql = "SELECT session, key, id FROM branches WHERE session NOT IN (SELECT key FROM sessions)"
    for key, branch, name in query(db, f"{sql} GROUP BY session HAVING key = min(key)"):
        named = _free_name(db, "sessions", hints.sessions.get(key, text_of(name)), branch)
        scope = hints.scopes.get(key, SCOPE)
        low, now = branch << BITS, clock_and_ids.now().isoformat()
        sql = f"SELECT {checking.LINKED} FROM messages WHERE key BETWEEN ? AND ? LIMIT 1"
        row = _readable(db, sql, low, low | LAST)
        entry = None if row is None else _entry(row)
        wire = entry.message.wire_format if entry else None
        db.execute(
            "INSERT INTO sessions VALUES (?, ?, ?, ?, NULL, NULL, NULL, ?, '', ?, ?, '{}')",
            (key, text(named), branch, text(scope), wire or "chat_completions", now, now),
        )
        remarks.append(
            f"a session's row was lost: its messages are in session {named!r}, scope {scope!r}"
        )
    return remarks


def _free_name(db: apsw.Connection, table: str, name: str | None, key: int) -> str:
    """Return the name, or another name if it is unknown or taken."""
    if name is None or first(db, f"SELECT 1 FROM {table} WHERE id = ?", (text(name),)):
        return f"recovered-{key}"
    return name


def _put_branches_in_force(db: apsw.Connection) -> list[str]:
    """Make the newest branch current in sessions whose current branch was lost."""
    newest = "(SELECT max(key) FROM branches WHERE session = sessions.key)"
    lost = checking.NO_BRANCH
    put = f"UPDATE sessions SET branch = {newest} WHERE {lost} AND {newest} RETURNING id"
    gone = f"DELETE FROM sessions WHERE {lost} RETURNING id"
    return [
        f"session {text_of(name)!r}: {what}"
        for sql, what in ((put, "the branch in force was lost"), (gone, "no branch of it is left"))
        for (name,) in query(db, sql)
    ]


# --- messages -------------------------------------------------------------------------------------


def settle(db: apsw.Connection, saved: Salvage, files: Originals) -> list[SavedBranch]:
    """Fill every branch up to a history without gaps; returns what was saved of each. `files` reads
    the originals of archived sessions.
    """
    sql = """
        SELECT b.key, b.id, p.id, b.fork, b.fork_hash, s.id, b.created_at FROM branches b
        JOIN sessions s ON s.key = b.session LEFT JOIN branches p ON p.key = b.parent ORDER BY b.key
    """
    return [_archived(db, row, files) or _settled(db, row, saved) for row in query(db, sql)]


_PAYLOAD = 8
"""The column of a row of `LINKED`."""
_IN_NO_FILE = b"\0"
"""The payload of a message whose text was moved to a file that does not know it."""


def _archived(db: apsw.Connection, row: Row, files: Originals) -> SavedBranch | None:
    """Leave a branch without texts as it is, if it has all its rows, or its file cannot be read
    now. Lost rows come from the file. Return None for any other branch: of texts that are in no
    file, and of packed ones behind the damage, `_settled` makes placeholders.
    """
    key, name, session = row[0], text_of(row[1]), text_of(row[5])
    place = originals.of_session(db, session)
    if place is None:
        return None
    db.execute("UPDATE branches SET indexed = fork WHERE key = ?", (key,))
    db.execute("INSERT OR IGNORE INTO unindexed VALUES (?)", (key,))
    with suppress(OriginalsUnread, *BROKEN):
        rows = files.rows(db, place)
        if name in rows:
            archiving.fill(db, key, rows[name])
        else:
            sql = f"UPDATE messages SET payload = ? WHERE key BETWEEN ? AND ? AND {MOVED}"
            db.execute(sql, (_IN_NO_FILE, key << BITS, key << BITS | LAST))
        return SavedBranch(session, name, 0) if not checking.of_branch(db, key) else None
    if place.folder:
        return SavedBranch(session, name, 0)
    originals.put_back_undamaged(db, place.session)
    originals.forget(db, place.session)
    return None


def _settled(db: apsw.Connection, row: Row, saved: Salvage) -> SavedBranch:
    key, name, parent, fork, link, session, created_at = row
    tokens, now = 0, chain.START
    with suppress(OriginalsUnread):
        tokens, now = checking.before_fork(db, text_or_none(parent), fork) or (tokens, now)
    sql = "UPDATE branches SET fork_tokens = ?, fork_hash = ?, indexed = fork WHERE key = ?"
    db.execute(sql, (tokens, now, key))
    branch = _Branch(db, Tail(key, fork, tokens, now), time_of(created_at))
    low, most = key << BITS, fork + saved.most
    db.execute("DELETE FROM messages WHERE key >= ? AND key < ?", (low, low | fork))
    without_text = 0
    before = {link} if link or not fork else set()  # empty where the chain at the fork is lost
    for each in checking.linked_messages(db, key, fork, before):
        entry = _entry(each.row)
        db.execute("DELETE FROM messages WHERE key = ?", (low | each.position,))
        if entry is not None and each.position < most:
            branch.fill(each.position)
            branch.take(each, entry)
        elif each.row[_PAYLOAD] in (None, _IN_NO_FILE):
            without_text = each.position + 1
    least = [*_least_lengths(db, saved.hints, key), without_text]
    branch.fill(max((each for each in least if each <= most), default=0))
    return SavedBranch(
        session_id=text_of(session),
        branch_id=text_of(name),
        saved=branch.end.position - fork - len(branch.missing),
        lost=len(branch.missing) if saved.knows_end_of(key) else None,
        missing=tuple(branch.missing),
        altered=tuple(branch.altered),
        unproven=tuple(branch.unproven),
    )


def _least_lengths(db: apsw.Connection, hints: Hints, branch: int) -> list[int]:
    sql = """
        SELECT at FROM moves WHERE branch = ?1
        UNION SELECT fork FROM branches WHERE parent = ?1
    """
    return [*(row[0] for row in query(db, sql, (branch,))), *hints.lengths.get(branch, ())]


@dataclass(slots=True)
class _Branch:
    db: apsw.Connection
    end: Tail
    at: datetime
    """The time of the last saved message."""
    missing: list[int] = field(default_factory=list)
    altered: list[int] = field(default_factory=list)
    unproven: list[int] = field(default_factory=list)

    def fill(self, stop: int) -> None:
        """Add placeholders up to a position."""
        for position in range(self.end.position, stop):
            self.missing.append(position)
            message = Message(
                role="assistant",
                content=LOST,
                id=f"m{position}",
                timestamp=self.at,
                metadata=MessageMetadata(source="injected"),
            )
            self._write(Entry(message))

    def take(self, found: checking.Linked, entry: Entry) -> None:
        """Add a saved message."""
        self.at = entry.message.timestamp
        if not found.is_proven:
            self.unproven.append(found.position)
        if found.is_altered:
            self.altered.append(found.position)
            old = entry.message.metadata
            metadata = old.model_copy(update={"tags": (*old.tags, "damaged")})
            entry = entry._replace(message=entry.message.model_copy(update={"metadata": metadata}))
        self._write(entry)

    def _write(self, entry: Entry) -> None:
        self.end = messages.append_after(self.db, self.end, [entry])


def _entry(row: Row) -> Entry | None:
    """Return the entry of a row; None where it cannot be stored again."""
    try:
        entry = entry_of(row[:-2])
        columns_of(entry, position_in(row[0]))
        chain.link(chain.START, entry.message)
    except (Unreadable, CompactError):
        return None
    return entry


# --- rows that refer to others --------------------------------------------------------------------


def tidy(db: apsw.Connection) -> list[str]:
    """Delete rows that refer to something lost; returns sentences about them."""
    remarks = originals.tidy(db)
    for table in records.COLUMNS:
        remarks += _without_altered(db, table)
        broken = ["session NOT IN (SELECT key FROM sessions)"]
        broken += [each[1] for each in checking.REFERENCES if each[0] == table]
        gone = query(db, f"DELETE FROM {table} WHERE {' OR '.join(broken)} RETURNING 1")
        if gone:
            remarks.append(f"{len(gone)} {table} tell of something that is lost and were left out")
    return remarks


_SET = {"changes": "what", "notes": "value"}
"""Table of settings that a person or program made → its column with the value."""


def _without_altered(db: apsw.Connection, table: str) -> list[str]:
    """Delete altered rows that can be computed again. Settings cannot, so they stay as they read if
    they are JSON.
    """
    altered = records.altered(db, table)
    for each in altered:
        if value := _SET.get(table):
            sql = f"UPDATE {table} SET digest = ? WHERE {each.where} AND json_valid({value})"
            db.execute(sql, (each.digest, *each.key))
        else:
            db.execute(f"DELETE FROM {table} WHERE {each.where}", each.key)
    if not altered:
        return []
    if table not in _SET:
        return [f"{len(altered)} {table} are not what was stored and were left out"]
    query(db, f"DELETE FROM {table} WHERE NOT json_valid({_SET[table]})")
    return [f"{len(altered)} {table} are not what was stored and stay as they read"]
