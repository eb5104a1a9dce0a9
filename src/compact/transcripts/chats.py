"""Reads conversations and messages from the tables of SQLite databases that assistants wrote.

`transcripts.sqlite_chats` turns the rows into messages. SQLite opens only a copy, so that no file
appears next to the original. The newest rows, which may still be in the database's log, are read
too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import apsw

from compact.errors import InvalidTranscript

LOG_SUFFIXES = ("-wal", "-journal")
"""Suffixes of files that belong to a database."""
_TABLES = ("conversations", "messages")
_LINKS = ("conversation_id", "conversationid", "conv_id", "chat_id", "thread_id", "session_id")
"""Columns that may hold the id of the conversation of a message."""
_KEYS = ("id", "conversation_id", "uuid")
"""Columns that may hold the id of a conversation."""

Cells = dict[str, Any]


def conversations(data: bytes, beside: Mapping[str, bytes], source: str) -> list[Cells]:
    """Return all conversations as `{"conversation": row, "messages": rows}`, in the order of the
    table. Messages whose conversation has no row come last, grouped by its id.

    Raises:
        InvalidTranscript: the database is damaged, or does not have these tables.
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
    if "responses" in names:
        return list(_llm_logs(db, names).values())
    if missing := [name for name in _TABLES if name not in names]:
        what = "a SQLite database without " + " and ".join(f"the table {x}" for x in missing)
        if "branches" in names and "sessions" in names:
            what += "; it is a store of compact, which --store opens"
        raise InvalidTranscript(source, what, is_foreign=True)
    records = list(_rows(db, "SELECT * FROM conversations"))
    messages = list(_rows(db, "SELECT * FROM messages"))
    link = _column(messages, _LINKS, "messages", source)
    key = _column(records, _KEYS, "conversations", source)
    chats: dict[Any, Cells] = {
        record[key]: {"conversation": record, "messages": []} for record in records
    }
    for row in messages:
        owner = row[link]
        if owner not in chats:
            chats[owner] = {"conversation": {key: owner}, "messages": []}
        chats[owner]["messages"].append(row)
    return list(chats.values())


def _llm_logs(db: apsw.Connection, names: set[str]) -> dict[Any, Cells]:
    """Return the conversations in the logs of `llm`. Each row has a prompt and a response."""
    listed = (
        db.execute("SELECT id, name, model FROM conversations") if "conversations" in names else ()
    )
    chats: dict[Any, Cells] = {
        key: {"conversation": {"id": key, "name": name, "model": model}, "messages": []}
        for key, name, model in listed
    }
    beside: dict[tuple[str, Any], list[Cells]] = {}
    for table, sql in _LLM_BESIDE.items():
        for row in _rows(db, sql) if table in names else ():
            beside.setdefault((table, row["response_id"]), []).append(row)
    system: object = None
    for row in _rows(db, "SELECT * FROM responses ORDER BY datetime_utc, rowid"):
        key, own = row.get("conversation_id"), row["id"]
        chat = chats.setdefault(key, {"conversation": {"id": key}, "messages": []})["messages"]
        system = None if not chat else system
        texts = {
            name: "\n\n".join(
                str(text)
                for text in (
                    *(x["content"] for x in beside.get((f"{name}_fragments", own), ())),
                    row[name],
                )
                if text
            )
            for name in ("system", "prompt")
        }
        turns: list[Cells] = [
            {**each, "role": "tool"} for each in beside.get(("tool_results", own), ())
        ]
        if texts["system"] and texts["system"] != system:
            turns.insert(0, {"role": "system", "content": texts["system"]})
        system = texts["system"]
        if texts["prompt"]:
            turns.append({"role": "user", "content": texts["prompt"]})
        calls = beside.get(("tool_calls", own))
        turns.append({**row, "role": "assistant", "content": row["response"], "tool_calls": calls})
        chat += [
            {**each, "id": f"{own}-{n}", "timestamp": row.get("datetime_utc")}
            for n, each in enumerate(turns)
        ]
    return chats


_LLM_BESIDE = {
    "tool_calls": "SELECT response_id, name, arguments, tool_call_id FROM tool_calls",
    "tool_results": "SELECT response_id, name, output AS content, tool_call_id FROM tool_results",
    **{
        f"{name}_fragments": f"SELECT response_id, content FROM {name}_fragments "
        'JOIN fragments ON fragments.id = fragment_id ORDER BY "order"'
        for name in ("system", "prompt")
    },
}
"""A table in which `llm` keeps more about its responses → the query that reads it."""


def _rows(db: apsw.Connection, sql: str) -> Iterator[Cells]:
    """Yield the rows of a query as dictionaries. Column names are in lower case."""
    cursor = db.execute(sql)
    names: list[str] = []
    for row in cursor:
        names = names or [str(each[0]).lower() for each in cursor.getdescription()]
        yield dict(zip(names, row, strict=True))


def _column(rows: list[Cells], names: tuple[str, ...], table: str, source: str) -> str:
    """Return the first of these columns that the rows have.

    Raises:
        InvalidTranscript: the rows have none of them.
    """
    if not rows:
        return names[0]
    for name in names:
        if name in rows[0]:
            return name
    raise InvalidTranscript(source, f"the table {table} has no column {' or '.join(names)}")
