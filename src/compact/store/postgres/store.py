"""A session store in PostgreSQL (extra `postgres`), for several machines.

    store = PostgresStore("postgresql://localhost/chats", scope="tenant-7")

Holds sessions (`sessions.py`) and what memory needs of one scope: the index (`index.py`), digests,
leases, vectors (`vectors.py`) and deletion (`forgetting.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from compact.errors import InvalidArgument, NotFound, Superseded
from compact.messages import codec
from compact.messages.sessions import Found
from compact.messages.times import Times
from compact.store.archives.files import copies_in, discard_copies
from compact.store.postgres.checking import faults_of
from compact.store.postgres.connection import Connections, Query, decoded, encoded
from compact.store.postgres.forgetting import delete, hold_all, take_out_names
from compact.store.postgres.index import ScopeIndex
from compact.store.postgres.rows import ACROSS, Log, session_in
from compact.store.postgres.sessions import PostgresSessions
from compact.store.postgres.vectors import ScopeVectors
from compact.text.archived import ForgottenReport
from compact.text.conversation import Conversation
from compact.text.digests import CompressedConversation, DigestNote, Lease
from compact.text.found import Told
from compact.text.turns import Keys, TurnTable

MOST_SCOPES = 8
"""Of how many scopes to keep facts in memory. A message takes 26 bytes."""


class PostgresStore(PostgresSessions):
    """Keeps sessions and memory in a PostgreSQL database. Safe for use by many threads, processes
    and hosts.

    `address` is a connection URI (`postgresql://…`). With `scope`, the store sees this scope only,
    and ids are unique within it. Without `scope`, the store looks up which scope a session belongs
    to; an id that two scopes have is refused, and so is what memory asks of a scope
    (`within_scope`).

    Raises, at the first use:
        StoreFailed: the server cannot be reached, or the tables are of a newer version.
        InvalidArgument: it is no address.
    """

    def __init__(self, address: str | Connections, *, scope: str | None = None) -> None:
        super().__init__(address, scope=scope)
        self._indexes: dict[str, ScopeIndex] = {}

    def within_scope(self, scope: str) -> PostgresStore:
        """Return this store if it is one of that scope, else one that shares its connections."""
        return self if self._scope == scope else PostgresStore(self._server, scope=scope)

    @property
    def own_scope(self) -> str:
        """The store's scope.

        Raises:
            InvalidArgument: it was opened without one.
        """
        if self._scope is None:
            raise InvalidArgument("scope", "memory is of one scope: open the store with a scope")
        return self._scope

    def _own(self, scope: str | None) -> str:
        if scope is None:
            return self.own_scope
        if self._scope not in (None, scope):
            raise InvalidArgument("scope", f"this store shows the scope {self._scope!r} only")
        return scope

    @property
    def index(self) -> ScopeIndex:
        """The index of the store's scope. Raises the error of `own_scope`."""
        return self._index_of(self.own_scope)

    def _index_of(self, scope: str) -> ScopeIndex:
        with self._lock:
            if scope not in self._indexes:
                while len(self._indexes) >= MOST_SCOPES:
                    del self._indexes[next(iter(self._indexes))]
                self._indexes[scope] = ScopeIndex(self._server.query, scope)
            return self._indexes[scope]

    # --- search -----------------------------------------------------------------------------------

    def search(self, branch_id: str, text: str, *, most: int) -> list[Found]:
        """Return messages that share words with the text, best first (`text.terms.scored`)."""
        found = self._index_of(self._scope_of("branches", branch_id)).search(branch_id, text, most)
        if not found:
            self.branch(branch_id)  # it must be there
        return found

    def turns(self, scope: str | None) -> TurnTable:
        """Return the messages of the scope's sessions as memory's search needs them."""
        return self._index_of(self._own(scope)).turns()

    def holding(
        self,
        names: Sequence[Sequence[str]],
        within: Sequence[tuple[int, int]] = (),
        most: int | None = None,
    ) -> list[Keys]:
        """Return for each name the keys of messages that have its words (`ScopeIndex.holding`)."""
        return self.index.holding(names, within, most)

    def important(self, least: float) -> Keys:
        """Return keys of messages whose stored importance (0 to 1) is at least `least`."""
        return self.index.important(least)

    def told(self, keys: Sequence[int], sessions: Sequence[str]) -> Told:
        """Return the messages with these keys and the titles of these sessions, if they exist."""
        return self.index.told(keys, sessions)

    @property
    def vectors(self) -> ScopeVectors:
        """The vectors of the store's scope. Raises the error of `own_scope`."""
        return ScopeVectors(self._server, self.index)

    def unindexed(self) -> int:
        """Return how many messages of the scope have no words yet."""
        return self.index.unindexed()

    def catch_up(self, progress: Callable[[int, int], None] | None = None) -> bool:
        """Store missing words of the scope's messages. Return whether all have words now."""
        return self.index.catch_up(progress)

    def get_conversation(self, session_id: str) -> Conversation:
        """Return the session's messages, with their token counts, as one value.

        Raises:
            NotFound: no such session.
        """
        session = self.session(session_id)
        branch = session.branch
        return Conversation.of(session, self.read(branch.id, 0, branch.messages))

    # --- digests and leases -----------------------------------------------------------------------

    def digest(self, session_id: str) -> CompressedConversation | None:
        """Return the session's digest, or None."""
        rows = self._log(session_id).rows("digest")
        return CompressedConversation.model_validate(rows[0][1]) if rows else None

    def digest_notes(
        self, scope: str | None, session_id: str | None = None
    ) -> dict[str, DigestNote]:
        """Return session id → facts about its digest, of one session or of all."""
        sql = "SELECT session, body FROM compact.log WHERE scope = %s AND kind = 'digest'"
        given, notes = list[object]([self._own(scope)]), dict[str, DigestNote]()
        if session_id is not None:
            sql, given = f"{sql} AND session = %s", [*given, encoded(session_id)]
        for session, body in self._server.query(sql, given):
            made = CompressedConversation.model_validate(codec.load(bytes(body)))
            size = len(encoded(made.text))
            notes[decoded(session)] = DigestNote(
                made.level, made.score, made.fingerprint, made.source_tokens, made.tokens, size
            )
        return notes

    def keep_digest(
        self,
        session_id: str,
        digest: CompressedConversation | None,
        *,
        chain: bytes,
        lease: Lease | None = None,
    ) -> None:
        """Replace the session's digest; None removes it.

        Raises:
            NotFound: no such session.
            Superseded: the session's messages changed since `chain`, or another process holds the
                lease.
        """
        with self._in_session(session_id) as (query, scope):
            if lease is not None and _holder(query, scope, lease.name) != lease.holder:
                raise Superseded(f"somebody else has the lease {lease.name!r} by now")
            branch = encoded(session_in(query, scope, session_id).branch.id)
            sql = "SELECT hash FROM compact.branches WHERE scope = %s AND id = %s FOR SHARE"
            if bytes(query(sql, (scope, branch))[0][0]) != chain:
                raise Superseded(f"session {session_id!r} has other messages by now")
            log = Log(query, scope, session_id)
            log.delete("digest", "id = %s", b"")
            if digest is not None:
                log.add("digest", log.next(), "", digest.model_dump(mode="json"))

    def stored_texts(self, session_id: str, times: Times) -> tuple[int, int | None, bool]:
        """Return how many bytes the texts of the session's active branch take, the latest plausible
        time of a message, and whether old texts are to be packed: a server packs them by itself.
        """
        session = self.session(session_id)
        sql = """
            SELECT time, octet_length(payload) + coalesce(octet_length(content), 0)
            FROM compact.messages WHERE scope = %(scope)s AND branch = %(branch)s
        """
        rows = self._rows(session.branch.id, sql)
        at = [codec.instant(datetime.fromisoformat(time)) for time, _ in rows]
        latest = max((each for each in at if times[0] <= each <= times[2]), default=None)
        return sum(size for _, size in rows), latest, False

    def hold_lease(self, lease: Lease, *, now: datetime, until: datetime) -> bool:
        """Take or renew a lease for the time from `now` to `until`; False if another has it. The
        server's clock says when a lease has ended.
        """
        sql = """
            INSERT INTO compact.leases AS l VALUES (%(scope)s, %(name)s, %(holder)s,
                clock_timestamp() + %(lasts)s)
            ON CONFLICT (scope, name) DO UPDATE SET holder = excluded.holder, until = excluded.until
            WHERE l.holder = excluded.holder OR l.until <= clock_timestamp() RETURNING 1
        """
        given = {"scope": self.own_scope, "name": encoded(lease.name), "lasts": until - now}
        return bool(self._server.query(sql, {**given, "holder": lease.holder}))

    def release_lease(self, lease: Lease) -> None:
        """Release a lease, unless another process has taken it meanwhile."""
        sql = "DELETE FROM compact.leases WHERE scope = %s AND name = %s AND holder = %s"
        self._server.query(sql, (self.own_scope, encoded(lease.name), lease.holder))

    # --- checking ---------------------------------------------------------------------------------

    def integrity_check(self, *, most: int | None = None) -> list[str]:
        """Return what is wrong with the messages of all branches, or of the `most` last changed of
        each scope. Reads them all.
        """
        sql = "SELECT id FROM compact.branches WHERE scope = %s ORDER BY updated DESC NULLS LAST"
        found = list[str]()
        for scope in self.scopes():
            store, names = self.within_scope(scope), self._server.query(sql, (scope,))
            for (name,) in names[:most]:
                with suppress(NotFound):  # its session may be deleted meanwhile
                    branch = store.branch(decoded(name))
                    before = store.chain(branch.id, branch.fork)
                    found += faults_of(self._server.query, scope, branch, before)
        return found

    def scopes(self) -> list[str]:
        """Return the store's scope, or all scopes that have sessions, by name."""
        if self._scope is not None:
            return [self._scope]
        rows = self._server.query(f"SELECT DISTINCT scope FROM compact.sessions WHERE {ACROSS}", ())
        return sorted(row[0] for row in rows)

    def describe_server(self) -> dict[str, Any]:
        """Return the versions of the server and of the tables, and the database's size in bytes."""
        sql = """
            SELECT current_setting('server_version'), number,
                pg_database_size(current_database()) FROM compact.version
        """
        ((server, tables, size),) = self._server.query(sql, ())
        return {"server": server, "schema": tables, "bytes": size}

    # --- deleting ---------------------------------------------------------------------------------

    def delete_session(self, session_id: str) -> None:
        """Delete a session for good, and its quotes in other sessions of the scope.

        Raises:
            NotFound: no such session.
        """
        scope = self._scope_of("sessions", session_id)
        self._delete(scope, [session_id])

    def _delete(self, scope: str, ids: Collection[str]) -> tuple[Counter[str], dict[str, int]]:
        removed = Counter[str]()
        has_vectors = self._has_vectors()
        with self._server.transaction() as query:
            hold_all(query, scope, ids)
            for each in sorted(ids):
                removed.update(delete(query, scope, each, has_vectors=has_vectors))
            quoted = take_out_names(query, scope, ids)
        self._forget_known()
        return removed, quoted

    def forget_session(self, session_id: str, *, copies: Sequence[str] = ()) -> ForgottenReport:
        """Delete a session everywhere, and before it the folders `copies` that its compressions
        wrote.

        Raises:
            NotFound: no such session.
            StoreFailed: it could not be deleted.
        """
        scope = self.session(session_id).scope
        return self._forget(scope, [session_id], copies, session_id=session_id)

    def forget_scope(self, scope: str, *, copies: Sequence[str] = ()) -> ForgottenReport:
        """Delete all sessions of a scope, all or none, like `forget_session`."""
        ids = [each.id for each in self.sessions(scope=self._own(scope))]
        return self._forget(scope, ids, copies, scope=scope)

    def _forget(
        self, within: str, ids: Collection[str], copies: Sequence[str], **of: str
    ) -> ForgottenReport:
        places = list(map(Path, copies))
        files = sum(len(copies_in(place)) for place in places)
        for place in places:
            discard_copies(place)
        removed, quoted = self._delete(within, ids)
        removed["copies"] += files
        remains = tuple(f"{path} is a copy of it" for each in places for path in copies_in(each))
        return ForgottenReport.model_validate(
            {**of, "removed": +removed, "quoted": quoted, "remains": remains}
        )


def _holder(query: Query, scope: str, name: str) -> str | None:
    sql = "SELECT holder FROM compact.leases WHERE scope = %s AND name = %s FOR SHARE"
    rows = query(sql, (scope, encoded(name)))
    return str(rows[0][0]) if rows else None
