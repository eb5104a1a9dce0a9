"""The hash chain: the hash of a message covers the message and all messages before it.

So one hash identifies a list of messages and their order. When a client resends its whole list, the
longest known beginning is found by these hashes. Equal messages have different hashes if different
messages come before them.

The hash leaves out what clients add and drop: marks, ids, times, nulls, empty fields, cache marks,
and the block around a single text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any

import orjson

from compact.messages.codec import dump, load
from compact.messages.formats.known import FORMATS
from compact.messages.messages import META, Message

START = b""
"""The hash before the first message: no bytes."""
SIZE = 16
"""Bytes of a hash. 128 bits are enough that two different lists never agree by chance."""
_IGNORED = frozenset((*META, "id", "timestamp"))
"""Keys that compact adds to a message's dictionary, or that clients add and drop."""
_NOTHING: tuple[object, ...] = (None, "", [], {})
"""Empty values. They are left out, because clients replace one by another."""
_MARKS = frozenset(("cache_control",))
"""Keys of a content block that clients move from message to message."""


def link(before: bytes, message: Message | Mapping[str, Any]) -> bytes:
    """Return the hash after one more message. The message may be a client's dictionary."""
    return blake2b(before + _content_bytes(message), digest_size=SIZE).digest()


def _content_bytes(message: Message | Mapping[str, Any]) -> bytes:
    if isinstance(message, Message):
        wire = None if message.edited else message.wire
        if wire is None:
            wires = FORMATS[message.wire_format or "chat_completions"].render((message,))
            wire = wires[0] if len(wires) == 1 else {"messages": wires}
        message = wire
    plain = {k: v for k, v in message.items() if k not in _IGNORED and v not in _NOTHING}
    if not isinstance(plain.get("content", ""), str):
        plain["content"] = _plain_content(plain["content"])
    try:
        return orjson.dumps(plain, option=orjson.OPT_SORT_KEYS)
    except TypeError:
        return _as_read(dump(plain))


def _as_read(data: bytes) -> bytes:
    """Write JSON bytes again with orjson, so that equal values give equal bytes, if it can."""
    try:
        return orjson.dumps(load(data), option=orjson.OPT_SORT_KEYS)
    except TypeError:
        return data


def _plain_content(content: object) -> object:
    """Return the content without fields that clients add. A single text block becomes a text."""
    if not isinstance(content, Sequence):
        return content
    blocks = [_plain_block(block) for block in content]
    match blocks:
        case [{"type": "text", "text": str(text), **rest}] if not rest:
            return text
    return blocks


def _plain_block(block: object) -> object:
    if not isinstance(block, Mapping):
        return block
    plain = {k: v for k, v in block.items() if v is not None and k not in _MARKS}
    if not isinstance(plain.get("content", ""), str):
        plain["content"] = _plain_content(plain["content"])
    return plain
