"""The Anthropic format: `{"role": "user" "assistant", "content": text [blocks]}`.

Tool results are blocks of a user message. The list may contain messages with the role `system`,
although providers want the system prompt in a separate field. Neighbouring messages of one role
that come from another format are written as one message, because the provider would combine them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from compact.messages import images
from compact.messages.arguments import arguments_of
from compact.messages.boundaries import ANTHROPIC
from compact.messages.formats.wire import NO_IMAGE, Before, Content, WireFormat, text_at, text_in
from compact.messages.messages import (
    SYSTEM_ROLES,
    Image,
    Message,
    Opaque,
    Part,
    Raw,
    Thinking,
    ToolCall,
    ToolResult,
)
from compact.messages.tokens import ANTHROPIC_FRAMING


class Anthropic(WireFormat):
    """The wire format of Anthropic's Messages API."""

    name = "anthropic"
    roles = ("user", "assistant", "system")
    rules = ANTHROPIC
    framing = ANTHROPIC_FRAMING
    tokenizer = "claude"
    tool_shape = "input_schema"
    has_system_field = True
    results_role = "user"

    def role_and_content(self, raw: Raw, path: str) -> tuple[str, Content]:
        """Return the role and the content."""
        role = self.role_at(raw.get("role"), path)
        return role, self.content_at(raw.get("content"), f"{path}.content")

    def facts(self, raw: Raw, role: str, position: int, before: Before) -> dict[str, object]:
        """Return the id of the message's reply."""
        return {"reply_id": text_in(raw, "id") if role == "assistant" else None}

    def part(self, raw: Raw, path: str) -> Part:
        """Read one block."""
        match raw.get("type"):
            case "thinking" if isinstance(raw.get("thinking"), str):
                return Thinking(raw["thinking"], text_in(raw, "signature"), raw=raw)
            case "redacted_thinking":
                return Thinking("", text_in(raw, "data"), raw=raw)
            case "tool_use":
                call_id = text_at(raw, "id", path, "a tool call")
                name = text_at(raw, "name", path, "a tool call", least=0)
                given = json.dumps(raw.get("input", {}), ensure_ascii=False)
                return ToolCall(call_id, name, given, raw=raw)
            case "tool_result":
                call_id = text_at(raw, "tool_use_id", path, "a tool result")
                return self.result(call_id, raw.get("content"), f"{path}.content", raw=raw)
            case _:
                return super().part(raw, path)

    def written(self, message: Message, names: Mapping[str, str]) -> list[dict[str, Any]]:
        """Write the message as one dictionary. Write none if the format cannot hold it."""
        is_foreign = message.wire_format not in (self.name, None)
        record = {**self.own_fields(message), "role": _role_for(message)}
        if isinstance(message.content, str):
            record["content"] = message.content
        else:
            ordered = sorted(message.content, key=lambda p: not isinstance(p, ToolResult))
            if is_foreign:
                ordered = [p for p in ordered if not isinstance(p, Opaque)]
                # reasoning that the provider encrypted has no text to show
                ordered = [p for p in ordered if not isinstance(p, Thinking) or p.text]
            record["content"] = [self._written_part(p, message) for p in ordered]
        return [] if is_foreign and not record["content"] else [record]

    def are_one(self, first: Message, second: Message) -> bool:
        """Whether both messages have one role, so that the provider would combine them."""
        return _role_for(first) == _role_for(second) != "system"

    def joined(self, first: Raw, second: Raw) -> dict[str, Any]:
        """Join the blocks of both messages."""
        return {**first, "content": [*_as_blocks(first["content"]), *_as_blocks(second["content"])]}

    def _written_part(self, part: Part, message: Message) -> dict[str, Any]:
        own = self.own_raw(part, message)
        if isinstance(part, ToolResult):
            return self._written_result(part, own)
        if own:
            return own
        if isinstance(part, ToolCall):
            given = arguments_of(part.arguments)
            return {"type": "tool_use", "id": part.id, "name": part.name, "input": given}
        url = images.data_url(part.raw or {}) if isinstance(part, Image) else ""
        if url:
            return {"type": "image", "source": _image_source(url)}
        return {"type": "text", "text": NO_IMAGE if isinstance(part, Image) else part.text}

    def _written_result(self, result: ToolResult, own: dict[str, Any]) -> dict[str, Any]:
        if own and self.result("", own.get("content"), "block", raw=own).text == result.text:
            return own
        said = {"tool_use_id": result.call_id, "content": result.text}
        error = {"is_error": True} if result.is_error else {}
        return {**own, "type": "tool_result", **said, **error}


def _role_for(message: Message) -> str:
    if message.role in SYSTEM_ROLES:
        return "system"
    return "assistant" if message.role == "assistant" else "user"


def _image_source(url: str) -> dict[str, Any]:
    if url.startswith("data:") and ";base64," in url:
        media, data = url[5:].split(";base64,", 1)
        return {"type": "base64", "media_type": media, "data": data}
    return {"type": "url", "url": url}


def _as_blocks(content: object) -> list[Any]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return list(content) if isinstance(content, Sequence) else []
