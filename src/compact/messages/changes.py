"""Entries of a session's log that are no messages: settings, and from where on they hold.

Each entry stands on a branch at a position, so that branches, undo and time travel find the
settings of their time. It sets one thing, so that two writers do not overwrite each other.
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
    """What a model's markers in the messages up to here say of the goals. It can be read from the
    messages again. Prompts show it from the next compression on: until then the markers are in
    view, and the prompt's beginning stays the same.
    """

    kind: Literal["tracked"] = "tracked"
    goals: tuple[Goal, ...]
    since: int
    """Number of the entry that set the goals; 0 if nobody did."""


class ModeSet(BaseModel, frozen=True, defer_build=True, extra="forbid"):
    """The session's mode from now on."""

    kind: Literal["mode"] = "mode"
    mode: str | None
    """None means the mode that is given when the session is opened."""


class PinSet(BaseModel, frozen=True, defer_build=True, extra="forbid"):
    """The message is pinned (stays word for word) or unpinned."""

    kind: Literal["pin"] = "pin"
    is_pinned: bool


class PutAside(BaseModel, frozen=True, defer_build=True, extra="forbid"):
    """Only head and tail of the message are shown."""

    kind: Literal["aside"] = "aside"
    tokens: int
    """About how many tokens of it are shown."""


class SystemShown(BaseModel, frozen=True, defer_build=True, extra="forbid"):
    """Other messages are shown instead of the leading system messages."""

    kind: Literal["system"] = "system"
    of: str
    """The chain's hash after those messages, in hexadecimal. The entry holds for every branch that
    begins with them."""
    messages: tuple[Mapping[str, Any], ...]
    """In the session's wire format."""
    tokens: tuple[int, ...]
    """Tokens of each."""
    own: str | None = None
    """The client's own text in a single message, if other text surrounds it."""


class RecalledTurn(BaseModel, frozen=True, defer_build=True, extra="forbid"):
    """The place of an old turn. Its text is read from there."""

    session_id: str
    branch_id: str
    position: int
    message_id: str
    start: int = 0
    """First quoted character of the text without secrets."""
    stop: int | None = None
    """End of the quote, excluded; None for the text's end."""


class TurnsRecalled(BaseModel, frozen=True, defer_build=True, extra="forbid"):
    """Old turns that stand before the message here, in the prompts of one window and projection. A
    compression leaves them out.
    """

    kind: Literal["recalled"] = "recalled"
    turns: tuple[RecalledTurn, ...]
    window: int
    projection: str | None
    """The projection's id; None for the bare history."""
    first: int = 0
    """Recalled turns for messages before this position are left out from here on."""


What = GoalsSet | GoalsTracked | ModeSet | PinSet | PutAside | SystemShown | TurnsRecalled
KINDS = frozenset(each.model_fields["kind"].default for each in get_args(What))
"""The stored kinds of entries."""


class Change(BaseModel, frozen=True, defer_build=True, extra="forbid"):
    """An entry of a session's log that is no message."""

    number: int = 0
    """Given by the store; grows with each entry."""
    branch_id: str
    at: int = Field(ge=0)
    """The number of messages from which it holds, or the position of the message it is about."""
    what: Annotated[What, Field(discriminator="kind")]
