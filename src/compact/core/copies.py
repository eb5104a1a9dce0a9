"""Copies of dictionaries: what was counted stays what is sent, whoever changes theirs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from compact.core.messages import Message, Part, ToolResult

T = TypeVar("T")
_ATOMS = frozenset((str, int, float, bool, type(None)))
"""Types of which a value needs no copy."""


def copied(value: T) -> T:
    """The value with dictionaries and lists of its own, however deep: what was counted stays what
    is sent, whoever changes theirs.
    """
    own: Any = value
    kind = type(own)
    if kind is dict:
        own = own.copy()  # quicker than a new one, as most of what is in it are texts
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
    """Dictionaries that nobody changes, of which copies (`copied`) are made again and again: each
    is looked through once.
    """

    def __init__(self, values: Sequence[dict[str, Any]] = ()) -> None:
        self._values: list[dict[str, Any]] = []
        self._inner: list[tuple[int, list[_Inner]]] = []
        """What is copied within them, by their places."""
        self.insert(0, values)

    def __len__(self) -> int:
        return len(self._values)

    def insert(self, place: int, values: Sequence[dict[str, Any]]) -> None:
        """Put more of them before the one at that place."""
        if place < len(self._values):
            more = len(values)
            self._inner = [(i + more if i >= place else i, inner) for i, inner in self._inner]
        self._values[place:place] = values
        for i, value in enumerate(values, place):
            if inner := _inner_of(value.items()):
                self._inner.append((i, inner))

    def copies(self) -> list[dict[str, Any]]:
        """A copy of each."""
        made = list(map(dict.copy, self._values))
        for place, inner in self._inner:
            own = made[place]
            for key, make in inner:
                own[key] = make()
        return made


_Inner = tuple[Any, Callable[[], object]]
"""Where in a dictionary or a list something stands that is copied with it, and what copies it."""


def _inner_of(items: Iterable[tuple[Any, object]]) -> list[_Inner]:
    return [(key, _copier(value)) for key, value in items if type(value) not in _ATOMS]


def _copier(value: object) -> Callable[[], object]:
    if type(value) is dict:
        inner = _inner_of(value.items())
    elif type(value) is list:
        inner = _inner_of(enumerate(value))
    else:
        return partial(copied, value)
    return partial(_filled, value, inner) if inner else value.copy


def _filled(value: Any, inner: Iterable[_Inner]) -> object:  # noqa: ANN401 - a dict or a list
    own = value.copy()
    for place, make in inner:
        own[place] = make()
    return own


def copied_message(message: Message) -> Message:
    """The message with dictionaries of its own (`copied`); itself where it has none."""
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
