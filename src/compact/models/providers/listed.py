"""What a server's list of models says of one of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def row_of(rows: object, name: str) -> Mapping[str, Any]:
    """The row of that name, or the only one: servers of one model call it what they like."""
    listed = [row for row in rows if isinstance(row, Mapping)] if isinstance(rows, list) else []
    named = [row for row in listed if row.get("id") == name]
    return next(iter(named or (listed if len(listed) == 1 else ())), {})


def number(places: Sequence[Mapping[str, Any]], names: Sequence[str]) -> int | None:
    """The first of the fields, in any of the places, that holds a number of tokens."""
    found = (place.get(name) for name in names for place in places)
    return next((value for value in found if type(value) is int and value > 0), None)
