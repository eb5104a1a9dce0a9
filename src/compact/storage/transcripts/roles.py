"""Collecting the messages of files whose roles and parts are of nobody's format: the old sessions
and databases of assistants.

What is decided here:

- Roles are taken for what they mean (`model`, `human`, `function`). One that nobody knows is kept
  as an injected message of the user's side, with the role in its metadata (`original_role`).
- A message may say by its role that it is a call, or a result. Results without an id belong to the
  oldest call that waits, of a tool of that name where one is told.
- Parts that nobody knows are kept as their text where they have one, else as their JSON.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from compact.core.messages import Image, MessageMetadata, Part, Text, Thinking, ToolCall, ToolResult
from compact.errors import InvalidTranscript
from compact.storage.json_text import write_json
from compact.storage.transcripts.documents import objects_in
from compact.storage.transcripts.pairing import OBSERVATION, Paired, image_of, unknown_role
from compact.storage.transcripts.transcript import Row, text_or

_ROLES: Mapping[str, str] = {
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "model": "assistant",
    "ai": "assistant",
    "bot": "assistant",
    "system": "system",
    "developer": "developer",
    "tool": "result",
    "function": "result",
    "tool_result": "result",
    "toolresult": "result",
    "tool_call": "call",
    "toolcall": "call",
}
"""A role in lower case → what it means."""
_TEXTS = frozenset(("text", "input_text", "output_text", None))
_THOUGHTS = frozenset(("thinking", "reasoning", "thought"))
_CALLS = frozenset(("tool_call", "tool_use", "toolcall", "function_call", "functioncall"))
_RESULTS = frozenset(("tool_result", "toolresult", "function_response", "functionresponse"))
_CALL_ID = ("tool_call_id", "toolCallId", "call_id", "callId", "tool_use_id")
_TOOL = ("tool_name", "toolName", "name", "tool")


@dataclass(slots=True)
class ByRole(Paired):
    """Messages of any role as they come."""

    def take(
        self, role: object, content: object, row: Row, *, place: str, time: datetime | None
    ) -> None:
        """Take the message of a row.

        Raises:
            InvalidTranscript: naming what is wrong at that place.
        """
        if not isinstance(role, str) or not role.strip():
            raise InvalidTranscript(self.source, f"{place}.role: a message needs one")
        parts, results = self._parts(content, place)
        calls = [self._call_of(each) for each in _calls_beside(row)]
        match _ROLES.get(role.strip().lower()):
            case "call":
                has_calls = any(isinstance(part, ToolCall) for part in (*parts, *calls))
                said = [*parts, *calls] if has_calls else [self._called(parts, row)]
                self._say("assistant", said, row, time)
            case "result":
                self._result_of(parts, calls, results, row, time)
            case "user" | "system" | "developer" | "assistant" as own:
                self._say(own, [*parts, *calls], row, time, needed=not results)
            case _:
                self.left_out[unknown_role(role)] += 1
                mark = MessageMetadata.model_validate({"source": "injected", "original_role": role})
                self._say("user", [*parts, *calls], row, time, metadata=mark)
        for known, result in results:
            call = known or self.asked_of(result.name) or self.asked_of()
            self.answer(call, result, row, time=time)

    def _result_of(
        self,
        parts: list[Part],
        calls: list[Part],
        results: list[tuple[object, ToolResult]],
        row: Row,
        time: datetime | None,
    ) -> None:
        """A message that is a result by its role: all that it says, where it holds none itself."""
        if calls:
            self._say("assistant", calls, row, time)
        if not results:
            results.append((_first(row, _CALL_ID), _result(parts, row)))
        elif parts:
            self._say("user", parts, row, time, metadata=OBSERVATION)

    def _say(
        self,
        role: str,
        parts: list[Part],
        row: Row,
        time: datetime | None,
        *,
        needed: bool = True,
        **more: object,
    ) -> None:
        if parts:
            self.say(role, parts, row, time=time, **self.own_id(row.get("id")), **more)
        elif needed:
            self.left_out["empty message"] += 1

    def _called(self, parts: list[Part], row: Row) -> Part:
        """The call that a message of that role is."""
        text = "\n".join(part.text for part in parts if isinstance(part, Text))
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            value = None
        if isinstance(value, dict) and ({"arguments", "args", "input"} & value.keys()):
            return self._call_of({**_named(row), **value})
        return self._call_of({**_named(row), "arguments": text})

    def _call_of(self, value: Row) -> Part:
        """A call, wherever its name and its arguments stand."""
        body = value.get("function")
        body = body if isinstance(body, dict) else value
        name = _first(body, _TOOL)
        arguments = next((body[k] for k in ("arguments", "args", "input") if k in body), None)
        return self.call(value.get("id") or _first(value, _CALL_ID), name, arguments)

    def _parts(
        self, content: object, place: str
    ) -> tuple[list[Part], list[tuple[object, ToolResult]]]:
        """What a content says, and the results in it, each with the id of its call."""
        if content is None or isinstance(content, str):
            return ([Text(content)] if content else []), []
        if not isinstance(content, list):
            kind = type(content).__name__
            raise InvalidTranscript(self.source, f"{place}: expected text or parts, got {kind}")
        parts: list[Part] = []
        results: list[tuple[object, ToolResult]] = []
        for index, each in enumerate(content):
            part = {"text": each} if isinstance(each, str) else each
            if not isinstance(part, dict):
                reason = f"{place}[{index}]: expected a part, got {type(part).__name__}"
                raise InvalidTranscript(self.source, reason)
            if str(part.get("type")).lower() in _RESULTS:
                said = next((part[k] for k in ("content", "result", "output") if k in part), "")
                results.append((_first(part, _CALL_ID), made_result(said, part)))
            else:
                parts += self._part(part)
        return parts, results

    def _part(self, part: Row) -> list[Part]:
        kind, text = part.get("type"), part.get("text")
        kind = kind.lower() if isinstance(kind, str) else None
        if kind in _CALLS:
            return [self._call_of(part)]
        if kind in _THOUGHTS:
            thought = text_or(part.get("thinking")) or text_or(text)
            return [Thinking(thought)] if thought else []
        if kind == "image" and (shown := _picture(part)):
            return [shown]
        if isinstance(text, str):
            if kind not in _TEXTS:
                self.left_out[f"part of the type {kind}, kept as its text|"
                              f"parts of the type {kind}, kept as their text"] += 1  # fmt: skip
            return [Text(text)] if text else []
        self.left_out[f"part of the type {kind}, kept as JSON|"
                      f"parts of the type {kind}, kept as JSON"] += 1  # fmt: skip
        return [Text(write_json(part))]


def call_ids(row: object) -> Iterator[str]:
    """The ids of the calls that a message makes."""
    if not isinstance(row, dict):
        return
    content = row.get("parts") if "parts" in row else row.get("content")
    parts = (part for part in objects_in(content) if str(part.get("type")).lower() in _CALLS)
    for call in (*_calls_beside(row), *parts):
        if known := text_or(call.get("id") or _first(call, _CALL_ID)):
            yield known


def made_result(said: object, row: Row) -> ToolResult:
    """What a tool said, as a result."""
    is_error = row.get("is_error") is True or row.get("isError") is True
    name = text_or(_first(row, _TOOL))
    if isinstance(said, dict) and "llmContent" in said:
        said = said["llmContent"]
    if isinstance(said, list):
        texts = [x.get("text") if isinstance(x, dict) else x for x in said]
        if all(isinstance(x, str) for x in texts):
            said = "\n".join(map(str, texts))
    text = said if isinstance(said, str) else "" if said is None else write_json(said)
    return ToolResult("", text, name, is_error)


def _result(parts: list[Part], row: Row) -> ToolResult:
    text = "\n".join(part.text for part in parts if isinstance(part, Text | Thinking))
    images = tuple(part for part in parts if isinstance(part, Image))
    made = made_result(text, row)
    return ToolResult("", made.text, made.name, made.is_error, images=images)


def _picture(part: Row) -> Image | None:
    data, kind = part.get("data"), part.get("mimeType") or part.get("media_type")
    url = f"data:{kind};base64,{data}" if isinstance(data, str) else part.get("url")
    return image_of(url) if isinstance(url, str) else None


def _calls_beside(row: Row) -> list[dict[str, Any]]:
    """The calls that stand beside a message's content."""
    return objects_in(row.get("toolCalls") or row.get("tool_calls"))


def _named(row: Row) -> dict[str, Any]:
    """The id and the tool of a call that is a row."""
    return {"id": _first(row, _CALL_ID), "name": _first(row, _TOOL)}


def _first(row: Row, keys: tuple[str, ...]) -> object:
    return next((row[key] for key in keys if row.get(key)), None)
