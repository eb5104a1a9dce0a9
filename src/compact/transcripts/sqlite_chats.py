"""Reads SQLite databases with the tables `conversations` and `messages`, as assistants write them.

`transcripts.chats` reads the tables. Decisions:

- Columns have one of several usual names (`content`, `text`, `body`; `timestamp`, `created_at`).
  Unknown columns stay in the rows.
- Messages are sorted by time. Messages of the same time keep the order of the table.
- Roles and contents: see `roles`. A content that is a JSON list of parts is read as parts. Keys of
  `metadata` (a tool's name, a call's id) are used if no column has them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from compact.messages.times import time_of
from compact.transcripts.documents import Database, Document, choose
from compact.transcripts.roles import ByRole
from compact.transcripts.transcript import Container, Row, Transcript, text_or

NAME = "sqlite_chats"
_CONTENTS = ("content", "text", "body", "message", "parts")
_ROLES = ("role", "sender", "author", "speaker")
_TIMES = ("timestamp", "created_at", "createdat", "created", "time", "date", "sent_at")
_KEYS = ("id", "conversation_id", "uuid")
_TITLES = ("title", "name", "subject")
_MODELS = ("model", "model_name", "model_key", "model_used")


def recognizes(document: Document) -> bool:
    """Whether the file is a database. Loading refuses databases without these tables."""
    return isinstance(document, Database)


def titles(document: Document) -> list[str | None]:
    """Return the conversations' titles, in order."""
    return [_text(value["conversation"], _TITLES) for _, value in document.rows]


def read(
    document: Document, *, conversation: int | None = None, active: bool = False
) -> Transcript:
    """Read one conversation of the database. `active` changes nothing.

    Raises:
        InvalidTranscript: names the wrong message.
    """
    values = [value for _, value in document.rows]
    value = choose(values, conversation, source=document.source, titles=lambda: titles(document))
    record = value["conversation"]
    key = _first(record, _KEYS)
    chat = ByRole(document.source)
    for row in _in_order(value["messages"]):
        facts = {**_metadata(row), **{k: x for k, x in row.items() if x is not None}}
        place = f"conversation {key!r}, message {row.get('id')!r}"
        own = {**facts, "id": str(row["id"]) if row.get("id") is not None else None}
        chat.take(_first(row, _ROLES), _content(row), own, place=place, time=_time(row))
    chat.finish()
    return chat.transcript(
        document,
        NAME,
        whole=record,
        title=_text(record, _TITLES),
        model=_model(record, value["messages"]),
        session_id=None if key is None else str(key),
        conversations=len(values),
        container=Container(fields={"record": record}),
    )


def _in_order(rows: Sequence[Row]) -> list[Row]:
    """Return the rows by time. A row without a time stays after the row before it."""
    last = datetime.min.replace(tzinfo=UTC)
    timed: list[tuple[datetime, Row]] = []
    for row in rows:
        last = _time(row) or last
        timed.append((last, row))
    return [row for _, row in sorted(timed, key=lambda each: each[0])]


def _first(row: Row, names: Sequence[str]) -> object:
    return next((row[name] for name in names if row.get(name) is not None), None)


def _text(row: Row, names: Sequence[str]) -> str | None:
    return next((text for name in names if (text := text_or(row.get(name)))), None)


def _time(row: Row) -> datetime | None:
    return next((time for name in _TIMES if (time := time_of(row.get(name)))), None)


def _content(row: Row) -> object:
    """Return the text of a message. If it is a JSON list of parts, return the parts."""
    value = _first(row, _CONTENTS)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, str) and value.startswith("[{"):
        parts = _json(value)
        if isinstance(parts, list) and all(isinstance(x, dict) and "type" in x for x in parts):
            return parts
    return value


def _metadata(row: Row) -> Mapping[str, Any]:
    metadata = _json(row.get("metadata"))
    return metadata if isinstance(metadata, dict) else {}


def _model(record: Row, rows: Sequence[Row]) -> str | None:
    """Return the last model of the messages, or else the model of the conversation."""
    models = (_text({**_metadata(row), **row}, _MODELS) for row in reversed(rows))
    return next((model for model in models if model), _text(record, _MODELS))


def _json(value: object) -> object:
    try:
        return json.loads(value) if isinstance(value, str) else None
    except (ValueError, RecursionError):
        return None
