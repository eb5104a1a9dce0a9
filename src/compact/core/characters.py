"""Texts as UTF-8 can carry them.

A text that was cut in the middle of an emoji, or read from a file that is no UTF-8, holds half a
surrogate pair: a history keeps it, and no request can be written with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic_core import to_json

_Json = TypeVar("_Json")


def carried(text: str) -> str:
    """The text with halves of a pair that meet joined, and each other half replaced by U+FFFD; the
    same text where there are none.
    """
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def all_carried(value: _Json) -> _Json:
    """A JSON value with every text in it carried, keys too; the same value where all are."""
    try:
        to_json(value)
    except ValueError:
        walked: _Json = _walked(value)
        return walked
    return value


def _walked(value: Any) -> Any:  # noqa: ANN401 - JSON has no narrower type
    match value:
        case str():
            return carried(value)
        case Mapping():
            return {
                carried(key) if isinstance(key, str) else key: _walked(inner)
                for key, inner in value.items()
            }
        case list() | tuple():
            return [_walked(inner) for inner in value]
        case _:
            return value
