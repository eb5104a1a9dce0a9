"""Adds elements to lists in a JSON text and takes them out again. All other bytes stay.

What was added is formatted as the text around it. A list or an object that was made for it is
recognized by that form and goes with it, so that taking out gives the text from before.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

_SPACE = re.compile(r"[ \t\r\n]*")
_INDENT = re.compile(r"\{\r?\n?([ \t]*)")
"""The white space before a file's first key."""
_DECODER = json.JSONDecoder()


class _Part(NamedTuple):
    """A member of an object or an element of a list: its key, and offsets in the text."""

    key: str
    start: int
    value: int
    end: int


def added(text: str, lists: Mapping[tuple[str, ...], object]) -> str:
    """Return the JSON text with an element at the end of each list. A list is named by its keys;
    what is missing is made. An empty text is a file that does not exist.

    Raises:
        ValueError: the text is not JSON, or something else stands where a list should be.
    """
    for keys, element in lists.items():
        text = _added(text, keys, element)
    return text


def removed(text: str, keys: Sequence[str], is_ours: Callable[[Any], bool]) -> str:
    """Return the JSON text without these elements of a list, and without the lists and objects that
    `added` made for them. It is empty if `added` made the whole text.

    Raises:
        ValueError: the text is not JSON.
    """
    if not (path := _path(text, keys)) or len(path) <= len(keys):
        return text
    for part in reversed(list(_parts(text, path[-1].value))):
        if is_ours(json.loads(text[part.value : part.end])):
            text = _cut_up(text, keys, part)
    return text


def _added(text: str, keys: Sequence[str], element: object) -> str:
    newline = "\r\n" if "\r\n" in text else "\n"
    if not text:
        return _dump(_nested(keys, element), "  ", newline) + newline
    path = _path(text, keys)
    depth = len(path) - 1
    value = element if depth == len(keys) else _nested(keys[depth:], element)
    inner = list(_parts(text, path[-1].value))
    if not inner:  # an empty object or list of the file's own: one line, after a space
        at = path[-1].value + 1
        return f"{text[:at]} {_entry(keys[depth:], value, '', '')}{text[at:]}"
    is_in_lines = "\n" in text[path[-1].value : path[-1].end]
    indent = _indent_of(text) if is_in_lines else ""
    pad = newline + indent * (depth + 1) if indent else ""
    entry = _entry(keys[depth:], value, indent, pad)
    at = inner[-1].end
    return f"{text[:at]},{pad}{entry}{text[at:]}"


def _entry(keys: Sequence[str], value: object, indent: str, pad: str) -> str:
    """Return the value as text; with its key, if a key is left."""
    if not keys:
        return _dump(value, indent, pad)
    ((key, inner),) = value.items()  # type: ignore[attr-defined]  # `_nested` made an object
    return f"{json.dumps(key)}:{' ' if indent else ''}{_dump(inner, indent, pad)}"


def _dump(value: object, indent: str, newline: str) -> str:
    """Return the value as text, with `newline` as the line end and indent of its last line."""
    if not indent:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return json.dumps(value, ensure_ascii=False, indent=indent).replace("\n", newline)


def _nested(keys: Sequence[str], element: object) -> object:
    """Return a list with the element, within an object for each key."""
    value: object = [element]
    for key in reversed(keys):
        value = {key: value}
    return value


def _cut_up(text: str, keys: Sequence[str], part: _Part) -> str:
    """Cut an element out, then each list and object that was made for it."""
    path = _path(text, keys)
    indent, newline = _indent_of(text), "\r\n" if "\r\n" in text else "\n"
    element = json.loads(text[part.value : part.end])
    for depth in range(len(keys), -1, -1):
        container = path[depth]
        value = _nested(keys[depth:], element)
        made = _dump(value, indent, newline + indent * depth), _dump(value, "", "")
        if text[container.value : container.end] not in made:
            return _without(text, container, part)
        if depth:
            part = container
    return "" if text == made[0] + newline else _without(text, path[0], part)


def _without(text: str, container: _Part, part: _Part) -> str:
    """Cut a part out of its container, with the comma that is then too much."""
    parts = list(_parts(text, container.value))
    at = next(i for i, each in enumerate(parts) if each.start == part.start)
    if at:
        return text[: parts[at - 1].end] + text[part.end :]
    if len(parts) > 1:
        return text[: part.start] + text[parts[1].start :]
    return text[: container.value + 1] + text[part.end :]


def _path(text: str, keys: Sequence[str]) -> list[_Part]:
    """Return the values that the keys lead to, the whole text first, as far as they exist.

    Raises:
        ValueError: the text is not JSON, or a value is of another kind.
    """
    root = json.loads(text)
    if not isinstance(root, dict):
        raise ValueError("not a JSON object")  # noqa: TRY004 - wrong text, as broken JSON is
    at = _SPACE.match(text).end()  # type: ignore[union-attr]  # it always matches
    path = [_Part("", at, at, len(text.rstrip(" \t\r\n")))]
    for depth, key in enumerate(keys, 1):
        found = [part for part in _parts(text, path[-1].value) if part.key == key]
        if not found:
            break
        kind = "[" if depth == len(keys) else "{"
        if text[found[-1].value] != kind:
            what = "a list" if kind == "[" else "an object"
            raise ValueError(f"{'.'.join(keys[:depth])} is not {what}")
        path.append(found[-1])
    return path


def _parts(text: str, at: int) -> Iterator[_Part]:
    """Yield the parts of the object or list that begins here, in a text that is valid JSON."""
    is_object, at = text[at] == "{", _after_space(text, at + 1)
    while text[at] not in "}]":
        start, key = at, ""
        if is_object:
            key, at = _DECODER.raw_decode(text, at)
            at = _after_space(text, _after_space(text, at) + 1)
        value = at
        _, at = _DECODER.raw_decode(text, at)
        yield _Part(key, start, value, at)
        at = _after_space(text, at)
        if text[at] == ",":
            at = _after_space(text, at + 1)


def _after_space(text: str, at: int) -> int:
    return _SPACE.match(text, at).end()  # type: ignore[union-attr]  # it always matches


def _indent_of(text: str) -> str:
    """Return the white space of one level. Empty if the file is in one line."""
    found = _INDENT.match(text.lstrip())
    return found[1] if found and "\n" in found[0] else ""
