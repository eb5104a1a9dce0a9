"""Copies of dictionaries, so that callers cannot change what was counted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from operator import call
from typing import Any, TypeVar

from compact.messages.messages import Message, Part, ToolResult

T = TypeVar("T")
_ATOMS = frozenset((str, int, float, bool, type(None)))
"""Types whose values need no copy."""


def copied(value: T) -> T:
    """Copy the value with its dictionaries and lists at any depth."""
    own: Any = value
    kind = type(own)
    if kind is dict:
        own = own.copy()  # faster than building a new dict: most values are texts
        for k, v in own.items():
            if type(v) not in _ATOMS:
                own[k] = copied(v)
    elif kind is list:
        own = [x if type(x) in _ATOMS else copied(x) for x in own]
    elif kind in _ATOMS:
        pass
    elif isinstance(own, list):
        own = [copied(x) for x in own]
    elif isinstance(own, Mapping):
        own = {k: copied(v) for k, v in own.items()}
    elif isinstance(own, tuple):
        own = tuple(map(copied, own))
    result: T = own
    return result


class Originals:
    """Holds dictionaries that never change and are copied (`copied`) again and again. Each is
    searched once. Nested values are then copied in one pass for each kind.
    """

    def __init__(self, values: Sequence[dict[str, Any]] = ()) -> None:
        self._values: list[dict[str, Any]] = []
        self._dicts: list[dict[str, Any]] = []
        self._others: list[Callable[[], Any]] = []
        """Functions that copy the nested values that are not dictionaries."""
        self._inside: dict[tuple[int, int], list[_Inside]] = defaultdict(list)
        """(kind of holder, kind of value) → places: holder's index, key, value's index."""
        self.insert(0, values)

    def __len__(self) -> int:
        return len(self._values)

    def insert(self, place: int, values: Sequence[dict[str, Any]]) -> None:
        """Insert values before the value at index `place`."""
        if place < len(self._values):
            for (outer, _), rows in self._inside.items():
                if outer == _VALUE:
                    rows[:] = [(i + len(values) * (i >= place), *rest) for i, *rest in rows]
        self._values[place:place] = values
        for i, value in enumerate(values, place):
            self._look_through(_VALUE, i, value.items())

    def copies(self) -> list[dict[str, Any]]:
        """Return a copy of each value."""
        values = list(map(dict.copy, self._values))
        made = values, list(map(dict.copy, self._dicts)), list(map(call, self._others))
        for (outer, inner), rows in self._inside.items():
            outers, inners = made[outer], made[inner]
            for place, key, stands in rows:
                outers[place][key] = inners[stands]
        return values

    def _look_through(self, kind: int, place: int, items: Iterable[tuple[Any, Any]]) -> None:
        """Record which items need copying. `kind` and `place` identify what holds them."""
        for key, value in items:
            if type(value) in _ATOMS:
                continue
            inner, stands = self._recorded(value)
            self._inside[kind, inner].append((place, key, stands))

    def _recorded(self, value: Any) -> tuple[int, int]:  # noqa: ANN401 - what a dictionary holds
        if isinstance(value, dict):
            place = len(self._dicts)
            self._dicts.append(value)
            self._look_through(_DICT, place, value.items())
            return _DICT, place
        place, is_list = len(self._others), type(value) is list
        self._others.append(value.copy if is_list else partial(copied, value))
        if is_list:
            self._look_through(_OTHER, place, enumerate(value))
        return _OTHER, place


_VALUE, _DICT, _OTHER = range(3)
_Inside = tuple[int, Any, int]


def copied_message(message: Message) -> Message:
    """Copy the message with its dictionaries (`copied`). Without any, return the message itself."""
    update: dict[str, Any] = {}
    if message.wire is not None:
        update["wire"] = copied(message.wire)
    if not isinstance(message.content, str):
        update["content"] = tuple(map(_copied_part, message.content))
    if message.metadata.model_extra:
        update["metadata"] = message.metadata.model_copy(deep=True)
    return message.model_copy(update=update) if update else message


def _copied_part(part: Part) -> Part:
    if isinstance(part, ToolResult) and part.images:
        images = tuple(replace(image, raw=copied(image.raw)) for image in part.images)
        return replace(part, raw=copied(part.raw), images=images)
    return part if part.raw is None else replace(part, raw=copied(part.raw))
