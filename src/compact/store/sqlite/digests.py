"""What age leaves of sessions, one row each; and leases, which say who does a piece of work."""

from __future__ import annotations

from datetime import datetime

import apsw

from compact.errors import Superseded
from compact.messages.codec import instant
from compact.store.sqlite import archived_rows, branch_lineage, records, sessions
from compact.store.sqlite.rows import BITS, LAST, first, query, text, text_of
from compact.text.digests import CompressedConversation, CompressionLevel, DigestNote, Lease

_NOTES = """
    SELECT s.id, d.level, d.score, d.fingerprint, d.original_tokens, d.tokens, octet_length(d.text)
    FROM digests d JOIN sessions s ON s.key = d.session WHERE ?1 IS NULL OR s.scope = ?1
"""


def digest(db: apsw.Connection, session_id: str) -> CompressedConversation | None:
    """The session's digest; None where it has none."""
    key = records.key_of(db, session_id)
    sql = f"SELECT {records.columns('digests')} FROM digests WHERE session = ?"
    row = first(db, sql, (key,))
    return None if row is None else records.value_in(CompressedConversation, "digests", row)


def digest_notes(db: apsw.Connection, scope: str | None) -> dict[str, DigestNote]:
    """What is known of the digests of a scope's sessions, or of all, by the session's id."""
    rows = query(db, _NOTES, (None if scope is None else text(scope),))
    return {
        text_of(name): DigestNote(CompressionLevel(level), *rest) for name, level, *rest in rows
    }


def keep_digest(
    db: apsw.Connection,
    session_id: str,
    digest: CompressedConversation | None,
    *,
    chain: bytes,
    lease: Lease | None = None,
) -> None:
    """Put a digest in the place of the session's own, or None.

    Raises:
        NotFound: there is no such session.
        Superseded: it was made of other messages, or somebody else has the lease by now.
    """
    key = records.key_of(db, session_id)
    if lease is not None and _holder(db, lease.name) != lease.holder:
        raise Superseded(f"somebody else has the lease {lease.name!r} by now")
    found = sessions.session(db, session_id)
    if found is None or branch_lineage.chain(db, found.branch.id, found.branch.messages) != chain:
        raise Superseded(f"session {session_id!r} has other messages by now")
    db.execute("DELETE FROM digests WHERE session = ?", (key,))
    if digest is not None:
        records.insert_value(db, "digests", digest, session=key)
        told = digest.in_short
        if told and archived_rows.tell(db, key, told):
            archived_rows.index_words(db, key, found, told)


def stored_bytes(db: apsw.Connection, session_id: str) -> int:
    """Bytes of the messages of the session's branch in force."""
    row = first(
        db,
        "SELECT branch FROM sessions WHERE key = ?",
        (records.key_of(db, session_id),),
    )
    branch = row[0] if row else 0
    sql = """
        SELECT total(length(payload) + octet_length(coalesce(content, ''))) FROM messages
        WHERE key BETWEEN ? AND ?
    """
    return int(query(db, sql, (branch << BITS, branch << BITS | LAST))[0][0])


# --- leases ---------------------------------------------------------------------------------------


def hold_lease(db: apsw.Connection, lease: Lease, *, now: datetime, until: datetime) -> bool:
    """Take or renew a lease; False where somebody else holds it beyond `now`."""
    sql = """
        INSERT INTO leases (name, holder, until) VALUES (?1, ?2, ?4)
        ON CONFLICT DO UPDATE SET holder = ?2, until = ?4 WHERE holder = ?2 OR until <= ?3
    """
    db.execute(sql, (text(lease.name), lease.holder, instant(now), instant(until)))
    return _holder(db, lease.name) == lease.holder


def release_lease(db: apsw.Connection, lease: Lease) -> None:
    """Let go of a lease; nothing where somebody else has it by now."""
    sql = "DELETE FROM leases WHERE name = ? AND holder = ?"
    db.execute(sql, (text(lease.name), lease.holder))


def _holder(db: apsw.Connection, name: str) -> str | None:
    row = first(db, "SELECT holder FROM leases WHERE name = ?", (text(name),))
    return None if row is None else str(row[0])
