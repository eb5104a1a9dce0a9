"""Changes messages that servers always refuse, so that servers accept them.

A log keeps messages in their original form: an empty list of parts, a call that was cut off, an id
from another vendor. Each later prompt contains such a message, so without this module every later
request of the session would fail. No content is left out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any

from compact.messages.arguments import arguments_of, readable_arguments
from compact.messages.messages import META, Raw
from compact.messages.times import TIMES
from compact.patterns import regex

Served = dict[str, Any]

_COMPACTS_FIELDS = frozenset((*TIMES, *META))
"""Fields of a message that only compact reads. They are not sent."""
_ROLE: Mapping[str, str] = {"tool_call": "assistant", "tool_result": "tool"}
"""Roles that compact accepts → the roles that servers accept."""
_LONGEST_ID: Mapping[str, int] = {"chat_completions": 40, "responses": 64}
"""The greatest length of a call id, by OpenAI's API."""
_ITEM_HEADS: Mapping[str, str] = {"message": "msg", "function_call": "fc"}
"""The beginning of OpenAI's own item ids. OpenAI refuses other ids, and needs none."""
_NO_NAME = regex(r"[^a-zA-Z0-9_-]")
_LONGEST_NAME, _LONGEST_BLOCK_NAME = 64, 128
"""The greatest length of a tool's name: OpenAI's limit, and Anthropic's."""


def served_message(raw: Raw) -> Served:
    """Return a chat completions message that servers accept."""
    message = _set(raw)
    message.pop("id", None)
    message["role"] = _ROLE.get(raw["role"], raw["role"])
    calls = message.pop("tool_calls", None)
    if calls:
        message["tool_calls"] = [_call(call) for call in calls]
    if isinstance(legacy := message.get("function_call"), Mapping):
        message["function_call"] = _with_readable(legacy)
    if "tool_call_id" in message:
        message["tool_call_id"] = _fitting(message["tool_call_id"], _LONGEST_ID["chat_completions"])
    content = message.get("content")
    if isinstance(content, list | tuple) and content:
        message["content"] = [
            {"type": "text", "text": x} if isinstance(x, str) else x for x in content
        ]
    elif not content:
        may_be_null = message["role"] == "assistant" and (
            calls or message.get("function_call") or message.get("refusal")
        )
        message["content"] = None if may_be_null else ""
    return message


def _set(raw: Raw) -> Served:
    return {k: v for k, v in raw.items() if v is not None and k not in _COMPACTS_FIELDS}


def _call(raw: Raw) -> Served:
    call: Served = {k: v for k, v in raw.items() if v is not None}
    call["id"] = _fitting(call["id"], _LONGEST_ID["chat_completions"])
    body = call.get("function")
    call["type"] = "custom" if body is None else "function"
    return call if body is None else {**call, "function": _with_readable(body)}


def _with_readable(body: Raw) -> Served:
    arguments = body.get("arguments") or ""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return {**body, "arguments": readable_arguments(text)}


def served_item(raw: Raw) -> Served:
    """Return a Responses item that the server accepts, without the nulls that clients write."""
    item = _set(raw)
    head = _ITEM_HEADS.get(item.get("type", "message"))
    if head and not str(item.get("id", head)).startswith(head):
        del item["id"]
    if "call_id" in item:
        item["call_id"] = _fitting(item["call_id"], _LONGEST_ID["responses"])
    match item.get("type", "message"):
        case "function_call":
            return _with_readable(item)
        case "message":
            item.setdefault("content", "")
        case "function_call_output" | "custom_tool_call_output":
            item.setdefault("output", "")
    return item


def spelled_out(item: Served) -> Served:
    """Write an assistant's text in the long form. llama.cpp does not read the short form."""
    if item.get("role") != "assistant" or not isinstance(item.get("content"), str):
        return item
    said = {"type": "output_text", "text": item["content"], "annotations": []}
    return {**item, "type": "message", "content": [said]}


def served_turn(raw: Raw) -> Served:
    """Return an Anthropic message whose content, call ids and call arguments the API accepts."""
    content = raw.get("content") or ""
    if not isinstance(content, str):
        content = [_block(block) for block in content]
    return {**raw, "content": content}


def _block(block: Any) -> Any:  # noqa: ANN401 - what is no block is passed on
    match block:
        case {"type": "tool_use", "id": called}:
            arguments = block.get("input") or ""
            value = arguments_of(arguments) if isinstance(arguments, str) else arguments
            return {**block, "id": _fitting(called), "input": value}
        case {"type": "tool_result", "tool_use_id": called}:
            return {**block, "tool_use_id": _fitting(called)}
        case _:
            return block


def _fitting(call_id: str, longest: int | None = None) -> str:
    """Return the id if the API accepts it, or else a hash of it: equal for a call and its result.
    Without `longest`, an id may have letters, digits, `_` and `-`, as in Anthropic's API.
    """
    is_allowed = _NO_NAME.search(call_id) is None if longest is None else len(call_id) <= longest
    if call_id and is_allowed:
        return call_id
    return f"call_{sha256(call_id.encode('utf-8', 'surrogatepass')).hexdigest()[:24]}"


def served_by_ollama(raw: Raw) -> Served:
    """Return an Ollama message in which the arguments of calls are objects."""
    calls = raw.get("tool_calls")
    if not calls:
        return dict(raw)
    return {**raw, "tool_calls": [_with_object(call) for call in calls]}


def _with_object(call: Raw) -> Served:
    body = call["function"]
    arguments = body.get("arguments")
    value = arguments if isinstance(arguments, Mapping) else arguments_of(arguments or "")
    return {**call, "function": {**body, "arguments": value}}


SERVED: Mapping[str, Callable[[Raw], Served]] = {
    "chat_completions": served_message,
    "responses": served_item,
    "anthropic": served_turn,
    "ollama": served_by_ollama,
}
"""Name of a format → the function that makes its messages acceptable."""


# --- for some servers only ------------------------------------------------------------------------


def strictly_named(message: Served) -> Served:
    """Return a message for a vendor's own server, where names of tools and speakers have only
    letters, digits, `_` and `-`. Other servers allow any name, so messages for them stay unchanged.
    """
    match message:
        case {"name": str(name)} if name != _strict(name):
            return strictly_named({**message, "name": _strict(name)})
        case {"tool_calls": list(calls)}:
            return {**message, "tool_calls": [_strictly_called(call) for call in calls]}
        case {"role": "assistant", "content": list(blocks)}:
            return {**message, "content": [_strict_block(block) for block in blocks]}
        case _:
            return message


def _strict_block(block: Any) -> Any:  # noqa: ANN401 - what is no block is passed on
    match block:
        case {"type": "tool_use", "name": str(name)}:
            return {**block, "name": _strict(name, _LONGEST_BLOCK_NAME)}
        case _:
            return block


def _strictly_called(call: Served) -> Served:
    kind = call["type"]
    return {**call, kind: {**call[kind], "name": _strict(call[kind]["name"])}}


def _strict(name: str, longest: int = _LONGEST_NAME) -> str:
    return _NO_NAME.sub("_", name)[:longest] or "_"


def shortly_named(message: Served) -> Served:
    """Shorten call ids to nine letters and digits. Chat templates like Mistral's require that."""
    short = dict(message)
    if "tool_calls" in message:
        calls = message["tool_calls"]
        short["tool_calls"] = [{**call, "id": _of_nine(str(call.get("id")))} for call in calls]
    if "tool_call_id" in message:
        short["tool_call_id"] = _of_nine(message["tool_call_id"])
    return short


def _of_nine(call_id: str) -> str:
    if len(call_id) == 9 and call_id.isascii() and call_id.isalnum():
        return call_id
    return sha256(call_id.encode("utf-8", "surrogatepass")).hexdigest()[:9]


def plainly(message: Served) -> Served:
    """Return a chat message for servers compatible with OpenAI's, and for chat templates. They know
    neither custom tools nor refusals: these become function calls and text.
    """
    plain = dict(message)
    if isinstance(content := message.get("content"), list):
        plain["content"] = [_plain_part(part) for part in content]
    if isinstance(refusal := message.get("refusal"), str):
        del plain["refusal"]
        plain["content"] = _with_text(plain.get("content"), refusal)
    if "tool_calls" in message:
        plain["tool_calls"] = [_plain_call(call) for call in message["tool_calls"]]
    return plain


def _with_text(content: Any, text: str) -> Any:  # noqa: ANN401 - a text or a list of parts
    if isinstance(content, list):
        return [*content, {"type": "text", "text": text}]
    return "\n".join(filter(None, (content, text)))


def _plain_part(part: Any) -> Any:  # noqa: ANN401 - what is no part is passed on
    match part:
        case {"type": "refusal", "refusal": str(text)}:
            return {"type": "text", "text": text}
        case _:
            return part


def _plain_call(call: Served) -> Served:
    if call["type"] != "custom":
        return call
    body = call["custom"]
    given = json.dumps(arguments_of(body.get("input") or ""), ensure_ascii=False)
    return {
        "id": call["id"],
        "type": "function",
        "function": {"name": body["name"], "arguments": given},
    }
