"""OpenAI Responses input items: messages, and beside them calls, results and reasoning as items of
their own.

Each item is one message. The items of one reply share a `reply_id`: reasoning, and whatever of the
assistant follows it, and calls that stand side by side; providers refuse reasoning without the item
after it, and that item without its reasoning. Hosted tools and what is not known are kept as they
are. Reasoning of another format is left out, as it carries no seal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from compact.core import images
from compact.core.formats.tool_schemas import ToolShape
from compact.core.formats.wire import (
    NO_IMAGE,
    NOTHING_BEFORE,
    Before,
    content_at,
    object_at,
    own_wire,
    pictures_of,
    read_metadata,
    record_at,
)
from compact.core.messages import (
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
from compact.core.provider_rules import OPENAI_RESPONSES
from compact.core.tokens import RESPONSES_FRAMING
from compact.errors import InvalidMessage, ServerHeldState

NAME = "responses"
ROLES = ("user", "assistant", "system", "developer")
OUTPUT_OF: Mapping[str, str] = {
    "function_call": "function_call_output",
    "custom_tool_call": "custom_tool_call_output",
    "local_shell_call": "local_shell_call_output",
    "shell_call": "shell_call_output",
    "apply_patch_call": "apply_patch_call_output",
    "computer_call": "computer_call_output",
    "tool_search_call": "tool_search_output",
}
"""The items by which an application is asked to run something, and those that answer them."""
_OUTPUTS = frozenset(OUTPUT_OF.values())
_ARGUMENTS: Mapping[str, str] = {"function_call": "arguments", "custom_tool_call": "input"}
"""Where the arguments of calls stand that are plain text; those of others are counted whole."""
_TEXT_OUTPUTS = frozenset(("function_call_output", "custom_tool_call_output"))
_CONTENTS = frozenset(("input_text", "output_text", "refusal", "input_image", "input_file"))
"""Parts of a message's content, which are no items."""
_HELD = ("previous_response_id", "conversation", "conversation_id", "auto_previous_response_id")


class Responses:
    """The wire format of the input of OpenAI's Responses API."""

    name = NAME
    rules = OPENAI_RESPONSES
    framing = RESPONSES_FRAMING
    tokenizer = "o200k"
    tool_shape: ToolShape = "flat"
    has_system_field = False
    results_role: Literal["tool", "user"] = "tool"

    def parse(
        self, raw: Mapping[str, Any], position: int, before: Before = NOTHING_BEFORE
    ) -> Message:
        """Read one item; of those before it only the pieces of its own reply are looked at.

        Raises:
            InvalidMessage: naming the field that is wrong.
            ServerHeldState: it refers to an item that the server keeps.
        """
        path = f"messages[{position}]"
        raw = record_at(raw, path)
        if _is_reference(raw):
            raise _held(f"{path}, a reference to a stored item")
        role, content = self.said(raw, path)
        own = raw.get("id")
        return Message.trusted(
            role=role,
            content=content,
            id=own if isinstance(own, str) and own else f"m{position}",
            reply_id=_reply(raw, position, before) if role == "assistant" else None,
            metadata=read_metadata(raw.get("metadata"), f"{path}.metadata"),
            wire=raw,
            wire_format=NAME,
        )

    def said(self, raw: Mapping[str, Any], path: str) -> tuple[str, str | tuple[Part, ...]]:
        """The role and the content of one item; `path` is for errors.

        Raises:
            InvalidMessage: naming the field that is wrong.
        """
        role, kind = _role(raw, path), raw.get("type", "message")
        if kind == "message":
            return role, content_at(raw.get("content"), f"{path}.content", _part)
        if kind == "reasoning":
            return role, (_reasoning(raw),)
        if kind in OUTPUT_OF:
            return role, _call(raw, kind, path)
        if kind in _OUTPUTS:
            return role, _result(raw, kind, path)
        return role, (_whole(raw),)

    def render(self, messages: Sequence[Message]) -> list[dict[str, Any]]:
        """Write messages; what is unchanged comes back as it was read."""
        out: list[dict[str, Any]] = []
        for message in messages:
            own = own_wire(message, NAME)
            if own is not None:
                out.append(own if isinstance(own, dict) else dict(own))
            elif message.wire_format == NAME and message.wire is not None:
                out.append(_changed(message, message.wire))
            elif message.wire_format == NAME and (items := _items(message)):
                out.extend(items)
            else:
                out.extend(_write(message))
        return out


def refuse_server_state(request: Mapping[str, Any]) -> None:
    """Refuse a request, or a client's settings, by which the server would add to what is sent.

    Raises:
        ServerHeldState: it goes on from a stored response or conversation, or refers to stored
            items; the text names the field and the way out.
    """
    found = [name for name in _HELD if request.get(name)]
    items = request.get("input")
    for i, item in enumerate(items if isinstance(items, Sequence) else ()):
        if isinstance(item, Mapping) and _is_reference(item):
            found.append(f"input[{i}], a reference to a stored item")
    if found:
        raise _held(found[0])


def _held(where: str) -> ServerHeldState:
    return ServerHeldState(
        f"{where}: the server would add messages it keeps to those that are sent, and nobody "
        "counted them, so the prompt may overflow. Send the items themselves as input, with "
        "store=False and include=['reasoning.encrypted_content']"
    )


def _is_reference(item: Raw) -> bool:
    return item.get("type") == "item_reference" or item.keys() == {"id"}


# --- reading --------------------------------------------------------------------------------------


def _role(raw: Raw, path: str) -> str:
    kind, role = raw.get("type", "message"), raw.get("role")
    if not isinstance(kind, str):
        raise InvalidMessage(f"{path}.type", f"expected a text, got {kind!r}")
    if kind == "message" and role not in ROLES:
        raise InvalidMessage(f"{path}.role", f"{role!r} is not one of {', '.join(ROLES)}")
    if kind in _OUTPUTS:
        return "tool"
    return str(role) if role in ROLES else "assistant"


def _reply(raw: Raw, position: int, before: Before) -> str | None:
    """The id of the reply that an item of the assistant is a piece of: its first reasoning or call
    names it. Words with neither before them are a reply by themselves.
    """
    found = _reply_begun(raw, position)
    for distance, item in enumerate(before, 1):
        at = position - distance
        if isinstance(item, Message):
            if item.role != "assistant":
                break
            if item.reply_id is not None:
                return item.reply_id
        elif _role(item, f"messages[{at}]") != "assistant":
            break
        else:
            found = _reply_begun(item, at) or found
    return found


def _reply_begun(raw: Raw, position: int) -> str | None:
    kind = raw.get("type")
    if kind != "reasoning" and kind not in OUTPUT_OF:
        return None
    return f"{raw.get('id') or raw.get('call_id') or kind}@{position}"


def _part(value: object, path: str) -> Part:
    raw = object_at(value, path)
    match raw.get("type"):
        case "input_text" | "output_text" if isinstance(raw.get("text"), str):
            return Text(raw["text"], raw=raw)
        case "refusal" if isinstance(raw.get("refusal"), str):
            return Refusal(raw["refusal"], raw=raw)
        case "input_image":
            width, height = images.size_of_data_url(images.data_url(raw))
            return Image(width, height, raw.get("detail"), raw=raw)
        case _:
            return Opaque(images.visible_json(raw), raw=raw)


def _reasoning(raw: Raw) -> Thinking:
    said = (raw.get("summary"), raw.get("content"))
    listed = [each for texts in said if isinstance(texts, list | tuple) for each in texts]
    texts = [str(x.get("text", "")) for x in listed if isinstance(x, Mapping)]
    sealed = raw.get("encrypted_content")
    return Thinking("\n".join(texts), sealed if isinstance(sealed, str) else None, raw=raw)


def _call(raw: Raw, kind: str, path: str) -> tuple[Part, ...]:
    call_id = raw.get("call_id")
    if call_id is None and kind == "tool_search_call":  # the server searches by itself
        return (_whole(raw),)
    if not isinstance(call_id, str) or not call_id:
        raise InvalidMessage(f"{path}.call_id", f"a tool call needs one, got {call_id!r}")
    if kind not in _ARGUMENTS:
        return ToolCall(call_id, kind.removesuffix("_call"), "", raw={"type": kind}), _whole(raw)
    name, arguments = raw.get("name"), raw.get(_ARGUMENTS[kind], "")
    if not isinstance(name, str):
        raise InvalidMessage(f"{path}.name", f"a tool call needs a name, got {name!r}")
    if not isinstance(arguments, str):
        what = type(arguments).__name__
        raise InvalidMessage(f"{path}.{_ARGUMENTS[kind]}", f"expected a text, got {what}")
    return (ToolCall(call_id, name, arguments, raw=raw),)


def _result(raw: Raw, kind: str, path: str) -> tuple[Part, ...]:
    call_id = raw.get("call_id")
    if call_id is None and kind == "tool_search_output":
        return (_whole(raw),)
    if call_id is None and kind == "local_shell_call_output":
        call_id = raw.get("id")
    if not isinstance(call_id, str) or not call_id:
        raise InvalidMessage(f"{path}.call_id", f"a tool result needs one, got {call_id!r}")
    if kind not in _TEXT_OUTPUTS:
        return ToolResult(call_id, ""), _whole(raw)
    said = content_at(raw.get("output"), f"{path}.output", _part)
    parts = (Text(said),) if isinstance(said, str) else said
    text = "\n".join(p.text for p in parts if isinstance(p, Text | Refusal | Opaque))
    return (ToolResult(call_id, text, images=pictures_of(parts), raw=raw),)


def _whole(raw: Raw) -> Opaque:
    """What an item is counted as that is never shortened, as its shape is the provider's own."""
    return Opaque(images.visible_json(raw), raw=raw)


# --- writing --------------------------------------------------------------------------------------


def _changed(message: Message, base: Raw) -> dict[str, Any]:
    """An item of ours whose content was shortened."""
    if base.get("type", "message") == "message":
        return {**base, "content": _write_content(message, own=True)}
    for part in message.parts:
        match part:
            case ToolCall(raw=raw) if raw is not None and raw["type"] in _ARGUMENTS:
                return {**raw, _ARGUMENTS[raw["type"]]: part.arguments}
            case ToolResult(raw=raw) if raw is not None:
                same = _result(raw, raw["type"], "message")[0] == part
                return dict(raw) if same else {**raw, "output": part.text}
            case Thinking(raw=raw) | Opaque(raw=raw) if raw is not None:
                return dict(raw)
    return dict(base)


def _items(message: Message) -> list[dict[str, Any]]:
    """The items of a whole reply that is one message, each kept by its part; none where they are
    not.
    """
    kept = [part for part in message.parts if part.raw is not None]
    if any(part.raw.get("type") in _CONTENTS for part in kept if part.raw is not None):
        return []
    return [_item(part, part.raw) for part in kept if part.raw is not None]


def _item(part: Part, raw: Raw) -> dict[str, Any]:
    match part:
        case ToolCall() if raw.get("type") in _ARGUMENTS:
            return {**raw, _ARGUMENTS[raw["type"]]: part.arguments}
        case Text() | Refusal() if raw.get("type") == "message":
            whole = Message(
                role="assistant", content=content_at(raw.get("content"), "content", _part)
            )
            if whole.text != part.text:
                return {**raw, "content": [_write_part(Text(part.text), "output_text", own=False)]}
    return dict(raw)


def _write(message: Message) -> list[dict[str, Any]]:
    """The items of a message of another format, or of none."""
    out = [_write_result(r) for r in message.tool_results]
    spoken = [p for p in message.parts if isinstance(p, Text | Refusal | Image)]
    silent = bool(out or message.tool_calls) or any(isinstance(p, Thinking) for p in message.parts)
    if spoken or not silent:
        role = message.role if message.role in ROLES else "user"
        out.append({"role": role, "content": _write_content(message, own=False)})
    return out + [
        {"type": "function_call", "call_id": c.id, "name": c.name, "arguments": c.arguments}
        for c in message.tool_calls
    ]


def _write_content(message: Message, *, own: bool) -> str | list[dict[str, Any]]:
    if isinstance(message.content, str):
        return message.content
    says = "output_text" if message.role == "assistant" else "input_text"
    if own:
        return [_write_part(p, says, own=True) for p in message.parts]
    known = [p for p in message.parts if isinstance(p, Text | Refusal | Image)]
    if says == "input_text" and any(isinstance(p, Image) for p in known):
        return [_write_part(p, says, own=False) for p in known]
    return "\n".join(NO_IMAGE if isinstance(p, Image) else p.text for p in known)


def _write_part(part: Part, says: str, *, own: bool) -> dict[str, Any]:
    if own and part.raw is not None:
        return dict(part.raw)
    url = images.data_url(part.raw or {}) if isinstance(part, Image) else ""
    if url:
        return {"type": "input_image", "image_url": url, "detail": "auto"}
    text = getattr(part, "text", NO_IMAGE)
    extra: dict[str, Any] = {"annotations": []} if says == "output_text" else {}
    return {"type": says, "text": text, **extra}


def _write_result(result: ToolResult) -> dict[str, Any]:
    """A result; a note of ours says in `raw` which kind of call it answers."""
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
