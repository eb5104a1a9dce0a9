"""Recall brings original messages back from the history. A model asks for them with two tools.

Recalled text has a heading with a digest (a keyed hash). By this heading compact recognizes the
text later, and does not store, search or summarize it again. A store does the searching.
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
"""How many messages one page of search results holds."""
TOLD_TOKENS = 1_500
"""At most how many tokens a tool's answer has, if the caller sets no limit."""
RECALL, EXPAND = "recall", "expand"
"""Names of the two tools."""


class Recalled(BaseModel, frozen=True, defer_build=True):
    """A message that a search brought back."""

    id: str
    position: int
    role: Role
    timestamp: datetime
    text: str
    """The message's text, or the part of a long text around the words of the query."""
    score: float


class Expansion(BaseModel, frozen=True, defer_build=True):
    """A page of original messages: as many as fit, or as much of one message as fits."""

    messages: tuple[Message, ...]
    tokens: int
    total: int
    """How many messages there are on all pages, or how many characters the one message has."""
    start: int = 0
    """How many messages or characters come before this page."""
    next: int | None = None
    """The `start` of the next page; None if this is the last page."""
    clipped: bool = False
    """Whether the only message on the page is cut, reduced to its two ends, or left out."""
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
    """Whether a call uses a recall tool, with no arguments except those the tool declares."""
    arguments = json_or(call.arguments) if call.name in _ARGUMENTS else None
    return isinstance(arguments, dict) and arguments.keys() <= _ARGUMENTS[call.name]


def tools() -> list[dict[str, Any]]:
    """Return the tools `recall` and `expand`, declared in the chat completions format."""
    return cast("list[dict[str, Any]]", json.loads(template("system/recall.json")))
