"""The format of OpenAI Responses: messages, calls, results and reasoning are separate items.

Each item is one message. Items of one reply share a `reply_id`: reasoning, the assistant's items
after it, and neighbouring calls. Providers refuse reasoning without the item after it, and that
item without its reasoning. Items of hosted tools and unknown items are kept unchanged. Reasoning
from another format is left out, because it lacks OpenAI's encrypted content.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from compact.errors import ServerHeldState
from compact.messages import images
from compact.messages.boundaries import OPENAI_RESPONSES
from compact.messages.formats.wire import (
    NO_IMAGE,
    Before,
    Content,
    WireFormat,
    text_at,
    text_in,
)
from compact.messages.messages import (
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
    is_compaction,
)
from compact.messages.tokens import RESPONSES_FRAMING

OUTPUT_OF: Mapping[str, str] = {
    "function_call": "function_call_output",
    "custom_tool_call": "custom_tool_call_output",
    "local_shell_call": "local_shell_call_output",
    "shell_call": "shell_call_output",
    "apply_patch_call": "apply_patch_call_output",
    "computer_call": "computer_call_output",
    "tool_search_call": "tool_search_output",
}
"""Items that ask an application to run something → the items that hold the answers."""
_OUTPUTS = frozenset(OUTPUT_OF.values())
_ARGUMENTS: Mapping[str, str] = {"function_call": "arguments", "custom_tool_call": "input"}
"""Type of call → the field with its arguments as plain text. Other calls are counted whole."""
_TEXT_OUTPUTS = frozenset(("function_call_output", "custom_tool_call_output"))
_CONTENTS = frozenset(("input_text", "output_text", "refusal", "input_image", "input_file"))
"""Types of parts in a message's content. An item never has one of these types."""
_STATE = ("previous_response_id", "conversation", "conversation_id", "auto_previous_response_id")


class Responses(WireFormat):
    """The wire format of the input of OpenAI's Responses API."""

    name = "responses"
    roles = ("user", "assistant", "system", "developer")
    rules = OPENAI_RESPONSES
    framing = RESPONSES_FRAMING
    tokenizer = "o200k"
    tool_shape = "flat"
    text_kinds = ("input_text", "output_text")
    image_kind = "input_image"
    has_bare_texts = False

    def parse(self, raw: Mapping[str, Any], position: int, before: Before = ()) -> Message:
        """Read one item. Of the earlier items, only those of the same reply are read."""
        if isinstance(raw, Mapping) and _is_reference(raw):
            raise _server_state(f"messages[{position}], a reference to a stored item")
        return super().parse(raw, position, before)

    def role_and_content(self, raw: Raw, path: str) -> tuple[str, Content]:
        """Return the role and the content."""
        role, kind = self._role(raw, path), raw.get("type", "message")
        if kind == "message":
            return role, self.content_at(raw.get("content"), f"{path}.content")
        if kind == "reasoning":
            return role, (_reasoning(raw),)
        if kind in OUTPUT_OF:
            return role, _call(raw, kind, path)
        if kind in _OUTPUTS:
            return role, self._result(raw, kind, path)
        return role, (_opaque(raw),)

    def facts(self, raw: Raw, role: str, position: int, before: Before) -> dict[str, object]:
        """Return the item's id, and the id of the reply that it belongs to."""
        return {
            "id": text_in(raw, "id") or f"m{position}",
            "reply_id": self._reply(raw, position, before)
            if role == "assistant" and not is_compaction(raw)
            else None,
        }

    def written(self, message: Message, names: Mapping[str, str]) -> list[dict[str, Any]]:
        """Write the message as items. A shortened item keeps its other fields."""
        if message.wire_format == self.name:
            if message.wire is not None:
                return [self._changed(message, message.wire)]
            kept = [(part, part.raw) for part in message.parts if part.raw is not None]
            if kept and not any(raw.get("type") in _CONTENTS for _, raw in kept):
                return [item for part, raw in kept for item in self._items(part, raw, message)]
        results = [_written_result(r) for r in message.tool_results]
        spoken = [p for p in message.parts if isinstance(p, Text | Refusal | Image)]
        is_silent = results or any(isinstance(p, ToolCall | Thinking) for p in message.parts)
        spoken_items: list[dict[str, Any]] = []
        if spoken or not is_silent:
            role = message.role if message.role in self.roles else "user"
            spoken_items = [{"role": role, "content": self._written_content(message, spoken)}]
        calls = [
            {"type": "function_call", "call_id": c.id, "name": c.name, "arguments": c.arguments}
            for c in message.tool_calls
        ]
        return [*results, *spoken_items, *calls]

    def are_one(self, first: Message, second: Message) -> bool:
        """Return False: messages of one reply stay separate items."""
        return False

    def _role(self, raw: Raw, path: str) -> str:
        kind = text_at({"type": "message", **raw}, "type", path, "an item", least=0)
        role = raw.get("role")
        if kind == "message":
            return self.role_at(role, path)
        if kind in _OUTPUTS:
            return "tool"
        return str(role) if role in self.roles else "assistant"

    def _reply(self, raw: Raw, position: int, before: Before) -> str | None:
        """Return the id of the assistant's reply. It comes from the first reasoning or call of the
        reply. Text without reasoning or a call before it is a reply by itself.
        """
        found = _reply_begun(raw, position)
        for distance, item in enumerate(before, 1):
            at = position - distance
            if isinstance(item, Message):
                if item.role != "assistant" or item.has_compaction:
                    break
                if item.reply_id is not None:
                    return item.reply_id
            elif is_compaction(item) or self._role(item, f"messages[{at}]") != "assistant":
                break
            else:
                found = _reply_begun(item, at) or found
        return found

    def _result(self, raw: Raw, kind: str, path: str) -> tuple[Part, ...]:
        if kind == "tool_search_output" and raw.get("call_id") is None:
            return (_opaque(raw),)
        is_shell = kind == "local_shell_call_output" and raw.get("call_id") is None
        call_id = text_at(raw, "id" if is_shell else "call_id", path, "a tool result")
        if kind not in _TEXT_OUTPUTS:
            return ToolResult(call_id, ""), _opaque(raw)
        return (self.result(call_id, raw.get("output"), f"{path}.output", raw=raw),)

    def _changed(self, message: Message, base: Raw) -> dict[str, Any]:
        if base.get("type", "message") == "message":
            return {**base, "content": self._own_content(message)}
        for part in message.parts:
            match part:
                case ToolCall(raw=raw) if raw is not None and raw["type"] in _ARGUMENTS:
                    return {**raw, _ARGUMENTS[raw["type"]]: part.arguments}
                case ToolResult(raw=raw) if raw is not None:
                    same = self._result(raw, raw["type"], "message")[0] == part
                    return dict(raw) if same else {**raw, "output": part.text}
                case Thinking(raw=raw) | Opaque(raw=raw) if raw is not None:
                    return dict(raw)
        return dict(base)

    def _own_content(self, message: Message) -> str | list[dict[str, Any]]:
        if isinstance(message.content, str):
            return message.content
        if all(isinstance(p, Text) and p.raw is None for p in message.parts):
            return "\n\n".join(p.text for p in message.parts if isinstance(p, Text))
        return [dict(p.raw) if p.raw else _written_part(p, message.role) for p in message.parts]

    def _items(self, part: Part, raw: Raw, message: Message) -> list[dict[str, Any]]:
        """Write a part's item. Build it from the fields if redaction left only the item's type."""
        if raw.keys() == {"type"} and isinstance(part, ToolCall | ToolResult):
            alone = message.model_copy(update={"content": (part,), "wire_format": None})
            return self.written(alone, {})
        return [self._item(part, raw)]

    def _item(self, part: Part, raw: Raw) -> dict[str, Any]:
        match part:
            case ToolCall() if raw.get("type") in _ARGUMENTS:
                return {**raw, _ARGUMENTS[raw["type"]]: part.arguments}
            case Text() | Refusal() if raw.get("type") == "message":
                said = self.content_at(raw.get("content"), "content")
                if Message(role="assistant", content=said).text != part.text:
                    return {**raw, "content": [_written_part(Text(part.text), "assistant")]}
        return dict(raw)

    def _written_content(
        self, message: Message, spoken: Sequence[Text | Refusal | Image]
    ) -> str | list[dict[str, Any]]:
        if message.role != "assistant" and any(isinstance(p, Image) for p in spoken):
            return [_written_part(p, message.role) for p in spoken]
        return "\n".join(NO_IMAGE if isinstance(p, Image) else p.text for p in spoken)


def refuse_server_state(request: Mapping[str, Any]) -> None:
    """Refuse a request, or a client's settings, that let the server add messages to the prompt.

    Raises:
        ServerHeldState: the request continues a stored response or conversation, or refers to
            stored items; the error names the field and the alternative.
    """
    fields = [name for name in _STATE if request.get(name)]
    items = request.get("input")
    for i, item in enumerate(items if isinstance(items, Sequence) else ()):
        if isinstance(item, Mapping) and _is_reference(item):
            fields.append(f"input[{i}], a reference to a stored item")
    if fields:
        raise _server_state(fields[0])


def _server_state(where: str) -> ServerHeldState:
    return ServerHeldState(
        f"{where}: the server would add messages it keeps to those that are sent, and nobody "
        "counted them, so the prompt may overflow. Send the items themselves as input, with "
        "store=False and include=['reasoning.encrypted_content']"
    )


def _is_reference(item: Raw) -> bool:
    return item.get("type") == "item_reference" or item.keys() == {"id"}


def _reply_begun(raw: Raw, position: int) -> str | None:
    kind = raw.get("type")
    if kind != "reasoning" and kind not in OUTPUT_OF:
        return None
    return f"{raw.get('id') or raw.get('call_id') or kind}@{position}"


def _reasoning(raw: Raw) -> Thinking:
    fields = (raw.get("summary"), raw.get("content"))
    entries = [each for texts in fields if isinstance(texts, list | tuple) for each in texts]
    texts = [str(x.get("text", "")) for x in entries if isinstance(x, Mapping)]
    return Thinking("\n".join(texts), text_in(raw, "encrypted_content"), raw=raw)


def _call(raw: Raw, kind: str, path: str) -> tuple[Part, ...]:
    if kind == "tool_search_call" and raw.get("call_id") is None:  # the server runs this search
        return (_opaque(raw),)
    call_id = text_at(raw, "call_id", path, "a tool call")
    if kind not in _ARGUMENTS:
        return ToolCall(call_id, kind.removesuffix("_call"), "", raw={"type": kind}), _opaque(raw)
    name = text_at(raw, "name", path, "a tool call", least=0)
    given = {_ARGUMENTS[kind]: "", **raw}
    arguments = text_at(given, _ARGUMENTS[kind], path, "a tool call", least=0)
    return (ToolCall(call_id, name, arguments, raw=raw),)


def _opaque(raw: Raw) -> Opaque:
    """Return the item as a part that is never shortened: only the provider knows its form."""
    return Opaque(images.visible_json(raw), raw=raw)


def _written_part(part: Part, role: str) -> dict[str, Any]:
    url = images.data_url(part.raw or {}) if isinstance(part, Image) else ""
    if url:
        return {"type": "input_image", "image_url": url, "detail": "auto"}
    text = getattr(part, "text", NO_IMAGE)
    if role == "assistant":
        return {"type": "output_text", "text": text, "annotations": []}
    return {"type": "input_text", "text": text}


def _written_result(result: ToolResult) -> dict[str, Any]:
    """Write a result. If compact made the result, `raw` has the type of the call it answers."""
    kind = OUTPUT_OF.get(str((result.raw or {}).get("type")), "function_call_output")
    record: dict[str, Any] = {"type": kind, "call_id": result.call_id, "output": result.text}
    match kind:
        case "custom_tool_call_output":
            return record
        case "local_shell_call_output":
            return {"type": kind, "id": result.call_id, "output": result.text}
        case "apply_patch_call_output":
            return {**record, "status": "failed"}
        case "shell_call_output":
            outcome = {"type": "exit", "exit_code": 1}
            return {**record, "output": [{"stdout": "", "stderr": result.text, "outcome": outcome}]}
        case _:
            return {**record, "type": "function_call_output"}
