"""Anthropic messages: `{"role": "user" | "assistant", "content": text | [blocks]}`.

Tool results are blocks of a user message. A role `system` is accepted in the list, for callers that
keep the system prompt there; providers want it in a field of its own. Where messages came from
another format, neighbours that the provider would combine are written as one message.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from compact.core import images
from compact.core.arguments import arguments_of
from compact.core.formats.tool_schemas import ToolShape
from compact.core.formats.wire import (
    NO_IMAGE,
    NOTHING_BEFORE,
    Before,
    content_at,
    object_at,
    own_raw,
    own_wire,
    pictures_of,
    read_metadata,
    record_at,
)
from compact.core.messages import (
    SYSTEM_ROLES,
    Image,
    Message,
    Opaque,
    Part,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from compact.core.provider_rules import ANTHROPIC
from compact.core.tokens import ANTHROPIC_FRAMING
from compact.errors import InvalidMessage

NAME = "anthropic"
_ROLES = ("user", "assistant", "system")


class Anthropic:
    """The wire format of Anthropic's Messages API."""

    name = NAME
    rules = ANTHROPIC
    framing = ANTHROPIC_FRAMING
    tokenizer = "claude"
    tool_shape: ToolShape = "input_schema"
    has_system_field = True
    results_role: Literal["tool", "user"] = "user"

    def parse(
        self, raw: Mapping[str, Any], position: int, before: Before = NOTHING_BEFORE
    ) -> Message:
        """Read one dictionary; what stands before it tells nothing here.

        Raises:
            InvalidMessage: naming the field that is wrong.
        """
        path = f"messages[{position}]"
        raw = record_at(raw, path)
        role, content = self.said(raw, path)
        reply = raw.get("id")
        return Message.trusted(
            role=role,
            content=content,
            id=f"m{position}",
            reply_id=reply if role == "assistant" and isinstance(reply, str) else None,
            metadata=read_metadata(raw.get("metadata"), f"{path}.metadata"),
            wire=raw,
            wire_format=NAME,
        )

    def said(self, raw: Mapping[str, Any], path: str) -> tuple[str, str | tuple[Part, ...]]:
        """The role and the content of one dictionary; `path` is for errors.

        Raises:
            InvalidMessage: naming the field that is wrong.
        """
        role = raw.get("role")
        if role not in _ROLES:
            raise InvalidMessage(f"{path}.role", f"{role!r} is not one of {', '.join(_ROLES)}")
        return role, content_at(raw.get("content"), f"{path}.content", _block)

    def render(self, messages: Sequence[Message]) -> list[dict[str, Any]]:
        """Write messages; what is unchanged comes back as it was read."""
        out: list[dict[str, Any]] = []
        foreign: list[bool] = []
        for message in messages:
            own = own_wire(message, NAME)
            record = dict(_write(message)) if own is None else own
            is_foreign = message.wire_format not in (NAME, None)
            if is_foreign and not record["content"]:
                continue
            if out and is_foreign and foreign[-1] and out[-1]["role"] == record["role"] != "system":
                out[-1] = _combined(out[-1], record)
                continue
            out.append(record if isinstance(record, dict) else dict(record))
            foreign.append(is_foreign)
        return out


def _block(value: object, path: str) -> Part:
    if isinstance(value, str):
        return Text(value)
    raw = object_at(value, path)
    match raw.get("type"):
        case "text" if isinstance(raw.get("text"), str):
            return Text(raw["text"], raw=raw)
        case "thinking" if isinstance(raw.get("thinking"), str):
            return Thinking(raw["thinking"], raw.get("signature"), raw=raw)
        case "tool_use":
            return _call(raw, path)
        case "tool_result":
            return _result(raw, path)
        case "image":
            return _image(raw)
        case "redacted_thinking":
            return Thinking("", raw.get("data"), raw=raw)
        case _:
            return Opaque(images.visible_json(raw), raw=raw)


def _call(raw: Mapping[str, Any], path: str) -> ToolCall:
    call_id, name = raw.get("id"), raw.get("name")
    if not isinstance(call_id, str) or not call_id:
        raise InvalidMessage(f"{path}.id", f"a tool call needs an id, got {call_id!r}")
    if not isinstance(name, str):
        raise InvalidMessage(f"{path}.name", f"a tool call needs a name, got {name!r}")
    return ToolCall(call_id, name, json.dumps(raw.get("input", {}), ensure_ascii=False), raw=raw)


def _result(raw: Mapping[str, Any], path: str) -> ToolResult:
    call_id = raw.get("tool_use_id")
    if not isinstance(call_id, str) or not call_id:
        raise InvalidMessage(f"{path}.tool_use_id", f"a tool result needs one, got {call_id!r}")
    inner = content_at(raw.get("content"), f"{path}.content", _block)
    parts = (Text(inner),) if isinstance(inner, str) else inner
    text = "\n".join(p.text for p in parts if isinstance(p, Text | Opaque))
    pictures = pictures_of(parts)
    return ToolResult(call_id, text, is_error=bool(raw.get("is_error")), images=pictures, raw=raw)


def _image(raw: Mapping[str, Any]) -> Image:
    source = raw.get("source")
    if isinstance(source, Mapping) and isinstance(source.get("data"), str):
        width, height = images.size_of_base64(source["data"])
        return Image(width, height, raw=raw)
    return Image(raw=raw)


def _write(message: Message) -> dict[str, Any]:
    role = "assistant" if message.role == "assistant" else "user"
    if message.role in SYSTEM_ROLES:
        role = "system"
    base = message.wire if message.wire_format == NAME and message.wire else {}
    record = {**base, "role": role}
    if isinstance(message.content, str):
        record["content"] = message.content
    else:
        ordered = sorted(message.content, key=lambda p: not isinstance(p, ToolResult))
        if message.wire_format not in (NAME, None):
            ordered = [p for p in ordered if not isinstance(p, Opaque) and not _is_sealed(p)]
        record["content"] = [_write_part(p, message) for p in ordered]
    return record


def _is_sealed(part: Part) -> bool:
    """Whether it is reasoning of which only a seal is there."""
    return isinstance(part, Thinking) and not part.text


def _write_part(part: Part, message: Message) -> dict[str, Any]:
    own = own_raw(part, message, NAME)
    match part:
        case ToolResult():
            return _write_result(part, dict(own or {}))
        case ToolCall():
            return dict(own or _write_call(part))
        case Thinking() if own is None:
            return {"type": "text", "text": part.text}
        case _ if own is not None:
            return dict(own)
        case Image():
            url = images.data_url(part.raw or {})
            if not url:
                return {"type": "text", "text": NO_IMAGE}
            return {"type": "image", "source": _image_source(url)}
        case _:
            return {"type": "text", "text": part.text}


def _write_result(result: ToolResult, own: dict[str, Any]) -> dict[str, Any]:
    if own and _content_text(own) == result.text:
        return own
    record = {**own, "type": "tool_result", "tool_use_id": result.call_id, "content": result.text}
    if result.is_error:
        record["is_error"] = True
    return record


def _content_text(own: Mapping[str, Any]) -> str:
    return _result(own, "block").text


def _write_call(call: ToolCall) -> dict[str, Any]:
    given = arguments_of(call.arguments)
    return {"type": "tool_use", "id": call.id, "name": call.name, "input": given}


def _image_source(url: str) -> dict[str, Any]:
    if url.startswith("data:") and ";base64," in url:
        media, data = url[5:].split(";base64,", 1)
        return {"type": "base64", "media_type": media, "data": data}
    return {"type": "url", "url": url}


def _combined(first: dict[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    return {**first, "content": [*_as_blocks(first["content"]), *_as_blocks(second["content"])]}


def _as_blocks(content: object) -> list[Any]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return list(content) if isinstance(content, Sequence) else []
