"""What the indexes of a damaged file still know of rows that are lost."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import apsw

from compact.storage.sqlite.rows import BITS, LAST, Row, query, text_of

_NEWEST = (
    "SELECT max(key) FROM messages INDEXED BY messages_fixed "
    "WHERE marks & 1 AND key BETWEEN ? AND ?",
    "SELECT max(key) FROM messages INDEXED BY messages_of_persons "
    "WHERE marks & 2 AND key BETWEEN ? AND ?",
    "SELECT max(id) FROM words_docsize WHERE id BETWEEN ? AND ?",
)
_COUNTED = {
    "checkpoints": "SELECT id FROM checkpoints INDEXED BY sqlite_autoindex_checkpoints_1",
    "projections": "SELECT id FROM projections INDEXED BY sqlite_autoindex_projections_1",
    "moves": "SELECT number FROM moves INDEXED BY moves_by_window",
    "snapshots": "SELECT id FROM snapshots INDEXED BY sqlite_autoindex_snapshots_1",
}
"""Rows of other tables than that of messages, as an index knows them."""


class Hints:
    """Asks indexes, each of which holds some columns of its table. What is lost is left out."""

    def __init__(self, copy: Path) -> None:
        self._db: apsw.Connection | None = None
        with suppress(apsw.Error):
            self._db = apsw.Connection(str(copy), flags=apsw.SQLITE_OPEN_READONLY)
            query(self._db, "PRAGMA writable_schema = on")  # as in `salvage`
        by_id = "SELECT key, id FROM {0} INDEXED BY sqlite_autoindex_{0}_1"
        self.branches = self._names(by_id.format("branches"))
        """Key of a branch → its id."""
        self.sessions = self._names(by_id.format("sessions"))
        """Key of a session → its id."""
        self.scopes = self._names("SELECT key, scope FROM sessions INDEXED BY sessions_by_scope")
        """Key of a session → its scope."""
        self.owners: dict[int, int] = dict(
            self._rows("SELECT key, session FROM branches INDEXED BY branches_by_session")
        )
        """Key of a branch → that of its session."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._db is not None:
            self._db.close(True)

    def least_length(self, branch: int) -> int:
        """How many messages a branch had at least."""
        keys = branch << BITS, branch << BITS | LAST
        found = [row[0] for sql in _NEWEST for row in self._rows(sql, keys) if row[0] is not None]
        return max(((key & LAST) + 1 for key in found), default=0)

    def counts(self) -> dict[str, int]:
        """Table → how many rows it had at least."""
        return {table: len(self._rows(sql)) for table, sql in _COUNTED.items()}

    def _names(self, sql: str) -> dict[int, str]:
        return {key: text_of(name) for key, name in self._rows(sql)}

    def _rows(self, sql: str, bindings: tuple[int, ...] = ()) -> list[Row]:
        if self._db is None:
            return []
        with suppress(apsw.Error, UnicodeDecodeError):
            return query(self._db, sql, bindings)
        return []
