"""Reads arguments of tool calls: JSON that a model wrote, which is not always valid.

A model may leave arguments empty, stop in the middle, or write JSON that only some programs can
read. The log keeps the original text. This module parses it, and writes valid JSON for servers.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from itertools import accumulate
from typing import Any

from compact.messages.characters import all_carried
from compact.patterns import regex

DEEPEST = 100
"""Deepest nesting of JSON that is read. Many programs fail on deeper values."""
_NESTING = regex(r'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)|[][{}]', re.DOTALL)
"""Matches a JSON string, even one that was cut off, or a bracket."""


def read_json(text: str) -> Any:  # noqa: ANN401 - JSON has no narrower type
    """Parse a JSON text that a model wrote.

    Raises:
        ValueError: the text is not JSON, is nested deeper than `DEEPEST`, or has a number that
            JSON cannot write again.
    """
    if _is_deep(text):
        raise ValueError(f"it is nested deeper than {DEEPEST}")
    return _DECODER.decode(text)


def json_or(text: str, otherwise: Any = None) -> Any:  # noqa: ANN401 - JSON has no narrower type
    """Parse a JSON text that a model wrote; return `otherwise` if `read_json` refuses it."""
    try:
        return read_json(text)
    except ValueError:
        return otherwise


def leaves(value: object, key: str = "") -> Iterator[tuple[str, object]]:
    """Yield every text, number, bool or null inside a JSON value, with the nearest key above it."""
    if isinstance(value, Mapping):
        for name, each in value.items():
            yield from leaves(each, str(name))
    elif isinstance(value, list):
        for each in value:
            yield from leaves(each, key)
    else:
        yield key, value


def _is_deep(text: str) -> bool:
    if text.count("{") + text.count("[") <= DEEPEST:
        return False
    steps = {"{": 1, "[": 1, "}": -1, "]": -1}
    depths = (steps.get(each[0], 0) for each in _NESTING.finditer(text))
    return max(accumulate(depths), default=0) > DEEPEST


def _finite(number: str) -> float:
    if not math.isfinite(value := float(number)):
        raise ValueError(f"JSON has no {number}")
    return value


_DECODER = json.JSONDecoder(parse_constant=_finite, parse_float=_finite)


def arguments_of(text: str) -> dict[str, Any]:
    """Return a call's arguments as an object. Any other value is put under the key `arguments`."""
    value = json_or(text, text) if text else {}
    return value if isinstance(value, dict) else {"arguments": value}


def readable_arguments(text: str) -> str:
    """Return a call's arguments as JSON text that every server can read. A JSON object is returned
    unchanged. Anything else is rewritten by `arguments_of`. llama.cpp answers 500 to every prompt
    that holds a call with unreadable arguments.
    """
    value = json_or(text)
    if isinstance(value, dict) and ("\\u" not in text or all_carried(value) is value):
        return text
    return json.dumps(arguments_of(text), ensure_ascii=False)
