"""What archives hold, as bytes, and what their parts are called, wherever they are kept."""

from __future__ import annotations

from collections.abc import Sequence

from compact.json_text import write_json
from compact.messages.events import Event
from compact.messages.formats.known import format_named
from compact.messages.messages import Message

EVENTS = "events.jsonl"
"""The name of the events."""


def transcript_name(number: int) -> str:
    """The name of the history before a compression, counted from 1."""
    return f"transcript-pre-compact-{number:03}.jsonl"


def summary_name(step: int) -> str:
    """The name of what a compression said, counted from 1."""
    return f"summary-{step:03}.json"


def transcript(messages: Sequence[Message]) -> bytes:
    """Messages as JSON Lines, a provider's dictionary a line; the command line reads them."""
    told = (message.wire_format for message in messages)
    wire = format_named(next(filter(None, told), "chat_completions"))
    return b"".join(_json(record) + b"\n" for record in wire.render(messages))


def summary(session_id: str, step: int, text: str) -> bytes:
    """A summary as a JSON object."""
    return _json({"session_id": session_id, "step": step, "summary": text}) + b"\n"


def event_line(event: Event) -> bytes:
    """An event as a line of JSON."""
    return _json(event.as_dict()) + b"\n"


def _json(value: object) -> bytes:
    return write_json(value).encode("utf-8")
