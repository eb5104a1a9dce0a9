"""The wire formats there are, by name and by content. Responses and Ollama will join this table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain, islice
from typing import Any

from compact.core.context import ActiveContext, sendable
from compact.core.formats.anthropic import Anthropic
from compact.core.formats.chat_completions import ChatCompletions
from compact.core.formats.wire import WireFormat
from compact.errors import UnknownModel

FORMATS: Mapping[str, WireFormat] = {f.name: f for f in (ChatCompletions(), Anthropic())}
LOOKED_AT = 400
"""Messages looked at from each end to tell a format by its content."""

_BLOCKS = frozenset(
    ("tool_use", "tool_result", "thinking", "redacted_thinking", "image", "document")
)


def format_named(name: str) -> WireFormat:
    """The format of that name.

    Raises:
        UnknownModel: naming the formats there are.
    """
    try:
        return FORMATS[name]
    except KeyError:
        raise UnknownModel(f"no wire format {name!r}; there are {', '.join(FORMATS)}") from None


def format_of(messages: Sequence[object]) -> WireFormat:
    """The format a list of dictionaries is written in; what both could be is read as chat
    completions.
    """
    ends = chain(islice(reversed(messages), LOOKED_AT), islice(messages, LOOKED_AT))
    for message in ends:
        if isinstance(message, Mapping) and (found := told_by(message)):
            return FORMATS[found]
    return FORMATS["chat_completions"]


def told_by(message: Mapping[str, Any]) -> str | None:
    """The format that a message can only be written in, or None where several could be."""
    if message.get("role") in ("tool", "developer", "function") or message.get("tool_calls"):
        return "chat_completions"
    content = message.get("content")
    if isinstance(content, list):
        kinds = {part.get("type") for part in content if isinstance(part, Mapping)}
        if kinds & _BLOCKS:
            return "anthropic"
        if "image_url" in kinds:
            return "chat_completions"
    return None


def prompt_of(context: ActiveContext, format: str = "chat_completions") -> list[dict[str, Any]]:
    """An active context as a provider's dictionaries, to be sent.

    Raises:
        WrongLayer: it is no active context: a history or a snapshot is never sent.
        UnknownModel: no such format.
    """
    return format_named(format).render(sendable(context).messages)
