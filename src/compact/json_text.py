"""Values as JSON text: what every file of JSON that is written here is made by."""

from __future__ import annotations

import json

import orjson


def write_json(value: object, *, indent: int | None = None) -> str:
    """The value as JSON text, letters as they are; lone surrogates come out as escapes."""
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
