"""Tells the meaning of roles, parts, calls and results in formats that no provider defines.

Programs have different names for the same few things. Decisions:

- Many names mean the same role (`model`, `human`, `gpt`, `function`). A message of an unknown role
  becomes an injected user message, with the role in its metadata (`original_role`).
- A part names its kind (`type`, `kind`, `part_kind`, `block_type`), or is an object whose only key
  is the kind (`{"toolUse": {…}}`, `{"Text": "…"}`). Upper case, `-` and `_` do not count.
- A call has its id, name and arguments, and perhaps its result, in its keys or in an inner object.
  If no key for arguments is known, all other keys are the arguments.
- A role may mean that the message is a call, or a result. A result without an id belongs to the
  oldest waiting call (to its tool, if it names one).
- An unknown part is kept as its text, or else as its JSON. Only the names of files are kept.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from compact.errors import InvalidTranscript
from compact.json_text import write_json
from compact.messages.messages import (
    Image,
    MessageMetadata,
    Part,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from compact.transcripts.documents import objects_in
from compact.transcripts.pairing import (
    CHECKPOINT,
    INJECTED,
    OBSERVATION,
    Paired,
    image_of,
    unknown_role,
)
from compact.transcripts.transcript import Row, text_or

_ROLES: Mapping[str, str] = {
    name: meaning
    for meaning, names in {
        "user": "user human you usermessage humanmessage humanmessagechunk prompt",
        "assistant": "assistant model ai bot agent gpt chatgpt bing bard gemini assistantmessage "
        "aimessage aimessagechunk aichunk agentmessage",
        "system": "system systemmessage",
        "developer": "developer",
        "result": "tool function toolresult toolmessage functionmessage toolresponse observation "
        "functionresponse functionexecutionresultmessage toolreturn toolreturnmessage",
        "call": "toolcall functioncall toolcallmessage",
        "thought": "thinking reasoning thought reasoningmessage",
    }.items()
    for name in names.split()
}
"""Name of a role, as `sign_free` returns it → the meaning of the role."""
_KINDS: Mapping[str, str] = {
    name: meaning
    for meaning, names in {
        "text": "text inputtext outputtext none markdown request response mention",
        "thought": "thinking reasoning thought think reasoningcontent",
        "call": "toolcall tooluse functioncall toolrequest toolinvocation servertooluse "
        "dynamictool toolcallrequest executablecode",
        "result": "toolresult functionresponse toolresponse toolreturn retryprompt toolcallresult "
        "codeexecutionresult",
        "sealed": "redactedthinking redactedreasoning",
        "picture": "image imageurl inputimage inlinedata filedata file document",
    }.items()
    for name in names.split()
}
"""Kind of a part, as `sign_free` returns it → the meaning of the kind."""
_KIND = ("type", "kind", "part_kind", "block_type")
_BODIES = ("function", "functionCall", "toolCall", "tool_call", "toolInvocation", "toolResult",
           "run", "value", "functionResponse", "source", "image_url", "imageUrl",
           "additional_kwargs")  # fmt: skip
"""Keys for an inner object that holds the contents of the outer object."""
_CALL_ID = ("tool_call_id", "toolCallId", "toolCallID", "call_id", "callId", "tool_use_id",
            "toolUseID", "toolUseId", "tool_id")  # fmt: skip
_TOOL = ("tool_name", "toolName", "function_name", "name", "tool", "tool_kind")
_ARGUMENTS = ("arguments", "args", "input", "parameters", "tool_input", "tool_kwargs", "params",
              "raw_input")  # fmt: skip
_OUTPUTS = (
    "content",
    "result",
    "output",
    "response",
    "aggregated_output",
    "errorText",
    "tool_return",
)
"""Keys for the output of a tool."""
_TEXTS = ("text", "content", "thinking", "think", "reasoning", "reasoningText", "value", "markdown",
         "message", "mes", "description")  # fmt: skip
"""Keys for the text of a part or a message."""
_CALL_KEYS = (
    "toolCalls",
    "tool_calls",
    "toolInvocations",
    "tool_uses",
    "tools_used",
    "function_call",
)
_THOUGHTS = ("reasoning_content", "reasoning", "thinking", "thoughts", "thought", "reasoningText")
_FIELDS = frozenset((*_KIND, *_CALL_ID, *_TOOL, *_ARGUMENTS, *_OUTPUTS, *_BODIES, "id", "status",
                  "state", "index", "step", "signature", "thoughtSignature", "is_input_complete",
                  "timestamp", "exit_code", "providerExecuted", "invalid"))  # fmt: skip
"""Keys of a call that are not arguments."""
_FAILED = ("error", "failed", "cancelled", "output-error")
_FILE = "file, of which only the name is kept|files, of which only the names are kept"


def sign_free(name: object) -> str:
    """Return the name in lower case, without `-`, `_` and spaces."""
    return str(name).lower().replace("-", "").replace("_", "").replace(" ", "")


def role_means(role: object) -> str | None:
    """Return the meaning of a role, or None for an unknown role. The meanings are `user`,
    `assistant`, `system`, `developer`, `call`, `result` and `thought`.
    """
    return _ROLES.get(sign_free(role)) if isinstance(role, str) else None


@dataclass(frozen=True, slots=True)
class _Answer:
    """A result inside a message. `call` is its call, or the call's id in the file."""

    call: object
    result: ToolResult


@dataclass(slots=True)
class ByRole(Paired):
    """Collects messages of any role, by the meaning of the role."""

    def take(
        self,
        role: object,
        content: object,
        row: Row,
        *,
        place: str,
        time: datetime | None,
        means: str | None = None,
    ) -> None:
        """Add the message of a row. `means` is the meaning of its role, if the format gives one: a
        meaning that `role_means` returns, or `injected` or `checkpoint`.

        Raises:
            InvalidTranscript: says what is wrong at `place`.
        """
        if not isinstance(role, str) or not role.strip():
            raise InvalidTranscript(self.source, f"{place}.role: a message needs one")
        meaning = means or role_means(role)
        pieces = self._all_of(content, row, place, meaning)
        match meaning:
            case "call":
                if not any(isinstance(piece, ToolCall) for piece in pieces):
                    thoughts = [piece for piece in pieces if isinstance(piece, Thinking)]
                    rest = [piece for piece in pieces if not isinstance(piece, Thinking)]
                    pieces = [*thoughts, *self._call_of_role(rest, row)]
                self._add_all("assistant", pieces, row, time)
            case "result":
                self._take_result(pieces, row, time)
            case "thought":
                text = _texts(pieces)
                self._add_all("assistant", [Thinking(text)] if text else [], row, time)
            case "user" | "system" | "developer" | "assistant" as own:
                self._add_all(own, pieces, row, time)
            case "injected" | "checkpoint" as source:
                mark = INJECTED if source == "injected" else CHECKPOINT
                self._add_all("user", pieces, row, time, metadata=mark)
            case _:
                self.left_out[unknown_role(role)] += 1
                mark = MessageMetadata.model_validate({"source": "injected", "original_role": role})
                self._add_all("user", pieces, row, time, metadata=mark)

    def _all_of(
        self, content: object, row: Row, place: str, meaning: str | None
    ) -> list[Part | _Answer]:
        """Return the reasoning, the content, and the calls that the row has in other keys."""
        if meaning == "result" and isinstance(content, dict):
            content = text_in(content)
        pieces = self._pieces(content, place)
        if meaning != "thought" and not any(isinstance(piece, Thinking) for piece in pieces):
            pieces = [*self._thoughts_beside(row), *pieces]
        call_ids = {piece.id for piece in pieces if isinstance(piece, ToolCall)}
        for each in _calls_beside(row):
            if _id(each) not in call_ids or not _id(each):
                pieces += self._call_in(each)
        return pieces

    def _take_result(self, pieces: list[Part | _Answer], row: Row, time: datetime | None) -> None:
        """Add a message whose role says that it is a result. If its content holds no result, the
        whole content is the result.
        """
        calls = [piece for piece in pieces if isinstance(piece, ToolCall)]
        parts: list[Part] = [p for p in pieces if not isinstance(p, ToolCall | _Answer)]
        if calls:
            self._add_all("assistant", calls, row, time)
        answers = [piece for piece in pieces if isinstance(piece, _Answer)]
        if not answers:
            whole = _flat(row)
            if not parts and (output := _first(whole, _OUTPUTS)) is not None:
                parts = self._parts_of(output)
            answers.append(_Answer(_text(_first(whole, _CALL_ID)), _result(parts, whole)))
        elif parts:
            self._add_all("user", parts, row, time, metadata=OBSERVATION)
        self._add_all("user", answers, row, time)

    def _add_all(
        self,
        role: str,
        pieces: Sequence[Part | _Answer],
        row: Row,
        time: datetime | None,
        **more: object,
    ) -> None:
        """Add the pieces before each result as one message, and each result as another."""
        if not pieces:
            self.left_out["empty message"] += 1
        parts: list[Part] = []
        for piece in (*pieces, None):
            if piece is not None and not isinstance(piece, _Answer):
                parts.append(piece)
                continue
            if parts:
                self.say(role, parts, row, time=time, **self.own_id(row.get("id")), **more)
                parts = []
            if piece is not None:
                call = (
                    piece.call if isinstance(piece.call, ToolCall) else self.call_by_id(piece.call)
                )
                call = call or self.waiting_call(piece.result.name) or self.waiting_call()
                self.answer(call, piece.result, row, time=time)

    # --- calls ------------------------------------------------------------------------------------

    def _call_of_role(self, pieces: Sequence[Part | _Answer], row: Row) -> list[Part | _Answer]:
        text = _texts(pieces)
        if not text:
            return self._call_in(row)
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            value = None
        whole = _flat(row)
        named = {"id": _first(whole, _CALL_ID), "name": _first(whole, _TOOL)}
        if isinstance(value, dict) and {*_ARGUMENTS, "tool"} & value.keys():
            named["name"] = value.get("tool") or named["name"]
            return self._call_in({**named, **value})
        return self._call_in({**named, "arguments": text})

    def _call_in(self, value: Row) -> list[Part | _Answer]:
        whole = _flat(value)
        kind = _kind(whole)
        call_id = _text(_first(whole, _CALL_ID) or whole.get("id"))
        name = _first(whole, _TOOL) or (kind or "").removeprefix("tool-")
        if (server := text_or(whole.get("server"))) and isinstance(name, str):
            name = f"{server}__{name}"
        arguments = next((whole[k] for k in _ARGUMENTS if k in whole), None)
        if arguments is None:
            arguments = {k: v for k, v in whole.items() if k not in _FIELDS and v is not None}
        call = self.call(call_id, name, arguments)
        output = next((whole[k] for k in _OUTPUTS if whole.get(k) is not None), None)
        if output is None and whole.get("status") in _FAILED:
            output = whole.get("error", "")
        if output is None or kind == "result":
            return [call]
        return [call, _Answer(call, _result(self._parts_of(output), whole))]

    # --- parts ------------------------------------------------------------------------------------

    def _thoughts_beside(self, row: Row) -> list[Part | _Answer]:
        value = next((row[key] for key in _THOUGHTS if row.get(key)), None)
        each = [value] if isinstance(value, str | dict) else value
        texts = (
            [text_in(x) for x in each if isinstance(x, str | dict)]
            if isinstance(each, list)
            else []
        )
        return [Thinking(text) for text in texts if text]

    def _parts_of(self, value: object) -> list[Part]:
        text = text_in(value)
        pictures = [x for x in objects_in(value) if _KINDS.get(sign_free(_kind(x))) == "picture"]
        shown = [part for x in pictures for part in self._file(x)]
        return [*([Text(text)] if text else []), *shown]

    def _pieces(self, content: object, place: str) -> list[Part | _Answer]:
        """Return the parts and results of a content, in order."""
        if content is None or isinstance(content, str):
            return [Text(content)] if content else []
        listed = content.get("parts", [content]) if isinstance(content, dict) else content
        if not isinstance(listed, list):
            kind = type(content).__name__
            raise InvalidTranscript(self.source, f"{place}: expected text or parts, got {kind}")
        pieces: list[Part | _Answer] = []
        for index, each in enumerate(listed):
            if isinstance(each, str):
                pieces += [Text(each)] if each else []
            elif isinstance(each, dict):
                pieces += self._piece(_tagged(each))
            elif each is not None:
                reason = f"{place}[{index}]: expected a part, got {type(each).__name__}"
                raise InvalidTranscript(self.source, reason)
        return pieces

    def _piece(self, part: dict[str, Any]) -> list[Part | _Answer]:
        kind = _kind(part)
        means = _KINDS.get(sign_free(kind))
        if means == "text" and part.get("thought") is True:
            means = "thought"
        if means is None and kind and kind.startswith("tool-") and _first(part, _CALL_ID):
            means = "call"
        match means:
            case "call":
                return self._call_in(part)
            case "result":
                whole = _flat(part)
                output = next((whole[k] for k in _OUTPUTS if k in whole), whole.get("value", ""))
                call_id = _text(_first(whole, _CALL_ID) or whole.get("id"))
                return [_Answer(call_id, _result(self._parts_of(output), whole))]
            case "thought":
                thought = text_in(part)
                mark = text_or(part.get("signature"))
                return [Thinking(thought, mark)] if thought else []
            case "picture":
                return [*self._file(part)]
            case "sealed":
                self.left_out["piece of sealed reasoning|pieces of sealed reasoning"] += 1
                return []
        return [*self._other(part, kind, is_text=means == "text")]

    def _other(self, part: Row, kind: str | None, *, is_text: bool) -> list[Part]:
        text = next((part[k] for k in _TEXTS if isinstance(part.get(k), str | dict)), None)
        if isinstance(text, dict):
            text = text_in(text) if is_text else None
        if isinstance(text, str):
            if not is_text:
                self.left_out[f"part of the type {kind}, kept as its text|"
                              f"parts of the type {kind}, kept as their text"] += 1  # fmt: skip
            return [Text(text)] if text else []
        if not any(key not in _KIND and value for key, value in part.items()):
            self.left_out[f"part of the type {kind}, which says nothing|"
                          f"parts of the type {kind}, which say nothing"] += 1  # fmt: skip
            return []
        self.left_out[f"part of the type {kind}, kept as JSON|"
                      f"parts of the type {kind}, kept as JSON"] += 1  # fmt: skip
        return [Text(write_json(part))]

    def _file(self, part: Row) -> list[Part]:
        whole = _flat(part)
        data = _first(whole, ("data", "base64", "bytes", "image"))
        kind = _first(whole, ("mimeType", "media_type", "mediaType", "mime_type", "format", "mime"))
        url = _first(whole, ("url", "uri", "fileUri", "file_uri"))
        if kind in ("png", "jpeg", "jpg", "gif", "webp"):
            kind = f"image/{kind}"
        if isinstance(data, str) and str(kind).startswith("image/"):
            return [image_of(f"data:{kind};base64,{data}")]
        if isinstance(url, str) and "image" in f"{kind} {_kind(part)} {url[:11]}":
            return [image_of(url)]
        name = _first(whole, ("filename", "file_name", "name", "title", "path", "file_id")) or url
        self.left_out[_FILE] += 1
        return [Text(f"[file {name or kind or 'without a name'}]")]


def call_ids(row: object) -> Iterator[str]:
    """Yield the ids of a message's calls."""
    if not isinstance(row, dict):
        return
    content = row.get("parts") if "parts" in row else row.get("content")
    parts = (_tagged(part) for part in objects_in(content))
    calls = (part for part in parts if _KINDS.get(sign_free(_kind(part))) == "call")
    for call in (*_calls_beside(row), *calls):
        if call_id := _id(call):
            yield call_id


def result_of(said: object, row: Row) -> ToolResult:
    """Return a tool's output as a result."""
    failed = str(row.get("status")) in _FAILED or row.get("state") in _FAILED
    marked = any(row.get(key) is True for key in ("is_error", "isError"))
    return ToolResult("", text_in(said), text_or(_first(row, _TOOL)), failed or marked)


def text_in(value: object) -> str:
    """Return the text of a value: a text, the texts of a list, or the only text of an object.
    Otherwise return its JSON.
    """
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, list):
        if all(isinstance(x, str | dict) for x in value):
            texts = [text_in(x) for x in value if _KINDS.get(sign_free(_kind_of(x))) != "picture"]
            return "\n".join(text for text in texts if text)
        return write_json(value)
    if not isinstance(value, dict):
        return write_json(value)
    if len(value) == 1 and isinstance(only := next(iter(value.values())), str):
        return only
    value = _tagged(value)
    if isinstance(value.get("subject"), str):
        return "\n".join(filter(None, (value["subject"], text_or(value.get("description")))))
    for key in ("llmContent", "functionResponse", "parts", *_TEXTS, *_OUTPUTS):
        if key in value and (isinstance(value[key], str) or _wraps(value, key)):
            return text_in(value[key])
    return write_json(value)


def _wraps(value: Row, key: str) -> bool:
    others = {k for k, v in value.items() if k != key and v not in (None, "", [], {}, False, True)}
    return others <= {*_KIND, *_CALL_ID, *_TOOL, "id", "status", "state", "annotations", "index",
                      "signature", "success"}  # fmt: skip


def _tagged(part: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part with its kind under `type`. If the part names no kind, a key that is a kind
    gives it, or else the other keys.
    """
    if _kind(part) is not None:
        return dict(part)
    for key, value in part.items():
        means = None if value is None else _KINDS.get(sign_free(key))
        if means and (means != "text" or sign_free(key) in ("text", "mention")):
            body = value if isinstance(value, dict) else {"text": value}
            return {**{k: v for k, v in part.items() if k != key}, **body, "type": key}
    if part.keys() & {*_CALL_ID} and part.keys() & {*_OUTPUTS}:
        return {**part, "type": "tool_result"}
    if "name" in part and part.keys() & {*_ARGUMENTS}:
        return {**part, "type": "tool_call"}
    return dict(part)


def _flat(value: Row) -> dict[str, Any]:
    """Return the object with the keys of its inner objects among its own keys."""
    flat = dict(value)
    for key in _BODIES:
        body = flat.get(key)
        if isinstance(body, dict) and (key != "value" or "name" in body):
            del flat[key]
            flat = {**flat, **{k: v for k, v in _flat(body).items() if v is not None}}
    return flat


def _result(parts: Sequence[Part], row: Row) -> ToolResult:
    images = tuple(part for part in parts if isinstance(part, Image))
    result = result_of(_texts(parts), row)
    return ToolResult("", result.text, result.name, result.is_error, images=images)


def _texts(pieces: Sequence[Part | _Answer]) -> str:
    return "\n".join(piece.text for piece in pieces if isinstance(piece, Text | Thinking))


def _calls_beside(row: Row) -> list[dict[str, Any]]:
    more = row.get("additional_kwargs")
    facts = {**more, **row} if isinstance(more, dict) else row
    calls = next((facts[key] for key in _CALL_KEYS if facts.get(key)), None)
    return objects_in([calls] if isinstance(calls, dict) else calls)


def _id(value: Row) -> str | None:
    return _text(_first(_flat(value), _CALL_ID) or value.get("id"))


def _text(value: object) -> str | None:
    return str(value) if isinstance(value, int) else text_or(value)


def _kind(part: Row) -> str | None:
    return text_or(_first(part, _KIND))


def _kind_of(value: object) -> str | None:
    return _kind(_tagged(value)) if isinstance(value, dict) else None


def _first(row: Row, keys: Sequence[str]) -> object:
    return next((row[key] for key in keys if row.get(key)), None)
