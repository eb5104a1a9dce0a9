"""Pack rows of a database into one compressed file, and unpack them, without loss.

The file is compressed lines of JSON. First comes the schema, then for each table its name and
columns, followed by its rows as arrays, and last the row count of each table. `zstd -dc FILE | jq
.` shows it. A BLOB is `{"t": text}` where it is UTF-8, else `{"b": base64}`.
"""

from __future__ import annotations

import io
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from math import isfinite
from typing import Any, NamedTuple

import orjson

SCHEMA = "compact/originals"
VERSION = 2
"""Version of the schema. Version 1 had no vectors."""
LEVEL = 9
"""Compression level. Higher ones take twice the time and save a few percent."""
BATCH = 500
"""How many rows to read at once."""

Cells = tuple[Any, ...]


class Unpackable(Exception):
    """The data is not a packed file."""


class PackedTable(NamedTuple):
    """Holds rows of one table."""

    name: str
    columns: tuple[str, ...]
    rows: Iterable[Cells]


def packed(session_id: str | bytes, tables: Iterable[PackedTable]) -> bytes:
    """Return the content of a file with these tables. Equal tables give equal bytes."""
    import zstandard  # loaded on demand

    compressor = zstandard.ZstdCompressor(level=LEVEL, write_checksum=True).compressobj()
    counts: Counter[str] = Counter()
    out = [compressor.compress(_line({"schema": SCHEMA, "version": VERSION}))]
    out.append(compressor.compress(_line({"session": _cell(session_id)})))
    for table in tables:
        out.append(compressor.compress(_line({"table": table.name, "columns": table.columns})))
        counts[table.name] += 0
        for row in table.rows:
            out.append(compressor.compress(line_of(row)))
            counts[table.name] += 1
    out.append(compressor.compress(_line({"rows": counts})))
    return b"".join([*out, compressor.flush()])


def unpacked(data: bytes) -> Iterator[PackedTable]:
    """Yield the tables of a file in batches of rows. One table may come several times.

    Raises:
        Unpackable: the data is not a packed file, is incomplete, or is of a newer version.
    """
    import zstandard

    try:
        yield from _tables(_lines(data))
    except (zstandard.ZstdError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise Unpackable(f"it cannot be unpacked: {error}") from error


def _lines(data: bytes) -> Iterator[Any]:
    import zstandard

    reader = zstandard.ZstdDecompressor().stream_reader(io.BytesIO(data))
    for line in io.BufferedReader(reader, 1 << 20):
        yield orjson.loads(line)


def _tables(lines: Iterator[Any]) -> Iterator[PackedTable]:
    head: dict[str, Any] = next(lines, {})
    if head.get("schema") != SCHEMA:
        raise Unpackable("it holds no originals of a conversation")
    if head["version"] > VERSION:
        raise Unpackable("it was written by a newer version of compact. Update compact")
    next(lines)
    counts: Counter[str] = Counter()
    name, columns, rows = "", (), list[Cells]()
    for line in lines:
        if isinstance(line, list):
            rows.append(tuple(map(_read, line)))
            if len(rows) < BATCH:
                continue
        if name:
            counts[name] += len(rows)
            yield PackedTable(name, columns, rows)
            rows = []
        if isinstance(line, dict):
            if "rows" in line:
                if dict(counts) != line["rows"]:
                    raise Unpackable("it does not have as many rows as it says")
                return
            name, columns = line["table"], tuple(line["columns"])
    raise Unpackable("its end is missing")


def line_of(row: Sequence[Any]) -> bytes:
    """Return a row as a line of JSON."""
    return _line(list(map(_cell, row)))


def fingerprint(rows: Iterable[Cells]) -> bytes:
    """Return a checksum over rows."""
    digest = sha256()
    for row in rows:
        digest.update(line_of(row))
    return digest.digest()


def _line(value: Any) -> bytes:  # noqa: ANN401 - any JSON value
    return orjson.dumps(value, option=orjson.OPT_APPEND_NEWLINE)


def _cell(value: Any) -> Any:  # noqa: ANN401 - any value of SQLite
    if isinstance(value, bytes):
        try:
            return {"t": value.decode()}
        except UnicodeDecodeError:
            return {"b": b64encode(value).decode()}
    if isinstance(value, float) and not isfinite(value):
        return {"f": repr(value)}
    return value


def _read(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    if not isinstance(value, dict):
        return value
    ((kind, text),) = value.items()
    if kind == "t":
        return text.encode()
    return float(text) if kind == "f" else b64decode(text)
