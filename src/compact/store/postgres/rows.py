"""Rows of sessions: statements and values that the store's modules share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from compact.errors import InvalidInput, NotFound, Superseded
from compact.messages import chain, codec
from compact.messages.changes import Change
from compact.messages.sessions import Branch, Entry, Move, Projection, Session
from compact.store.postgres.connection import Query, decoded, encoded
from compact.store.session_file import row_of_projection
from compact.store.whole_session import OwnPart, WholeSession, since

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MOST_AT_ONCE = 1_000
"""A statement stores at most this many messages. PostgreSQL refuses values of a gigabyte."""
PROJECTION = """
    SELECT p.id, p.session, p.body, ARRAY(
        SELECT c.body FROM compact.log c WHERE c.scope = %(scope)s AND c.session = p.session
        AND c.kind = 'checkpoint' AND c.id = ANY(p.refers))
    FROM compact.log p WHERE p.scope = %(scope)s AND p.kind = 'projection' AND p.id = %(id)s
"""
VERSION = """
    SELECT s.last + (extract(epoch FROM s.entered) * 1000000)::bigint,
        (SELECT sum(b.appends)::bigint FROM compact.branches b
        WHERE b.scope = %(scope)s AND b.session = o.session)
    FROM compact.branches o JOIN compact.sessions s ON s.scope = %(scope)s AND s.id = o.session
    WHERE o.scope = %(scope)s AND o.id = %(branch)s
"""
NEWEST = """
    SELECT s.branch, s.last + (extract(epoch FROM s.entered) * 1000000)::bigint,
        (SELECT sum(b.appends)::bigint FROM compact.branches b
            WHERE b.scope = %(scope)s AND b.session = s.id),
        p.id, p.session, p.body, ARRAY(
            SELECT c.body FROM compact.log c WHERE c.scope = %(scope)s AND c.session = p.session
            AND c.kind = 'checkpoint' AND c.id = ANY(p.refers))
    FROM compact.sessions s LEFT JOIN compact.log p ON p.scope = %(scope)s
        AND p.kind = 'projection' AND p.id = (
            SELECT m.refers[1] FROM compact.log m WHERE m.scope = %(scope)s AND m.session = s.id
            AND m.kind = 'move' AND m.frame = %(window)s ORDER BY m.number DESC LIMIT 1)
    WHERE s.scope = %(scope)s AND s.id = %(session)s
"""
"""The active branch, what `VERSION` gives of it, and `PROJECTION` of a window's newest move."""
ACROSS = "/* across scopes */ true"
"""The condition of a statement that looks at all scopes. A store with a scope sends none."""
LINE = """
    WITH RECURSIVE line (id, parent, low, high, ceiling) AS (
        SELECT id, parent, fork, messages, fork FROM compact.branches
        WHERE scope = %(scope)s AND id = %(branch)s
        UNION ALL
        SELECT b.id, b.parent, b.fork, least(line.ceiling, b.messages), least(line.ceiling, b.fork)
        FROM line JOIN compact.branches b ON b.scope = %(scope)s AND b.id = line.parent
    )
"""
"""A branch and its ancestors, each with the positions that it has: from `low`, below `high`."""
IN_LINE = """
    line JOIN compact.messages m ON m.scope = %(scope)s AND m.branch = line.id
    AND m.position >= line.low AND m.position < line.high
"""
ENTRY = "m.position, m.id, m.role, m.time, m.tokens, m.score, m.marks, m.content, m.payload"
BRANCH = "b.id, b.session, b.parent, b.fork, b.messages, b.tokens, b.created"
APPEND = """
    WITH grown AS (
        UPDATE compact.branches SET messages = %(at)s + %(added)s, tokens = tokens + %(more)s,
            hash = %(hash)s, updated = %(updated)s, appends = appends + 1
        WHERE scope = %(scope)s AND id = %(branch)s AND messages = %(at)s AND hash = %(before)s
        RETURNING 1
    )
    INSERT INTO compact.messages
    SELECT %(scope)s, %(branch)s, %(at)s + e.n - 1, e.id, e.role, e.time, e.tokens, e.score,
        e.marks, e.content, e.payload, e.hash
    FROM grown, unnest(%(ids)s::bytea[], %(roles)s::text[], %(times)s::text[], %(tokens)s::int[],
        %(scores)s::float8[], %(marks)s::smallint[], %(contents)s::bytea[], %(payloads)s::bytea[],
        %(hashes)s::bytea[]) WITH ORDINALITY
        AS e (id, role, time, tokens, score, marks, content, payload, hash, n)
    RETURNING position
"""


class BranchEnd(NamedTuple):
    """The end of a branch: how many messages it has, and the chain's hash after them."""

    messages: int
    hash: bytes


class Log:
    """The log of one session, within a transaction."""

    def __init__(self, query: Query, scope: str, session_id: str) -> None:
        self._query, self.scope, self.session = query, scope, encoded(session_id)

    def next(self, count: int = 1) -> int:
        """Return the first of the next numbers."""
        sql = """
            UPDATE compact.sessions SET last = last + %s WHERE scope = %s AND id = %s
            RETURNING last
        """
        ((last,),) = self._query(sql, (count, self.scope, self.session))
        return int(last) - count + 1

    def add(
        self,
        kind: str,
        number: int,
        id: str,
        body: object,
        *,
        frame: int | None = None,
        refers: Sequence[str] = (),
    ) -> None:
        """Add an entry, unless its id is there."""
        sql = """
            INSERT INTO compact.log VALUES (%s, %s, %s, %s, %s, %s, %s, %s) ON CONFLICT DO NOTHING
        """
        names = list(map(encoded, refers))
        row = (self.scope, self.session, kind, number, encoded(id), frame, codec.dump(body), names)
        self._query(sql, row)

    def rows(self, kind: str, where: str = "true", *given: object) -> list[tuple[int, Any]]:
        """Return numbers and bodies of entries, oldest first."""
        sql = f"""
            SELECT number, body FROM compact.log
            WHERE scope = %s AND session = %s AND kind = %s AND {where} ORDER BY number
        """
        rows = self._query(sql, (self.scope, self.session, kind, *given))
        return [(number, codec.load(bytes(body))) for number, body in rows]

    def delete(self, kind: str, where: str, given: object) -> None:
        """Delete entries."""
        sql = f"DELETE FROM compact.log WHERE scope = %s AND session = %s AND kind = %s AND {where}"
        self._query(sql, (self.scope, self.session, kind, given))

    def moves(self, window: int | None, most: int) -> list[Move]:
        """Return the newest moves, newest first."""
        sql = """
            SELECT number, body FROM compact.log WHERE scope = %s AND session = %s
            AND kind = 'move' AND (%s::int IS NULL OR frame = %s) ORDER BY number DESC LIMIT %s
        """
        rows = self._query(sql, (self.scope, self.session, window, window, most))
        return [
            Move.model_validate({**codec.load(bytes(body)), "number": number})
            for number, body in rows
        ]

    def keep(self, projection: Projection) -> None:
        """Store a projection and its checkpoints. One whose id is stored stays as it is."""
        for each in projection.checkpoints:
            self.add("checkpoint", self.next(), each.id, each.model_dump(mode="json"))
        sql = "SELECT session FROM compact.log WHERE scope = %s AND kind = 'projection' AND id = %s"
        known = self._query(sql, (self.scope, encoded(projection.id)))
        if not known:
            names = [each.id for each in projection.checkpoints]
            row = row_of_projection(projection)
            self.add("projection", self.next(), projection.id, row, refers=names)
        elif bytes(known[0][0]) != self.session:
            raise InvalidInput(f"another session has a projection {projection.id!r} already")

    def put(self, whole: WholeSession) -> None:
        """Store the log of a new session."""
        numbers: list[int] = []
        for change in whole.changes:
            what = since(change.what, numbers)
            numbers.append(self.record([change.model_copy(update={"what": what})]))
        for name, value in (whole.notes or {}).items():
            self.note(name, value)
        for checkpoint in whole.checkpoints:
            self.add("checkpoint", self.next(), checkpoint.id, checkpoint.model_dump(mode="json"))
        for projection in whole.projections:
            self.keep(projection)
        for move in whole.moves:
            self.add_move(move.model_copy(update={"number": self.next()}))
        for snapshot in whole.snapshots:
            self.add("snapshot", self.next(), snapshot.id, snapshot.model_dump(mode="json"))

    def add_move(self, move: Move) -> None:
        """Add a move."""
        body = move.model_dump(mode="json", exclude={"number"})
        to = [] if move.projection_id is None else [move.projection_id]
        self.add("move", move.number, str(move.number), body, frame=move.window, refers=to)

    def record(self, changes: Sequence[Change]) -> int:
        """Append changes with the next numbers; returns the first."""
        first = self.next(len(changes)) if changes else 0
        for number, change in enumerate(changes, first):
            body = change.model_dump(mode="json", exclude={"number"})
            self.add("change", number, str(number), body)
        return first

    def note(self, name: str, value: Mapping[str, Any] | None) -> None:
        """Set a note; None deletes it."""
        body = codec.dump({"name": name, "value": value})
        self.delete("note", "id = %s", encoded(name))
        if value is not None:
            self.add("note", self.next(), name, codec.load(body))


# --- rows -----------------------------------------------------------------------------------------

SESSION = f"""
    SELECT s.scope, s.body, s.updated, b.updated, {BRANCH}
    FROM compact.sessions s JOIN compact.branches b ON b.scope = s.scope AND b.id = s.branch
"""


def session_in(query: Query, scope: str, session_id: str) -> Session:
    """Return a session.

    Raises:
        NotFound: the scope has no such session.
    """
    rows = query(f"{SESSION} WHERE s.scope = %s AND s.id = %s", (scope, encoded(session_id)))
    if not rows:
        raise NotFound(f"no session {session_id!r} in this store")
    return session_of(rows[0])


def session_of(row: Sequence[Any]) -> Session:
    """Return the session in a row of `SESSION`."""
    _, body, updated, said, *rest = row
    branch = branch_of(rest)
    at = updated if said is None else said
    values = {**codec.load(bytes(body)), "updated_at": _EPOCH + timedelta(microseconds=at)}
    if said is None and branch.parent is not None:
        values["updated_at"] = branch.created_at
    return Session.model_validate({**values, "branch": branch})


def branch_in(query: Query, scope: str, branch_id: str) -> Branch:
    """Return a branch.

    Raises:
        NotFound: the scope has no such branch.
    """
    sql = f"SELECT {BRANCH} FROM compact.branches b WHERE b.scope = %s AND b.id = %s"
    rows = query(sql, (scope, encoded(branch_id)))
    if not rows:
        raise NotFound(f"no branch {branch_id!r} in this store")
    return branch_of(rows[0])


def branch_of(row: Sequence[Any]) -> Branch:
    """Return the branch in a row of `BRANCH`."""
    own, session, parent, fork, messages, tokens, created = row
    return Branch(
        id=decoded(own),
        session_id=decoded(session),
        parent=None if parent is None else decoded(parent),
        fork=fork,
        messages=messages,
        tokens=tokens,
        created_at=datetime.fromisoformat(created),
    )


def body_of(session: Session) -> bytes:
    """Return what the column `body` holds of a session."""
    return codec.dump(session.model_dump(mode="json", exclude={"branch", "updated_at"}))


def fill(query: Query, scope: str, part: OwnPart) -> None:
    """Append the entries of a branch of a new session."""
    key = {"scope": scope, "branch": encoded(part.branch.id)}
    sql = "SELECT hash FROM compact.branches WHERE scope = %(scope)s AND id = %(branch)s"
    end = BranchEnd(part.branch.fork, bytes(query(sql, key)[0][0]))
    for start in range(0, len(part.entries), _MOST_AT_ONCE):  # a statement holds less than 1 GB
        values = columns_of(part.entries[start : start + _MOST_AT_ONCE], end)
        query(APPEND, {**values, **key})
        end = BranchEnd(end.messages + values["added"], values["hash"])


def has_branch(query: Query, scope: str | None, name: str) -> bool:
    """Whether a scope has a branch of that name; any scope where it is None."""
    only, given = (ACROSS, ()) if scope is None else ("scope = %s", (scope,))
    sql = f"SELECT 1 FROM compact.branches WHERE id = %s AND {only}"
    return bool(query(sql, (encoded(name), *given)))


def insert_branch(
    query: Query, scope: str, branch: Branch, number: int, tail: BranchEnd, tokens: int
) -> bool:
    """Insert a branch; whether its id was free."""
    sql = """
        INSERT INTO compact.branches VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, NULL, %s, %s)
        ON CONFLICT DO NOTHING RETURNING 1
    """
    parent = None if branch.parent is None else encoded(branch.parent)
    names = (scope, encoded(branch.id), encoded(branch.session_id), parent)
    at = (number, branch.fork, tail.messages, tokens, tail.hash, branch.created_at.isoformat())
    return bool(query(sql, (*names, *at, branch.fork)))


def begin(query: Query, scope: str, branch: Branch) -> None:
    """Insert a branch that continues another one of its session.

    Raises:
        NotFound: the session has no such branch, or the branch no such position.
        Superseded: the id is taken.
    """
    parent = branch_in(query, scope, branch.parent or "")
    if parent.session_id != branch.session_id:
        raise NotFound(f"session {branch.session_id!r} has no branch {branch.parent!r}")
    if not 0 <= branch.fork <= parent.messages:
        raise NotFound(f"branch {parent.id!r} has {parent.messages} messages, not {branch.fork}")
    sql = f"""
        {LINE} SELECT coalesce(sum(m.tokens), 0)::bigint,
            (array_agg(m.hash ORDER BY m.position DESC))[1]
        FROM {IN_LINE} WHERE m.position < %(fork)s
    """
    key = {"scope": scope, "branch": encoded(parent.id), "fork": branch.fork}
    ((tokens, hash),) = query(sql, key)
    tail = BranchEnd(branch.fork, chain.START if hash is None else bytes(hash))
    sql = "SELECT count(*) FROM compact.branches WHERE scope = %s AND session = %s"
    ((number,),) = query(sql, (scope, encoded(branch.session_id)))
    if not insert_branch(query, scope, branch, number, tail, tokens):
        raise Superseded(f"another branch {branch.id!r} came in between")


def activate(query: Query, scope: str, session_id: str, branch_id: str) -> None:
    """Make a branch the active one."""
    sql = "UPDATE compact.sessions SET branch = %s WHERE scope = %s AND id = %s"
    query(sql, (encoded(branch_id), scope, encoded(session_id)))


def columns_of(entries: Sequence[Entry], tail: BranchEnd) -> dict[str, Any]:
    """Return the values of `APPEND` but for the branch's key."""
    hashes, last, pairs = [], tail.hash, []
    for position, entry in enumerate(entries, tail.messages):
        pairs.append(codec.encode(entry.message, f"messages[{position}]"))
        last = chain.link(last, entry.message)
        hashes.append(last)
    said = [entry.message for entry in entries]
    return {
        "at": tail.messages,
        "before": tail.hash,
        "added": len(entries),
        "more": sum(entry.tokens or 0 for entry in entries),
        "hash": last,
        "updated": codec.instant(said[-1].timestamp),
        "ids": [encoded(message.id) for message in said],
        "roles": [message.role for message in said],
        "times": [message.timestamp.isoformat() for message in said],
        "tokens": [entry.tokens for entry in entries],
        "scores": [message.importance_score for message in said],
        "marks": [entry.marks for entry in entries],
        "contents": [None if each.content is None else encoded(each.content) for each in pairs],
        "payloads": [each.payload for each in pairs],
        "hashes": hashes,
    }


def entry_of(row: Sequence[Any]) -> Entry:
    """Return the entry in a row of `ENTRY`."""
    _, own, role, time, tokens, score, marks, content, payload = row
    message = codec.decode(
        None if content is None else decoded(content),
        bytes(payload),
        role=role,
        id=decoded(own),
        timestamp=datetime.fromisoformat(time),
        importance_score=score,
    )
    return Entry(message, tokens, marks)
