"""A session store in PostgreSQL (extra `postgres`), for several machines.

    store = PostgresStore("postgresql://localhost/chats", scope="tenant-7")

Every statement names one scope. An append is one statement that compares the branch's length and
its hash with what the writer knew (compare and swap). If a connection breaks, the chain's hash says
whether an append was stored.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from typing import Any, NamedTuple

from compact import forks
from compact.errors import InvalidArgument, InvalidInput, NotFound, Superseded
from compact.messages import chain, codec
from compact.messages.changes import Change
from compact.messages.checkpoints import Checkpoint
from compact.messages.sessions import (
    SHORTEST_ID,
    Branch,
    Entry,
    Found,
    Move,
    Projection,
    Session,
    Snapshot,
    Step,
    free_branch_id,
)
from compact.store.postgres.connection import (
    Broken,
    Connections,
    Query,
    decoded,
    encoded,
)
from compact.store.session_file import projection_in, row_of_projection
from compact.store.whole_session import OwnPart, WholeSession, since
from compact.text.terms import index_words, looked_for, pieces_of, scored, searchable

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MOST_KNOWN = 10_000
"""Of how many branches to remember the end, and of how many ids the scope."""
_LINE = """
    WITH RECURSIVE line (id, parent, low, high, ceiling) AS (
        SELECT id, parent, fork, messages, fork FROM compact.branches
        WHERE scope = %(scope)s AND id = %(branch)s
        UNION ALL
        SELECT b.id, b.parent, b.fork, least(line.ceiling, b.messages), least(line.ceiling, b.fork)
        FROM line JOIN compact.branches b ON b.scope = %(scope)s AND b.id = line.parent
    )
"""
"""A branch and its ancestors, each with the positions that it has: from `low`, below `high`."""
_IN_LINE = """
    line JOIN compact.messages m ON m.scope = %(scope)s AND m.branch = line.id
    AND m.position >= line.low AND m.position < line.high
"""
_ENTRY = "m.position, m.id, m.role, m.time, m.tokens, m.score, m.marks, m.content, m.payload"
_BRANCH = "b.id, b.session, b.parent, b.fork, b.messages, b.tokens, b.created"
_APPEND = """
    WITH grown AS (
        UPDATE compact.branches SET messages = %(at)s + %(added)s, tokens = tokens + %(more)s,
            hash = %(hash)s, updated = %(updated)s
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


class _Tail(NamedTuple):
    """The end of a branch: how many messages it has, and the chain's hash after them."""

    messages: int
    hash: bytes


class PostgresStore:
    """Keeps sessions in a PostgreSQL database. Safe for use by many threads, processes and hosts.

    `address` is a connection URI (`postgresql://…`). With `scope`, the store sees this scope only,
    and ids are unique within it. Without `scope`, the store looks up which scope a session belongs
    to; an id that two scopes have is refused.

    Raises, at the first use:
        StoreFailed: the server cannot be reached, or the tables are of a newer version.
        InvalidArgument: it is no address.
    """

    def __init__(self, address: str, *, scope: str | None = None) -> None:
        if scope is not None and not codec.is_storable(scope):
            raise InvalidArgument("scope", "PostgreSQL holds no NUL and no half surrogate pair")
        self._scope = scope
        self._server = Connections(address)
        self._lock = forks.Lock()
        self._tails: dict[tuple[str, str], _Tail] = {}
        self._scopes: dict[tuple[str, str], str] = {}

    def close(self) -> None:
        """Close the connections."""
        self._server.close()

    # --- sessions ---------------------------------------------------------------------------------

    def session(self, session_id: str, *, create: Session | None = None) -> Session:
        """Return the session with that id. If there is none, store `create` and return it."""
        if create is not None and {create.id, create.branch.session_id} != {session_id}:
            raise InvalidInput(f"the session to create is {create.id!r}, not {session_id!r}")
        try:
            scope = self._scope_of("sessions", session_id)
            return _session_in(self._server.query, scope, session_id)
        except NotFound:
            if create is None:
                raise
        with self._server.transaction() as query:
            self._insert(query, create)
            return _session_in(query, create.scope, session_id)

    def _insert(self, query: Query, session: Session) -> bool:
        """Insert a session with its first branch; whether the id was free.

        Raises:
            InvalidInput: its scope is another one than the store's, or the branch's id is taken.
        """
        scope, branch = session.scope, session.branch
        if self._scope not in (None, scope) or not codec.is_storable(scope):
            raise InvalidInput(f"a session of the scope {scope!r}, in a store of {self._scope!r}")
        sql = """
            INSERT INTO compact.sessions (scope, id, branch, updated, body)
            VALUES (%s, %s, %s, %s, %s) ON CONFLICT DO NOTHING RETURNING 1
        """
        names = scope, encoded(session.id), encoded(branch.id)
        row = (*names, codec.instant(session.updated_at), _body_of(session))
        if not query(sql, row):
            return False
        is_taken = self._scope is None and _has_branch(query, None, branch.id)
        if is_taken or not _insert_branch(query, scope, branch, 0, _Tail(0, chain.START), 0):
            raise InvalidInput(f"there is a branch {branch.id!r} already")
        return True

    def put_session(self, whole: WholeSession) -> Session:
        """Store a new session with everything that belongs to it. Return it.

        Raises:
            Superseded: a session with that id exists.
            InvalidInput: another session has a branch or projection with one of its ids.
        """
        session, scope = whole.session, whole.session.scope
        with self._server.transaction() as query:
            root = whole.parts[0].branch
            if not self._insert(query, session.model_copy(update={"branch": root})):
                raise Superseded(f"there is a session {session.id!r}")
            for part in whole.parts:
                if part.branch.parent is not None:
                    _begin(query, scope, part.branch)
                _fill(query, scope, part)
            _activate(query, scope, session.id, session.branch.id)
            _Log(query, scope, session.id).put(whole)
            return _session_in(query, scope, session.id)

    def sessions(self, *, scope: str | None = None) -> list[Session]:
        """Return the sessions of one scope or of all scopes, last changed first."""
        wanted = [each for each in (scope, self._scope) if each is not None]
        sql = f"""
            {_SESSION} WHERE {" AND ".join(["s.scope = %s"] * len(wanted)) or "true"}
            ORDER BY coalesce(b.updated, s.updated) DESC
        """
        return [_session_of(row) for row in self._server.query(sql, wanted)]

    def describe(
        self, session_id: str, *, title: str | None, metadata: Mapping[str, Any]
    ) -> Session:
        """Replace a session's title and metadata; returns the session."""
        with self._in_session(session_id) as (query, scope):
            known = _session_in(query, scope, session_id)
            changed = known.model_copy(update={"title": title, "metadata": metadata})
            sql = "UPDATE compact.sessions SET body = %s WHERE scope = %s AND id = %s"
            query(sql, (_body_of(changed), scope, encoded(session_id)))
            return _session_in(query, scope, session_id)

    def fork(self, branch_id: str, at: int) -> Branch:
        """Make a branch that continues another one from a position, and make it active."""
        session_id = self.branch(branch_id).session_id
        with self._in_session(session_id) as (query, scope):
            sql = "SELECT count(*) FROM compact.branches WHERE scope = %s AND session = %s"
            ((own,),) = query(sql, (scope, encoded(session_id)))
            name = free_branch_id(session_id, own, lambda x: _has_branch(query, scope, x))
            branch = Branch(id=name, session_id=session_id, parent=branch_id, fork=at)
            _begin(query, scope, branch)
            _activate(query, scope, session_id, name)
            return _branch_in(query, scope, name)

    def delete_session(self, session_id: str) -> None:
        """Delete a session for good."""
        with self._in_session(session_id) as (query, scope):
            key = {"scope": scope, "session": encoded(session_id)}
            # an append under way ends first, and is deleted too; a later one finds no branch
            sql = "SELECT 1 FROM compact.branches WHERE scope = %(scope)s AND session = "
            query(f"{sql} %(session)s FOR UPDATE", key)
            for table in ("words", "messages"):
                query(
                    f"DELETE FROM compact.{table} USING compact.branches b WHERE b.scope = "
                    f"%(scope)s AND b.session = %(session)s AND {table}.scope = %(scope)s "
                    f"AND {table}.branch = b.id",
                    key,
                )
            for table, column in (("log", "session"), ("branches", "session"), ("sessions", "id")):
                sql = f"DELETE FROM compact.{table} WHERE scope = %(scope)s AND {column} = "
                query(f"{sql} %(session)s", key)
        with self._lock:
            self._tails.clear()
            self._scopes.clear()

    # --- histories --------------------------------------------------------------------------------

    def append(
        self, branch_id: str, entries: Sequence[Entry], *, expected: int | None = None
    ) -> int:
        """Append entries durably, all or none; returns the branch's new length."""
        while True:
            tail = self._tail(branch_id, expected)
            if not entries:
                return tail.messages
            values = {**_columns_of(entries, tail), **self._key_of(branch_id)}
            if self._has_appended(branch_id, tail, values):
                return tail.messages + len(entries)
            self._forget_tail(branch_id)

    def _tail(self, branch_id: str, expected: int | None) -> _Tail:
        """Return the branch's end as this store knows it, else as it is.

        Raises:
            Superseded: the branch does not have `expected` messages.
        """
        with self._lock:
            tail = self._tails.get((self._scope or "", branch_id))
        if tail is not None and expected in (None, tail.messages):
            return tail
        sql = "SELECT messages, hash FROM compact.branches WHERE scope = %(scope)s AND id = "
        rows = self._rows(branch_id, f"{sql} %(branch)s")
        if not rows:
            raise NotFound(f"no branch {branch_id!r} in this store")
        tail = _Tail(rows[0][0], bytes(rows[0][1]))
        if expected not in (None, tail.messages):
            raise Superseded(f"the branch has {tail.messages} messages, not {expected}")
        return tail

    def _has_appended(self, branch_id: str, tail: _Tail, values: dict[str, Any]) -> bool:
        """Append if the branch still ends so. If the connection breaks, try again, and ask whether
        it was stored.
        """
        now = _Tail(tail.messages + values["added"], values["hash"])
        try:
            stored = bool(self._server.query(_APPEND, values, again=False))
        except Broken:
            # Again, since the server may still be at the first one: then this waits for it.
            self._server.query(_APPEND, values)
            stored = self.chain(branch_id, now.messages) == now.hash
        if stored:
            with self._lock:
                if len(self._tails) >= _MOST_KNOWN:
                    self._tails.clear()
                self._tails[self._scope or "", branch_id] = now
        return stored

    def _forget_tail(self, branch_id: str) -> None:
        with self._lock:
            self._tails.pop((self._scope or "", branch_id), None)

    def read(self, branch_id: str, start: int, stop: int) -> list[Entry]:
        """Return the entries at these positions, in order; a negative start counts from the end."""
        sql = f"""
            {_LINE}
            SELECT {_ENTRY} FROM (
                SELECT CASE WHEN %(start)s >= 0 THEN %(start)s
                    ELSE greatest(0, messages + %(start)s) END AS start
                FROM compact.branches WHERE scope = %(scope)s AND id = %(branch)s
            ) AS whole LEFT JOIN ({_IN_LINE}) ON m.position >= whole.start AND m.position < %(stop)s
            ORDER BY m.position
        """
        rows = self._rows(branch_id, sql, start=start, stop=stop)
        if not rows:
            raise NotFound(f"no branch {branch_id!r} in this store")
        return [_entry_of(row) for row in rows if row[0] is not None]

    def marked(self, branch_id: str, mark: int, *, before: int, most: int) -> list[int]:
        """Return the newest positions below `before` whose entries have the mark, newest first."""
        sql = f"""
            {_LINE} SELECT m.position FROM {_IN_LINE}
            WHERE m.marks <> 0 AND m.marks & %(mark)s <> 0 AND m.position < %(before)s
            ORDER BY m.position DESC LIMIT %(most)s
        """
        rows = self._rows(branch_id, sql, mark=mark, before=before, most=max(0, most))
        return [row[0] for row in rows]

    def first_marked(self, branch_id: str, mark: int) -> int | None:
        """Return the position of the oldest entry with the mark; None if no entry has it."""
        sql = f"""
            {_LINE} SELECT min(m.position) FROM {_IN_LINE}
            WHERE m.marks <> 0 AND m.marks & %(mark)s <> 0
        """
        (row,) = self._rows(branch_id, sql, mark=mark)
        return None if row[0] is None else int(row[0])

    def position_of(self, branch_id: str, message_id: str) -> int | None:
        """Return the newest position whose message id is, or begins with, `message_id`."""
        sql = f"{_LINE} SELECT max(m.position) FROM {_IN_LINE} WHERE"
        sought = encoded(message_id)
        (row,) = self._rows(branch_id, f"{sql} m.id = %(id)s", id=sought)
        if row[0] is None and len(message_id) >= SHORTEST_ID:
            where = "m.id >= %(id)s AND m.id < %(id)s || '\\xff'::bytea"
            (row,) = self._rows(branch_id, f"{sql} {where}", id=sought)
        return None if row[0] is None else int(row[0])

    def branch(self, branch_id: str) -> Branch:
        """Return the branch as it is now."""
        return _branch_in(self._server.query, self._scope_of("branches", branch_id), branch_id)

    def branches(self, session_id: str) -> list[Branch]:
        """Return all branches of a session, oldest first."""
        sql = f"""
            SELECT {_BRANCH} FROM compact.branches b
            WHERE scope = %(scope)s AND session = %(session)s ORDER BY number
        """
        log = self._log(session_id)
        given = {"scope": log.scope, "session": log.session}
        return [_branch_of(row) for row in self._server.query(sql, given)]

    def chain(self, branch_id: str, length: int) -> bytes:
        """Return the chain hash after `length` messages."""
        sql = f"""
            {_LINE} SELECT m.hash FROM {_IN_LINE} WHERE m.position < %(length)s
            ORDER BY m.position DESC LIMIT 1
        """
        rows = self._rows(branch_id, sql, length=length)
        if not rows:
            self.branch(branch_id)  # it must be there
        return bytes(rows[0][0]) if rows else chain.START

    def beginning(self, chain: bytes, *, scope: str, most: int) -> list[tuple[str, bool]]:
        """Return the sessions of a scope that have a branch with that chain hash, last changed
        first, and whether the branch ends there.
        """
        if self._scope not in (None, scope):
            return []
        sql = """
            SELECT b.session, b.messages = m.position + 1
            FROM compact.messages m JOIN compact.branches b
            ON b.scope = %(scope)s AND b.id = m.branch
            WHERE m.scope = %(scope)s AND m.hash = %(hash)s
            ORDER BY b.updated DESC, b.created DESC LIMIT %(most)s
        """
        rows = self._server.query(sql, {"scope": scope, "hash": chain, "most": most})
        return [(decoded(name), ends) for name, ends in rows]

    # --- projections and moves --------------------------------------------------------------------

    def commit(self, step: Step) -> Move:
        """Store a step with its projection and checkpoints, and make it the active one."""
        with self._in_session(step.session_id) as (query, scope):
            log = _Log(query, scope, step.session_id)
            last = log.moves(step.window, 1)
            if (last[0].number if last else 0) != step.base:
                raise Superseded(f"window {step.window}: another move came in between")
            if step.begins is not None:
                _begin(query, scope, step.begins)
            if _branch_in(query, scope, step.branch_id).session_id != step.session_id:
                raise NotFound(f"session {step.session_id!r} has no branch {step.branch_id!r}")
            if step.projection is not None:
                log.keep(step.projection)
            move = step.move(log.next(), last[0].projection_id if last else None)
            log.add_move(move)
            if step.kind != "compress":
                _activate(query, scope, step.session_id, step.branch_id)
            log.record(step.changes)
            for name, value in step.notes.items():
                log.note(name, value)
            for name in step.forget:
                log.note(name, None)
            return move

    def moves(self, session_id: str, window: int | None = None, *, most: int) -> list[Move]:
        """Return the newest moves of one window or of all windows, newest first."""
        return self._log(session_id).moves(window, max(0, most))

    def projection(self, projection_id: str) -> Projection:
        """Return a projection with its checkpoints."""
        sql = """
            SELECT session, body FROM compact.log
            WHERE scope = %s AND kind = 'projection' AND id = %s
        """
        missing = f"no projection {projection_id!r} in this store"
        scope = self._scope_of("log", projection_id, missing)
        rows = self._server.query(sql, (scope, encoded(projection_id)))
        if not rows:
            raise NotFound(missing)
        value = codec.load(bytes(rows[0][1]))
        log = _Log(self._server.query, scope, decoded(rows[0][0]))
        known = log.checkpoints(value["checkpoints"])
        return projection_in(value, {each.id: each for each in known}, codec.decode_whole)

    def checkpoints(self, session_id: str) -> list[Checkpoint]:
        """Return all checkpoints ever committed, oldest first."""
        return self._log(session_id).checkpoints()

    # --- changes, snapshots and notes -------------------------------------------------------------

    def record(
        self, session_id: str, changes: Sequence[Change], *, instead_of: Collection[int] = ()
    ) -> None:
        """Append changes, and delete the entries they replace."""
        with self._in_session(session_id) as (query, scope):
            log = _Log(query, scope, session_id)
            log.record(changes)
            log.delete("change", "number = ANY(%s)", list(instead_of))

    def changes(self, session_id: str, *, after: int = 0) -> list[Change]:
        """Return the log entries with numbers above `after`, in order."""
        rows = self._log(session_id).rows("change", "number > %s", after)
        return [Change.model_validate({**value, "number": number}) for number, value in rows]

    def save_snapshot(self, snapshot: Snapshot) -> None:
        """Store a snapshot. If the id is stored already, the stored snapshot stays as it is."""
        with self._in_session(snapshot.session_id) as (query, scope):
            log = _Log(query, scope, snapshot.session_id)
            log.add("snapshot", log.next(), snapshot.id, snapshot.model_dump(mode="json"))

    def snapshots(self, session_id: str) -> list[Snapshot]:
        """Return the session's snapshots, oldest first."""
        rows = self._log(session_id).rows("snapshot")
        return [Snapshot.model_validate(value) for _, value in rows]

    def delete_snapshots(self, session_id: str, ids: Collection[str]) -> None:
        """Delete the session's snapshots with these ids; unknown ids are ignored."""
        self._log(session_id).delete("snapshot", "id = ANY(%s)", list(map(encoded, ids)))

    def note(self, session_id: str, name: str, value: Mapping[str, Any] | None) -> None:
        """Store a note; None deletes it."""
        with self._in_session(session_id) as (query, scope):
            _Log(query, scope, session_id).note(name, value)

    def notes(self, session_id: str) -> dict[str, Mapping[str, Any]]:
        """Return the session's notes by name."""
        rows = self._log(session_id).rows("note")
        return {value["name"]: value["value"] for _, value in rows}

    # --- search -----------------------------------------------------------------------------------

    def search(self, branch_id: str, text: str, *, most: int) -> list[Found]:
        """Return messages that share words with the text, best first (`text.terms.scored`)."""
        names = [tuple(map(_hash_of, name)) for name in looked_for(text)]
        if not names or most <= 0:
            return []
        total = self.branch(branch_id).messages
        self._index(branch_id)
        sql = f"""
            {_LINE} SELECT w.position, w.words FROM line
            JOIN compact.words w ON w.scope = %(scope)s AND w.branch = line.id
                AND w.position >= line.low AND w.position < line.high
            WHERE w.words && %(words)s::int[]
        """
        sought = [*{word for name in names for word in name}]
        rows = self._rows(branch_id, sql, words=sought)
        having = [(position, set(words)) for position, words in rows]
        holding = ([place for place, words in having if words.issuperset(x)] for x in names)
        return scored(holding, total, most)

    def _index(self, branch_id: str) -> None:
        """Store the words of a branch's messages that no search has looked at."""
        sql = f"""
            {_LINE} SELECT line.id, {_ENTRY} FROM {_IN_LINE}
            WHERE NOT EXISTS (SELECT 1 FROM compact.words w WHERE w.scope = %(scope)s
                AND w.branch = line.id AND w.position = m.position)
            ORDER BY line.id, m.position
        """
        insert = """
            INSERT INTO compact.words SELECT %s, %s, %s, %s::int[] ON CONFLICT DO NOTHING
        """
        key = self._key_of(branch_id)
        with self._server.transaction() as query:
            # the session is not deleted meanwhile: its words would stay
            there = "SELECT 1 FROM compact.branches WHERE scope = %(scope)s AND id = %(branch)s"
            query(f"{there} FOR KEY SHARE", key)
            for branch, *row in query(sql, key):
                words = _words_of(_entry_of(row))
                query(insert, (key["scope"], branch, row[0], words))

    # --- scopes -----------------------------------------------------------------------------------

    def _scope_of(self, table: str, id: str, missing: str | None = None) -> str:
        """Return the store's scope, else that of a session, a branch or a log's entry.

        Raises:
            NotFound: nothing has the id.
            InvalidInput: two scopes have it.
        """
        if self._scope is not None:
            return self._scope
        with self._lock:
            known = self._scopes.get((table, id))
        if known is not None:
            return known
        sql = f"SELECT DISTINCT scope FROM compact.{table} WHERE id = %s LIMIT 2"
        rows = self._server.query(sql, (encoded(id),))
        if len(rows) > 1:
            raise InvalidInput(f"two scopes have {id!r}: open the store with a scope")
        if not rows:
            kind = "session" if table == "sessions" else "branch"
            raise NotFound(missing or f"no {kind} {id!r} in this store")
        with self._lock:
            if len(self._scopes) >= _MOST_KNOWN:
                self._scopes.clear()
            self._scopes[table, id] = rows[0][0]
        return str(rows[0][0])

    @contextmanager
    def _in_session(self, session_id: str) -> Iterator[tuple[Query, str]]:
        """Give a transaction that holds the session's row, so writers of a session take turns.

        Raises:
            NotFound: there is no such session.
        """
        scope = self._scope_of("sessions", session_id)
        with self._server.transaction() as query:
            sql = "SELECT 1 FROM compact.sessions WHERE scope = %s AND id = %s FOR UPDATE"
            if not query(sql, (scope, encoded(session_id))):
                raise NotFound(f"no session {session_id!r} in this store")
            yield query, scope

    def _log(self, session_id: str) -> _Log:
        """Return a session's log, to read. Where there is no such session, it is empty."""
        try:
            scope = self._scope_of("sessions", session_id)
        except NotFound:
            scope = ""
        return _Log(self._server.query, scope, session_id)

    def _key_of(self, branch_id: str) -> dict[str, Any]:
        return {"scope": self._scope_of("branches", branch_id), "branch": encoded(branch_id)}

    def _rows(self, branch_id: str, sql: str, **given: object) -> list[Any]:
        return self._server.query(sql, {**given, **self._key_of(branch_id)})


class _Log:
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
        self, kind: str, number: int, id: str, body: object, *, frame: int | None = None
    ) -> bool:
        """Add an entry, unless its id is there; whether it was added."""
        sql = "INSERT INTO compact.log VALUES (%s, %s, %s, %s, %s, %s, %s) ON CONFLICT DO NOTHING"
        row = (self.scope, self.session, kind, number, encoded(id), frame, codec.dump(body))
        return bool(self._query(f"{sql} RETURNING 1", row))

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
            self.add("projection", self.next(), projection.id, row_of_projection(projection))
        elif bytes(known[0][0]) != self.session:
            raise InvalidInput(f"another session has a projection {projection.id!r} already")

    def checkpoints(self, names: Collection[str] | None = None) -> list[Checkpoint]:
        """Return checkpoints, oldest first: all, or those of `names`."""
        if names is None:
            rows = self.rows("checkpoint")
        else:
            rows = self.rows("checkpoint", "id = ANY(%s)", list(map(encoded, names)))
        return [Checkpoint.model_validate(value) for _, value in rows]

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
        self.add("move", move.number, str(move.number), body, frame=move.window)

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

_SESSION = f"""
    SELECT s.scope, s.body, s.updated, b.updated, {_BRANCH}
    FROM compact.sessions s JOIN compact.branches b ON b.scope = s.scope AND b.id = s.branch
"""


def _session_in(query: Query, scope: str, session_id: str) -> Session:
    rows = query(f"{_SESSION} WHERE s.scope = %s AND s.id = %s", (scope, encoded(session_id)))
    if not rows:
        raise NotFound(f"no session {session_id!r} in this store")
    return _session_of(rows[0])


def _session_of(row: Sequence[Any]) -> Session:
    _, body, updated, said, *rest = row
    branch = _branch_of(rest)
    at = updated if said is None else said
    values = {**codec.load(bytes(body)), "updated_at": _EPOCH + timedelta(microseconds=at)}
    if said is None and branch.parent is not None:
        values["updated_at"] = branch.created_at
    return Session.model_validate({**values, "branch": branch})


def _branch_in(query: Query, scope: str, branch_id: str) -> Branch:
    sql = f"SELECT {_BRANCH} FROM compact.branches b WHERE scope = %s AND id = %s"
    rows = query(sql, (scope, encoded(branch_id)))
    if not rows:
        raise NotFound(f"no branch {branch_id!r} in this store")
    return _branch_of(rows[0])


def _branch_of(row: Sequence[Any]) -> Branch:
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


def _body_of(session: Session) -> bytes:
    return codec.dump(session.model_dump(mode="json", exclude={"branch", "updated_at"}))


def _fill(query: Query, scope: str, part: OwnPart) -> None:
    """Append the entries of a branch of a new session."""
    start = _Tail(part.branch.fork, _hash_at(query, scope, part.branch.id))
    if part.entries:
        key = {"scope": scope, "branch": encoded(part.branch.id)}
        query(_APPEND, {**_columns_of(part.entries, start), **key})


def _hash_at(query: Query, scope: str, branch_id: str) -> bytes:
    sql = "SELECT hash FROM compact.branches WHERE scope = %s AND id = %s"
    return bytes(query(sql, (scope, encoded(branch_id)))[0][0])


def _has_branch(query: Query, scope: str | None, name: str) -> bool:
    """Whether a scope has a branch of that name; any scope where it is None."""
    sql = "SELECT 1 FROM compact.branches WHERE id = %s AND (%s::text IS NULL OR scope = %s)"
    return bool(query(sql, (encoded(name), scope, scope)))


def _insert_branch(
    query: Query, scope: str, branch: Branch, number: int, tail: _Tail, tokens: int
) -> bool:
    """Insert a branch; whether its id was free."""
    sql = """
        INSERT INTO compact.branches VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, NULL, %s)
        ON CONFLICT DO NOTHING RETURNING 1
    """
    parent = None if branch.parent is None else encoded(branch.parent)
    names = (scope, encoded(branch.id), encoded(branch.session_id), parent)
    at = (number, branch.fork, tail.messages, tokens, tail.hash, branch.created_at.isoformat())
    return bool(query(sql, (*names, *at)))


def _begin(query: Query, scope: str, branch: Branch) -> None:
    """Insert a branch that continues another one of its session.

    Raises:
        NotFound: the session has no such branch, or the branch no such position.
        Superseded: the id is taken.
    """
    parent = _branch_in(query, scope, branch.parent or "")
    if parent.session_id != branch.session_id:
        raise NotFound(f"session {branch.session_id!r} has no branch {branch.parent!r}")
    if not 0 <= branch.fork <= parent.messages:
        raise NotFound(f"branch {parent.id!r} has {parent.messages} messages, not {branch.fork}")
    sql = f"""
        {_LINE} SELECT coalesce(sum(m.tokens), 0)::bigint,
            (array_agg(m.hash ORDER BY m.position DESC))[1]
        FROM {_IN_LINE} WHERE m.position < %(fork)s
    """
    key = {"scope": scope, "branch": encoded(parent.id), "fork": branch.fork}
    ((tokens, hash),) = query(sql, key)
    tail = _Tail(branch.fork, chain.START if hash is None else bytes(hash))
    sql = "SELECT count(*) FROM compact.branches WHERE scope = %s AND session = %s"
    ((number,),) = query(sql, (scope, encoded(branch.session_id)))
    if not _insert_branch(query, scope, branch, number, tail, tokens):
        raise Superseded(f"another branch {branch.id!r} came in between")


def _activate(query: Query, scope: str, session_id: str, branch_id: str) -> None:
    sql = "UPDATE compact.sessions SET branch = %s WHERE scope = %s AND id = %s"
    query(sql, (encoded(branch_id), scope, encoded(session_id)))


def _columns_of(entries: Sequence[Entry], tail: _Tail) -> dict[str, Any]:
    """Return the values of `_APPEND` but for the branch's key."""
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


def _entry_of(row: Sequence[Any]) -> Entry:
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


def _hash_of(word: str) -> int:
    digest = blake2b(encoded(word), digest_size=4).digest()
    return int.from_bytes(digest, "big", signed=True)


def _words_of(entry: Entry) -> list[int]:
    return sorted({_hash_of(piece) for piece in pieces_of(index_words(searchable(entry.message)))})
