"""Repeated ids of calls: each sent call gets an id of its own, and its result the same.

Proxies that count from 0 in each reply give one id to many calls, which providers refuse. The
history keeps the original ids.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from compact.messages.messages import Message, Part, Raw, ToolCall, ToolResult

_FIELDS = ("id", "call_id", "tool_call_id", "tool_use_id")
"""Where a provider's dictionary of a call or a result has the call's id."""


def with_own_ids(messages: Sequence[Message]) -> list[Message]:
    """The messages, each call with a unique id: a repeated id gets a number behind it. The result
    that answers the call gets the same id.
    """
    taken, waiting = set[str](), defaultdict[str, list[str]](list)
    return [_numbered(message, taken, waiting) for message in messages]


def _numbered(message: Message, taken: set[str], waiting: dict[str, list[str]]) -> Message:
    if isinstance(message.content, str):
        return message
    parts: list[Part] = []
    for part in message.content:
        if isinstance(part, ToolCall):
            own, number = part.id, 1
            while own in taken:
                number += 1
                own = f"{part.id}-{number}"
            taken.add(own)
            waiting[part.id].append(own)
            part = part if own == part.id else replace(part, id=own, raw=_raw(part, part.id, own))
        elif isinstance(part, ToolResult) and (due := waiting[part.call_id]):
            own = due.pop(0)
            if own != part.call_id:
                part = replace(part, call_id=own, raw=_raw(part, part.call_id, own))
        parts.append(part)
    pairs = [(a, b) for a, b in zip(message.content, parts, strict=True) if a is not b]
    if not pairs:
        return message
    wire = _exchanged(message.wire, [(a.raw, b.raw) for a, b in pairs if a.raw])
    for a, b in pairs:  # of kinds that have their dictionary beside the call
        if wire == message.wire and isinstance(wire, Mapping):
            wire = _renamed(wire, _id_of(a), _id_of(b))
    return message.model_copy(update={"content": tuple(parts), "wire": wire})


def _id_of(part: Part) -> str:
    return part.id if isinstance(part, ToolCall) else getattr(part, "call_id", "")


def _raw(part: Part, old: str, new: str) -> Raw | None:
    return None if part.raw is None else _renamed(part.raw, old, new)


def _renamed(raw: Raw, old: str, new: str) -> dict[str, Any]:
    return {k: new if k in _FIELDS and v == old else v for k, v in raw.items()}


def _exchanged(value: Any, pairs: list[tuple[Any, Any]]) -> Any:  # noqa: ANN401 - JSON
    """The value with each pair's first replaced by its second, once each and in order."""
    if pairs and value == pairs[0][0]:
        return pairs.pop(0)[1]
    if isinstance(value, Mapping):
        return {k: _exchanged(v, pairs) for k, v in value.items()}
    return [_exchanged(v, pairs) for v in value] if isinstance(value, list | tuple) else value
