"""Entries of a session's log other than messages: settings, and the position where each begins.

Each entry belongs to a branch and a position, so that a branch, an undo or a look back finds the
settings of its time. An entry sets one thing, so that two writers do not overwrite each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, Field

from compact.messages.goals import Goal


class GoalsSet(BaseModel, frozen=True, defer_build=True, extra="forbid"):
    """The goals were set."""

    kind: Literal["goals"] = "goals"
    goals: tuple[Goal, ...]


class GoalsTracked(BaseModel, frozen=True, defer_build=True, extra="forbid"):
    """The goals, updated by the model's markers in the messages up to here. Prompts show this only
    from the next compression on, so that their beginning stays the same until then. The messages
    still hold the markers.
    """

    kind: Literal["tracked"] = "tracked"
    goals: tuple[Goal, ...]
    since: int
    """The number of the entry that set the goals; 0 if they were never set."""


class ModeSet(BaseModel, frozen=True, defer_build=True, extra="forbid"):
    """The session's mode from now on."""

    kind: Literal["mode"] = "mode"
    mode: str | None
    """None means the mode given when the session is opened."""


class PinSet(BaseModel, frozen=True, defer_build=True, extra="forbid"):
    """The message is pinned (stays word for word) or unpinned."""

    kind: Literal["pin"] = "pin"
    is_pinned: bool


class PutAside(BaseModel, frozen=True, defer_build=True, extra="forbid"):
    """Prompts show only the beginning and the end of the message."""

    kind: Literal["aside"] = "aside"
    tokens: int
    """About how many tokens of the message are shown."""


class SystemShown(BaseModel, frozen=True, defer_build=True, extra="forbid"):
    """Prompts show other messages instead of the leading system messages."""

    kind: Literal["system"] = "system"
    of: str
    """The chain's hash (hexadecimal) after the leading system messages. The entry applies to every
    branch that begins with them."""
    messages: tuple[Mapping[str, Any], ...]
    """The messages to show, in the session's wire format."""
    tokens: tuple[int, ...]
    """Tokens of each message by the session's own tokenizer, for older versions."""
    own: str | None = None
    """The client's own text within a single message, if other text surrounds it."""


class RecalledTurn(BaseModel, frozen=True, defer_build=True, extra="forbid"):
    """Where an old turn is stored. Its text is read from there."""

    session_id: str
    branch_id: str
    position: int
    message_id: str
    start: int = 0
    """Where the quote starts in the redacted text."""
    stop: int | None = None
    """Where the quote stops, excluded; None for the end of the text."""


class TurnsRecalled(BaseModel, frozen=True, defer_build=True, extra="forbid"):
    """Old turns that prompts for one window and projection quote before the message at this
    position. A compression leaves the quotes out.
    """

    kind: Literal["recalled"] = "recalled"
    turns: tuple[RecalledTurn, ...]
    window: int
    projection: str | None
    """The projection's id; None for the bare history."""
    first: int = 0
    """Quotes for messages before this position are left out from here on."""


What = GoalsSet | GoalsTracked | ModeSet | PinSet | PutAside | SystemShown | TurnsRecalled
KINDS = frozenset(each.model_fields["kind"].default for each in get_args(What))
"""Values of `kind` that are stored."""


class Change(BaseModel, frozen=True, defer_build=True, extra="forbid"):
    """One entry of a session's log that is not a message."""

    number: int = 0
    """Assigned by the store; grows with each entry."""
    branch_id: str
    at: int = Field(ge=0)
    """The number of messages from which the entry applies, or the position of its message."""
    what: Annotated[What, Field(discriminator="kind")]
