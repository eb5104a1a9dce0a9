"""Sessions in PostgreSQL. Every statement names one scope.

An append is one statement that compares the branch's length and its hash with what the writer knew
(compare and swap). If a connection breaks, the chain's hash says whether an append was stored.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any, Self

from compact import forks
from compact.errors import InvalidArgument, InvalidInput, NotFound, Superseded
from compact.messages import chain, codec
from compact.messages.changes import Change
from compact.messages.checkpoints import Checkpoint
from compact.messages.protocols import Version
from compact.messages.sessions import (
    SHORTEST_ID,
    Branch,
    Entry,
    Move,
    Projection,
    Session,
    Snapshot,
    Step,
    free_branch_id,
)
from compact.store.postgres.connection import Broken, Connections, Query, decoded, encoded
from compact.store.postgres.forgetting import delete, hold
from compact.store.postgres.rows import (
    ACROSS,
    APPEND,
    BRANCH,
    ENTRY,
    IN_LINE,
    LINE,
    NEWEST,
    PROJECTION,
    SESSION,
    VERSION,
    BranchEnd,
    Log,
    activate,
    begin,
    body_of,
    branch_in,
    branch_of,
    columns_of,
    entry_of,
    fill,
    has_branch,
    insert_branch,
    session_in,
    session_of,
)
from compact.store.session_file import projection_in
from compact.store.whole_session import WholeSession

_MOST_KNOWN = 10_000
"""Of how many branches to remember the end, and of how many ids the scope."""


class PostgresSessions:
    """The sessions of a `PostgresStore`."""

    def __init__(self, address: str | Connections, *, scope: str | None = None) -> None:
        if scope is not None and not codec.is_storable(scope):
            raise InvalidArgument("scope", "PostgreSQL holds no NUL and no half surrogate pair")
        self._scope = scope
        connections = Connections(address) if isinstance(address, str) else address
        self._server = connections.within(scope)
        self._lock = forks.Lock()
        self._tails: dict[tuple[str, str], BranchEnd] = {}
        self._scopes: dict[tuple[str, str], str] = {}

    def close(self) -> None:
        """Close the connections."""
        self._server.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def at_once(self) -> AbstractContextManager[None]:
        """Within the block, ask for nothing twice (`ReadsAhead`)."""
        return self._server.at_once()

    def read_ahead(self, *calls: Callable[[], object]) -> None:
        """Ask in one round trip what the calls ask first (`ReadsAhead`)."""
        self._server.read_ahead(*calls)

    # --- sessions ---------------------------------------------------------------------------------

    def session(self, session_id: str, *, create: Session | None = None) -> Session:
        """Return the session with that id. If there is none, store `create` and return it."""
        if create is not None and {create.id, create.branch.session_id} != {session_id}:
            raise InvalidInput(f"the session to create is {create.id!r}, not {session_id!r}")
        try:
            scope = self._scope_of("sessions", session_id)
            return session_in(self._server.query, scope, session_id)
        except NotFound:
            if create is None:
                raise
        with self._server.transaction() as query:
            self._insert(query, create)
            return session_in(query, create.scope, session_id)

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
        row = (*names, codec.instant(session.updated_at), body_of(session))
        if not query(sql, row):
            return False
        is_taken = self._scope is None and has_branch(query, None, branch.id)
        if is_taken or not insert_branch(query, scope, branch, 0, BranchEnd(0, chain.START), 0):
            raise InvalidInput(f"there is a branch {branch.id!r} already")
        return True

    def put_session(self, whole: WholeSession, *, replaces: Version | None = None) -> Session:
        """Store a new session with everything that belongs to it, and delete the one with its id if
        it `replaces` that. Return it.

        Raises:
            Superseded: a session with that id exists.
            InvalidInput: another session has a branch or projection with one of its ids.
        """
        session, scope = whole.session, whole.session.scope
        has_vectors = replaces is not None and self._has_vectors()  # before: it takes a connection
        with self._server.transaction() as query:
            root = whole.parts[0].branch
            if replaces is not None:
                hold(query, scope, session.id)
                key = {
                    "scope": scope,
                    "branch": encoded(session_in(query, scope, session.id).branch.id),
                }
                if tuple(query(VERSION, key)[0]) != replaces:
                    raise Superseded(f"session {session.id!r} was written since")
                delete(query, scope, session.id, has_vectors=has_vectors)
                self._forget_known()
            if not self._insert(query, session.model_copy(update={"branch": root})):
                raise Superseded(f"there is a session {session.id!r}")
            for part in whole.parts:
                if part.branch.parent is not None:
                    begin(query, scope, part.branch)
                fill(query, scope, part)
            activate(query, scope, session.id, session.branch.id)
            Log(query, scope, session.id).put(whole)
            return session_in(query, scope, session.id)

    def sessions(self, *, scope: str | None = None) -> list[Session]:
        """Return the sessions of one scope or of all scopes, last changed first."""
        wanted = [each for each in (scope, self._scope) if each is not None]
        only = " AND ".join(["s.scope = %s"] * len(wanted)) or ACROSS
        sql = f"{SESSION} WHERE {only} ORDER BY coalesce(b.updated, s.updated) DESC"
        return [session_of(row) for row in self._server.query(sql, wanted)]

    def describe(
        self, session_id: str, *, title: str | None, metadata: Mapping[str, Any]
    ) -> Session:
        """Replace a session's title and metadata; returns the session."""
        with self._in_session(session_id) as (query, scope):
            known = session_in(query, scope, session_id)
            changed = known.model_copy(update={"title": title, "metadata": metadata})
            sql = "UPDATE compact.sessions SET body = %s WHERE scope = %s AND id = %s"
            query(sql, (body_of(changed), scope, encoded(session_id)))
            return session_in(query, scope, session_id)

    def fork(self, branch_id: str, at: int) -> Branch:
        """Make a branch that continues another one from a position, and make it active."""
        session_id = self.branch(branch_id).session_id
        with self._in_session(session_id) as (query, scope):
            sql = "SELECT count(*) FROM compact.branches WHERE scope = %s AND session = %s"
            ((own,),) = query(sql, (scope, encoded(session_id)))
            name = free_branch_id(session_id, own, lambda x: has_branch(query, scope, x))
            branch = Branch(id=name, session_id=session_id, parent=branch_id, fork=at)
            begin(query, scope, branch)
            activate(query, scope, session_id, name)
            return branch_in(query, scope, name)

    # --- histories --------------------------------------------------------------------------------

    def append(
        self, branch_id: str, entries: Sequence[Entry], *, expected: int | None = None
    ) -> int:
        """Append entries durably, all or none; returns the branch's new length."""
        while True:
            tail = self._tail(branch_id, expected)
            if not entries:
                return tail.messages
            values = {**columns_of(entries, tail), **self._key_of(branch_id)}
            if self._has_appended(branch_id, tail, values):
                return tail.messages + len(entries)
            self._forget_tail(branch_id)

    def _tail(self, branch_id: str, expected: int | None) -> BranchEnd:
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
        tail = BranchEnd(rows[0][0], bytes(rows[0][1]))
        if expected not in (None, tail.messages):
            raise Superseded(f"the branch has {tail.messages} messages, not {expected}")
        return tail

    def _has_appended(self, branch_id: str, tail: BranchEnd, values: dict[str, Any]) -> bool:
        """Append if the branch still ends so. If the connection breaks, try again, and ask whether
        it was stored.
        """
        now = BranchEnd(tail.messages + values["added"], values["hash"])
        try:
            stored = bool(self._server.query(APPEND, values, again=False))
        except Broken:
            # Again, since the server may still be at the first one: then this waits for it.
            self._server.query(APPEND, values)
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
            {LINE}
            SELECT {ENTRY} FROM (
                SELECT CASE WHEN %(start)s >= 0 THEN %(start)s
                    ELSE greatest(0, messages + %(start)s) END AS start
                FROM compact.branches WHERE scope = %(scope)s AND id = %(branch)s
            ) AS whole LEFT JOIN ({IN_LINE}) ON m.position >= whole.start AND m.position < %(stop)s
            ORDER BY m.position
        """
        rows = self._rows(branch_id, sql, start=start, stop=stop)
        if not rows:
            raise NotFound(f"no branch {branch_id!r} in this store")
        return [entry_of(row) for row in rows if row[0] is not None]

    def marked(self, branch_id: str, mark: int, *, before: int, most: int) -> list[int]:
        """Return the newest positions below `before` whose entries have the mark, newest first."""
        sql = f"""
            {LINE} SELECT m.position FROM {IN_LINE}
            WHERE m.marks <> 0 AND m.marks & %(mark)s <> 0 AND m.position < %(before)s
            ORDER BY m.position DESC LIMIT %(most)s
        """
        rows = self._rows(branch_id, sql, mark=mark, before=before, most=max(0, most))
        return [row[0] for row in rows]

    def first_marked(self, branch_id: str, mark: int) -> int | None:
        """Return the position of the oldest entry with the mark; None if no entry has it."""
        sql = f"""
            {LINE} SELECT min(m.position) FROM {IN_LINE}
            WHERE m.marks <> 0 AND m.marks & %(mark)s <> 0
        """
        (row,) = self._rows(branch_id, sql, mark=mark)
        return None if row[0] is None else int(row[0])

    def position_of(self, branch_id: str, message_id: str) -> int | None:
        """Return the newest position whose message id is, or begins with, `message_id`."""
        sql = f"{LINE} SELECT max(m.position) FROM {IN_LINE} WHERE"
        sought = encoded(message_id)
        (row,) = self._rows(branch_id, f"{sql} m.id = %(id)s", id=sought)
        if row[0] is None and len(message_id) >= SHORTEST_ID:
            where = "m.id >= %(id)s AND m.id < %(id)s || '\\xff'::bytea"
            (row,) = self._rows(branch_id, f"{sql} {where}", id=sought)
        return None if row[0] is None else int(row[0])

    def branch(self, branch_id: str) -> Branch:
        """Return the branch as it is now."""
        return branch_in(self._server.query, self._scope_of("branches", branch_id), branch_id)

    def branches(self, session_id: str) -> list[Branch]:
        """Return all branches of a session, oldest first."""
        sql = f"""
            SELECT {BRANCH} FROM compact.branches b
            WHERE b.scope = %(scope)s AND b.session = %(session)s ORDER BY b.number
        """
        log = self._log(session_id)
        given = {"scope": log.scope, "session": log.session}
        return [branch_of(row) for row in self._server.query(sql, given)]

    def chain(self, branch_id: str, length: int) -> bytes:
        """Return the chain hash after `length` messages."""
        sql = f"""
            {LINE} SELECT m.hash FROM {IN_LINE} WHERE m.position < %(length)s
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

    def version(self, branch_id: str) -> Version | None:
        """Return how often the session of a branch was changed, and how many appends it had."""
        rows = self._rows(branch_id, VERSION)
        return (rows[0][0], rows[0][1]) if rows else None

    # --- projections and moves --------------------------------------------------------------------

    def commit(self, step: Step) -> Move:
        """Store a step with its projection and checkpoints, and make it the active one."""
        with self._in_session(step.session_id) as (query, scope):
            log = Log(query, scope, step.session_id)
            last = log.moves(step.window, 1)
            if (last[0].number if last else 0) != step.base:
                raise Superseded(f"window {step.window}: another move came in between")
            if step.begins is not None:
                begin(query, scope, step.begins)
            if branch_in(query, scope, step.branch_id).session_id != step.session_id:
                raise NotFound(f"session {step.session_id!r} has no branch {step.branch_id!r}")
            if step.projection is not None:
                log.keep(step.projection)
            move = step.move(log.next(), last[0].projection_id if last else None)
            log.add_move(move)
            if step.kind != "compress":
                activate(query, scope, step.session_id, step.branch_id)
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
        missing = f"no projection {projection_id!r} in this store"
        scope = self._scope_of("log", projection_id, missing)
        rows = self._server.query(PROJECTION, {"scope": scope, "id": encoded(projection_id)})
        if not rows:
            raise NotFound(missing)
        return self._projection_in(rows[0])

    def newest(self, session_id: str, window: int) -> Projection | None:
        """Return the projection of a window's newest move, and keep it and the version for this
        thread's block (`ReadsAhead`).
        """
        log = self._log(session_id)
        given = {"scope": log.scope, "session": log.session, "window": window}
        rows = self._server.query(NEWEST, given)
        if not rows:
            return None
        branch, last, appends, *row = rows[0]
        self._server.know(VERSION, {**self._key_of(decoded(branch))}, [(last, appends)])
        if row[0] is None:
            return None
        self._server.know(PROJECTION, {"scope": log.scope, "id": row[0]}, [tuple(row)])
        return self._projection_in(row)

    def _projection_in(self, row: Sequence[Any]) -> Projection:
        _, session, body, own = row
        value = codec.load(bytes(body))
        known = [Checkpoint.model_validate(codec.load(bytes(each))) for each in own]
        if len(known) < len(value["checkpoints"]):  # of the first version of the tables
            known = self.checkpoints(decoded(session))
        return projection_in(value, {each.id: each for each in known}, codec.decode_whole)

    def checkpoints(self, session_id: str) -> list[Checkpoint]:
        """Return all checkpoints ever committed, oldest first."""
        rows = self._log(session_id).rows("checkpoint")
        return [Checkpoint.model_validate(value) for _, value in rows]

    # --- changes, snapshots and notes -------------------------------------------------------------

    def record(
        self, session_id: str, changes: Sequence[Change], *, instead_of: Collection[int] = ()
    ) -> None:
        """Append changes, and delete the entries they replace."""
        with self._in_session(session_id) as (query, scope):
            log = Log(query, scope, session_id)
            log.record(changes)
            log.delete("change", "number = ANY(%s)", list(instead_of))

    def changes(self, session_id: str, *, after: int = 0) -> list[Change]:
        """Return the log entries with numbers above `after`, in order."""
        rows = self._log(session_id).rows("change", "number > %s", after)
        return [Change.model_validate({**value, "number": number}) for number, value in rows]

    def save_snapshot(self, snapshot: Snapshot) -> None:
        """Store a snapshot. If the id is stored already, the stored snapshot stays as it is."""
        with self._in_session(snapshot.session_id) as (query, scope):
            log = Log(query, scope, snapshot.session_id)
            log.add("snapshot", log.next(), snapshot.id, snapshot.model_dump(mode="json"))

    def snapshots(self, session_id: str) -> list[Snapshot]:
        """Return the session's snapshots, oldest first."""
        rows = self._log(session_id).rows("snapshot")
        return [Snapshot.model_validate(value) for _, value in rows]

    def delete_snapshots(self, session_id: str, ids: Collection[str]) -> None:
        """Delete the session's snapshots with these ids; unknown ids are ignored."""
        with suppress(NotFound), self._in_session(session_id) as (query, scope):
            names = list(map(encoded, ids))
            Log(query, scope, session_id).delete("snapshot", "id = ANY(%s)", names)

    def note(self, session_id: str, name: str, value: Mapping[str, Any] | None) -> None:
        """Store a note; None deletes it."""
        with self._in_session(session_id) as (query, scope):
            Log(query, scope, session_id).note(name, value)

    def notes(self, session_id: str) -> dict[str, Mapping[str, Any]]:
        """Return the session's notes by name."""
        rows = self._log(session_id).rows("note")
        return {value["name"]: value["value"] for _, value in rows}

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
        sql = f"SELECT DISTINCT scope FROM compact.{table} WHERE id = %s AND {ACROSS} LIMIT 2"
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
        """Give a transaction that holds the session's row, so writers of a session take turns. It
        changes the session's version.

        Raises:
            NotFound: there is no such session.
        """
        scope = self._scope_of("sessions", session_id)
        with self._server.transaction() as query:
            sql = """
                UPDATE compact.sessions SET last = last + 1 WHERE scope = %s AND id = %s RETURNING 1
            """
            if not query(sql, (scope, encoded(session_id))):
                raise NotFound(f"no session {session_id!r} in this store")
            yield query, scope

    def _log(self, session_id: str) -> Log:
        """Return a session's log, to read. Where there is no such session, it is empty."""
        try:
            scope = self._scope_of("sessions", session_id)
        except NotFound:
            scope = ""
        return Log(self._server.query, scope, session_id)

    def _has_vectors(self) -> bool:
        return self._server.query("SELECT to_regclass('compact.vectors')", ()) != [(None,)]

    def _forget_known(self) -> None:
        """Forget what is known of branches and scopes, after a deletion."""
        with self._lock:
            self._tails.clear()
            self._scopes.clear()

    def _key_of(self, branch_id: str) -> dict[str, Any]:
        return {"scope": self._scope_of("branches", branch_id), "branch": encoded(branch_id)}

    def _rows(self, branch_id: str, sql: str, **given: object) -> list[Any]:
        return self._server.query(sql, {**given, **self._key_of(branch_id)})
