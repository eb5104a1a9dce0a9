"""Finds a wire format by its name, or recognizes it by the keys of messages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from itertools import chain, islice
from typing import Any

from compact.errors import UnknownModel
from compact.messages.characters import all_carried
from compact.messages.context import ActiveContext, sendable
from compact.messages.copies import copied
from compact.messages.formats.wire import WireFormat, schemas_for
from compact.messages.formats.wire_safe import SERVED
from compact.messages.given import type_of
from compact.secrets.redaction import without_credentials

_CLASSES: Mapping[str, str] = {
    "chat_completions": "ChatCompletions",
    "anthropic": "Anthropic",
    "responses": "Responses",
    "ollama": "Ollama",
}
"""Name of a format (also of its module) → its class."""


class KnownFormats(Mapping[str, WireFormat]):
    """The formats by name. Each is loaded when it is first used."""

    def __init__(self) -> None:
        self._loaded: dict[str, WireFormat] = {}

    def __getitem__(self, name: str) -> WireFormat:
        found = self._loaded.get(name)
        if found is None:
            kind = _CLASSES[name]
            module = import_module(f"compact.messages.formats.{name}")
            found = self._loaded[name] = getattr(module, kind)()
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(_CLASSES)

    def __len__(self) -> int:
        return len(_CLASSES)

    def __contains__(self, name: object) -> bool:
        return name in _CLASSES


FORMATS = KnownFormats()
LOOKED_AT = 400
"""How many messages at each end of a list are inspected. This bounds the time for long lists."""

_BLOCKS = frozenset(
    ("tool_use", "tool_result", "thinking", "redacted_thinking", "image", "document", "compaction")
)
_PARTS = frozenset(("input_text", "output_text", "input_image", "input_file"))
_ALSO: Mapping[str, str] = {"tool": "ollama", "developer": "responses"}
"""A role that suggests chat completions → another format that has the role too."""


def format_named(name: str) -> WireFormat:
    """Return the format with that name.

    Raises:
        UnknownModel: there is none; the error lists the formats.
    """
    try:
        return FORMATS[name]
    except KeyError:
        raise UnknownModel(
            f"no wire format {without_credentials(name)!r}; there are {', '.join(FORMATS)}"
        ) from None


def format_of(messages: Sequence[object]) -> WireFormat:
    """Return the format of a list of dictionaries. If several fit, it is chat completions."""
    ends = chain(islice(reversed(messages), LOOKED_AT), islice(messages, LOOKED_AT))
    for message in ends:
        if not isinstance(message, Mapping):
            continue
        if _text(message.get("role")) in _ALSO and "tool_name" not in message:
            continue
        if name := only_format(message):
            return FORMATS[name]
    return FORMATS["chat_completions"]


def only_format(message: Mapping[str, Any]) -> str | None:
    """Return the only format that can contain this message. Return None if several can."""
    role, content, calls = map(message.get, ("role", "content", "tool_calls"))
    role = None if role is None else _text(role)
    if role is None and type_of(message):  # an item of Responses, perhaps of a hosted tool
        return "responses"
    if "tool_name" in message or (calls and _are_bare(calls)) or _has_bare_images(message):
        return "ollama"
    if role in ("tool", "developer", "function") or calls:
        return "chat_completions"
    if isinstance(content, list):
        kinds = {type_of(part) for part in content}
        if kinds & _BLOCKS:
            return "anthropic"
        if kinds & _PARTS:
            return "responses"
        if "image_url" in kinds:
            return "chat_completions"
    return None


def format_instead(message: Mapping[str, Any], wire: str) -> str | None:
    """Return the message's format if it cannot be in format `wire`. Otherwise return None."""
    wanted = only_format(message)
    if wanted is None or wanted == wire or _ALSO.get(_text(message.get("role"))) == wire:
        return None
    return wanted


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _are_bare(calls: object) -> bool:
    """Whether a call lacks what chat completions requires: arguments as text, an id and a type."""
    for call in calls if isinstance(calls, list) else ():
        body = call.get("function") if isinstance(call, Mapping) else None
        bare = isinstance(body, Mapping) and not isinstance(body.get("arguments"), str)
        if bare and not ("id" in call and "type" in call):
            return True
    return False


def _has_bare_images(message: Mapping[str, Any]) -> bool:
    shown = message.get("images")
    return isinstance(shown, list) and bool(shown) and all(isinstance(x, str) for x in shown)


def prompt_of(context: ActiveContext, format: str = "chat_completions") -> list[dict[str, Any]]:
    """Return an active context as dictionaries of the format, ready to be sent. Fields that servers
    refuse are left out.

    Raises:
        WrongLayer: not an active context. A history or a snapshot is never sent.
        UnknownModel: there is no such format.
    """
    written = copied(format_named(format).render(sendable(context).sent))
    return all_carried(list(map(SERVED[format], written)))


def tools_of(context: ActiveContext, format: str) -> list[dict[str, Any]]:
    """Return an active context's tools as a provider's dictionaries, ready to be sent."""
    return all_carried(schemas_for(format_named(format).tool_shape, context.tools))
