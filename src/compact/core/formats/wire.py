"""What every wire format offers, and how one is found by name or by content.

A format reads one provider dictionary into a `Message` and writes messages back. What was not
changed is written back as the very dictionary it was read from. Files people keep conversations in
are another matter: storage.transcripts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Literal, Protocol, cast

from pydantic import ValidationError

from compact.core import images
from compact.core.formats.tool_schemas import ToolShape
from compact.core.given import did_you_mean, plain
from compact.core.messages import (
    NO_METADATA,
    Image,
    Message,
    MessageMetadata,
    Opaque,
    Part,
    Raw,
)
from compact.core.provider_rules import ProviderRules
from compact.core.tokens import Framing
from compact.errors import InvalidMessage

NO_IMAGE = "[image]"
"""What is written for an image or a file that another format has no words for."""


_SPEAKERS = ("user", "system", "developer")
"""Roles whose messages are words, or nothing."""
_FLAGS = [name for name, field in MessageMetadata.model_fields.items() if field.annotation is bool]

Before = Iterable[Message | Mapping[str, Any]]
"""What stands before a message, newest first; read no further than its meaning depends on it."""
NOTHING_BEFORE: Before = ()


class WireFormat(Protocol):
    """One provider's way to write messages."""

    @property
    def name(self) -> str:
        """The format's name, for example `chat_completions`."""
        ...

    @property
    def rules(self) -> ProviderRules:
        """What the provider demands of a message list."""
        ...

    @property
    def framing(self) -> Framing:
        """What the provider adds around texts, in tokens."""
        ...

    @property
    def tokenizer(self) -> str:
        """The tokenizer that counts where no model is named."""
        ...

    @property
    def tool_shape(self) -> ToolShape:
        """How tool schemas are written."""
        ...

    @property
    def has_system_field(self) -> bool:
        """Whether the system prompt has a field of its own, beside the messages."""
        ...

    @property
    def results_role(self) -> Literal["tool", "user"]:
        """The role of the messages that carry tool results."""
        ...

    def parse(
        self, raw: Mapping[str, Any], position: int, before: Before = NOTHING_BEFORE
    ) -> Message:
        """Read one dictionary; `position` is its index, for ids and for errors. `before` is for
        formats in which a message alone does not say what it answers, or what it is a piece of.

        Raises:
            InvalidMessage: naming the field that is wrong.
        """
        ...

    def said(self, raw: Mapping[str, Any], path: str) -> tuple[str, str | tuple[Part, ...]]:
        """The role and the content of one dictionary; `path` is for errors.

        Raises:
            InvalidMessage: naming the field that is wrong.
        """
        ...

    def render(self, messages: Sequence[Message]) -> list[dict[str, Any]]:
        """Write messages; what is unchanged and of this format comes back as it was read."""
        ...


def own_wire(message: Message, name: str) -> Raw | None:
    """The dictionary to send unchanged, if the message has one of this format."""
    if message.wire_format == name and not message.edited:
        return message.wire
    return None


def own_raw(part: Part, message: Message, name: str) -> Raw | None:
    """The part's own block, if the message was read from this format."""
    return part.raw if message.wire_format == name else None


def object_at(value: object, path: str) -> Raw:
    """What stands at that path, if it is an object.

    Raises:
        InvalidMessage: it is none.
    """
    if not isinstance(value, Mapping):
        raise InvalidMessage(path, f"expected an object, got {type(value).__name__}")
    return value


def record_at(value: object, path: str) -> Raw:
    """A copy of a dictionary, to be read as a message: `object_at`, and everything in it plain
    (`core.given`).

    Raises:
        InvalidMessage: it is none, or holds what JSON cannot carry, or does not say in words who
            speaks, or what it is.
    """
    record = cast("dict[str, Any]", plain(object_at(value, path), path))
    for name in ("role", "type"):
        if not isinstance(named := record.get(name), str | None):
            reason = f"expected a text, got {type(named).__name__}"
            raise InvalidMessage(f"{path}.{name}", reason)
    if record.get("role") in _SPEAKERS:
        _refuse_nothing_said(record, path)
    return record


def _refuse_nothing_said(record: Raw, path: str) -> None:
    """Refuse a message that would be sent empty, or that no provider reads."""
    if "content" not in record and "images" not in record:
        reason = f"a message of the role {record['role']} needs content"
        close = get_close_matches("content", record, n=1)
        meant = f": did you mean 'content', where {close[0]!r} stands?" if close else ""
        raise InvalidMessage(f"{path}.content", reason + meant)


def content_at(
    value: object, path: str, part: Callable[[object, str], Part]
) -> str | tuple[Part, ...]:
    """The content that stands at that path: a text, which may be absent, or a list whose every
    part is read by `part`.

    Raises:
        InvalidMessage: it is neither, or a part is wrong.
    """
    if value is None or isinstance(value, str):
        return value or ""
    if not isinstance(value, Sequence):
        raise InvalidMessage(path, f"expected text or a list of parts, got {type(value).__name__}")
    return tuple(part(x, f"{path}[{i}]") for i, x in enumerate(value))


def list_at(value: object, path: str) -> Sequence[object]:
    """The list that stands at that path; an empty one where there is none.

    Raises:
        InvalidMessage: it is no list.
    """
    if value is None:
        return ()
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise InvalidMessage(path, "expected a list")
    return value


def pictures_of(parts: Sequence[Part]) -> tuple[Image, ...]:
    """The images of a tool result's content; files and audio go among them, as blocks that are no
    picture, so that they are counted with the result and left out with it.
    """
    found: list[Image] = []
    for part in parts:
        if isinstance(part, Image):
            found.append(part)
        elif isinstance(part, Opaque) and any(images.binaries(part.raw)):
            found.append(Image(raw=part.raw))
    return tuple(found)


def read_metadata(value: object, path: str) -> MessageMetadata:
    """A message's `metadata`, at that path. What is no mapping is not ours and is left alone; of
    our fields, null is as good as absent.

    Raises:
        InvalidMessage: naming the first field that is wrong.
    """
    if not isinstance(value, Mapping) or not value:
        return NO_METADATA
    fields = MessageMetadata.model_fields
    for name in value:
        if name not in fields and (meant := did_you_mean(str(name), _FLAGS)):
            raise InvalidMessage(f"{path}.{name}", f"there is no such mark{meant}")
    given = {k: v for k, v in value.items() if v is not None or k not in fields}
    try:
        return MessageMetadata.model_validate(given)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = "".join(f"[{x}]" if isinstance(x, int) else f".{x}" for x in first["loc"])
        raise InvalidMessage(path + where, first["msg"]) from None
