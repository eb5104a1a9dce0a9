"""What a session's log says beside its messages: what was set, and from where on it holds.

Each entry stands on a branch at a position, so that branches, undo and a look back find what held
in their time. Nothing is set twice in one entry: of two writers that set something at once, neither
undoes the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field

from compact.core.goals import Goal

_FROZEN = ConfigDict(frozen=True, extra="forbid")


class GoalsSet(BaseModel):
    """Somebody set the goals."""

    model_config = _FROZEN

    kind: Literal["goals"] = "goals"
    goals: tuple[Goal, ...]


class GoalsTracked(BaseModel):
    """What the messages up to there say of the goals that were set, by a model's markers: it can be
    read from them again. Prompts show it from the next compression on: until then the markers are
    in view themselves, and what stands before them keeps its bytes.
    """

    model_config = _FROZEN

    kind: Literal["tracked"] = "tracked"
    goals: tuple[Goal, ...]
    since: int
    """The number of the entry that set them; 0 where nobody had set any."""


class ModeSet(BaseModel):
    """What the session is used for from now on."""

    model_config = _FROZEN

    kind: Literal["mode"] = "mode"
    mode: str | None
    """None for the one that whoever opens the session gives."""


class PinSet(BaseModel):
    """The message there stays word for word, or does no longer."""

    model_config = _FROZEN

    kind: Literal["pin"] = "pin"
    is_pinned: bool


class PutAside(BaseModel):
    """Of the message there no more than head and tail is shown."""

    model_config = _FROZEN

    kind: Literal["aside"] = "aside"
    tokens: int
    """About how many are shown."""


class SystemShown(BaseModel):
    """Other words are shown in the place of so many leading system messages."""

    model_config = _FROZEN

    kind: Literal["system"] = "system"
    of: str
    """The chain's hash after those, in hexadecimal: every branch is meant that begins with them."""
    messages: tuple[Mapping[str, Any], ...]
    """As the session's wire format has them."""
    tokens: tuple[int, ...]
    """Of each."""
    own: str | None = None
    """What of a single message is the client's own words, where others stand around them."""


What = GoalsSet | GoalsTracked | ModeSet | PinSet | PutAside | SystemShown
KINDS = frozenset(each.model_fields["kind"].default for each in get_args(What))
"""How the entries are told apart where they are stored."""


class Change(BaseModel):
    """An entry of a session's log that is no message."""

    model_config = _FROZEN

    number: int = 0
    """Grows with each entry of a store, which gives it."""
    branch_id: str
    at: int = Field(ge=0)
    """From how many messages on it holds; of a message, its position."""
    what: Annotated[What, Field(discriminator="kind")]
