"""Ollama chat messages: `{"role", "content", "thinking", "images", "tool_calls", "tool_name"}`.

Content is always text, images are bare base64, arguments are objects. Results name no call: they
answer the calls before them, those of the tool they name first, in order. So calls get ids by their
position, and a result is read with what stands before it. Ids that a newer server gives are kept.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from compact.core import images
from compact.core.arguments import arguments_of
from compact.core.formats.tool_schemas import ToolShape
from compact.core.formats.wire import (
    NO_IMAGE,
    NOTHING_BEFORE,
    Before,
    list_at,
    own_raw,
    own_wire,
    read_metadata,
    record_at,
)
from compact.core.messages import (
    SYSTEM_ROLES,
    Image,
    Message,
    Part,
    Raw,
    Refusal,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from compact.core.provider_rules import OLLAMA
from compact.core.tokens import OLLAMA_FRAMING
from compact.errors import InvalidMessage

NAME = "ollama"
ROLES = ("user", "assistant", "system", "tool")
_MADE = re.compile(r"(?:call|result)-\d+(?:-\d+)?")
"""Ids made here. They are never sent."""
_MEDIA = {"/9j/": "image/jpeg", "R0lGOD": "image/gif", "UklGR": "image/webp"}
"""How base64 images begin; what begins otherwise is taken for a PNG."""


class Ollama:
    """The wire format of Ollama's `/api/chat`."""

    name = NAME
    rules = OLLAMA
    framing = OLLAMA_FRAMING
    tokenizer = "chars"
    tool_shape: ToolShape = "nested"
    has_system_field = False
    results_role: Literal["tool", "user"] = "tool"

    def parse(
        self, raw: Mapping[str, Any], position: int, before: Before = NOTHING_BEFORE
    ) -> Message:
        """Read one dictionary. Of what stands before a result, the calls it may answer and their
        other results are looked at.

        Raises:
            InvalidMessage: naming the field that is wrong.
        """
        path = f"messages[{position}]"
        raw = record_at(raw, path)
        role, content = _read(raw, path, position)
        if role == "tool":
            content = (_paired(content[0], position, before),)
        return Message.trusted(
            role=role,
            content=content,
            id=f"m{position}",
            metadata=read_metadata(raw.get("metadata"), f"{path}.metadata"),
            wire=raw,
            wire_format=NAME,
        )

    def said(self, raw: Mapping[str, Any], path: str) -> tuple[str, str | tuple[Part, ...]]:
        """The role and the content of one dictionary; `path` is for errors. Calls and results that
        name no id have none here that is unique.

        Raises:
            InvalidMessage: naming the field that is wrong.
        """
        return _read(raw, path, None)

    def render(self, messages: Sequence[Message]) -> list[dict[str, Any]]:
        """Write messages; what is unchanged comes back as it was read."""
        out: list[dict[str, Any]] = []
        names: dict[str, str] = {}
        reply: str | None = None
        for message in messages:
            own = own_wire(message, NAME)
            if own is not None:
                out.append(own if isinstance(own, dict) else dict(own))
                reply = None
                continue
            names.update((call.id, call.name) for call in message.tool_calls)
            records = _write(message, names)
            if reply is not None and message.reply_id == reply and message.role == "assistant":
                out[-1] = _combined(out[-1], records[0])
                continue
            out.extend(records)
            reply = message.reply_id if message.wire_format != NAME else None
        return out


# --- reading --------------------------------------------------------------------------------------


def _read(raw: Raw, path: str, position: int | None) -> tuple[str, Any]:
    role, text = raw.get("role"), raw.get("content")
    if role not in ROLES:
        raise InvalidMessage(f"{path}.role", f"{role!r} is not one of {', '.join(ROLES)}")
    if text is not None and not isinstance(text, str):
        raise InvalidMessage(f"{path}.content", f"expected a text, got {type(text).__name__}")
    pictures = _images(raw.get("images"), f"{path}.images")
    if role == "tool":
        name, call_id = raw.get("tool_name"), raw.get("tool_call_id")
        known = call_id if isinstance(call_id, str) else ""
        named = name if isinstance(name, str) else None
        return role, (ToolResult(known, text or "", named, images=pictures),)
    thinking, calls = raw.get("thinking"), raw.get("tool_calls")
    if not pictures and not thinking and not calls:
        return role, text or ""
    parts: list[Part] = [Thinking(thinking)] if isinstance(thinking, str) and thinking else []
    parts += [Text(text)] if text else []
    parts += pictures
    for i, call in enumerate(list_at(calls, f"{path}.tool_calls")):
        made = "" if position is None else f"call-{position}-{i}"
        parts.append(_call(call, f"{path}.tool_calls[{i}]", made))
    return role, tuple(parts)


def _images(value: object, path: str) -> tuple[Image, ...]:
    if value is None:
        return ()
    if not isinstance(value, Sequence) or not all(isinstance(x, str) for x in value):
        raise InvalidMessage(path, "expected a list of images in base64")
    return tuple(_image(data) for data in value)


def _image(data: str) -> Image:
    width, height = images.size_of_base64(data)
    media = next((m for head, m in _MEDIA.items() if data.startswith(head)), "image/png")
    source = {"type": "base64", "media_type": media, "data": data}
    return Image(width, height, raw={"type": "image", "source": source})


def _call(raw: object, path: str, made: str) -> ToolCall:
    body = raw.get("function") if isinstance(raw, Mapping) else None
    if not isinstance(raw, Mapping) or not isinstance(body, Mapping):
        raise InvalidMessage(f"{path}.function", "a tool call needs one")
    if not isinstance(body.get("name"), str):
        raise InvalidMessage(f"{path}.function.name", "a tool call needs a name")
    given, arguments = raw.get("id"), body.get("arguments", {})
    if not isinstance(arguments, str):
        arguments = json.dumps(arguments, ensure_ascii=False)
    call_id = given if isinstance(given, str) and given else made
    return ToolCall(call_id, body["name"], arguments, raw=raw)


def _paired(result: ToolResult, position: int, before: Before) -> ToolResult:
    """The result with the id of the call it answers; one of its own where there is none."""
    if result.call_id:
        return result
    calls: list[ToolCall] = []
    earlier: list[ToolResult] = []
    for distance, item in enumerate(before, 1):
        at = position - distance
        role, content = _item(item, at)
        if role != "tool":
            calls = [p for p in content if isinstance(p, ToolCall)]
            break
        earlier += [p for p in reversed(content) if isinstance(p, ToolResult)]
    for other in reversed(earlier):
        found = _answered(other, calls)
        if found is not None:
            calls.remove(found)
    found = _answered(result, calls)
    call_id = found.id if found else f"result-{position}"
    return ToolResult(call_id, result.text, result.name, images=result.images)


def _item(item: Message | Raw, position: int) -> tuple[str, Sequence[Part]]:
    if isinstance(item, Message):
        return item.role, item.parts
    role, content = _read(item, f"messages[{position}]", position)
    return role, () if isinstance(content, str) else content


def _answered(result: ToolResult, calls: Sequence[ToolCall]) -> ToolCall | None:
    """The call that a result answers, of those that are open."""
    if result.call_id:
        return next((c for c in calls if c.id == result.call_id), None)
    named = (c for c in calls if c.name == result.name)
    return next(named, calls[0] if calls else None)


# --- writing --------------------------------------------------------------------------------------


def _write(message: Message, names: Mapping[str, str]) -> list[dict[str, Any]]:
    base: Raw = (message.wire or {}) if message.wire_format == NAME else {}
    out = [_write_result(r, base, names) for r in message.tool_results]
    if out and all(isinstance(p, ToolResult) for p in message.parts):
        return out
    said = {"content", "tool_calls", "thinking", "images"}
    record: dict[str, Any] = {k: v for k, v in base.items() if k not in said}
    record["role"] = "system" if message.role in SYSTEM_ROLES else message.role
    if message.role == "tool":
        record["role"] = "user"
    pictures = [p for p in message.parts if isinstance(p, Image)]
    found = [data for data in map(_data, pictures) if data]
    texts = [p.text for p in message.parts if isinstance(p, Text | Refusal)]
    record["content"] = "\n".join([*texts, *[NO_IMAGE] * (len(pictures) - len(found))])
    thoughts = [p.text for p in message.parts if isinstance(p, Thinking) and p.text]
    calls = [dict(own_raw(c, message, NAME) or _write_call(c)) for c in message.tool_calls]
    more = {"thinking": "\n".join(thoughts), "images": found, "tool_calls": calls}
    return [*out, {**record, **{k: v for k, v in more.items() if v}}]


def _data(image: Image) -> str:
    """An image as bare base64; empty where it is only named by a URL."""
    url = images.data_url(image.raw or {})
    return url.partition(";base64,")[2] if url.startswith("data:") else ""


def _write_call(call: ToolCall) -> dict[str, Any]:
    given = arguments_of(call.arguments)
    record: dict[str, Any] = {"function": {"name": call.name, "arguments": given}}
    return record if _MADE.fullmatch(call.id) else {"id": call.id, **record}


def _write_result(result: ToolResult, base: Raw, names: Mapping[str, str]) -> dict[str, Any]:
    record: dict[str, Any] = {k: v for k, v in base.items() if k != "images"}
    record["role"] = "tool"
    name = result.name or names.get(result.call_id)
    if name:
        record.setdefault("tool_name", name)
    if not base and not _MADE.fullmatch(result.call_id):
        record["tool_call_id"] = result.call_id
    record["content"] = result.text
    found = [data for data in map(_data, result.images) if data]
    return {**record, "images": found} if found else record


def _combined(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Two pieces of one reply as one message."""
    joined = dict(first)
    for key in ("thinking", "content"):
        texts = [str(piece[key]) for piece in (first, second) if piece.get(key)]
        if texts:
            joined[key] = "\n".join(texts)
    calls = [*first.get("tool_calls", ()), *second.get("tool_calls", ())]
    return {**joined, "tool_calls": calls} if calls else joined
