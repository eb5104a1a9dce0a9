"""Digests: a row for each session that ageing shortened. Leases: which process does a job."""

from __future__ import annotations

from datetime import datetime

import apsw

from compact.errors import Superseded
from compact.messages.codec import instant
from compact.messages.times import Times
from compact.store.sqlite import branch_lineage, originals, records, sessions
from compact.store.sqlite.rows import BITS, LAST, expanded_size, first, query, text, text_of
from compact.text.digests import CompressedConversation, CompressionLevel, DigestNote, Lease

_NOTES = """
    SELECT s.id, d.level, d.score, d.fingerprint, d.original_tokens, d.tokens,
        iif(typeof(d.text) = 'blob', substr(d.text, 1, 64), d.text)
    FROM digests d JOIN sessions s ON s.key = d.session WHERE (?1 IS NULL OR s.scope = ?1)
        AND (?2 IS NULL OR s.id = ?2)
"""


def digest(db: apsw.Connection, session_id: str) -> CompressedConversation | None:
    """Return the session's digest, or None."""
    key = records.key_of(db, session_id)
    sql = f"SELECT {records.columns('digests')} FROM digests WHERE session = ?"
    row = first(db, sql, (key,))
    return None if row is None else records.value_in(CompressedConversation, "digests", row)


def digest_notes(
    db: apsw.Connection, scope: str | None, session_id: str | None = None
) -> dict[str, DigestNote]:
    """Return session id → facts about its digest, of one session or of all. `scope` None means all
    scopes.
    """
    rows = query(db, _NOTES, [None if each is None else text(each) for each in (scope, session_id)])
    return {
        text_of(name): DigestNote._make((CompressionLevel(level), *rest, expanded_size(told)))
        for name, level, *rest, told in rows
    }


def keep_digest(
    db: apsw.Connection,
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
    key = records.key_of(db, session_id)
    if lease is not None and _holder(db, lease.name) != lease.holder:
        raise Superseded(f"somebody else has the lease {lease.name!r} by now")
    session = sessions.session(db, session_id)
    if session is None or (
        branch_lineage.chain(db, session.branch.id, session.branch.messages) != chain
    ):
        raise Superseded(f"session {session_id!r} has other messages by now")
    db.execute("DELETE FROM digests WHERE session = ?", (key,))
    if digest is not None:
        records.insert_value(db, "digests", digest, session=key)


def stored_texts(
    db: apsw.Connection, session_id: str, times: Times
) -> tuple[int, int | None, bool]:
    """Return how many bytes the texts of the session's current branch take in this database (packed
    texts included), the latest plausible time of a message, and whether it is worth packing the old
    texts.
    """
    session = records.key_of(db, session_id)
    row = first(db, "SELECT branch FROM sessions WHERE key = ?", (session,))
    branch = row[0] if row else 0
    sql = f"""
        SELECT total({originals.SIZE}), max(timestamp) FILTER (WHERE timestamp BETWEEN ? AND ?)
        FROM messages WHERE key BETWEEN ? AND ?
    """
    size, latest = query(db, sql, (times[0], times[2], branch << BITS, branch << BITS | LAST))[0]
    size = int(size) + originals.packed_bytes(db, session)
    return size, latest, originals.is_mostly_old(db, session, times)


# --- leases ---------------------------------------------------------------------------------------


def hold_lease(db: apsw.Connection, lease: Lease, *, now: datetime, until: datetime) -> bool:
    """Take or renew a lease; False if another has it. Leases that expired by `now` are deleted."""
    db.execute("DELETE FROM leases WHERE until <= ?", (instant(now),))
    sql = """
        INSERT INTO leases (name, holder, until) VALUES (?1, ?2, ?3)
        ON CONFLICT DO UPDATE SET until = ?3 WHERE holder = ?2
    """
    db.execute(sql, (text(lease.name), lease.holder, instant(until)))
    return _holder(db, lease.name) == lease.holder


def release_lease(db: apsw.Connection, lease: Lease) -> None:
    """Release a lease, unless another process has taken it meanwhile."""
    sql = "DELETE FROM leases WHERE name = ? AND holder = ?"
    db.execute(sql, (text(lease.name), lease.holder))


def _holder(db: apsw.Connection, name: str) -> str | None:
    row = first(db, "SELECT holder FROM leases WHERE name = ?", (text(name),))
    return None if row is None else str(row[0])
