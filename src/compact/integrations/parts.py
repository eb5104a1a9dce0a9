"""Hosts whose messages are lists of parts, such as a reply's thought, text and calls.

A host's message becomes one chat-completions dictionary, or several: one for each result of a tool.
A part becomes a block of its content, or a call of a tool (type `function`). What a compression
leaves as it was comes back as the host's own objects.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

if TYPE_CHECKING:
    from compact.session.compact_manager import CompactManager
    from compact.session.fitted import Fitted

Item = dict[str, Any]
M = TypeVar("M")
P = TypeVar("P")
"""A host's part."""


class Piece(NamedTuple):
    """A dictionary, and the parts of a host's message that it stands for."""

    source: int
    """The position of the host's message."""
    item: Item
    parts: Sequence[Any]


def reply(parts: Sequence[P], block: Callable[[P], Item]) -> Item:
    """Return the parts of a model's reply as a dictionary. A thought is a block of its content:
    what a model wants back of it, and for how long, is the host's business.
    """
    made = [block(part) for part in parts]
    said = content(b for b in made if b["type"] != "function")
    calls = [b for b in made if b["type"] == "function"]
    called = {"content": said or None, "tool_calls": calls} if calls else {"content": said}
    return {"role": "assistant", **called}


def content(made: Iterable[Item]) -> str | list[Item]:
    """Return blocks as a content: a text if they are one text."""
    shown = list(made)
    if all(b.keys() == {"type", "text"} for b in shown) and len(shown) < 2:
        return shown[0]["text"] if shown else ""
    return shown


def reply_parts(
    item: Item,
    parts: Sequence[P],
    block: Callable[[P], Item],
    text: Callable[[str], P],
    call: Callable[[Item, P | None], P],
) -> list[P]:
    """Return a changed reply as parts: those that it stood for where their blocks are unchanged,
    and new ones by `text` and by `call`, which gets the call that was changed, if any.
    """
    asked = [(b, part) for part in parts if (b := block(part))["type"] == "function"]
    out = shown_parts(item, parts, block, text)
    for i, each in enumerate(item.get("tool_calls") or ()):
        before, own = asked[i] if i < len(asked) else (None, None)
        out.append(own if own is not None and before == each else call(each, own))
    return out


def shown_parts(
    item: Item, parts: Sequence[P], block: Callable[[P], Item], text: Callable[[str], P]
) -> list[P]:
    """Return a changed content as parts, as `reply_parts` does."""
    known = defaultdict[str, list[P]](list)
    for part in parts:
        known[_key(block(part))].append(part)
    said = item.get("content") or ()
    shown = [{"type": "text", "text": said}] if isinstance(said, str) else said
    return [k.pop(0) if (k := known[_key(b)]) else text(str(b.get("text", ""))) for b in shown]


def given_back(
    fitted: Fitted,
    pieces: Sequence[Piece],
    written: Callable[[Item, Sequence[Any]], Sequence[Any]],
    message: Callable[[int | None, str, Sequence[Any]], M],
) -> list[M]:
    """Return what was fitted as the host's messages.

    `written` writes a changed dictionary as parts. It gets the parts that the dictionary stood for,
    none for compact's own. `message` makes a message. It gets the position of the host's message
    that the parts belong to, None for compact's own, the role, and the parts.
    """
    groups: list[tuple[int | None, str, list[Any]]] = []
    for item, origin in zip(fitted.messages, fitted.origin, strict=True):
        stood = [pieces[i] for i in origin]
        source = stood[-1].source if stood else None
        if len(stood) == 1 and _sent(item) == _sent(stood[0].item):
            parts = stood[0].parts
        else:
            parts = written(item, [part for piece in stood for part in piece.parts])
        if source is not None and groups and groups[-1][0] == source:
            groups[-1][2].extend(parts)
        else:
            groups.append((source, item["role"], list(parts)))
    return [message(*group) for group in groups]


def window_of(manager: CompactManager, model: str | None) -> str | None:
    """Return the model whose window limits a request; None if the manager's settings name it."""
    config = manager.config
    return None if config.max_context_tokens or config.model else model


def are_all(parts: Sequence[object], own: Sequence[object]) -> bool:
    """Whether these are a message's own parts, in any order."""
    return set(map(id, parts)) == set(map(id, own))


def _sent(item: Item) -> Item:
    return {name: value for name, value in item.items() if name != "metadata"}


def _key(block: Mapping[str, Any]) -> str:
    return json.dumps(block, sort_keys=True, default=str)
