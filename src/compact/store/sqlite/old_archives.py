"""Archives that schema 3 wrote: table rows as compressed lines of JSON, and a description in a
second file. They are converted to the rows of today's session files.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping
from typing import Any

import orjson

from compact.messages.codec import load
from compact.store.session_file import OwnRows, unpacked
from compact.store.sqlite.rows import BITS, moment, position_in, text_of

_HEAD = b'{"schema":"compact/originals"'


def is_old(data: bytes) -> bool:
    """Return whether schema 3 wrote these originals."""
    return unpacked(data).startswith(_HEAD)


def rows_of_old(data: bytes) -> OwnRows:
    """Return branch id → its fork and messages, as the rows of a session's file.

    Raises:
        ValueError, LookupError, TypeError, AttributeError: the archive is damaged or incomplete.
    """
    tables: dict[str, list[dict[str, Any]]] = {}
    name, columns = "", list[str]()
    for line in unpacked(data).splitlines()[2:]:
        value = orjson.loads(line)
        if isinstance(value, list):
            tables[name].append(dict(zip(columns, map(_cell, value), strict=True)))
        elif "table" in value:
            name, columns = value["table"], value["columns"]
            tables[name] = []
        elif {each: len(rows) for each, rows in tables.items()} != value["rows"]:
            raise ValueError("it does not have as many rows as it says")
        else:
            name = "end"
    if name != "end":
        raise ValueError("its end is missing")
    own: dict[int, list[Mapping[str, Any]]] = {row["key"]: [] for row in tables["branches"]}
    for row in tables["messages"]:
        own[row["key"] >> BITS].append(_message(row))
    return {text_of(row["id"]): (row["fork"], own[row["key"]]) for row in tables["branches"]}


def _message(row: Mapping[str, Any]) -> Mapping[str, Any]:
    return {
        "role": row["role"],
        "id": f"m{position_in(row['key'])}" if row["id"] is None else text_of(row["id"]),
        "at": moment(row["timestamp"], row["zone"]).isoformat(),
        "score": row["importance_score"],
        "content": row["content"],
        "payload": load(row["payload"]),
        "tokens": row["token_count"],
        "marks": row["marks"],
    }


def _cell(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    if not isinstance(value, dict):
        return value
    ((kind, cell),) = value.items()
    if kind == "t":
        return cell.encode()
    return float(cell) if kind == "f" else b64decode(cell)
