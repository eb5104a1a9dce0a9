"""Copies of dictionaries: what was counted stays what is sent, whoever changes theirs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
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


def copier(value: T) -> Callable[[], T]:
    """What makes copies (`copied`) of a value that nobody changes: it is looked through once,
    however many copies are made.
    """
    own: Any = value
    kind = type(own)
    if kind is dict:
        inner = [(k, copier(v)) for k, v in own.items() if type(v) not in _ATOMS]
    elif kind is list:
        inner = [(i, copier(x)) for i, x in enumerate(own) if type(x) not in _ATOMS]
    else:
        return partial(copied, value)
    make: Callable[[], T] = partial(_filled, own, inner) if inner else own.copy
    return make


def _filled(value: T, inner: Iterable[tuple[Any, Callable[[], object]]]) -> T:
    whole: Any = value
    own = whole.copy()
    for place, make in inner:
        own[place] = make()
    result: T = own
    return result


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
