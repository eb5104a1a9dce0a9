"""The format of OpenAI chat completions: `{"role", "content", "tool_calls", "tool_call_id", …}`.

Content may be a string, null or a list of parts. Unknown parts and fields are kept. Reasoning has
its own fields (`THOUGHTS`), which many servers send and some want back. The deprecated
`function_call` and the role `function` are read as a tool call and its result; the function's name
is their id. Several messages of one reply from another format are written as one message, because
results must follow their calls.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from compact.messages import images
from compact.messages.boundaries import OPENAI_CHAT
from compact.messages.formats.wire import (
    NO_IMAGE,
    Before,
    Content,
    WireFormat,
    list_at,
    object_at,
    text_at,
    text_in,
)
from compact.messages.messages import (
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
from compact.messages.tokens import OPENAI_FRAMING

_CONTENT_KEYS = ("content", "tool_calls", "refusal", "function_call")
"""Fields that hold a message's content."""
THOUGHTS = ("reasoning_content", "reasoning", "reasoning_details", "thinking")
"""Fields of a model's reasoning. DeepSeek, Kimi, Qwen and llama.cpp send the first, vLLM and
OpenRouter the second, OpenRouter and MiniMax the third with blocks, others the last."""


class ChatCompletions(WireFormat):
    """The wire format of OpenAI's chat completions and of everything compatible with it."""

    name = "chat_completions"
    roles = sorted(ROLES)
    rules = OPENAI_CHAT
    framing = OPENAI_FRAMING
    tokenizer = "o200k"
    thinks_in_fields = True
    image_kind = "image_url"

    def role_and_content(self, raw: Raw, path: str) -> tuple[str, Content]:
        """Return the role and the content. Deprecated roles get their current names."""
        given = raw.get("role")
        role = self.role_at(INPUT_ROLES.get(str(given), given), path)
        return role, (self._result(raw, path),) if role == "tool" else self._content(raw, path)

    def facts(self, raw: Raw, role: str, position: int, before: Before) -> dict[str, object]:
        """Return the message's id and the speaker's name."""
        return {
            "id": text_in(raw, "id") or f"m{position}",
            "name": text_in(raw, "name") if role != "tool" else None,
        }

    def written(self, message: Message, names: Mapping[str, str]) -> list[dict[str, Any]]:
        """Write one dictionary, and one for each tool result, or none without content."""
        is_foreign = message.wire_format not in (self.name, None)
        has_none = message.parts and all(isinstance(p, Thinking | Opaque) for p in message.parts)
        if is_foreign and has_none:
            return []
        results = [self._written_result(r, message) for r in message.tool_results]
        if results and all(isinstance(p, ToolResult) for p in message.parts):
            return results
        base = self.own_fields(message)
        record = {k: v for k, v in base.items() if k not in ("content", "tool_calls", *THOUGHTS)}
        record["role"] = message.role
        if message.name:
            record["name"] = message.name
        for part in message.parts:
            if isinstance(part, Thinking):
                record |= self.own_raw(part, message)
        record["content"] = self._written_content(message)
        calls = [self.own_raw(c, message) or _written_call(c) for c in message.tool_calls]
        if calls and "function_call" not in base:
            record["tool_calls"] = calls
        if not base and not results and message.metadata != NO_METADATA:
            flags = {"pinned", "protected", "important"}
            marks = {k: True for k, v in message.metadata.model_dump().items() if k in flags and v}
            if marks:
                record["metadata"] = marks
        return [*results, record]

    def _content(self, raw: Raw, path: str) -> Content:
        value, calls, refusal, legacy = map(raw.get, _CONTENT_KEYS)
        thoughts = list(_thoughts(raw)) if raw.get("role") == "assistant" else []
        if isinstance(value, str) and not (calls or refusal or legacy or thoughts):
            return value
        parts = [*thoughts, *self._parts(value, f"{path}.content")]
        if isinstance(refusal, str) and refusal:
            parts.append(Refusal(refusal))
        if isinstance(legacy, Mapping):
            name = str(legacy.get("name", ""))
            parts.append(ToolCall(name, name, str(legacy.get("arguments", "")), raw=legacy))
        for i, call in enumerate(list_at(calls, f"{path}.tool_calls")):
            parts.append(_call(call, f"{path}.tool_calls[{i}]"))
        return tuple(parts)

    def _parts(self, value: object, path: str) -> tuple[Part, ...]:
        content = self.content_at(value, path)
        if isinstance(content, str):
            return (Text(content),) if content else ()
        return content

    def _result(self, raw: Raw, path: str) -> ToolResult:
        name = text_in(raw, "name")
        is_legacy = raw.get("role") == "function" and raw.get("tool_call_id") is None
        call_id = text_at(raw, "name" if is_legacy else "tool_call_id", path, "a tool result")
        return self.result(call_id, raw.get("content"), f"{path}.content", raw=raw, name=name)

    def _written_content(self, message: Message) -> str | list[dict[str, Any]] | None:
        is_own = message.wire_format == self.name
        spoken = [
            p
            for p in message.parts
            if isinstance(p, Text | Image) or (isinstance(p, Opaque) and is_own)
        ]
        if all(isinstance(p, Text) and not self.own_raw(p, message) for p in spoken):
            text = "\n\n".join(p.text for p in spoken if isinstance(p, Text))
            is_refusal = any(isinstance(p, Refusal) for p in message.parts)
            if not text and message.role == "assistant" and (message.tool_calls or is_refusal):
                return None
            return text
        return [self.own_raw(p, message) or _written_part(p) for p in spoken]

    def _written_result(self, result: ToolResult, message: Message) -> dict[str, Any]:
        if own := self.own_raw(result, message):
            return {**own, "content": result.text} if message.edited else own
        named = {"name": result.name} if result.name else {}
        return {"role": "tool", "tool_call_id": result.call_id, **named, "content": result.text}


def _thoughts(raw: Raw) -> Iterator[Thinking]:
    """Yield one part for each reasoning field. With calls also an empty field: servers want it."""
    for field in THOUGHTS:
        match raw.get(field):
            case str(text) if text or raw.get("tool_calls"):
                yield Thinking(text, raw={field: text})
            case [_, *_] as blocks:
                sealed = "".join(str(x.get("data", "")) for x in blocks if isinstance(x, Mapping))
                yield Thinking(images.visible_json({field: blocks}), sealed, raw={field: blocks})


def _call(value: object, path: str) -> ToolCall:
    raw = object_at(value, path)
    call_id = text_at(raw, "id", path, "a tool call")
    body = raw.get("function") or raw.get("custom")
    body = body if isinstance(body, Mapping) else {}
    name = text_at(body, "name", f"{path}.function", "a tool call", least=0)
    arguments = body.get("arguments", body.get("input", ""))
    if not isinstance(arguments, str):
        arguments = json.dumps(arguments, ensure_ascii=False)
    return ToolCall(call_id, name, arguments, raw=raw)


def _written_part(part: Part) -> dict[str, Any]:
    url = images.data_url(part.raw or {}) if isinstance(part, Image) else ""
    if url:
        return {"type": "image_url", "image_url": {"url": url}}
    return {"type": "text", "text": getattr(part, "text", NO_IMAGE)}


def _written_call(call: ToolCall) -> dict[str, Any]:
    body = {"name": call.name, "arguments": call.arguments}
    return {"id": call.id, "type": "function", "function": body}
