"""Hosts whose messages are lists of parts, such as a reply's thought, text and calls.

A host's message becomes one chat-completions dictionary, or several: one for each result of a tool.
A part becomes a block of its content, a call of a tool (type `function`) or a thought (type
`thinking`). What a compression leaves as it was comes back as the host's own objects.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

if TYPE_CHECKING:
    from compact.session.compact_manager import CompactManager
    from compact.session.fitted import Fitted

Item = dict[str, Any]
M = TypeVar("M")
P = Any
"""A host's part."""
_BESIDE = ("function", "thinking")
"""Types of blocks that stand in fields of their own."""


class Piece(NamedTuple):
    """A dictionary, and the parts of a host's message that it stands for."""

    source: int
    """The position of the host's message."""
    item: Item
    parts: Sequence[P]


def reply(parts: Sequence[P], block: Callable[[P], Item]) -> Item:
    """Return the parts of a model's reply as a dictionary."""
    made = [block(part) for part in parts]
    item = {"role": "assistant", "content": content(b for b in made if b["type"] not in _BESIDE)}
    if calls := [b for b in made if b["type"] == "function"]:
        item["tool_calls"] = calls
    if thoughts := [b["thinking"] for b in made if b["type"] == "thinking"]:
        item["reasoning_content"] = "\n".join(thoughts)
    return item


def content(made: Iterable[Item]) -> str | list[Item]:
    """Return blocks as a content: a text if they are one text."""
    shown = list(made)
    if all(b.keys() == {"type", "text"} for b in shown) and len(shown) < 2:
        return shown[0]["text"] if shown else ""
    return shown


def written(
    item: Item,
    parts: Sequence[P],
    block: Callable[[P], Item],
    text: Callable[[str], P],
    call: Callable[[Item, P | None], P] | None = None,
) -> list[P]:
    """Return a changed dictionary as parts: those that it stood for where their blocks are
    unchanged, and new ones by `text` and `call`, which gets the call that was changed.
    """
    made = [(block(part), part) for part in parts]
    known = {_key(b): part for b, part in made}
    asked = [part for b, part in made if b["type"] == "function"]
    thoughts = [part for b, part in made if b["type"] == "thinking"]
    said = item.get("content") or ()
    shown = [{"type": "text", "text": said}] if isinstance(said, str) else said
    out = thoughts if "reasoning_content" in item else []
    out += [known.get(_key(b)) or text(str(b.get("text", ""))) for b in shown]
    for i, each in enumerate(item.get("tool_calls") or ()):
        out.append(known.get(_key(each)) or call(each, asked[i] if i < len(asked) else None))
    return out


def given_back(
    fitted: Fitted,
    pieces: Sequence[Piece],
    written: Callable[[Item, Sequence[P]], Sequence[P]],
    message: Callable[[int | None, str, Sequence[P]], M],
) -> list[M]:
    """Return what was fitted as the host's messages.

    `written` writes a changed dictionary as parts. It gets the parts that the dictionary stood for,
    none for compact's own. `message` makes a message. It gets the position of the host's message
    that the parts belong to, None for compact's own, the role, and the parts.
    """
    groups: list[tuple[int | None, str, list[P]]] = []
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


def are_all(parts: Sequence[P], own: Sequence[P]) -> bool:
    """Whether these are a message's own parts, in any order."""
    return set(map(id, parts)) == set(map(id, own))


def _sent(item: Item) -> Item:
    return {name: value for name, value in item.items() if name != "metadata"}


def _key(block: Mapping[str, Any]) -> str:
    return json.dumps(block, sort_keys=True, default=str)
