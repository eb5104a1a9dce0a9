"""Deletes sessions with all that belongs to them, and what other sessions quote from them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping

from compact.errors import NotFound
from compact.messages import codec
from compact.store.postgres.connection import Query, decoded, encoded

_OF_BRANCH = ("words", "embedded", "messages")
_OF_SESSION = (("log", "session"), ("branches", "session"), ("sessions", "id"))


def delete(query: Query, scope: str, session_id: str, *, has_vectors: bool) -> Counter[str]:
    """Delete a session. Return table → how many rows.

    Raises:
        NotFound: the scope has no such session.
    """
    key = hold(query, scope, session_id)
    removed = Counter[str]()
    for table in (*_OF_BRANCH, *(["vectors"] if has_vectors else [])):
        where = "b.scope = %(scope)s AND b.session = %(session)s"
        sql = f"DELETE FROM compact.{table} t USING compact.branches b WHERE {where} AND t.scope = "
        removed[table] = _count(query, f"{sql}%(scope)s AND t.branch = b.id", key)
    for table, column in _OF_SESSION:
        sql = f"DELETE FROM compact.{table} WHERE scope = %(scope)s AND {column} = %(session)s"
        removed[table] = _count(query, sql, key)
    return +removed


def hold(query: Query, scope: str, session_id: str) -> Mapping[str, object]:
    """Lock a session and its branches until the transaction ends. Return its key.

    Raises:
        NotFound: the scope has no such session.
    """
    key: Mapping[str, object] = {"scope": scope, "session": encoded(session_id)}
    sql = "SELECT 1 FROM compact.sessions WHERE scope = %(scope)s AND id = %(session)s FOR UPDATE"
    if not query(sql, key):
        raise NotFound(f"no session {session_id!r} in this store")
    # an append under way ends first, and is deleted too; a later one finds no branch
    sql = "SELECT 1 FROM compact.branches WHERE scope = %(scope)s AND session = %(session)s"
    query(f"{sql} FOR UPDATE", key)
    return key


def _count(query: Query, sql: str, key: Mapping[str, object]) -> int:
    counted = f"WITH gone AS ({sql} RETURNING 1) SELECT count(*) FROM gone"
    return int(query(counted, key)[0][0])


_QUOTING = """scope = %s AND kind = 'change' AND position('"recalled"'::bytea IN body) > 0"""


def hold_all(query: Query, scope: str, ids: Collection[str]) -> None:
    """Lock sessions that are to be deleted, and those that may quote them, in one order: deletions
    wait for each other, and nobody writes in between.
    """
    sql = f"""
        SELECT 1 FROM compact.sessions WHERE scope = %s AND (id = ANY(%s) OR id IN (
            SELECT session FROM compact.log WHERE {_QUOTING})) ORDER BY id FOR UPDATE
    """
    query(sql, (scope, [encoded(each) for each in ids], scope))


def take_out_names(query: Query, scope: str, ids: Collection[str]) -> dict[str, int]:
    """Remove deleted sessions from the recalled turns in the logs of other sessions. Return session
    → how many entries changed.
    """
    sql = """
        SELECT session, number, body FROM compact.log WHERE scope = %s AND kind = 'change'
        AND position('"recalled"'::bytea IN body) > 0 ORDER BY session, number FOR UPDATE
    """
    quoted = Counter[str]()
    for session, number, body in query(sql, (scope,)):
        change = codec.load(bytes(body))
        turns = change["what"].get("turns") or []
        stay = [turn for turn in turns if turn["session_id"] not in ids]
        if len(stay) == len(turns):
            continue
        change["what"]["turns"] = stay
        update = """
            UPDATE compact.log SET body = %s
            WHERE scope = %s AND session = %s AND kind = 'change' AND number = %s
        """
        query(update, (codec.dump(change), scope, session, number))
        bump = "UPDATE compact.sessions SET last = last + 1 WHERE scope = %s AND id = %s"
        query(bump, (scope, session))  # open sessions read it anew
        quoted[decoded(session)] += 1
    if not query("SELECT 1 FROM compact.sessions WHERE scope = %s LIMIT 1", (scope,)):
        query("DELETE FROM compact.leases WHERE scope = %s", (scope,))
    return dict(quoted)
