"""Changes in a session's log other than messages: goals, mode, pins, shortened messages, the system
prompt, recalled turns.

Each entry belongs to a branch and a position. So a branch, an undo or a view of the past finds the
settings of its time. An entry sets only one thing, so that two writers do not overwrite each other.
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
    """The goals, updated by the markers in the model's answers up to this position. Prompts show
    the update only from the next compression on, so that the beginning of the prompt stays the same
    until then. Until then the markers are still in the messages.
    """

    kind: Literal["tracked"] = "tracked"
    goals: tuple[Goal, ...]
    since: int
    """The number of the entry that set the goals. It is 0 if they were never set."""


class ModeSet(BaseModel, frozen=True, defer_build=True, extra="forbid"):
    """The session's mode from this position on."""

    kind: Literal["mode"] = "mode"
    mode: str | None
    """The mode. None means the mode that was given when the session was opened."""


class PinSet(BaseModel, frozen=True, defer_build=True, extra="forbid"):
    """A message is pinned (it stays word for word) or unpinned."""

    kind: Literal["pin"] = "pin"
    is_pinned: bool


class PutAside(BaseModel, frozen=True, defer_build=True, extra="forbid"):
    """From now on prompts show only the beginning and the end of a message."""

    kind: Literal["aside"] = "aside"
    tokens: int
    """The approximate number of tokens of the message that prompts show."""


class SystemShown(BaseModel, frozen=True, defer_build=True, extra="forbid"):
    """Prompts show other messages in place of the leading system messages."""

    kind: Literal["system"] = "system"
    of: str
    """The chain's hash (hexadecimal) after the leading system messages. The entry applies to every
    branch that begins with these messages."""
    messages: tuple[Mapping[str, Any], ...]
    """The messages that prompts show, in the session's wire format."""
    tokens: tuple[int, ...]
    """Tokens of each message by the session's tokenizer. Only older versions read it."""
    own: str | None = None
    """The client's own text inside a single message, if compact put other text around it."""


class RecalledTurn(BaseModel, frozen=True, defer_build=True, extra="forbid"):
    """The place where an old turn is stored. Its text is read from there."""

    session_id: str
    branch_id: str
    position: int
    message_id: str
    start: int = 0
    """Where the quote starts in the redacted text, in characters."""
    stop: int | None = None
    """Where the quote stops (excluded), in characters. None means the end of the text."""


class TurnsRecalled(BaseModel, frozen=True, defer_build=True, extra="forbid"):
    """Old turns that a prompt quotes before the message at this position. The entry applies to one
    window and one projection. The next compression leaves the quotes out.
    """

    kind: Literal["recalled"] = "recalled"
    turns: tuple[RecalledTurn, ...]
    window: int
    projection: str | None
    """The projection's id. None means the whole history, without a compression."""
    first: int = 0
    """From here on, quotes for messages before this position are left out."""


What = GoalsSet | GoalsTracked | ModeSet | PinSet | PutAside | SystemShown | TurnsRecalled
KINDS = frozenset(each.model_fields["kind"].default for each in get_args(What))
"""The values of `kind` that are stored."""


class Change(BaseModel, frozen=True, defer_build=True, extra="forbid"):
    """One entry of a session's log that is not a message."""

    number: int = 0
    """The number of the entry. The store assigns it; later entries have larger numbers."""
    branch_id: str
    at: int = Field(ge=0)
    """The position of the entry's message, or the number of messages from which it applies."""
    what: Annotated[What, Field(discriminator="kind")]
