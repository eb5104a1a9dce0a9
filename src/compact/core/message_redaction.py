"""What may be told of a message: the message without secrets.

The one place where a history is redacted, before anything is cut from it, taken down, or shown to a
summarizer. The history itself stays as it was said.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from compact.core.messages import Image, Message, Part, ToolCall, ToolResult
from compact.core.redaction import Known, find_secrets, redact


def redact_text(text: str, known: Known) -> str:
    """The text without secrets; what it held is known from then on."""
    places = find_secrets(text, known)
    for place in places:
        known.learn(text[place.start : place.end], place.kind)
    return redact(text, known).text if places else text


def redact_message(message: Message, known: Known) -> Message:
    """The message without secrets, which are known from then on; the same one where it has none.

    What a provider sent is left out of one that has: it is for telling, not for sending.
    """
    said: str | tuple[Part, ...]
    if isinstance(message.content, str):
        said = redact_text(message.content, known)
    else:
        said = tuple(_redact_part(part, known) for part in message.content)
    words = tuple(
        replace(x, words=redact_text(x.words, known), question=redact_text(x.question, known))
        for x in message.metadata.said
    )
    if said == message.content and words == message.metadata.said:
        return message
    metadata = message.metadata.model_copy(update={"said": words})
    update = {"content": said, "metadata": metadata, "wire": None, "token_count": None}
    return message.model_copy(update={**update, "edited": True})


def redact_messages(messages: Iterable[Message], known: Known) -> list[Message]:
    """The messages without secrets, also those that a later one gives away."""
    once = [redact_message(message, known) for message in messages]
    return [redact_message(message, known) for message in once] if known else once


def _redact_part(part: Part, known: Known) -> Part:
    if isinstance(part, Image):
        return part
    field = "arguments" if isinstance(part, ToolCall) else "text"
    said = getattr(part, field)
    text = redact_text(said, known)
    if text == said:
        return part
    raw = _kind(part.raw) if isinstance(part, ToolCall | ToolResult) else None
    changed: dict[str, Any] = {field: text, "raw": raw}
    return replace(part, **changed)


def _kind(raw: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """What says which kind of call it is."""
    return {"type": raw["type"]} if raw and "type" in raw else None
