"""Chats of an earlier assistant, read from its database: the rows of its tables `conversations` and
`messages`, as they are. What they mean is said in `storage.transcripts.sqlite_chats`.

The file itself is never opened by SQLite: it reads a copy, so that nothing is made beside the file,
and what was written to it last (its log) is read too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import apsw

from compact.errors import InvalidTranscript

BESIDE = ("-wal", "-journal")
"""Ends of the names of files beside a database that belong to what is in it."""
_TABLES = ("conversations", "messages")
_LINKS = ("conversation_id", "conversationid", "conv_id", "chat_id", "thread_id", "session_id")
"""Columns that say which conversation a message is of."""
_KEYS = ("id", "conversation_id", "uuid")
"""Columns that are a conversation's id."""

Cells = dict[str, Any]


def conversations(data: bytes, beside: Mapping[str, bytes], source: str) -> list[Cells]:
    """Every conversation, `{"conversation": its row, "messages": its rows}`, in the order of the
    tables; messages whose conversation has no row come last, each conversation by its id.

    Raises:
        InvalidTranscript: it is damaged, or has no such tables.
    """
    with TemporaryDirectory(prefix="compact-chats-", ignore_cleanup_errors=True) as folder:
        copy = Path(folder) / "chats.db"
        copy.write_bytes(data)
        for end, content in beside.items():
            Path(f"{copy}{end}").write_bytes(content)
        try:
            db = apsw.Connection(str(copy), flags=apsw.SQLITE_OPEN_READWRITE)
            try:
                return _read(db, source)
            finally:
                db.close(True)
        except (apsw.Error, UnicodeDecodeError) as error:
            reason = " ".join(str(error).split())
            raise InvalidTranscript(source, f"SQLite cannot read it: {reason}") from None


def _read(db: apsw.Connection, source: str) -> list[Cells]:
    db.pragma("trusted_schema", False)
    names = {str(name).lower() for (name,) in db.execute("SELECT name FROM sqlite_master")}
    if missing := [name for name in _TABLES if name not in names]:
        what = "a SQLite database without " + " and ".join(f"the table {x}" for x in missing)
        if "branches" in names and "sessions" in names:
            what += "; it is a store of compact, which --store opens"
        raise InvalidTranscript(source, what, is_foreign=True)
    records = list(_rows(db, "SELECT * FROM conversations"))
    said = list(_rows(db, "SELECT * FROM messages"))
    link = _column(said, _LINKS, "messages", source)
    key = _column(records, _KEYS, "conversations", source)
    found: dict[Any, Cells] = {
        record[key]: {"conversation": record, "messages": []} for record in records
    }
    for row in said:
        owner = row[link]
        if owner not in found:
            found[owner] = {"conversation": {key: owner}, "messages": []}
        found[owner]["messages"].append(row)
    return list(found.values())


def _rows(db: apsw.Connection, sql: str) -> Iterator[Cells]:
    """The rows of a query by the names of their columns, in lower case."""
    cursor = db.execute(sql)
    names: list[str] = []
    for row in cursor:
        names = names or [str(each[0]).lower() for each in cursor.getdescription()]
        yield dict(zip(names, row, strict=True))


def _column(rows: list[Cells], names: tuple[str, ...], table: str, source: str) -> str:
    """The first of the columns that the rows have.

    Raises:
        InvalidTranscript: they have none of them.
    """
    if not rows:
        return names[0]
    for name in names:
        if name in rows[0]:
            return name
    raise InvalidTranscript(source, f"the table {table} has no column {' or '.join(names)}")
