"""OpenAI chat completions: `{"role", "content", "tool_calls", "tool_call_id", …}`.

Content may be a string, null or a list of parts; unknown parts and fields are kept. The deprecated
`function_call` and the role `function` are read as a tool call and its result that share the
function's name as their id. Where messages came from another format, pieces of one reply are
written as one message, as calls are answered right after it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal

from compact.core import defaults, images
from compact.core.formats.tool_schemas import ToolShape
from compact.core.formats.wire import (
    NO_IMAGE,
    NOTHING_BEFORE,
    Before,
    content_at,
    list_at,
    object_at,
    own_raw,
    own_wire,
    pictures_of,
    read_metadata,
    record_at,
)
from compact.core.messages import (
    INPUT_ROLES,
    NO_METADATA,
    ROLES,
    Image,
    Message,
    Opaque,
    Part,
    Raw,
    Refusal,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from compact.core.provider_rules import OPENAI_CHAT
from compact.core.tokens import OPENAI_FRAMING
from compact.errors import InvalidMessage

NAME = "chat_completions"


class ChatCompletions:
    """The wire format of OpenAI's chat completions and of everything compatible with it."""

    name = NAME
    rules = OPENAI_CHAT
    framing = OPENAI_FRAMING
    tokenizer = "o200k"
    tool_shape: ToolShape = "nested"
    has_system_field = False
    results_role: Literal["tool", "user"] = "tool"

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
        return Message.trusted(
            role=role,
            content=content,
            id=_text_field(raw, "id") or f"m{position}",
            timestamp=_time(raw.get("timestamp")),
            metadata=read_metadata(raw.get("metadata"), f"{path}.metadata"),
            name=_text_field(raw, "name") if role != "tool" else None,
            wire=raw,
            wire_format=NAME,
        )

    def said(self, raw: Mapping[str, Any], path: str) -> tuple[str, str | tuple[Part, ...]]:
        """The role and the content of one dictionary; `path` is for errors.

        Raises:
            InvalidMessage: naming the field that is wrong.
        """
        role = _role(raw.get("role"), path)
        return role, (_result(raw, path),) if role == "tool" else _content(raw, path)

    def render(self, messages: Sequence[Message]) -> list[dict[str, Any]]:
        """Write messages; what is unchanged comes back as it was read."""
        out: list[dict[str, Any]] = []
        reply: str | None = None
        for message in messages:
            own = own_wire(message, NAME)
            if own is not None:
                out.append(own if isinstance(own, dict) else dict(own))
                reply = None
                continue
            is_foreign = message.wire_format not in (NAME, None)
            if is_foreign and message.parts and not any(map(_is_written, message.parts)):
                continue
            records = _write(message)
            if reply is not None and message.reply_id == reply:
                out[-1] = _combined(out[-1], records[0])
                continue
            out.extend(records)
            reply = message.reply_id if is_foreign else None
        return out


def _is_written(part: Part) -> bool:
    return not isinstance(part, Thinking | Opaque)


def _combined(first: Raw, second: Raw) -> dict[str, Any]:
    """Two pieces of one reply as one message."""
    said = [x["content"] for x in (first, second) if x.get("content")]
    if len(said) < 2:
        content = said[0] if said else None
    elif all(isinstance(x, str) for x in said):
        content = "\n".join(said)
    else:
        texts = [{"type": "text", "text": x} if isinstance(x, str) else x for x in said]
        content = [p for x in texts for p in (x if isinstance(x, list) else [x])]
    calls = [*first.get("tool_calls", ()), *second.get("tool_calls", ())]
    joined = {**first, "content": content}
    return {**joined, "tool_calls": calls} if calls else joined


def _role(value: object, path: str) -> str:
    role = INPUT_ROLES.get(value, value) if isinstance(value, str) else value
    if not isinstance(role, str) or role not in ROLES:
        known = ", ".join(sorted(ROLES))
        raise InvalidMessage(f"{path}.role", f"{value!r} is not one of {known}")
    return role


def _text_field(raw: Mapping[str, Any], key: str) -> str | None:
    value = raw.get(key)
    return value if isinstance(value, str) else None


def _time(value: object) -> datetime:
    if isinstance(value, str):
        try:
            return datetime.fromisoformat(value)
        except ValueError:
            pass
    return defaults.now()


def _content(raw: Mapping[str, Any], path: str) -> str | tuple[Part, ...]:
    value = raw.get("content")
    calls, refusal, legacy = raw.get("tool_calls"), raw.get("refusal"), raw.get("function_call")
    if isinstance(value, str) and not calls and not refusal and not legacy:
        return value
    parts = list(_content_parts(value, f"{path}.content"))
    if isinstance(refusal, str) and refusal:
        parts.append(Refusal(refusal))
    if isinstance(legacy, Mapping):
        name = str(legacy.get("name", ""))
        parts.append(ToolCall(name, name, str(legacy.get("arguments", "")), raw=legacy))
    for i, call in enumerate(list_at(calls, f"{path}.tool_calls")):
        parts.append(_call(call, f"{path}.tool_calls[{i}]"))
    return tuple(parts)


def _content_parts(value: object, path: str) -> tuple[Part, ...]:
    content = content_at(value, path, _part)
    if isinstance(content, str):
        return (Text(content),) if content else ()
    return content


def _part(value: object, path: str) -> Part:
    if isinstance(value, str):
        return Text(value)
    raw = object_at(value, path)
    match raw.get("type"):
        case "text" if isinstance(raw.get("text"), str):
            return Text(raw["text"], raw=raw)
        case "refusal" if isinstance(raw.get("refusal"), str):
            return Refusal(raw["refusal"], raw=raw)
        case "image_url" if isinstance(raw.get("image_url"), Mapping | str):
            named = raw["image_url"]
            width, height = images.size_of_data_url(images.data_url(raw))
            detail = named.get("detail") if isinstance(named, Mapping) else None
            return Image(width, height, detail, raw=raw)
        case _:
            return Opaque(images.visible_json(raw), raw=raw)


def _call(value: object, path: str) -> ToolCall:
    raw = object_at(value, path)
    call_id = raw.get("id")
    if not isinstance(call_id, str) or not call_id:
        raise InvalidMessage(f"{path}.id", f"a tool call needs an id, got {call_id!r}")
    body = raw.get("function") or raw.get("custom")
    if not isinstance(body, Mapping) or not isinstance(body.get("name"), str):
        raise InvalidMessage(f"{path}.function.name", "a tool call needs a name")
    arguments = body.get("arguments", body.get("input", ""))
    if not isinstance(arguments, str):
        arguments = json.dumps(arguments, ensure_ascii=False)
    return ToolCall(call_id, body["name"], arguments, raw=raw)


def _result(raw: Mapping[str, Any], path: str) -> ToolResult:
    call_id = raw.get("tool_call_id")
    if call_id is None and raw.get("role") == "function":
        call_id = raw.get("name")
    if not isinstance(call_id, str) or not call_id:
        raise InvalidMessage(f"{path}.tool_call_id", f"a tool result needs one, got {call_id!r}")
    content = raw.get("content")
    if isinstance(content, str):
        return ToolResult(call_id, content, _text_field(raw, "name"), raw=raw)
    parts = _content_parts(content, f"{path}.content")
    text = "\n".join(p.text for p in parts if isinstance(p, Text | Refusal | Opaque))
    pictures = pictures_of(parts)
    return ToolResult(call_id, text, _text_field(raw, "name"), images=pictures, raw=raw)


def _write(message: Message) -> list[dict[str, Any]]:
    results = message.tool_results
    out = [_write_result(r, message) for r in results]
    if results and all(isinstance(p, ToolResult) for p in message.parts):
        return out
    base: Raw = (message.wire or {}) if message.wire_format == NAME else {}
    record: dict[str, Any] = {k: v for k, v in base.items() if k not in ("content", "tool_calls")}
    record["role"] = message.role
    if message.name:
        record["name"] = message.name
    record["content"] = _write_content(message)
    calls = [dict(own_raw(c, message, NAME) or _write_call(c)) for c in message.tool_calls]
    if calls and "function_call" not in base:
        record["tool_calls"] = calls
    if base is not message.wire and not results and message.metadata != NO_METADATA:
        flags = {"pinned", "protected", "important"}
        marks = {k: True for k, v in message.metadata.model_dump().items() if k in flags and v}
        if marks:
            record["metadata"] = marks
    return [*out, record]


def _write_content(message: Message) -> str | list[dict[str, Any]] | None:
    spoken = [p for p in message.parts if isinstance(p, Text | Image | Opaque)]
    refused = [p for p in message.parts if isinstance(p, Refusal)]
    if message.wire_format != NAME:
        spoken = [p for p in spoken if not isinstance(p, Opaque)]
    if all(isinstance(p, Text) for p in spoken) and not any(
        own_raw(p, message, NAME) for p in spoken
    ):
        text = "\n".join(p.text for p in spoken if isinstance(p, Text))
        if not text and message.role == "assistant" and (message.tool_calls or refused):
            return None
        return text
    return [dict(own_raw(p, message, NAME) or _write_part(p)) for p in spoken]


def _write_part(part: Part) -> dict[str, Any]:
    match part:
        case Image(raw=raw) if raw is not None and (url := images.data_url(raw)):
            return {"type": "image_url", "image_url": {"url": url}}
        case Text(text=text) | Thinking(text=text) | Opaque(text=text) | Refusal(text=text):
            return {"type": "text", "text": text}
        case _:
            return {"type": "text", "text": NO_IMAGE}


def _write_call(call: ToolCall) -> dict[str, Any]:
    return {
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": call.arguments},
    }


def _write_result(result: ToolResult, message: Message) -> dict[str, Any]:
    own = own_raw(result, message, NAME)
    if own is None:
        record: dict[str, Any] = {"role": "tool", "tool_call_id": result.call_id}
        if result.name:
            record["name"] = result.name
        return {**record, "content": result.text}
    return {**own, "content": result.text} if message.edited else dict(own)
