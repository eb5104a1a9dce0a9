"""Turn messages into stored bytes and back, without loss.

An unchanged message from a provider is stored as the provider's dictionary, and read again by its
wire format. Any other message is stored as its fields. A plain text is stored separately
(`Encoded.content`), so that a store can show and search it without decoding.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, get_args

import orjson

from compact.errors import InvalidMessage
from compact.messages.formats.known import format_named
from compact.messages.given import plain
from compact.messages.messages import (
    NO_METADATA,
    Message,
    MessageMetadata,
    Part,
    Raw,
    ToolResult,
    made,
)
from compact.messages.sessions import CheckpointRef, Piece, Run, Shown

ZSTD = b"\x28\xb5\x2f\xfd"
"""The first bytes of compressed data."""
_STRICT = (
    orjson.OPT_PASSTHROUGH_DATETIME
    | orjson.OPT_PASSTHROUGH_DATACLASS
    | orjson.OPT_PASSTHROUGH_SUBCLASS
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_SLOW = b" "
"""Marks JSON that orjson cannot write. Only `json` reads it right. Readers skip the space."""
_PLAIN = 2
"""How many fields a dictionary has that holds only a role and a text."""
_CONTENT_KEYS = ("content", "output")
"""Keys under which a dictionary holds content: a message's content, or a tool's output."""
_TAKEN_OUT = 0
"""Put into a stored dictionary where its text was taken out. Content is never 0 in JSON."""
_PLACES = {"w": "", "x": "", "p": ".content", "c": ".content", "m": ".metadata"}
"""Key of a payload → the place in a message that errors name."""
_PARTS: Mapping[str, type[Part]] = {
    str(f.default): each for each in get_args(Part) for f in fields(each) if f.name == "type"
}


class Encoded(NamedTuple):
    """A message in two pieces, as a store keeps it."""

    content: str | None
    """The message's text, if it is plain text that a store can hold. Otherwise None."""
    payload: bytes
    """Everything else as JSON. Role, id, time and importance are stored separately."""


def encode(message: Message, path: str = "message") -> Encoded:
    """Return the message's content and payload. Errors name the message by `path`.

    Raises:
        InvalidMessage: a value cannot be written as JSON; the error says which and where.
    """
    body: dict[str, Any] = {}
    content: str | None = None
    is_wire = _is_in_wire(message)
    if is_wire:
        wire = dict(message.wire or {})
        text = wire.get("content")
        if isinstance(text, str) and is_storable(text):
            content, wire["content"] = text, _TAKEN_OUT
        body["w"], body["f"] = wire, message.wire_format
    elif isinstance(message.content, str) and is_storable(message.content):
        content = message.content
    elif isinstance(message.content, str):
        body["c"] = message.content
    else:
        body["p"] = [
            _part_fields(_slim(part) if message.edited else part) for part in message.content
        ]
    if not is_wire and message.wire_format:
        body["f"] = message.wire_format
        body["x"] = _without_content(message.wire) if message.edited else message.wire
    body |= _extras(message)
    data = _fast(body)
    if data is None:
        data = _slow({k: plain(v, path + _PLACES.get(k, "")) for k, v in body.items()})
    return Encoded(content, data)


def check(message: Message, path: str = "message") -> None:
    """Raise the errors that `encode` would raise. Stores that keep messages as objects call it.

    Raises:
        InvalidMessage: as `encode`.
    """
    is_plain = message.metadata is NO_METADATA and isinstance(message.content, str)
    if not is_plain or _fast(message.wire) is None:
        encode(message, path)


def _extras(message: Message) -> dict[str, Any]:
    is_plain = message.metadata is NO_METADATA or message.metadata == NO_METADATA
    extras = {
        "m": None if is_plain else message.metadata.model_dump(exclude_defaults=True),
        "n": message.name,
        "r": message.reply_id,
        "t": message.token_count,
        "e": message.edited or None,
    }
    return {k: v for k, v in extras.items() if v is not None}


def _is_in_wire(message: Message) -> bool:
    """Whether the message's role and content can be read again from its wire dictionary."""
    if message.wire is None or message.edited or not message.wire_format:
        return False
    if isinstance(message.content, str):
        same = message.wire.get("content") == message.content
        return same and message.wire.get("role") == message.role
    try:
        role, content = format_named(message.wire_format).role_and_content(message.wire, "message")
    except InvalidMessage:
        return False
    return content == message.content and role == message.role


def is_storable(text: str) -> bool:
    """Whether a database can hold the text: it has no lone surrogate and no NUL."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return "\x00" not in text


def decode(
    content: str | None,
    payload: bytes,
    *,
    role: str,
    id: str,
    timestamp: datetime,
    importance_score: float | None = None,
) -> Message:
    """Build the message from the pieces that `encode` made and the fields stored with them."""
    body = load(payload)
    wire, format_name, metadata = body.get("w"), body.get("f"), body.get("m")
    parts: str | tuple[Part, ...]
    if wire is not None:
        if content is not None:
            wire["content"] = content
        if content is not None and len(wire) == _PLAIN and "role" in wire and role != "tool":
            parts = content
        else:
            parts = format_named(format_name).role_and_content(wire, "message")[1]
    elif "p" in body:
        parts = tuple(_part_of(part) for part in body["p"])
    else:
        parts = body.get("c", content or "")
    values = {
        "role": role,
        "content": parts,
        "id": id,
        "timestamp": timestamp,
        "token_count": body.get("t"),
        "importance_score": importance_score,
        "metadata": MessageMetadata.model_validate(metadata) if metadata else NO_METADATA,
        "name": body.get("n"),
        "reply_id": body.get("r"),
        "wire": body.get("x") if wire is None else wire,
        "wire_format": format_name,
        "edited": body.get("e", False),
    }
    return made(Message, values, set(values))


def encode_whole(message: Message) -> dict[str, Any]:
    """Return the message as one JSON value, for storage inside another value."""
    content, payload = encode(message)
    return {
        "role": message.role,
        "id": message.id,
        "at": message.timestamp.isoformat(),
        "score": message.importance_score,
        "content": content,
        "payload": load(payload),
    }


def encode_piece(piece: Piece) -> object:
    """Return one piece of a projection as a JSON value."""
    match piece:
        case Run():
            return [piece.first, piece.last]
        case CheckpointRef():
            return piece.checkpoint_id
        case Shown():
            return {**encode_whole(piece.message), "position": piece.position}


def decode_whole(value: Mapping[str, Any]) -> Message:
    """Build a message from the value that `encode_whole` made."""
    return decode(
        value["content"],
        dump(value["payload"]),
        role=value["role"],
        id=value["id"],
        timestamp=datetime.fromisoformat(value["at"]),
        importance_score=value.get("score"),
    )


def instant(at: datetime) -> int:
    """Return a time as microseconds since 1970 UTC. A time without a zone counts as UTC."""
    aware = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
    return (aware - _EPOCH) // _MICROSECOND


def _without_content(raw: Raw | None) -> Raw | None:
    """Empty the content of an edited message's dictionary. The old content is never sent again."""
    return None if raw is None else {**raw, **{key: "" for key in _CONTENT_KEYS if key in raw}}


def _slim(part: Part) -> Part:
    """Return the result without its original whole text, if the text was shortened."""
    if not isinstance(part, ToolResult) or part.raw is None:
        return part
    original = part.raw.get("content", part.raw.get("output"))
    if not isinstance(original, str):
        blocks = original if isinstance(original, list) else []
        original = "\n".join(str(b.get("text", "")) for b in blocks if isinstance(b, Mapping))
    return part if original == part.text else replace(part, raw=_without_content(part.raw))


def _part_fields(part: Part) -> dict[str, Any]:
    values = ((f, getattr(part, f.name)) for f in fields(part))
    record: dict[str, Any] = {f.name: v for f, v in values if f.name == "type" or v != f.default}
    if "images" in record:
        record["images"] = [_part_fields(image) for image in record["images"]]
    return record


def _part_of(value: Mapping[str, Any]) -> Part:
    arguments = dict(value)
    if "images" in arguments:
        arguments["images"] = tuple(_part_of(image) for image in arguments["images"])
    part: Part = _PARTS[arguments["type"]](**arguments)
    return part


def dump(value: object) -> bytes:
    """Write a JSON value as bytes. What orjson refuses (lone surrogates, huge numbers) is written
    by `json`. Two neighbouring halves of a surrogate pair are later read as one character.

    Raises:
        InvalidMessage: a value cannot be written as JSON; the error says which and where.
    """
    data = _fast(value)
    if data is None:
        data = _slow(plain(value, "message"))
    return data


def _fast(value: object) -> bytes | None:
    """Write the value with orjson. Return None if orjson refuses it. orjson writes NaN and
    infinities as null, so `json` checks every result that contains null.
    """
    try:
        data = orjson.dumps(value, default=_plain, option=_STRICT)
        if b"null" in data:
            json.dumps(value, default=_plain, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return None
    return data


def _slow(value: object) -> bytes:
    return _SLOW + json.dumps(value, default=_plain, separators=(",", ":")).encode()


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        return list(value)
    raise TypeError(f"{type(value).__name__} is no JSON value")


def load(data: bytes) -> Any:  # noqa: ANN401 - any JSON value
    """Read the JSON value that `dump` wrote."""
    return json.loads(data) if data[:1] == _SLOW else orjson.loads(data)
