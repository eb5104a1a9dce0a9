"""Messages: role, content in parts, and metadata.

A `Message` keeps the provider's own dictionary (`wire`) together with the parts parsed from it. So
an unchanged message is sent again byte for byte, unknown fields included. `messages.formats` reads
and writes the dictionaries. `text.speakers` decides whether a person, a tool or an injected
reminder *speaks* in a message.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    Field,
    SkipValidation,
    ValidationError,
    model_validator,
)

from compact.errors import InvalidMessage
from compact.messages import clock_and_ids
from compact.messages.arguments import readable_arguments
from compact.messages.times import time_of
from compact.patterns import regex

Role = Literal["system", "developer", "user", "assistant", "tool"]
SYSTEM_ROLES: frozenset[str] = frozenset(("system", "developer"))
"""The roles of system prompts."""
ROLES: frozenset[str] = frozenset(("system", "developer", "user", "assistant", "tool"))
INPUT_ROLES: Mapping[str, Role] = {
    "tool_call": "assistant",
    "tool_result": "tool",
    "function": "tool",
}
"""Other role names that are accepted → the role that they become."""

Raw = Mapping[str, Any]
M = TypeVar("M", bound="Message")


@dataclass(frozen=True, slots=True)
class Text:
    """Plain text."""

    text: str
    type: Literal["text"] = "text"
    raw: Raw | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Thinking:
    """A model's reasoning. `signature` is the provider's signature; it costs no text tokens."""

    text: str
    signature: str | None = None
    type: Literal["thinking"] = "thinking"
    raw: Raw | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Image:
    """An image. Width and height are pixels, if known. `detail` is the provider's setting."""

    width: int | None = None
    height: int | None = None
    detail: str | None = None
    type: Literal["image"] = "image"
    raw: Raw | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A request to run a tool. `arguments` is JSON as the model wrote it, or free text."""

    id: str
    name: str
    arguments: str
    type: Literal["tool_call"] = "tool_call"
    raw: Raw | None = field(default=None, repr=False, compare=False)

    @property
    def sent(self) -> str:
        """The arguments as a prompt sends them (`readable_arguments`)."""
        if self.raw is not None and self.raw.get("type") in _FREE_TEXT:
            return self.arguments
        return readable_arguments(self.arguments)


SHORT_ID = 8
"""How many characters of a random id are shown."""
_RANDOM_ID = regex(r"[0-9a-f]{8}(?:-?[0-9a-f]{4}){3}-?[0-9a-f]{12}$")
_FREE_TEXT = ("custom", "custom_tool_call")
"""Types of calls whose arguments need not be JSON."""


@dataclass(frozen=True, slots=True)
class ToolResult:
    """A tool's answer to the call `call_id`."""

    call_id: str
    text: str
    name: str | None = None
    is_error: bool = False
    images: tuple[Image, ...] = ()
    type: Literal["tool_result"] = "tool_result"
    raw: Raw | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Refusal:
    """A model's refusal, if the provider sends it separately from the text."""

    text: str
    type: Literal["refusal"] = "refusal"
    raw: Raw | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Opaque:
    """A part of an unknown type, kept and sent back unchanged. `text` is counted."""

    text: str = ""
    type: Literal["opaque"] = "opaque"
    raw: Raw | None = field(default=None, repr=False, compare=False)


Part = Text | Thinking | Image | ToolCall | ToolResult | Refusal | Opaque
COMPACTIONS = frozenset(("compaction", "compaction_summary", "context_compaction"))
"""Types of a provider's own compactions: Anthropic's readable blocks, and encrypted items of
Responses. The provider ignores everything before such a part."""


def is_compaction(raw: object) -> bool:
    """Whether a block or item is a provider's own compaction and has content."""
    if not isinstance(raw, Mapping) or str(raw.get("type")) not in COMPACTIONS:
        return False
    return bool(raw.get("content") or raw.get("encrypted_content"))


@dataclass(frozen=True, slots=True)
class PersonWords:
    """What the user said inside a tool result. `call_id` names the call. It is the answer to a
    tool's question, the reason for a refusal, or a note with an answer.
    """

    kind: Literal["answer", "refusal", "note"]
    words: str
    question: str = ""
    call_id: str = ""


class MessageMetadata(BaseModel, frozen=True, defer_build=True, extra="allow"):
    """Facts about a message other than its content. Unknown keys are kept."""

    source: str | None = None
    """Who made the message, if known, such as `person`, `injected`, `observation`, `checkpoint`."""
    said: tuple[PersonWords, ...] = ()
    """What the user said inside the message's tool results, if `text.said_within` found it."""
    recalled: tuple[str, ...] = ()
    """Ids of the calls whose results compact wrote (`messages.own_text`)."""
    tags: tuple[str, ...] = ()
    pinned: bool = False
    protected: bool = False
    important: bool = False


NO_METADATA = MessageMetadata.model_construct()
META = ("metadata", "meta")
"""Keys under which a dictionary may hold metadata. Both are read."""


def metadata_in(raw: Raw) -> object:
    """Return the metadata of a dictionary. If both keys exist, the two mappings are merged."""
    values = [raw[name] for name in META if name in raw]
    mappings = [value for value in values if isinstance(value, Mapping)]
    if len(mappings) == 2:
        return {**mappings[0], **mappings[1]}
    return next(iter([*mappings, *values]), None)


class Message(BaseModel, frozen=True, defer_build=True, extra="forbid"):
    """One message of a conversation. It is immutable: a change makes a new message."""

    role: Annotated[
        Role, BeforeValidator(lambda x: INPUT_ROLES.get(x, x) if isinstance(x, str) else x)
    ]
    content: Annotated[
        str | tuple[Annotated[Part, Field(discriminator="type")], ...],
        BeforeValidator(lambda x: "" if x is None else x),
    ] = ""
    id: str = Field(default_factory=clock_and_ids.new_id)
    timestamp: Annotated[datetime, BeforeValidator(lambda x: time_of(x) or x)] = Field(
        default_factory=clock_and_ids.now
    )
    token_count: int | None = Field(default=None, ge=0)
    """Tokens of the message as it is sent, framing included. It is None if it was not counted."""
    importance_score: float | None = Field(default=None, ge=0, le=1)
    metadata: MessageMetadata = NO_METADATA
    name: str | None = None
    """The speaker's name, if one is sent to the provider."""
    reply_id: str | None = None
    """An id that all messages of one reply of the model share."""
    wire: Annotated[Raw | None, SkipValidation] = Field(default=None, exclude=True, repr=False)
    """The provider's dictionary from which this message was read."""
    wire_format: str | None = Field(default=None, exclude=True)
    """The name of the format of `wire`."""
    edited: bool = Field(default=False, exclude=True)
    """Whether the content differs from `wire`."""

    @model_validator(mode="before")
    @classmethod
    def _by_either_name(cls, value: object) -> object:
        if not isinstance(value, Mapping) or "meta" not in value:
            return value
        own = metadata_in({k: dict(v) if isinstance(v, BaseModel) else v for k, v in value.items()})
        return {**{k: v for k, v in value.items() if k != "meta"}, "metadata": own}

    @property
    def meta(self) -> MessageMetadata:
        """The same as `metadata`, under a shorter name."""
        return self.metadata

    @classmethod
    def of(cls, value: Self | Mapping[str, Any], *, path: str = "message") -> Self:
        """Build a message from a mapping of this model's fields.

        Raises:
            InvalidMessage: naming the first field that is wrong.
        """
        if isinstance(value, cls):
            return value
        try:
            return cls.model_validate(value)
        except ValidationError as error:
            raise invalid(path, error) from None

    @classmethod
    def trusted(cls, **fields: object) -> Self:
        """Build a message from checked fields. It skips validation, so it is five times as fast."""
        values = {**_DEFAULTS, **fields}
        if "timestamp" not in fields:
            values["timestamp"] = clock_and_ids.now()
        return made(cls, values, set(fields))

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Copy the message with some fields replaced. It skips pydantic's checks, so it is four
        times as fast.
        """
        if deep:
            return super().model_copy(update=update, deep=deep)
        changed = update or {}
        given = self.__pydantic_fields_set__.union(changed)
        return made(type(self), {**self.__dict__, **changed}, given)

    @property
    def parts(self) -> tuple[Part, ...]:
        """The content as parts. A plain string is one text part; an empty string has no parts."""
        if isinstance(self.content, str):
            return (Text(self.content),) if self.content else ()
        return self.content

    @property
    def text(self) -> str:
        """The text and refusal parts, joined by line breaks."""
        if isinstance(self.content, str):
            return self.content
        return "\n".join(p.text for p in self.content if isinstance(p, Text | Refusal))

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The tool calls that this message makes."""
        if self.role != "assistant" or isinstance(self.content, str):
            return ()
        return tuple([p for p in self.content if type(p) is ToolCall])

    @property
    def tool_results(self) -> tuple[ToolResult, ...]:
        """The tool results that this message carries."""
        if self.role == "assistant" or isinstance(self.content, str):
            return ()
        return tuple([p for p in self.content if type(p) is ToolResult])

    @property
    def has_compaction(self) -> bool:
        """Whether the message contains a provider's own compaction."""
        parts = () if isinstance(self.content, str) else self.content
        return any(type(p) is Opaque and is_compaction(p.raw) for p in parts)

    @property
    def has_reasoning(self) -> bool:
        """Whether the message contains reasoning."""
        return not isinstance(self.content, str) and Thinking in map(type, self.content)

    @property
    def is_pinned(self) -> bool:
        """Whether the message must stay word for word."""
        return self.metadata.pinned or self.metadata.protected or self.has_compaction

    @property
    def is_important(self) -> bool:
        """Whether the message is marked as important, or has the highest importance score."""
        return self.metadata.important or self.importance_score == 1

    def with_parts(self, parts: Iterable[Part]) -> Self:
        """Return the same message with these parts as its content."""
        return self.model_copy(
            update={"content": tuple(parts), "token_count": None, "edited": True}
        )


def invalid(path: str, error: ValidationError) -> InvalidMessage:
    """Turn pydantic's first error about the value at that path into an `InvalidMessage`."""
    first = error.errors(include_url=False)[0]
    where = "".join(f"[{x}]" if isinstance(x, int) else f".{x}" for x in first["loc"])
    return InvalidMessage(path + where, first["msg"])


def made(kind: type[M], values: dict[str, Any], given: set[str]) -> M:
    """Build a message from the values of all its fields. `given` names the fields that were set."""
    message = _new(kind)
    _set(message, "__dict__", values)
    _set(message, "__pydantic_fields_set__", given)
    _set(message, "__pydantic_extra__", None)
    _set(message, "__pydantic_private__", None)
    return message


_new, _set = object.__new__, object.__setattr__
_DEFAULTS: dict[str, Any] = {
    name: field.default
    for name, field in Message.model_fields.items()
    if not field.is_required() and field.default_factory is None
}
"""Constant defaults of the fields, for `Message.trusted`."""


def visible_texts(messages: Iterable[Message]) -> Iterator[str]:
    """Yield the texts of messages: content, arguments of calls, and results."""
    for message in messages:
        yield message.text
        for call in message.tool_calls:
            yield call.arguments
        for result in message.tool_results:
            yield result.text


def short_id(message_id: str) -> str:
    """Shorten an id for display: a random id to eight characters. Other ids stay whole."""
    return message_id[:SHORT_ID] if _RANDOM_ID.match(message_id) else message_id
