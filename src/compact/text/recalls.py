"""Recall: original messages that are brought back from the history, and the tools by which a model
asks for them itself.

What is brought back carries a heading with a digest, so that it is recognized when it comes back
and never stored, searched or summarized as if it had been said again. Searching lives in the
stores, the rules of what is searched in `text.terms`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal

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
    """What it says, or the part of it around what was looked for."""
    score: float


class Expansion(BaseModel, frozen=True, defer_build=True):
    """A page of a span's original messages: as many as fit, or as much of one as fits."""

    messages: tuple[Message, ...]
    tokens: int
    total: int
    """How many messages, or characters of the one message, there are in all."""
    start: int = 0
    """How many of them stand before this page."""
    next: int | None = None
    """The `start` of the page that follows; None where this is the last one."""
    clipped: bool = False
    """Whether the page's only message is not whole: a part, head and tail, or left out."""
    unit: Literal["messages", "characters"] = "messages"
    """What `total`, `start` and `next` count."""

    @property
    def is_whole(self) -> bool:
        """Whether all of them are here, word for word."""
        return len(self.messages) == self.total and not self.clipped


def told(title: str, lines: Sequence[str], own: OwnText) -> str:
    """Recalled text as a model reads it, under its heading."""
    return own.under(f"Recalled · {title}", "\n".join(lines))


_ARGUMENTS = {RECALL: {"query"}, EXPAND: {"id", "start"}}


def asks(call: ToolCall) -> bool:
    """Whether a model asks for what was said before with this call, and says nothing itself."""
    given = json_or(call.arguments) if call.name in _ARGUMENTS else None
    return isinstance(given, dict) and given.keys() <= _ARGUMENTS[call.name]


def tools() -> list[dict[str, Any]]:
    """The tools `recall` and `expand`, declared as chat completions have them."""
    declared: list[dict[str, Any]] = json.loads(template("system/recall.json"))
    return declared
