"""Search of archived sessions by what they say in short: their titles, tags and digests."""

from __future__ import annotations

import apsw

from compact.core.sessions import Session
from compact.core.terms import looked_for
from compact.storage.sqlite import search
from compact.storage.sqlite.rows import query, text, text_of

_FOUND = """
    SELECT s.id FROM archived_words w JOIN sessions s ON s.key = w.rowid
    WHERE w.archived_words MATCH ?1 AND (?2 IS NULL OR s.scope = ?2)
    ORDER BY bm25(archived_words), w.rowid DESC LIMIT ?3
"""


def found(db: apsw.Connection, question: str, scope: str | None, most: int) -> list[str]:
    """Ids of the archived sessions that share words with a question, the best by BM25 first."""
    names = looked_for(question)
    if not names or most <= 0:
        return []
    wanted = " OR ".join(map(search.expression_of, names))
    rows = query(db, _FOUND, (wanted, None if scope is None else text(scope), most))
    return [text_of(row[0]) for row in rows]


def index(db: apsw.Connection, key: int, session: Session, digest: str | None) -> None:
    """Have an archived session found by what it says in short."""
    tags = map(str, session.metadata.get("tags") or ())
    told = "\n".join((session.title or "", *tags, digest or ""))
    remove(db, key)
    sql = "INSERT INTO archived_words (rowid, text) VALUES (?, ?)"
    db.execute(sql, (key, search.indexed_text(told)))


def remove(db: apsw.Connection, session: int) -> None:
    """Have a session found no more; `sweeping` takes its words out of the file."""
    db.execute("DELETE FROM archived_words WHERE rowid = ?", (session,))
