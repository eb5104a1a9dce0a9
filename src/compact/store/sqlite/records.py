"""Stores values as rows. Each row has a digest of its values, which shows if the row was altered.

Messages have a hash chain instead. Sessions and branches have no digest, because their rows change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from hashlib import blake2b
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar

import apsw
from pydantic import BaseModel

from compact.errors import NotFound
from compact.messages import codec
from compact.messages.sessions import CheckpointRef, Piece, Run, Shown
from compact.store.sqlite.rows import (
    Column,
    Row,
    Unreadable,
    compressed,
    expanded,
    first,
    json_of,
    query,
    reading,
    text,
    text_of,
    time_of,
    value_of,
)

_COLUMNS = {
    "checkpoints": "session id number level first_seq last_seq messages source_tokens token_count "
    "made_by until kept released parents anchors verdicts summary",
    "projections": "session id window number at cut tokens parent made_at kept checkpoints pieces",
    "moves": "session window kind branch at projection before made_at",
    "snapshots": "session id branch purpose note at window projection checkpoints goals policy "
    "created_at",
    "changes": "session branch at kind what",
    "notes": "session name value",
    "digests": "session level score fingerprint original_tokens tokens made_by made_at survival "
    "verdicts about text",
}
COLUMNS: Mapping[str, Sequence[str]] = {name: text.split() for name, text in _COLUMNS.items()}
"""Table → the columns that its digest covers, in order."""
_NAMES = {"moves": "number", "changes": "number", "notes": "name", "digests": "level"}
"""Table → the column that names a row within a session, if that is not `id`."""
_FIELDS = {
    "first_seq": "span.first",
    "last_seq": "span.last",
    "messages": "span.messages",
    "source_tokens": "span.tokens",
    "branch": "branch_id",
    "projection": "projection_id",
    "checkpoints": "checkpoint_ids",
    "original_tokens": "source_tokens",
    "survival": "kept",
}
"""Column → the model field that it holds, if the names differ."""
OF_SESSION = "session = (SELECT key FROM sessions WHERE id = ?)"
"""SQL that matches a session's rows by the session's id."""
ONCE = "ON CONFLICT DO NOTHING"
"""SQL that keeps a row if it exists already."""
Model = TypeVar("Model", bound=BaseModel)


class Altered(NamedTuple):
    """A row that differs from what was stored."""

    where: str
    """A condition that finds the row in its table, with `key` as bindings."""
    key: tuple[Column, Column]
    """The key of the row's session, and the value that names the row."""
    digest: bytes
    """The digest of the row's present values."""


class _Form(NamedTuple):
    write: Callable[[Any], Column]
    read: Callable[[Any], Any]


def _piece_of(value: Any) -> Piece:  # noqa: ANN401 - any JSON value
    if isinstance(value, list):
        return Run(*value)
    if isinstance(value, str):
        return CheckpointRef(value)
    return Shown(codec.decode_whole(value), value.get("position"))


_TIME = _Form(datetime.isoformat, time_of)
_TEXT = _Form(text, text_of)
_JSON = _Form(json_of, value_of)
_MODELS = _Form(lambda told: json_of([each.model_dump(mode="json") for each in told]), value_of)
_MODEL = _Form(lambda told: json_of(told.model_dump(mode="json")), value_of)
_PIECES = _Form(
    lambda pieces: json_of(list(map(codec.encode_piece, pieces))),
    lambda column: tuple(map(_piece_of, value_of(column))),
)
_FORMS: Mapping[str, _Form] = {
    **dict.fromkeys(("until", "made_at", "created_at"), _TIME),
    **dict.fromkeys(("branch", "note", "summary"), _TEXT),
    "text": _Form(compressed, expanded),
    **dict.fromkeys(("kept", "released", "parents", "anchors", "checkpoints", "policy"), _JSON),
    **dict.fromkeys(("verdicts", "goals"), _MODELS),
    **dict.fromkeys(("survival", "about"), _MODEL),
    "level": _Form(str, str),
    "pieces": _PIECES,
}
"""Column → how its field is written and read. Other columns hold the field itself."""


def digest(values: Sequence[Column]) -> bytes:
    """Return the digest of a row."""
    hashed = blake2b(digest_size=16)
    for value in values:
        data = value if isinstance(value, bytes) else str(value).encode()
        hashed.update(f"{type(value).__name__} {len(data)} ".encode() + data)
    return hashed.digest()


def insert(db: apsw.Connection, table: str, values: Sequence[Column], on_conflict: str) -> None:
    """Insert a row with its digest. Values are in the order of `COLUMNS`."""
    names, marks = ", ".join(COLUMNS[table]), "?, " * len(values)
    db.execute(
        f"INSERT INTO {table} ({names}, digest) VALUES ({marks}?) {on_conflict}",
        (*values, digest(values)),
    )


def insert_value(
    db: apsw.Connection, table: str, value: BaseModel, on_conflict: str = "", **given: Column
) -> None:
    """Insert a value as a row. Columns in `given` get that value instead."""
    row = [given[x] if x in given else _column_of(value, x) for x in COLUMNS[table]]
    insert(db, table, row, on_conflict)


def _column_of(value: BaseModel, column: str) -> Column:
    field = attrgetter(_FIELDS.get(column, column))(value)
    column_value: Column = _FORMS[column].write(field) if column in _FORMS else field
    return column_value


def key_of(db: apsw.Connection, session_id: str) -> int:
    """Return the session's key.

    Raises:
        NotFound: no such session.
    """
    row = first(db, "SELECT key FROM sessions WHERE id = ?", (text(session_id),))
    if row is None:
        raise NotFound(f"no session {session_id!r} in this store")
    return int(row[0])


def of_session(db: apsw.Connection, table: str, session_id: str, order: str = "key") -> list[Row]:
    """Return a session's rows of a table, as `checked` needs them."""
    sql = f"SELECT {columns(table)} FROM {table} WHERE {OF_SESSION} ORDER BY {order}"
    return query(db, sql, (text(session_id),))


def columns(table: str) -> str:
    """Return the columns of a table that `checked` needs, as text for a SELECT."""
    return ", ".join(f"{table}.{name}" for name in (*COLUMNS[table], "digest"))


def checked(table: str, row: Row) -> Row:
    """Check a row of `columns`. Return its values in the order of `COLUMNS`.

    Raises:
        Unreadable: the row differs from what was stored.
    """
    *values, stored = row
    if digest(values) != stored:
        raise Unreadable(f"a row of {table} is not the one that was stored")
    return tuple(values)


@reading()
def value_in(model: type[Model], table: str, row: Row, **given: object) -> Model:
    """Make a value from a row of `columns`. Fields in `given` get that value instead."""
    fields: dict[str, Any] = {}
    for column, value in zip(COLUMNS[table], checked(table, row), strict=True):
        field, _, part = _FIELDS.get(column, column).partition(".")
        if field in model.model_fields and field not in given:
            inside = fields.setdefault(field, {}) if part else fields
            inside[part or field] = _FORMS[column].read(value) if column in _FORMS else value
    return model.model_validate({**fields, **given})


def altered(db: apsw.Connection, table: str) -> list[Altered]:
    """Return the rows that differ from what was stored."""
    name = _NAMES.get(table, "id")
    return [
        Altered(f"session = ? AND {name} = ?", (row[0], row[-1]), now)
        for row in query(db, f"SELECT {columns(table)}, {name} FROM {table}")
        if (now := digest(row[:-2])) != row[-2]
    ]
