"""What other sessions hold of a session that is deleted: entries of their logs that say what was
recalled for a prompt. They hold ids and no words, and what they name of it is left out.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any

import apsw

from compact.storage.sqlite import records
from compact.storage.sqlite.rows import Row, json_of, query, text, text_of, value_of

_RECALLED = f"""
    SELECT changes.number, s.id, {records.columns("changes")} FROM changes
    JOIN sessions s ON s.key = changes.session
    WHERE changes.kind = 'recalled' AND s.scope = ? AND s.id <> ? ORDER BY changes.number
"""


def recalling(db: apsw.Connection, session_id: str, scope: str) -> list[Row]:
    """The entries of other sessions' logs that name a session: number, session, columns, digest."""
    rows = query(db, _RECALLED, (text(scope), text(session_id)))
    return [row for row in rows if any(map(partial(_names, session_id), _turns_of(row)))]


def _turns_of(row: Row) -> list[Any]:
    turns: list[Any] = value_of(row[6]).get("turns") or []
    return turns


def _names(session_id: str, turn: Any) -> bool:  # noqa: ANN401 - any JSON value
    return isinstance(turn, dict) and turn.get("session_id") == session_id


def take_out(db: apsw.Connection, session_id: str, scope: str) -> dict[str, int]:
    """Leave out what other sessions' logs name of a session, within a transaction that writes; how
    many entries of which session.
    """
    counts = Counter[str]()
    for row in recalling(db, session_id, scope):
        number, name, *columns, digest = row
        is_whole = records.digest(columns) == digest
        turns = [turn for turn in _turns_of(row) if not _names(session_id, turn)]
        columns[-1] = json_of({**value_of(columns[-1]), "turns": turns})
        digest = records.digest(columns) if is_whole else digest
        sql = "UPDATE changes SET what = ?, digest = ? WHERE number = ?"
        db.execute(sql, (columns[-1], digest, number))
        counts[text_of(name)] += 1
    return dict(counts)
