"""Whole sessions come into the file, and grow by what their source has more: in one transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import apsw

from compact.core.sessions import Entry
from compact.storage.sqlite import branch_lineage, messages
from compact.storage.sqlite import sessions as session_rows
from compact.storage.sqlite.rows import json_of, text


def add_from_source(
    db: apsw.Connection,
    branch_id: str,
    entries: Sequence[Entry],
    *,
    expected: int,
    metadata: Mapping[str, Any],
) -> None:
    """Append what the source of a session has more, and say so in the session's metadata.

    Raises:
        Superseded: the branch does not have `expected` messages any more.
        InvalidMessage: one holds something that cannot be stored.
    """
    messages.append(db, branch_id, entries, expected=expected)
    session_id = branch_lineage.branch(db, branch_id).session_id
    found = session_rows.session(db, session_id)
    told = {**(found.metadata if found else {}), **metadata}
    sql = "UPDATE sessions SET metadata = ? WHERE id = ?"
    db.execute(sql, (json_of(told), text(session_id)))
