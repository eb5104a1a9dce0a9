"""Creates, forks and deletes sessions and their branches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import Any

import apsw

from compact.errors import InvalidInput, NotFound, Superseded
from compact.messages import chain, codec
from compact.messages.sessions import Branch, Session, free_branch_id
from compact.store.sqlite import branch_lineage, originals, records, search, vectors
from compact.store.sqlite.branch_lineage import Tail
from compact.store.sqlite.pool import order_sweep
from compact.store.sqlite.rows import (
    BITS,
    LAST,
    Row,
    first,
    json_of,
    moment,
    query,
    reading,
    text,
    text_of,
    text_or_none,
    time_of,
    value_of,
)

_SESSION = f"""
    SELECT s.id, s.scope, s.title, s.model, s.mode, s.wire, s.tokenizer, s.created_at,
        s.updated_at, s.metadata, m.timestamp, m.zone,
        {branch_lineage.BRANCH} {branch_lineage.BRANCHES} WHERE b.key = s.branch
"""


_OF_BRANCH = {
    "messages": "messages WHERE key",
    "words": "words_docsize WHERE id",
    "vectors": "vectors WHERE message",
    "turns": f"turns WHERE branch << {BITS}",
}
"""Kind of row → the table and column that find a branch's rows by key."""


def session(db: apsw.Connection, session_id: str) -> Session | None:
    """Return the session with that id; None if there is none."""
    row = first(db, f"{_SESSION} AND s.id = ?", (text(session_id),))
    return None if row is None else _session_of(row)


def sessions(db: apsw.Connection, *, scope: str | None = None) -> list[Session]:
    """Return the sessions of one scope or of all scopes, last changed first."""
    where, bindings = ("", ()) if scope is None else ("AND s.scope = ?", (text(scope),))
    rows = list(map(_session_of, query(db, f"{_SESSION} {where} ORDER BY s.key", bindings)))
    return sorted(rows, key=lambda each: codec.instant(each.updated_at), reverse=True)


@reading()
def _session_of(row: Row) -> Session:
    session_id, scope, title, model, mode, wire, tokenizer, *left = row
    created_at, updated_at, metadata, last, zone, *columns = left
    branch = branch_lineage.branch_of(tuple(columns))
    updated = branch.created_at if branch.parent else time_of(updated_at)
    return Session(
        id=text_of(session_id),
        scope=text_of(scope),
        title=text_or_none(title),
        model=text_or_none(model),
        mode=text_or_none(mode),
        wire=text_of(wire),
        tokenizer=text_of(tokenizer),
        created_at=time_of(created_at),
        updated_at=updated if last is None else moment(last, zone),
        metadata=value_of(metadata),
        branch=branch,
    )


def describe(
    db: apsw.Connection, session_id: str, *, title: str | None, metadata: Mapping[str, Any]
) -> Session:
    """Replace a session's title and metadata. Return the session.

    Raises:
        NotFound: no such session.
        InvalidMessage: JSON cannot represent the metadata.
    """
    sql = "UPDATE sessions SET title = ?, metadata = ? WHERE id = ?"
    db.execute(sql, (text(title), json_of(metadata), text(session_id)))
    described = session(db, session_id)
    if described is None:
        raise NotFound(f"no session {session_id!r} in this store")
    return described


def create(db: apsw.Connection, given: Session) -> None:
    """Store a session and its first branch.

    Raises:
        InvalidInput: another session has a branch of that id.
    """
    branch = given.branch
    if _is_branch(db, branch.id):
        raise InvalidInput(f"there is a branch {branch.id!r} already")
    named = (given.id, given.scope, given.title, given.model, given.mode)
    db.execute(
        """
        INSERT INTO sessions (branch, id, scope, title, model, mode, wire, tokenizer, created_at,
            updated_at, metadata) VALUES (0, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
        """,
        (
            *(text(each) for each in (*named, given.wire, given.tokenizer)),
            given.created_at.isoformat(),
            given.updated_at.isoformat(),
            json_of(given.metadata),
        ),
    )
    session_key = db.last_insert_rowid()
    put_in_force(db, session_key, _add_branch(db, session_key, branch, None))


def _add_branch(db: apsw.Connection, session_key: int, branch: Branch, begins: Tail | None) -> int:
    parent, fork, tokens, link = begins or (None, 0, 0, chain.START)
    db.execute(
        """
        INSERT INTO branches (id, session, parent, fork, fork_tokens, fork_hash, indexed,
            created_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
        """,
        (
            text(branch.id),
            session_key,
            parent,
            fork,
            tokens,
            link,
            fork,
            branch.created_at.isoformat(),
        ),
    )
    return db.last_insert_rowid()


def put_in_force(db: apsw.Connection, session_key: int, branch_key: int) -> None:
    """Make a branch the session's current one."""
    sql = "UPDATE sessions SET branch = ?1 WHERE key = ?2 AND branch <> ?1"
    db.execute(sql, (branch_key, session_key))


def fork(db: apsw.Connection, branch_id: str, at: int) -> Branch:
    """Make a branch that continues another one from a position, and make it current.

    Raises:
        NotFound: no such branch or position.
    """
    session_id = branch_lineage.branch(db, branch_id).session_id
    own = len(branch_lineage.branches(db, session_id))
    name = free_branch_id(session_id, own, partial(_is_branch, db))
    begun = begin(db, Branch(id=name, session_id=session_id, parent=branch_id, fork=at))
    put_in_force(db, records.key_of(db, session_id), begun)
    return branch_lineage.branch(db, name)


def begin(db: apsw.Connection, branch: Branch) -> int:
    """Insert a branch that continues its parent. Return its key.

    Raises:
        NotFound: no such parent or position.
        Superseded: a branch with that id exists.
    """
    parent = branch_lineage.branch(db, branch.parent or "")
    at = branch.fork
    if not 0 <= at <= parent.messages:
        raise NotFound(f"branch {parent.id!r} has {parent.messages} messages, not {at}")
    if _is_branch(db, branch.id):
        raise Superseded(f"another branch {branch.id!r} came in between")
    tail = branch_lineage.tail_at(db, parent.id, at)
    return _add_branch(db, records.key_of(db, parent.session_id), branch, tail)


def _is_branch(db: apsw.Connection, name: str) -> bool:
    return first(db, "SELECT 1 FROM branches WHERE id = ?", (text(name),)) is not None


def delete(db: apsw.Connection, session_id: str) -> dict[str, int]:
    """Delete a session's rows. Return table → how many. Their bytes are overwritten later
    (`Pool.sweep_if_due`).

    Raises:
        NotFound: no such session.
    """
    session_key = records.key_of(db, session_id)
    place = originals.of_session(db, session_id)
    originals.forget(db, session_key)
    rows = query(db, "SELECT key FROM branches WHERE session = ?", (session_key,))
    removed = Counter({"archived": int(place is not None and place.folder != "")})
    for (branch,) in rows:
        removed.update(_delete_branch(db, branch))
    for table in ("branches", *records.COLUMNS):
        db.execute(f"DELETE FROM {table} WHERE session = ?", (session_key,))
        removed[table] += db.changes()
    db.execute("DELETE FROM sessions WHERE key = ?", (session_key,))
    order_sweep(db)
    return {"sessions": 1, **{table: count for table, count in removed.items() if count}}


def _delete_branch(db: apsw.Connection, branch: int) -> dict[str, int]:
    keys = branch << BITS, branch << BITS | LAST
    removed = {
        name: int(query(db, f"SELECT count(*) FROM {rows} BETWEEN ? AND ?", keys)[0][0])
        for name, rows in _OF_BRANCH.items()
    }
    search.remove(db, branch)
    db.execute("DELETE FROM messages WHERE key BETWEEN ? AND ?", keys)
    db.execute("DELETE FROM unindexed WHERE branch = ?", (branch,))
    vectors.remove_branch(db, branch)
    return removed
