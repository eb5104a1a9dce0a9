"""Marks in a prompt for Anthropic's API: which parts the provider should cache.

A mark (`cache_control`) makes the provider cache everything up to it, in the order tools, system
prompt, messages. A request may carry four marks. They are put where the text before them stays the
same: at the end of the tools, of the system prompt, of the newest checkpoint, and of the newest
message, because a history only grows. A checkpoint's words change only when it ages, while the
record after it is new at each compression. If a mark is left, it goes to the end of the previous
request. Source: Anthropic, "Prompt caching".
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from compact.messages.given import type_of

MOST = 4
"""How many marks Anthropic accepts in a request."""
MARK: Mapping[str, Any] = {"type": "ephemeral"}

_KEY = "cache_control"
_UNMARKABLE = frozenset(("thinking", "redacted_thinking"))

Block = Mapping[str, Any]


class _Place(NamedTuple):
    field: Literal["tools", "system", "messages"]
    outer: int
    block: Block
    inner: int = 0
    role: str = ""


def with_marks(request: Mapping[str, Any], checkpoints: Collection[str] = ()) -> dict[str, Any]:
    """Return a copy of the request (`system`, `tools`, `messages`) with marks. Unmarked blocks are
    not copied.

    `checkpoints` are the texts of the checkpoints in the request. A marked text becomes a text
    block, which means the same to the provider. Marks already in the request stay and count among
    the four. Marks that compact puts before one of these get its lifetime: the provider wants
    longer ones first. Thinking, empty text and tools with deferred loading are never marked.
    """
    places = list(_places(request))
    existing = {i: found for i, place in enumerate(places) if (found := _mark_of(place.block))}
    room = MOST - bool(request.get(_KEY)) - sum(_marks_in(place.block) for place in places)
    wanted = dict.fromkeys(
        i for i in _stable_ends(places, checkpoints) if i is not None and i not in existing
    )
    added = list(wanted)[: max(0, room)]
    marked = {**request}
    mark = MARK
    for i in range(len(places) - 1, -1, -1):
        mark = existing.get(i, mark)
        if i in added:
            _put(marked, places[i], mark)
    return marked


def _places(request: Mapping[str, Any]) -> Iterator[_Place]:
    for i, tool in enumerate(request.get("tools") or ()):
        yield _Place("tools", i, tool)
    for i, block in enumerate(_blocks(request.get("system"))):
        yield _Place("system", i, block)
    for i, message in enumerate(request.get("messages") or ()):
        for j, block in enumerate(_blocks(message.get("content"))):
            yield _Place("messages", i, block, j, str(message.get("role")))


def _blocks(content: object) -> Sequence[Block]:
    if isinstance(content, str):
        return ({"type": "text", "text": content},)
    if not isinstance(content, Sequence):
        return ()
    return [{"type": "text", "text": b} if isinstance(b, str) else b for b in content]


def _stable_ends(places: Sequence[_Place], checkpoints: Collection[str]) -> list[int | None]:
    """Return the places worth a mark, the most useful first."""
    markable = [i for i, place in enumerate(places) if _may_carry(place)]
    in_messages = [i for i in markable if places[i].field == "messages"]
    newest = in_messages[-1] if in_messages else None
    return [
        newest,
        _last(i for i in markable if places[i].field == "system"),
        _last(i for i in in_messages if places[i].block.get("text") in checkpoints),
        _last(i for i in markable if places[i].field == "tools"),
        _end_before_reply(places, in_messages),
    ]


def _end_before_reply(places: Sequence[_Place], said: Sequence[int]) -> int | None:
    """Return the end of the request that the newest reply answered."""
    replies = {p.outer for p in places if p.role == "assistant"}
    if not replies:
        return None
    first = max(replies)
    while first - 1 in replies:
        first -= 1
    return _last(i for i in said if places[i].outer < first)


def _last(positions: Iterator[int]) -> int | None:
    return max(positions, default=None)


def _may_carry(place: _Place) -> bool:
    block = place.block
    if place.field == "tools":
        return not block.get("defer_loading")
    if type_of(block) in _UNMARKABLE:
        return False
    return block.get("type") != "text" or bool(str(block.get("text", "")).strip())


def _mark_of(block: Block) -> Mapping[str, Any] | None:
    """Return the last mark of the block itself or of a tool result's content."""
    if mark := block.get(_KEY):
        return mark  # type: ignore[no-any-return]  # a provider's dictionary carries no types
    if block.get("type") != "tool_result":
        return None
    return next((m for b in reversed(_blocks(block.get("content"))) if (m := _mark_of(b))), None)


def _marks_in(block: Block) -> int:
    inside = _blocks(block.get("content")) if block.get("type") == "tool_result" else ()
    return bool(block.get(_KEY)) + sum(bool(b.get(_KEY)) for b in inside)


def _put(marked: dict[str, Any], place: _Place, mark: Mapping[str, Any]) -> None:
    block = {**place.block, _KEY: dict(mark)}
    if place.field == "tools":
        marked["tools"] = _replaced(marked["tools"], place.outer, block)
    elif place.field == "system":
        marked["system"] = _replaced(_blocks(marked["system"]), place.outer, block)
    else:
        message = marked["messages"][place.outer]
        content = _replaced(_blocks(message["content"]), place.inner, block)
        changed = {**message, "content": content}
        marked["messages"] = _replaced(marked["messages"], place.outer, changed)


def _replaced(values: Sequence[Any], position: int, value: object) -> list[Any]:
    return [*values[:position], value, *values[position + 1 :]]
