"""Values as JSON text, for every JSON file that compact writes."""

from __future__ import annotations

import json

import orjson


def write_json(value: object, *, indent: int | None = None) -> str:
    """Return the value as JSON text. Only lone surrogates are escaped."""
    if indent is None:
        try:
            return orjson.dumps(value).decode()
        except (orjson.JSONEncodeError, TypeError):
            pass
    separators = (",", ":") if indent is None else None
    text = json.dumps(value, ensure_ascii=False, indent=indent, separators=separators)
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(value, indent=indent, separators=separators)
    return text
