"""Converts values to columns and back: texts, times, JSON, messages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import apsw

from compact.messages import codec
from compact.messages.sessions import Entry
from compact.text.turns import POSITION_BITS

Row = tuple[Any, ...]
Column = str | bytes | int | float | None

BITS = POSITION_BITS
"""How many low bits of a message's key are its position. The branch's key is above them."""
LAST = (1 << BITS) - 1
"""The highest position."""
_FACTS = "key, id, role, timestamp, zone, token_count, importance_score, marks"
MESSAGE_COLUMNS = f"{_FACTS}, payload, content"
"""The columns that `columns_of` fills, with the key before them."""
MOVED = "payload = x''"
"""SQL that matches a message whose text was moved out of `messages`."""
ORIGINAL = "original"
"""The SQL function that reads a moved text (`originals`)."""
TEXTS = f"iif({MOVED}, {ORIGINAL}(key, 0), payload), iif({MOVED}, {ORIGINAL}(key, 1), content)"
"""SQL for the payload and the content of a message, wherever they are kept."""
MESSAGE = f"{_FACTS}, {TEXTS}"
"""The columns that `entry_of` reads."""
SHORT = 500
"""Shorter texts (in characters) are not compressed."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NO_ZONE = "none"
WRONG = (ValueError, LookupError, TypeError, AttributeError, OverflowError)
"""Errors that reading a row with invalid values raises."""


class Unreadable(Exception):
    """A row has invalid values, for example because its page was overwritten."""


@contextmanager
def reading() -> Iterator[None]:
    """Raise `Unreadable` if a row cannot be converted."""
    try:
        yield
    except WRONG as error:
        raise Unreadable(f"a row makes no sense: {error}") from error


def query(db: apsw.Connection, sql: str, bindings: Sequence[Column] = ()) -> list[Row]:
    """Return all rows of a query."""
    return db.execute(sql, bindings).fetchall()


def first(db: apsw.Connection, sql: str, bindings: Sequence[Column] = ()) -> Row | None:
    """Return the first row of a query, or None."""
    rows = db.execute(sql, bindings).fetchall()
    return rows[0] if rows else None


def text(value: str | None) -> str | bytes | None:
    """Return a text in a form that SQLite can store: text that is not Unicode becomes bytes."""
    if value is None or value.isascii():
        return value
    try:
        value.encode()
    except UnicodeEncodeError:
        return value.encode("utf-8", "surrogatepass")
    return value


def text_of(column: str | bytes) -> str:
    """Return the text of a column that `text` wrote.

    Raises:
        Unreadable: it is not text.
    """
    if isinstance(column, str):
        return column
    try:
        return column.decode("utf-8", "surrogatepass")
    except WRONG as error:
        raise Unreadable(f"{column!r} is no text") from error


def text_or_none(column: str | bytes | None) -> str | None:
    """Like `text_of`, but None for NULL."""
    return None if column is None else text_of(column)


def compressed(value: str) -> str | bytes | None:
    """Like `text`, but compresses a text of `SHORT` characters or more."""
    if len(value) < SHORT:
        return text(value)
    import zstandard  # imported only when digests are used

    return zstandard.ZstdCompressor(level=9).compress(value.encode("utf-8", "surrogatepass"))


def expanded(column: str | bytes) -> str:
    """Return the text of a column that `compressed` or `text` wrote.

    Raises:
        Unreadable: it is not text.
    """
    if not isinstance(column, bytes) or not column.startswith(codec.ZSTD):
        return text_of(column)
    import zstandard

    try:
        return text_of(zstandard.ZstdDecompressor().decompress(column))
    except zstandard.ZstdError as error:
        raise Unreadable(f"a text cannot be unpacked: {error}") from error


def expanded_size(column: str | bytes) -> int:
    """Return the length of a column's text in bytes. The start of a compressed column is enough."""
    import zstandard

    if isinstance(column, bytes) and column.startswith(codec.ZSTD):
        return int(zstandard.frame_content_size(column))
    return len(column.encode() if isinstance(column, str) else column)


def json_of(value: object) -> str:
    """Return a JSON value as text.

    Raises:
        InvalidMessage: JSON cannot represent it.
    """
    return codec.dump(value).decode()


def value_of(column: str) -> Any:  # noqa: ANN401 - any JSON value
    """Return the value of a column that `json_of` wrote."""
    return codec.load(column.encode())


def time_of(column: str) -> datetime:
    """Return the time that an ISO 8601 text stands for.

    Raises:
        Unreadable: it is not a time.
    """
    try:
        return datetime.fromisoformat(column)
    except WRONG as error:
        raise Unreadable(f"{column!r} is no time") from error


def position_in(key: int) -> int:
    """Return the position in a message's key."""
    return key & LAST


def columns_of(entry: Entry, position: int) -> Row:
    """Return an entry's columns, without key, running total and chain hash.

    Raises:
        InvalidMessage: the entry cannot be stored; the error says why.
    """
    message = entry.message
    content, payload = codec.encode(message, f"messages[{position}]")
    own_id = None if message.id == f"m{position}" else text(message.id)
    at = message.timestamp
    return (
        own_id,
        message.role,
        codec.instant(at),
        None if at.tzinfo is UTC else _zone(at),
        entry.tokens,
        message.importance_score,
        entry.marks,
        payload,
        content,
    )


def entry_of(row: Row) -> Entry:
    """Make an entry from a row of `MESSAGE`.

    Raises:
        Unreadable: the row has invalid values.
    """
    key, own_id, role, timestamp, zone, tokens, importance, marks, payload, content = row
    try:
        message = codec.decode(
            content,
            payload,
            role=role,
            id=f"m{key & LAST}" if own_id is None else text_of(own_id),
            timestamp=moment(timestamp, zone),
            importance_score=importance,
        )
    except WRONG as error:
        raise Unreadable(f"message {key & LAST} cannot be read: {error}") from error
    return Entry(message, tokens, marks)


def moment(timestamp: int, zone: float | str | None) -> datetime:
    """Return the time that the columns `timestamp` and `zone` hold."""
    since = timedelta(0, 0, timestamp)
    if zone is None:
        return _EPOCH + since
    if isinstance(zone, str):
        return _EPOCH.replace(tzinfo=None) + since
    # Add the offset first: the same instant in UTC may be outside of the calendar.
    at = timezone(timedelta(seconds=zone))
    return _EPOCH.replace(tzinfo=at) + (since + timedelta(seconds=zone))


def _zone(at: datetime) -> Column:
    offset = at.utcoffset()
    if offset is None:
        return _NO_ZONE
    return offset.total_seconds() or None
