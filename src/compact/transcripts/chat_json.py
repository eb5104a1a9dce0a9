"""Reads and writes plain chat files: the messages of a provider as JSON.

Four forms are read: a JSON list of messages; an object with `messages` (and `tools`, `system`), as
in a request body; a request body of the Responses API with `input` (and `tools`, `instructions`);
JSON Lines of messages or of such objects. Messages are in any wire format. If the messages do not
show which, a system prompt in the field `system` means Anthropic's.

These files are input for a provider, so their tool calls must be valid. These are refused: a result
without an earlier call, a call id that is used again before its result came, and a second result of
a call.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from compact.errors import InvalidTranscript, ServerHeldState
from compact.json_text import write_json
from compact.messages.formats.known import FORMATS, format_of, only_format
from compact.messages.formats.responses import OUTPUT_OF, refuse_server_state
from compact.messages.formats.wire import WireFormat
from compact.messages.messages import COMPACTIONS, Message
from compact.patterns import regex
from compact.transcripts.documents import Document, JsonLines, JsonValue, choose
from compact.transcripts.transcript import Collected, Container, Transcript, text_or

NAME = "chat"
_ITEM_TYPES = frozenset(
    ("reasoning", "item_reference", "mcp_list_tools", *COMPACTIONS, *OUTPUT_OF.values())
)
"""Types of Responses API items other than messages. Those of hosted tools end in `_call`."""
_ITEMS = ("messages", "input", "output", "items")
"""Keys for an object's list of messages. All but the first belong to the Responses API."""
_SYSTEM = ("system", "instructions")
"""Keys for a system prompt in a separate field: Anthropic's, and the Responses API's."""
_SYSTEM_ID = "m0"
"""The id of the message made from a system prompt in a separate field. It is the first message."""
_INDENT = regex(rb"\s*[\[{]\r?\n( *)")

Item = tuple[int | None, Any]
"""The line of a message, or None, and the message's dictionary."""


def recognizes(document: Document) -> bool:
    """Whether the values look like messages or like conversations."""
    match document.rows:
        case [(_, list() as items)] if isinstance(document, JsonValue):
            return not items or _is_message(items[0])
        case [(_, value), *_]:
            return _is_message(value) or _is_conversation(value)
    return False


def read(
    document: Document, *, conversation: int | None = None, active: bool = False
) -> Transcript:
    """Read one conversation. These files record no compactions, so `active` changes nothing.

    Raises:
        InvalidTranscript: names the line or the message's path.
    """
    if isinstance(document, JsonValue) and isinstance(document.value, list):
        container = Container("list", indent=_indent(document.data), original=document.data)
        return _transcript(document, [(None, x) for x in document.value], container)
    if _is_conversation(document.rows[0][1]):
        return _read_object(document, conversation)
    return _transcript(document, list(document.rows), Container("lines", original=document.data))


def render(transcript: Transcript, messages: Sequence[Message]) -> str:
    """Write the messages in the form and the wire format of the file that was read."""
    container = transcript.container
    fields = dict(container.fields)
    if transcript.format == NAME and (beside := _system_at(fields)):
        fields[beside], messages = _without_system(messages, fields[beside])
    records = FORMATS[transcript.wire].render(messages)
    match container.shape:
        case "lines":
            return "".join(write_json(record) + "\n" for record in records)
        case "list":
            return write_json(records, indent=container.indent) + "\n"
        case "object":
            fields[_items_at(fields)] = records
            return write_json(fields, indent=container.indent) + "\n"


def _is_message(value: object) -> bool:
    if not isinstance(value, dict):
        return False
    if "role" in value:
        return bool(value.keys() & {"content", "tool_calls"})
    kind = value.get("type")
    return isinstance(kind, str) and (kind in _ITEM_TYPES or kind.endswith("_call"))


def _is_conversation(value: object) -> bool:
    if not isinstance(value, dict):
        return False
    items = value.get(_items_at(value))
    if isinstance(items, str):
        return "model" in value and "messages" not in value
    return isinstance(items, list) and (not items or _is_message(items[0]))


def _items_at(value: Mapping[str, Any]) -> str:
    return next((key for key in _ITEMS if key in value), _ITEMS[0])


def _system_at(fields: Mapping[str, Any]) -> str | None:
    return next((key for key in _SYSTEM if fields.get(key) is not None), None)


def titles(document: Document) -> list[str | None]:
    """Return the conversations' titles, in order."""
    if not _is_conversation(document.rows[0][1]):
        return [None]
    values = (value if isinstance(value, dict) else {} for _, value in document.rows)
    return [text_or(value.get("title")) for value in values]


def _indent(data: bytes) -> int | None:
    match = _INDENT.match(data)
    return len(match.group(1)) if match else None


def _read_object(document: Document, conversation: int | None) -> Transcript:
    line, value = choose(
        document.rows, conversation, source=document.source, titles=lambda: titles(document)
    )
    if not _is_conversation(value):
        raise InvalidTranscript(document.source, "an object without messages", line=line)
    original, indent = document.data, _indent(document.data)
    if isinstance(document, JsonLines):
        original, indent = original.split(b"\n")[line - 1] + b"\n", None
    at = line if isinstance(document, JsonLines) else None
    key = _items_at(value)
    content = value[key]
    if isinstance(content, str):
        content = [{"role": "user", "content": content}]
    items: list[Item] = [(at, x) for x in content]
    container = Container("object", {**value, key: None}, indent, original)
    return _transcript(document, items, container)


def _transcript(document: Document, items: list[Item], container: Container) -> Transcript:
    if not items:
        raise InvalidTranscript(document.source, "holds no messages", is_foreign=True)
    fields = container.fields
    key, beside = _items_at(fields), _system_at(fields)
    wire = _format_of([raw for _, raw in items], fields, document.source)
    chat = Collected(document.source)
    if beside is not None:
        system = {"role": "system", "content": fields[beside]}
        chat.add(chat.parsed(wire, system, beside), system)
    places: list[tuple[int, int | None]] = []
    for index, (line, raw) in enumerate(items):
        if chat.attempt(partial(_add, chat, wire, raw, f"{key}[{index}]", line)):
            places.append((index, line))
    chat.fill_times(fields)
    notes = (*chat.notes(), *document.notes)
    _check_calls(chat, places, key)
    return Transcript(
        source=document.source,
        format=NAME,
        wire=wire.name,
        messages=tuple(chat.messages),
        title=title if isinstance(title := fields.get("title"), str) else None,
        model=text_or(fields.get("model")),
        tools=_tools(fields.get("tools"), document.source),
        rows=chat.rows,
        notes=notes,
        conversations=len(document.rows) if container.shape == "object" else 1,
        container=container,
    )


def _add(found: Collected, wire: WireFormat, raw: Any, place: str, line: int | None) -> None:  # noqa: ANN401 - checked
    found.add(found.parsed(wire, raw, place, line=line), raw)


def _format_of(raws: Sequence[Any], fields: Mapping[str, Any], source: str) -> WireFormat:
    """Return the wire format of the messages. If they do not show it, the other fields decide."""
    if _items_at(fields) == "input":
        try:
            refuse_server_state({**fields, "input": raws})
        except ServerHeldState as error:
            raise InvalidTranscript(source, str(error)) from None
        return FORMATS["responses"]
    is_clear = any(isinstance(raw, dict) and only_format(raw) for raw in raws)
    return FORMATS["anthropic"] if "system" in fields and not is_clear else format_of(raws)


def _tools(value: object, source: str) -> tuple[Mapping[str, Any], ...]:
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(x, dict) for x in value):
        raise InvalidTranscript(source, "tools: expected a list of objects")
    return tuple(value)


def _without_system(messages: Sequence[Message], given: object) -> tuple[Any, list[Message]]:
    """Return the system prompt for its separate field, and the messages without it."""
    for message in messages:
        if message.id == _SYSTEM_ID:
            system = message.text if message.edited else given
            return system, [m for m in messages if m is not message]
    return given, list(messages)


def _check_calls(found: Collected, places: Sequence[tuple[int, int | None]], key: str) -> None:
    offset = len(found.messages) - len(places)
    for index, reason in _broken_calls(found.messages):
        at, line = places[index - offset]
        raise InvalidTranscript(found.source, f"{key}[{at}]: {reason}", line=line)


def _broken_calls(messages: Sequence[Message]) -> Iterator[tuple[int, str]]:
    """Yield the indexes of messages with invalid calls or results, and the reasons.

    Calls of the deprecated functions have no ids: their names may be used again.
    """
    waiting: set[str] = set()
    answered: set[str] = set()
    for index, message in enumerate(messages):
        for result in message.tool_results:
            if result.call_id in waiting:
                waiting.remove(result.call_id)
                answered.add(result.call_id)
            elif result.call_id in answered:
                yield index, f"the tool call {result.call_id!r} is answered twice"
            else:
                yield index, f"no message before it called {result.call_id!r}, which it answers"
        for call in message.tool_calls:
            if call.id in waiting and call.id != call.name:
                yield index, f"the tool call id {call.id!r} is used again before it is answered"
            waiting.add(call.id)
