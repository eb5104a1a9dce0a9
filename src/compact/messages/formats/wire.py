"""The base class of all wire formats, checks of input, and the shapes of tool schemas.

A format reads one provider dictionary into a `Message`, and writes messages back. An unchanged
message is written as the dictionary from which it was read. Tool schemas come in three shapes
(`ToolShape`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, ClassVar, Literal

from pydantic import ValidationError

from compact.errors import InvalidMessage
from compact.messages import images
from compact.messages.boundaries import ProviderRules
from compact.messages.given import did_you_mean, plain
from compact.messages.messages import (
    NO_METADATA,
    Image,
    Message,
    MessageMetadata,
    Opaque,
    Part,
    Raw,
    Refusal,
    Text,
    ToolResult,
    invalid,
    is_compaction,
    metadata_in,
)
from compact.messages.times import time_in
from compact.messages.tokens import Framing

# --- tool schemas ---------------------------------------------------------------------------------

_NO_PARAMETERS: Mapping[str, Any] = {"type": "object", "properties": {}}


ToolShape = Literal["nested", "flat", "input_schema"]
"""The shapes of tool schemas. `nested` is `{type, function: {…}}` (chat completions, Ollama and
most servers). `flat` is `{type, name, …}` (Responses). `input_schema` is `{name, input_schema}`
(Anthropic)."""


def schemas_for(shape: ToolShape, tools: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the tool schemas in the given shape. A tool that is not a function stays unchanged,
    because the provider's own server runs it.
    """
    return [_written(shape, tool) for tool in tools]


def _written(shape: ToolShape, tool: Mapping[str, Any]) -> dict[str, Any]:
    own_shape = _shape(tool)
    if own_shape in (None, shape):
        return dict(tool)
    facts = _facts(tool, own_shape)
    match shape:
        case "input_schema":
            facts["input_schema"] = facts.pop("parameters")
            return facts
        case "flat":
            return {"type": "function", "strict": False, **facts}
        case "nested":
            return {"type": "function", "function": facts}


def _shape(tool: Mapping[str, Any]) -> ToolShape | None:
    if isinstance(tool.get("input_schema"), Mapping):
        return "input_schema"
    if tool.get("type") != "function":
        return None
    return "nested" if isinstance(tool.get("function"), Mapping) else "flat"


def _facts(tool: Mapping[str, Any], shape: ToolShape | None) -> dict[str, Any]:
    function: Mapping[str, Any] = tool["function"] if shape == "nested" else tool
    facts = {key: function[key] for key in ("name", "description") if function.get(key) is not None}
    parameters = function.get("input_schema" if shape == "input_schema" else "parameters")
    facts["parameters"] = dict(parameters or _NO_PARAMETERS)
    if function.get("strict") is not None:
        facts["strict"] = function["strict"]
    return facts


# --- wire -----------------------------------------------------------------------------------------

NO_IMAGE = "[image]"
"""The text that replaces an image or file that the format cannot express."""
UNREADABLE = "[What was said before was summed up by a provider that alone can read it.]"
"""The text that replaces a provider's encrypted compaction if another provider is asked."""
_TEXT_OR_NONE = (str, type(None))
_SPEAKERS = ("user", "system", "developer")
"""Roles whose messages must have content."""
_FOREIGN_KEYS: Mapping[str, str] = {
    **dict.fromkeys(
        ("toolUse", "toolResult", "reasoningContent", "cachePoint"), "Bedrock Converse"
    ),
    **dict.fromkeys(("functionCall", "functionResponse", "inlineData"), "Gemini's contents"),
    **dict.fromkeys(
        ("tool-call", "tool-result", "toolInvocations"), "the Vercel AI SDK's messages"
    ),
    "parts": "the Vercel AI SDK's messages or Gemini's contents",
    "text": "Bedrock Converse",
}
"""Keys and types that only messages and parts of other formats have → the name of the format."""
_FLAGS = [name for name, field in MessageMetadata.model_fields.items() if field.annotation is bool]

Content = str | tuple[Part, ...]
Before = Iterable[Message | Mapping[str, Any]]
"""Earlier messages, newest first. A format reads only as many as it needs."""


class WireFormat(ABC):
    """One provider's way to write messages. Subclasses set facts as attributes."""

    name: ClassVar[str]
    """The name of the format, such as `chat_completions`."""
    roles: ClassVar[Collection[str]]
    """The roles that messages may have."""
    rules: ClassVar[ProviderRules]
    """What the provider demands of a list of messages."""
    framing: ClassVar[Framing]
    """Tokens that the provider adds around texts."""
    tokenizer: ClassVar[str]
    """The name of the tokenizer that is used if no model is named."""
    tool_shape: ClassVar[ToolShape] = "nested"
    """The shape of tool schemas."""
    has_system_field: ClassVar[bool] = False
    """Whether the system prompt is sent in a separate field."""
    results_role: ClassVar[Literal["tool", "user"]] = "tool"
    """The role of messages that hold tool results."""
    text_kinds: ClassVar[Collection[str]] = ("text",)
    """The types of text parts."""
    image_kind: ClassVar[str] = "image"
    """The type of image parts."""
    thinks_in_fields: ClassVar[bool] = False
    """Whether reasoning is in fields that a server may want back. Otherwise it is in blocks."""
    has_bare_texts: ClassVar[bool] = True
    """Whether a list of parts may contain plain strings."""

    def parse(self, raw: Mapping[str, Any], position: int, before: Before = ()) -> Message:
        """Read one dictionary. `position` is its index, for ids and errors. `before` holds the
        earlier messages. Some formats need them to find the call that a result answers, or the
        reply that an item belongs to.

        Raises:
            InvalidMessage: naming the field that is wrong.
            ServerHeldState: the dictionary refers to an item that the server keeps.
        """
        path = f"messages[{position}]"
        raw = record_at(raw, path)
        role, content = self.role_and_content(raw, path)
        fields = {"id": f"m{position}", **self.facts(raw, role, position, before)}
        if (time := time_in(raw)) is not None:
            fields["timestamp"] = time
        if "metadata" in raw or "meta" in raw:
            fields["metadata"] = read_metadata(metadata_in(raw), path)
        return Message.trusted(
            role=role, content=content, wire=raw, wire_format=self.name, **fields
        )

    @abstractmethod
    def role_and_content(self, raw: Raw, path: str) -> tuple[str, Content]:
        """Return the role and the content of one dictionary. Errors name the dictionary by `path`.

        Raises:
            InvalidMessage: naming the field that is wrong.
        """

    def reads_the_same(self, message: Message) -> bool:
        """Whether another format's message is plain text that this format writes the same way."""
        raw = message.wire or {"role": message.role, "content": message.content}
        try:
            said = self.role_and_content(raw, "message")
        except InvalidMessage:
            return False
        return set(raw) == {"role", "content"} and said == (message.role, message.content)

    def facts(self, raw: Raw, role: str, position: int, before: Before) -> dict[str, object]:
        """Return other fields of the message by name, such as its id."""
        return {}

    def role_at(self, role: object, path: str) -> str:
        """Check and return the role of the dictionary at that path.

        Raises:
            InvalidMessage: this format has no such role.
        """
        if not isinstance(role, str) or role not in self.roles:
            reason = f"{role!r} is not one of {', '.join(self.roles)}"
            raise InvalidMessage(f"{path}.role", reason)
        return role

    def content_at(self, value: object, path: str) -> Content:
        """Read the content at that path: a text, None (which counts as an empty text), or a list of
        parts.

        Raises:
            InvalidMessage: the content is neither, or a part is wrong.
        """
        if value is None or isinstance(value, str):
            return value or ""
        if not isinstance(value, Sequence):
            what = type(value).__name__
            raise InvalidMessage(path, f"expected text or a list of parts, got {what}")
        return tuple(
            Text(x)
            if isinstance(x, str) and self.has_bare_texts
            else self.part(object_at(x, f"{path}[{i}]"), f"{path}[{i}]")
            for i, x in enumerate(value)
        )

    def part(self, raw: Raw, path: str) -> Part:
        """Read one part of a content. A part of an unknown type is kept unchanged.

        Raises:
            InvalidMessage: naming the field that is wrong.
        """
        kind = text_in(raw, "type")
        text = raw.get("text")
        text = text.get("value") if isinstance(text, Mapping) else text  # Assistants API and Jan
        if kind in self.text_kinds and isinstance(text, str):
            return Text(text, raw=raw)
        if kind == "refusal" and isinstance(raw.get("refusal"), str):
            return Refusal(raw["refusal"], raw=raw)
        if kind == self.image_kind:
            width, height = images.size_of_data_url(images.data_url(raw))
            url = raw.get("image_url")
            detail = (url if isinstance(url, Mapping) else raw).get("detail")
            return Image(width, height, detail, raw=raw)
        if raw.get("type") is None or (kind in _FOREIGN_KEYS and kind != "text"):
            _refuse_others(raw, path)
        return Opaque(images.visible_json(raw), raw=raw)

    def result(
        self, call_id: str, said: object, path: str, *, raw: Raw, name: str | None = None
    ) -> ToolResult:
        """Read a tool's result from the content at that path: text and images. Files and audio are
        added to the images as blocks that are not pictures. So they are counted, and they are left
        out together with the result.

        Raises:
            InvalidMessage: naming the field that is wrong.
        """
        content = self.content_at(said, path)
        parts = (Text(content),) if isinstance(content, str) else content
        text = "\n".join(p.text for p in parts if isinstance(p, Text | Refusal | Opaque))
        pictures: list[Image] = []
        for part in parts:
            if isinstance(part, Image):
                pictures.append(part)
            elif isinstance(part, Opaque) and any(images.binaries(part.raw)):
                pictures.append(Image(raw=part.raw))
        is_error = bool(raw.get("is_error"))
        return ToolResult(call_id, text, name, is_error, images=tuple(pictures), raw=raw)

    def render(self, messages: Sequence[Message]) -> list[dict[str, Any]]:
        """Write messages as dictionaries. An unchanged message of this format is written as it was
        read. Neighbours from another format are joined if this format writes them as one message.
        """
        out: list[dict[str, Any]] = []
        last: Message | None = None
        names: dict[str, str] = {}
        for message in messages:
            if message.wire_format == self.name and message.wire and not message.edited:
                out.append(message.wire if isinstance(message.wire, dict) else {**message.wire})
                last = None
                continue
            names.update((call.id, call.name) for call in message.tool_calls)
            is_foreign = message.wire_format not in (self.name, None)
            if is_foreign and message.has_compaction:
                message = _readable_compactions(message)
            records = self.written(message, names)
            if is_foreign and last and records and self.are_one(last, message):
                out[-1] = self.joined(out[-1], records[0])
                continue
            out.extend(records)
            if records:
                last = message if is_foreign else None
        return out

    @abstractmethod
    def written(self, message: Message, names: Mapping[str, str]) -> list[dict[str, Any]]:
        """Write a changed or foreign message. `names` maps call ids to tool names."""

    def are_one(self, first: Message, second: Message) -> bool:
        """Whether two neighbours from another format are one message here: parts of one reply."""
        return second.role == "assistant" and first.reply_id == second.reply_id is not None

    def joined(self, first: Raw, second: Raw) -> dict[str, Any]:
        """Join two messages for which `are_one` is true."""
        joined = dict(first)
        for key in ("thinking", "content"):
            if key in second:
                joined[key] = _both(first.get(key), second[key])
        calls = [*first.get("tool_calls", ()), *second.get("tool_calls", ())]
        return {**joined, "tool_calls": calls} if calls else joined

    def own_raw(self, part: Part, message: Message) -> dict[str, Any]:
        """Return the part's own block if the message was read from this format. Return an empty
        block otherwise, and also if redaction left only the block's type (`message_redaction`).
        """
        own = part.raw or {}
        return dict(own) if message.wire_format == self.name and own.keys() != {"type"} else {}

    def own_fields(self, message: Message) -> dict[str, Any]:
        """Return the message's dictionary if it was read from this format, or else an empty one."""
        return dict(message.wire or ()) if message.wire_format == self.name else {}


def _readable_compactions(message: Message) -> Message:
    """Write a provider's own compactions as text, or `UNREADABLE` if they are encrypted."""
    parts = [
        Text(str(p.raw.get("content") or UNREADABLE)) if p.raw and is_compaction(p.raw) else p
        for p in message.parts
    ]
    return message.model_copy(update={"content": tuple(parts)})


def _both(first: Any, second: Any) -> Any:  # noqa: ANN401 - contents of messages
    contents = [x for x in (first, second) if x]
    if len(contents) < 2:
        return contents[0] if contents else first
    if all(isinstance(x, str) for x in contents):
        return "\n".join(contents)
    lists = [[{"type": "text", "text": x}] if isinstance(x, str) else x for x in contents]
    return [part for parts in lists for part in parts]


def text_in(raw: Raw, key: str) -> str | None:
    """Return the text at that key of a dictionary. Return None if the value is not a text."""
    value = raw.get(key)
    return value if isinstance(value, str) else None


def text_at(raw: Raw, key: str, path: str, what: str, *, least: int = 1) -> str:
    """Return the text at that key of a dictionary. Errors name the dictionary by `what`.

    Raises:
        InvalidMessage: there is no text, or it has fewer than `least` characters.
    """
    value = raw.get(key)
    if not isinstance(value, str) or len(value) < least:
        raise InvalidMessage(f"{path}.{key}", f"{what} needs one, got {value!r}")
    return value


def object_at(value: object, path: str) -> Raw:
    """Return the object at that path.

    Raises:
        InvalidMessage: the value is not an object.
    """
    if not isinstance(value, (dict, Mapping)):  # dict first: its check is faster
        raise InvalidMessage(path, f"expected an object, got {type(value).__name__}")
    return value


def record_at(value: object, path: str) -> Raw:
    """Copy the dictionary at that path as plain JSON values (`messages.given`), and check its basic
    fields.

    Raises:
        InvalidMessage: not a dictionary, or JSON cannot hold a value in it, or its role or type
            is not a text.
    """
    record: dict[str, Any] = plain(object_at(value, path), path)
    for name in ("role", "type"):
        if not isinstance(named := record.get(name), _TEXT_OR_NONE):
            reason = f"expected a text, got {type(named).__name__}"
            raise InvalidMessage(f"{path}.{name}", reason)
    if "parts" in record or "toolInvocations" in record:
        _refuse_others({k: v for k, v in record.items() if k in ("parts", "toolInvocations")}, path)
    if record.get("role") in _SPEAKERS:
        _refuse_nothing_said(record, path)
    return record


def _refuse_others(raw: Raw, path: str) -> None:
    """Refuse a message of a format that compact reads only from files."""
    for key in (text_in(raw, "type"), *raw):
        if other := _FOREIGN_KEYS.get(key or ""):
            reason = (
                f"the list is in the format of {other}, which is not taken as a list: give chat "
                "completions, Anthropic messages or Responses items (a file of it is read)"
            )
            raise InvalidMessage(path, reason)


def _refuse_nothing_said(record: Raw, path: str) -> None:
    """Refuse a message without content. It would be sent empty, or no provider would read it."""
    if "content" not in record and "images" not in record:
        reason = f"a message of the role {record['role']} needs content"
        close = get_close_matches("content", record, n=1)
        meant = f": did you mean 'content', where {close[0]!r} stands?" if close else ""
        raise InvalidMessage(f"{path}.content", reason + meant)


def list_at(value: object, path: str) -> Sequence[object]:
    """Return the list at that path. Return an empty list for None.

    Raises:
        InvalidMessage: the value is not a list.
    """
    if value is None:
        return ()
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise InvalidMessage(path, "expected a list")
    return value


def read_metadata(value: object, message: str) -> MessageMetadata:
    """Read the `metadata` of the message at that path. A value that is not a mapping is ignored,
    because it does not come from compact. In compact's fields, null counts as missing.

    Raises:
        InvalidMessage: naming the first field that is wrong.
    """
    if not isinstance(value, Mapping) or not value:
        return NO_METADATA
    fields, path = MessageMetadata.model_fields, f"{message}.metadata"
    for name in value:
        if name not in fields and (meant := did_you_mean(str(name), _FLAGS)):
            raise InvalidMessage(f"{path}.{name}", f"there is no such mark{meant}")
    given = {k: v for k, v in value.items() if v is not None or k not in fields}
    try:
        return MessageMetadata.model_validate(given)
    except ValidationError as error:
        raise invalid(path, error) from None
