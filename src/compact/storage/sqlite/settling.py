"""Salvaged rows become sessions again: what lost its owner gets one, what is missing is marked, and
hashes and sums are made anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

import apsw

from compact.core import chain, defaults
from compact.core.messages import Message, MessageMetadata
from compact.core.protocols import SessionStore
from compact.core.sessions import Entry
from compact.errors import CompactError
from compact.storage.sqlite import checking, messages, seals
from compact.storage.sqlite.hints import Hints
from compact.storage.sqlite.rows import (
    BITS,
    LAST,
    MESSAGE,
    Row,
    Unreadable,
    columns_of,
    entry_of,
    first,
    position_of,
    query,
    text,
    text_of,
)

LOST = "[message lost: the file was damaged]"
"""What a placeholder says."""
_PAGE = 500
"""Messages that are read at once."""
MOST_MISSING = 1_000_000
"""Messages that may be missing in one gap: what tells of a larger one is damaged itself."""
SCOPE = "recovered"
"""Of sessions whose own scope was lost: nobody's, so that nobody sees what is another one's."""


@dataclass(frozen=True, slots=True)
class SavedBranch:
    """What was saved of a branch's own messages; positions are those of the branch."""

    session_id: str
    branch_id: str
    saved: int
    lost: int | None = 0
    """How many are missing; None where more may be, after the newest one that is left."""
    missing: tuple[int, ...] = ()
    """A placeholder stands there."""
    altered: tuple[int, ...] = ()
    """What is there is not what was written."""
    unproven: tuple[int, ...] = ()
    """It follows a missing one, so that its hash proves nothing."""

    @property
    def is_complete(self) -> bool:
        """Whether none is missing or altered, nor may be."""
        return self.lost == 0 and not self.altered


def lost_in(store: SessionStore) -> dict[str, list[int]]:
    """Where placeholders stand: positions by branch, of those that have any."""
    lost: dict[str, list[int]] = {}
    for session in store.sessions():
        for branch in store.branches(session.id):
            for start in range(branch.fork, branch.messages, _PAGE):
                entries = store.read(branch.id, start, min(start + _PAGE, branch.messages))
                for position, each in enumerate(entries, start):
                    source = each.message.metadata.source
                    if each.message.content == LOST and source == "injected":
                        lost.setdefault(branch.id, []).append(position)
    return lost


# --- owners ---------------------------------------------------------------------------------------


def adopt(db: apsw.Connection, hints: Hints) -> list[str]:
    """Give every message a branch, and every branch a session; what was made, as sentences."""
    remarks = list(_adopt_messages(db, hints))
    # Nothing is left of the parent: what was its part is placeholders of the branch's own.
    db.execute(
        "UPDATE branches SET parent = NULL, fork = 0 "
        "WHERE parent IS NOT NULL AND parent NOT IN (SELECT key FROM branches)"
    )
    sql = "SELECT key, session, id FROM branches WHERE session NOT IN (SELECT key FROM sessions)"
    for key, session, name in query(db, f"{sql} ORDER BY key"):
        if first(db, "SELECT 1 FROM sessions WHERE key = ?", (session,)) is None:
            named = _make_session(db, session, key, hints, text_of(name))
            scope = hints.scopes.get(session, SCOPE)
            remarks.append(
                f"a session's row was lost: its messages are in session {named!r}, scope {scope!r}"
            )
    sql = "SELECT key, id FROM sessions WHERE branch NOT IN (SELECT key FROM branches)"
    for key, name in query(db, sql):
        newest = first(db, "SELECT max(key) FROM branches WHERE session = ?", (key,))
        if newest is None or newest[0] is None:
            db.execute("DELETE FROM sessions WHERE key = ?", (key,))
            remarks.append(f"session {text_of(name)!r}: none of its branches is left")
        else:
            db.execute("UPDATE sessions SET branch = ? WHERE key = ?", (newest[0], key))
            remarks.append(f"session {text_of(name)!r}: the branch in force was lost")
    return remarks


def _adopt_messages(db: apsw.Connection, hints: Hints) -> Iterator[str]:
    """Make branches for messages that have none."""
    sql = f"SELECT min(key) FROM messages WHERE key >> {BITS} NOT IN (SELECT key FROM branches)"
    for (key,) in query(db, f"{sql} GROUP BY key >> {BITS} ORDER BY 1"):
        branch, position = key >> BITS, position_of(key)
        parent = _parent_of(db, key) if position else None
        session = hints.owners.get(branch) or (parent[1] if parent else _free_session(db, branch))
        name = _free_name(db, "branches", hints.branches.get(branch), branch)
        fork = position if parent else 0
        values = (branch, text(name), session, parent[0] if parent else None, fork, fork)
        db.execute(
            "INSERT INTO branches VALUES (?, ?, ?, ?, ?, 0, x'', ?, ?)",
            (*values, defaults.now().isoformat()),
        )
        yield f"a branch's row was lost: its messages are in branch {name!r}"


def _free_session(db: apsw.Connection, branch: int) -> int:
    """A key for the session of a branch of which nothing else is known."""
    row = first(
        db,
        "SELECT max(key) FROM (SELECT key FROM sessions UNION ALL SELECT session FROM branches)",
    )
    return (row[0] or 0 if row else 0) + branch


def _free_name(db: apsw.Connection, table: str, name: str | None, key: int) -> str:
    """The name, or another one where it is unknown or another row has it."""
    if name is None or first(db, f"SELECT 1 FROM {table} WHERE id = ?", (text(name),)):
        return f"recovered-{key}"
    return name


def _parent_of(db: apsw.Connection, key: int) -> tuple[int, int] | None:
    """The branch that a branch's first message goes on from, and its session: its hash tells."""
    row = first(db, f"{_SELECT} WHERE key = ?", (key,))
    position = position_of(key)
    for branch, session in query(db, "SELECT key, session FROM branches ORDER BY key"):
        sql = "SELECT chain_hash FROM messages WHERE key = ?"
        before = first(db, sql, (branch << BITS | (position - 1),))
        if row and before and checking.linked(before[0], row) == row[-1]:
            return branch, session
    return None


_SELECT = f"SELECT {MESSAGE}, total_tokens, chain_hash FROM messages"


def _make_session(db: apsw.Connection, key: int, branch: int, hints: Hints, name: str) -> str:
    """A session for a branch that has none, under its own name or else the branch's."""
    named = _free_name(db, "sessions", hints.sessions.get(key, name), branch)
    low = branch << BITS
    row = first(db, f"{_SELECT} WHERE key BETWEEN ? AND ? LIMIT 1", (low, low | LAST))
    wire = "chat_completions"
    if row is not None and (entry := _entry(row)) is not None:
        wire = entry.message.wire_format or wire
    now = defaults.now().isoformat()
    db.execute(
        "INSERT INTO sessions VALUES (?, ?, ?, ?, NULL, NULL, NULL, ?, '', ?, ?, '{}')",
        (key, text(named), branch, text(hints.scopes.get(key, SCOPE)), wire, now, now),
    )
    return named


# --- messages -------------------------------------------------------------------------------------


def settle(
    db: apsw.Connection, hints: Hints, knows_end_of: Callable[[int], bool]
) -> list[SavedBranch]:
    """Make every branch a history without gaps; what was saved of each."""
    sql = """
        SELECT b.key, b.id, b.parent, b.fork, b.fork_hash, s.id, b.created_at
        FROM branches b JOIN sessions s ON s.key = b.session ORDER BY b.key
    """
    return [
        _Branch(db, row).settled(_least_length(db, hints, row[0]), has_end=knows_end_of(row[0]))
        for row in query(db, sql)
    ]


def _least_length(db: apsw.Connection, hints: Hints, branch: int) -> int:
    """How many messages the branch had at least, as others tell of it."""
    sql = """
        SELECT max(at) FROM (
            SELECT at FROM moves WHERE branch = ?1
            UNION ALL SELECT fork FROM branches WHERE parent = ?1
            UNION ALL SELECT indexed FROM branches WHERE key = ?1
        )
    """
    row = first(db, sql, (branch,))
    return max((row[0] or 0) if row else 0, hints.least_length(branch))


class _Branch:
    """A branch on its way to be whole again."""

    def __init__(self, db: apsw.Connection, row: Row) -> None:
        self._db = db
        self._key, name, parent, self._fork, link, session, created_at = row
        self._name, self._session = text_of(name), text_of(session)
        self._old: set[bytes] = {link} if link or not self._fork else set()
        """What the chain may have been before the next message; empty where that is lost."""
        self._total, self._link = _fork_of(db, parent, self._fork)
        self._position = self._fork
        self._at = datetime.fromisoformat(created_at)
        self._missing: list[int] = []
        self._altered: list[int] = []
        self._unproven: list[int] = []
        db.execute(
            "UPDATE branches SET fork_tokens = ?, fork_hash = ?, indexed = fork WHERE key = ?",
            (self._total, self._link, self._key),
        )

    def settled(self, least: int, *, has_end: bool) -> SavedBranch:
        low = self._key << BITS | self._fork
        self._db.execute(
            "DELETE FROM messages WHERE key >= ? AND key < ?", (self._key << BITS, low)
        )
        for row in checking.messages_of(self._db, self._key):
            entry = _entry(row)
            if entry is None or position_of(row[0]) - self._position > MOST_MISSING:
                self._db.execute("DELETE FROM messages WHERE key = ?", (row[0],))
                continue
            self._fill(position_of(row[0]))
            self._take(row, entry)
        self._fill(least if least - self._position <= MOST_MISSING else 0)
        return SavedBranch(
            session_id=self._session,
            branch_id=self._name,
            saved=self._position - self._fork - len(self._missing),
            lost=len(self._missing) if has_end else None,
            missing=tuple(self._missing),
            altered=tuple(self._altered),
            unproven=tuple(self._unproven),
        )

    def _fill(self, stop: int) -> None:
        """Put placeholders where messages are missing."""
        while self._position < stop:
            self._missing.append(self._position)
            message = Message(
                role="assistant",
                content=LOST,
                id=f"m{self._position}",
                timestamp=self._at,
                metadata=MessageMetadata(source="injected"),
            )
            self._write(Entry(message))
            self._old = set()

    def _take(self, row: Row, entry: Entry) -> None:
        """Go on with a message that is left. Of one that has changed, either its words or its hash
        may have: the next one tells which.
        """
        stored = bytes(row[-1])
        found = {link for old in self._old if (link := checking.linked(old, row)) is not None}
        if not self._old:
            self._unproven.append(self._position)
        is_altered = bool(self._old) and stored not in found
        self._old = {stored, *found}
        self._at = entry.message.timestamp
        if is_altered:
            self._altered.append(self._position)
            self._db.execute("DELETE FROM messages WHERE key = ?", (row[0],))
            self._write(_tagged(entry))
            return
        self._total += entry.tokens or 0
        self._link = chain.link(self._link, entry.message)
        self._position += 1
        if (self._total, self._link) != (row[-2], stored):
            sql = "UPDATE messages SET total_tokens = ?, chain_hash = ? WHERE key = ?"
            self._db.execute(sql, (self._total, self._link, row[0]))

    def _write(self, entry: Entry) -> None:
        self._total += entry.tokens or 0
        self._link = chain.link(self._link, entry.message)
        columns = columns_of(entry, self._position)
        key = self._key << BITS | self._position
        self._db.execute(messages.INSERT, (key, *columns, self._total, self._link))
        self._position += 1


def _tagged(entry: Entry) -> Entry:
    old = entry.message.metadata
    metadata = old.model_copy(update={"tags": (*old.tags, "damaged")})
    message = entry.message.model_copy(update={"metadata": metadata})
    return Entry(message, entry.tokens, entry.marks)


def _fork_of(db: apsw.Connection, parent: int | None, fork: int) -> tuple[int, bytes]:
    """Running total and chain where a branch forks, as they are now; parents come first."""
    found = checking.before_fork(db, parent, fork)
    return found if found is not None else (0, chain.START)


def _entry(row: Row) -> Entry | None:
    """The entry of a row, or None where it makes none that could be stored again."""
    try:
        entry = entry_of(row[:-2])
        columns_of(entry, position_of(row[0]))
        chain.link(chain.START, entry.message)
    except (Unreadable, CompactError):
        return None
    return entry if isinstance(entry.tokens, int | None) else None


# --- what tells of messages -----------------------------------------------------------------------


def lost(db: apsw.Connection, hints: Hints) -> list[str]:
    """How many rows of other tables were not saved, as sentences."""
    found: list[str] = []
    for table, had in hints.counts().items():
        saved = int(query(db, f"SELECT count(*) FROM {table}")[0][0])
        if saved < had:
            found.append(f"{had - saved} of {had} {table} are lost")
    return found


def tidy(db: apsw.Connection) -> list[str]:
    """Leave out what tells of something that is lost; what that was, as sentences."""
    steps: Sequence[tuple[str, str]] = (
        ("checkpoints", "session NOT IN (SELECT key FROM sessions)"),
        (
            "projections",
            """
            session NOT IN (SELECT key FROM sessions) OR NOT json_valid(checkpoints)
            OR NOT json_valid(pieces) OR EXISTS (
                SELECT 1 FROM json_each(CASE json_valid(checkpoints) WHEN 1 THEN checkpoints
                    ELSE '{}' END) c
                WHERE c.key IS NULL OR c.key NOT IN (
                    SELECT id FROM checkpoints k WHERE k.session = projections.session
                )
            )
            """,
        ),
        (
            "moves",
            """
            session NOT IN (SELECT key FROM sessions) OR branch NOT IN (SELECT key FROM branches)
            OR projection IS NOT NULL AND projection NOT IN (SELECT id FROM projections)
            """,
        ),
        ("snapshots", "session NOT IN (SELECT key FROM sessions) OR NOT json_valid(goals)"),
        ("notes", "session NOT IN (SELECT key FROM sessions) OR NOT json_valid(value)"),
    )
    remarks = _of_altered(db)
    for table, condition in steps:
        gone = len(query(db, f"DELETE FROM {table} WHERE {condition} RETURNING 1"))
        if gone:
            remarks.append(f"{gone} {table} tell of something that is lost and were left out")
    return remarks


def _of_altered(db: apsw.Connection) -> list[str]:
    """Leave out rows that are not what was stored, as long as what they tell can be made again.
    Notes cannot: they stay as they read.
    """
    remarks: list[str] = []
    for table, names in seals.COLUMNS.items():
        rows = query(db, f"SELECT {seals.columns(table)} FROM {table}")
        gone = [row for row in rows if seals.seal(row[:-1]) != row[-1]]
        for row in gone:
            key = (row[0], row[1], row[-1])
            where = f"WHERE session = ? AND {names[1]} = ? AND digest = ?"
            if table == "notes":
                sql = f"UPDATE notes SET digest = ? {where}"
                db.execute(sql, (seals.seal(row[:-1]), *key))
            else:
                db.execute(f"DELETE FROM {table} {where}", key)
        if gone:
            done = "stay as they read" if table == "notes" else "were left out"
            remarks.append(f"{len(gone)} {table} are not what was stored and {done}")
    return remarks
