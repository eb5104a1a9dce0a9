"""Make texts fit for UTF-8.

A text that was cut inside an emoji, or read from a file that is not UTF-8, holds half a surrogate
pair. A history keeps it, but a request cannot be written with it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from pydantic_core import to_json

_Json = TypeVar("_Json")
PIECE = 65_536
"""How many characters are changed at once: in about a millisecond, while other threads wait."""


def piecewise(text: str, change: Callable[[str], str]) -> str:
    """Change a long text piece by piece, so that other threads can run in between. Use it for
    changes that treat each character by itself.
    """
    return "".join(change(text[start : start + PIECE]) for start in range(0, len(text), PIECE))


def carried(text: str) -> str:
    """Join neighbouring halves of a surrogate pair, and replace single halves by U+FFFD. If there
    are none, return the text itself.
    """
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def all_carried(value: _Json) -> _Json:
    """Apply `carried` to all texts and keys of a JSON value. If nothing changes, return the value
    itself.
    """
    try:
        to_json(value)
    except ValueError:
        made: _Json = with_texts(value, carried, keys=True)
        return made
    return value


def with_texts(value: Any, change: Callable[[str], str], *, keys: bool = False) -> Any:  # noqa: ANN401 - JSON has no narrower type
    """Apply `change` to every text of a JSON value, and to keys only if `keys` is true."""
    match value:
        case str():
            return change(value)
        case Mapping():
            inner = {k: with_texts(x, change, keys=keys) for k, x in value.items()}
            return {with_texts(k, change): x for k, x in inner.items()} if keys else inner
        case list() | tuple():
            return [with_texts(x, change, keys=keys) for x in value]
        case _:
            return value
