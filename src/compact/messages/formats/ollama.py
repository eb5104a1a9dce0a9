"""The format of Ollama chat messages: `{"role", "content", "thinking", "images", "tool_calls",
"tool_name"}`.

Content is always text. Images are bare base64. Arguments are objects. A tool result has no call id:
results answer the preceding calls in order, first those of the tool that they name. So calls get
ids by position, and a result is read together with the messages before it. Ids from newer servers
are kept.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

from compact.errors import InvalidMessage
from compact.messages import images
from compact.messages.arguments import arguments_of
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
from compact.messages.tokens import OLLAMA_FRAMING
from compact.patterns import regex

_MADE_ID = regex(r"(?:call|result)-\d+(?:-\d+)?")
"""The form of ids that this module makes. They are never sent."""
_MEDIA = {"/9j/": "image/jpeg", "R0lGOD": "image/gif", "UklGR": "image/webp"}
"""The first characters of a base64 image → its media type. Other images count as PNG."""


class Ollama(WireFormat):
    """The wire format of Ollama's `/api/chat`."""

    name = "ollama"
    roles = ("user", "assistant", "system", "tool")
    rules = OPENAI_CHAT
    framing = OLLAMA_FRAMING
    tokenizer = "chars"
    thinks_in_fields = True

    def parse(self, raw: Mapping[str, Any], position: int, before: Before = ()) -> Message:
        """Read one dictionary. A tool result is matched with the calls before it."""
        message = super().parse(raw, position, before)
        if isinstance(message.content, str):
            return message
        parts = tuple(
            self._paired(part, position, before) if isinstance(part, ToolResult) else part
            for part in _with_ids(message.content, position)
        )
        return message.model_copy(update={"content": parts})

    def role_and_content(self, raw: Raw, path: str) -> tuple[str, Content]:
        """Return the role and the content. A call or result without an id gets an empty id."""
        role, text = self.role_at(raw.get("role"), path), raw.get("content")
        if text is not None and not isinstance(text, str):
            raise InvalidMessage(f"{path}.content", f"expected a text, got {type(text).__name__}")
        pictures = _images(raw.get("images"), f"{path}.images")
        if role == "tool":
            call_id, name = text_in(raw, "tool_call_id") or "", text_in(raw, "tool_name")
            return role, (ToolResult(call_id, text or "", name, images=pictures),)
        thinking, calls = raw.get("thinking"), raw.get("tool_calls")
        if not pictures and not thinking and not calls:
            return role, text or ""
        parts: list[Part] = [Thinking(thinking)] if isinstance(thinking, str) and thinking else []
        parts += [Text(text)] if text else []
        parts += pictures
        for i, call in enumerate(list_at(calls, f"{path}.tool_calls")):
            parts.append(_call(call, f"{path}.tool_calls[{i}]"))
        return role, tuple(parts)

    def _paired(self, result: ToolResult, position: int, before: Before) -> ToolResult:
        if result.call_id:
            return result
        calls: list[ToolCall] = []
        earlier: list[ToolResult] = []
        for at, item in zip(range(position - 1, -1, -1), before, strict=False):
            role, content = (
                (str(item.role), item.content)
                if isinstance(item, Message)
                else self.role_and_content(item, f"messages[{at}]")
            )
            parts = () if isinstance(content, str) else _with_ids(content, at)
            if role != "tool":
                calls = [p for p in parts if isinstance(p, ToolCall)]
                break
            earlier += [p for p in reversed(parts) if isinstance(p, ToolResult)]
        for other in reversed(earlier):
            found = _answered(other, calls)
            if found is not None:
                calls.remove(found)
        found = _answered(result, calls)
        return replace(result, call_id=found.id if found else f"result-{position}")

    def written(self, message: Message, names: Mapping[str, str]) -> list[dict[str, Any]]:
        """Write one dictionary for each tool result, and one for the rest."""
        base = self.own_fields(message)
        results = [_written_result(r, base, names) for r in message.tool_results]
        if results and all(isinstance(p, ToolResult) for p in message.parts):
            return results
        rewritten = {"content", "tool_calls", "thinking", "images"}
        record = {k: v for k, v in base.items() if k not in rewritten}
        record["role"] = "system" if message.role in SYSTEM_ROLES else message.role
        if message.role == "tool":
            record["role"] = "user"
        pictures = [p for p in message.parts if isinstance(p, Image)]
        shown = [data for data in map(_data, pictures) if data]
        texts = [p.text for p in message.parts if isinstance(p, Text | Refusal)]
        record["content"] = "\n\n".join([*texts, *[NO_IMAGE] * (len(pictures) - len(shown))])
        thoughts = [p.text for p in message.parts if isinstance(p, Thinking) and p.text]
        calls = [self.own_raw(c, message) or _written_call(c) for c in message.tool_calls]
        more = {"thinking": "\n".join(thoughts), "images": shown, "tool_calls": calls}
        return [*results, {**record, **{k: v for k, v in more.items() if v}}]


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


def _call(value: object, path: str) -> ToolCall:
    raw = object_at(value, path)
    body = object_at(raw.get("function"), f"{path}.function")
    name = text_at(body, "name", f"{path}.function", "a tool call", least=0)
    arguments = body.get("arguments", {})
    if not isinstance(arguments, str):
        arguments = json.dumps(arguments, ensure_ascii=False)
    return ToolCall(text_in(raw, "id") or "", name, arguments, raw=raw)


def _with_ids(parts: Sequence[Part], position: int) -> tuple[Part, ...]:
    number = count()
    return tuple(
        replace(part, id=part.id or f"call-{position}-{next(number)}")
        if isinstance(part, ToolCall)
        else part
        for part in parts
    )


def _answered(result: ToolResult, calls: Sequence[ToolCall]) -> ToolCall | None:
    if result.call_id:
        return next((c for c in calls if c.id == result.call_id), None)
    named = (c for c in calls if c.name == result.name)
    return next(named, calls[0] if calls else None)


def _data(image: Image) -> str:
    url = images.data_url(image.raw or {})
    return url.partition(";base64,")[2] if url.startswith("data:") else ""


def _written_call(call: ToolCall) -> dict[str, Any]:
    given = arguments_of(call.arguments)
    record: dict[str, Any] = {"function": {"name": call.name, "arguments": given}}
    return record if _MADE_ID.fullmatch(call.id) else {"id": call.id, **record}


def _written_result(result: ToolResult, base: Raw, names: Mapping[str, str]) -> dict[str, Any]:
    record: dict[str, Any] = {k: v for k, v in base.items() if k != "images"}
    record["role"] = "tool"
    name = result.name or names.get(result.call_id)
    if name:
        record.setdefault("tool_name", name)
    if not base and not _MADE_ID.fullmatch(result.call_id):
        record["tool_call_id"] = result.call_id
    record["content"] = result.text
    shown = [data for data in map(_data, result.images) if data]
    return {**record, "images": shown} if shown else record
