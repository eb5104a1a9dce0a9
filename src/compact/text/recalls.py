"""Recall: original messages brought back from the history, and the tools with which a model asks.

Recalled text carries a heading with a digest. By it, compact recognizes the text when it comes back
and does not store, search or summarize it again. Stores search; `text.terms` says by which words.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal, cast

from pydantic import BaseModel

from compact.messages.arguments import json_or
from compact.messages.messages import Message, Role, ToolCall
from compact.messages.own_text import OwnText
from compact.text.templates import template

PAGE = 10
"""Messages on one page of a search."""
RECALL, EXPAND = "recall", "expand"
"""Names of the tools."""


class Recalled(BaseModel, frozen=True, defer_build=True):
    """A message that a search brought back."""

    id: str
    position: int
    role: Role
    timestamp: datetime
    text: str
    """Its text, or the part around the question's words."""
    score: float


class Expansion(BaseModel, frozen=True, defer_build=True):
    """A page of a span's original messages: as many as fit, or the fitting part of one message."""

    messages: tuple[Message, ...]
    tokens: int
    total: int
    """The number of messages, or of characters of the one message, in all."""
    start: int = 0
    """The number of them before this page."""
    next: int | None = None
    """The `start` of the next page; None if this is the last one."""
    clipped: bool = False
    """Whether the page's only message is cut, reduced to head and tail, or left out."""
    unit: Literal["messages", "characters"] = "messages"
    """The unit of `total`, `start` and `next`."""

    @property
    def is_whole(self) -> bool:
        """Whether the page holds all messages, word for word."""
        return len(self.messages) == self.total and not self.clipped


def told(title: str, lines: Sequence[str], own: OwnText) -> str:
    """Return recalled text under its heading, as a model reads it."""
    return own.under(f"Recalled · {title}", "\n".join(lines))


_ARGUMENTS = {RECALL: {"query"}, EXPAND: {"id", "start"}}


def asks(call: ToolCall) -> bool:
    """Whether a call only asks for earlier messages: a recall tool with its own arguments."""
    arguments = json_or(call.arguments) if call.name in _ARGUMENTS else None
    return isinstance(arguments, dict) and arguments.keys() <= _ARGUMENTS[call.name]


def tools() -> list[dict[str, Any]]:
    """Return the tools `recall` and `expand`, declared in the chat completions format."""
    return cast("list[dict[str, Any]]", json.loads(template("system/recall.json")))
