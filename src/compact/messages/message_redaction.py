"""Redacts secrets in messages.

Messages of a history are redacted only here. This happens before anything is cut from them, noted,
or shown to a summarizer. The history itself stays unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from compact.messages.messages import Image, Message, Part, ToolCall, ToolResult
from compact.secrets.redaction import Known, find_secrets, may_hold, redact


def redact_text(text: str, known: Known) -> str:
    """Redact all secrets in the text, and add the secrets to `known`."""
    places = find_secrets(text, known)
    for place in places:
        known.learn(text[place.start : place.end], place.kind)
    return redact(text, known).text if places else text


def redact_message(
    message: Message, known: Known, redacted: Callable[[str, Known], str] = redact_text
) -> Message:
    """Redact all secrets in the message, and add the secrets to `known`.

    Return the message itself if it has no secrets. A changed message loses its provider's
    dictionary: it is for reading, not for sending.
    """
    content: str | tuple[Part, ...]
    if isinstance(message.content, str):
        content = redacted(message.content, known)
    else:
        content = tuple(_redact_part(part, known, redacted) for part in message.content)
    quotes = tuple(
        replace(x, words=redacted(x.words, known), question=redacted(x.question, known))
        for x in message.metadata.said
    )
    if content == message.content and quotes == message.metadata.said:
        return message
    metadata = message.metadata.model_copy(update={"said": quotes})
    update = {"content": content, "metadata": metadata, "wire": None, "token_count": None}
    return message.model_copy(update={**update, "edited": True})


def redact_messages(messages: Iterable[Message], known: Known) -> list[Message]:
    """Redact all secrets in the messages, including those that only a later message reveals."""
    once = [redact_message(message, known) for message in messages]
    return [redact_message(message, known, _redact_known) for message in once] if known else once


def _redact_known(text: str, known: Known) -> str:
    return redact_text(text, known) if may_hold(text, known) else text


def _redact_part(part: Part, known: Known, redacted: Callable[[str, Known], str]) -> Part:
    if isinstance(part, Image):
        return part
    field = "arguments" if isinstance(part, ToolCall) else "text"
    original = getattr(part, field)
    text = redacted(original, known)
    if text == original:
        return part
    raw = part.raw if isinstance(part, ToolCall | ToolResult) else None
    raw = {"type": raw["type"]} if raw and "type" in raw else None  # the call keeps only its type
    changed: dict[str, Any] = {field: text, "raw": raw}
    return replace(part, **changed)
