"""What a session's log says beside its messages: what was set, and from where on it holds.

Each entry stands on a branch at a position, so that branches, undo and a look back find what held
in their time. It sets one thing: of two writers at once, neither undoes the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, Field

from compact.messages.goals import Goal


class GoalsSet(BaseModel, frozen=True, defer_build=True, extra="forbid"):
    """Somebody set the goals."""

    kind: Literal["goals"] = "goals"
    goals: tuple[Goal, ...]


class GoalsTracked(BaseModel, frozen=True, defer_build=True, extra="forbid"):
    """What the messages up to there say of the goals that were set, by a model's markers: it can be
    read from them again. Prompts show it from the next compression on: until then the markers are
    in view themselves, and what stands before them keeps its bytes.
    """

    kind: Literal["tracked"] = "tracked"
    goals: tuple[Goal, ...]
    since: int
    """The number of the entry that set them; 0 where nobody had set any."""


class ModeSet(BaseModel, frozen=True, defer_build=True, extra="forbid"):
    """What the session is used for from now on."""

    kind: Literal["mode"] = "mode"
    mode: str | None
    """None for the one that whoever opens the session gives."""


class PinSet(BaseModel, frozen=True, defer_build=True, extra="forbid"):
    """The message there stays word for word, or does no longer."""

    kind: Literal["pin"] = "pin"
    is_pinned: bool


class PutAside(BaseModel, frozen=True, defer_build=True, extra="forbid"):
    """Of the message there no more than head and tail is shown."""

    kind: Literal["aside"] = "aside"
    tokens: int
    """About how many are shown."""


class SystemShown(BaseModel, frozen=True, defer_build=True, extra="forbid"):
    """Other words are shown in the place of so many leading system messages."""

    kind: Literal["system"] = "system"
    of: str
    """The chain's hash after those, in hexadecimal: every branch is meant that begins with them."""
    messages: tuple[Mapping[str, Any], ...]
    """As the session's wire format has them."""
    tokens: tuple[int, ...]
    """Of each."""
    own: str | None = None
    """What of a single message is the client's own words, where others stand around them."""


class RecalledTurn(BaseModel, frozen=True, defer_build=True, extra="forbid"):
    """An old turn by where it stands. It holds none of its words: they are read where they are."""

    session_id: str
    branch_id: str
    position: int
    message_id: str
    start: int = 0
    """The first character that is quoted, of the text without secrets."""
    stop: int | None = None
    """The one behind the last; None for all."""


class TurnsRecalled(BaseModel, frozen=True, defer_build=True, extra="forbid"):
    """Old turns stand before the message there, in the prompts of a window that go on from a
    projection; a compression leaves them out.
    """

    kind: Literal["recalled"] = "recalled"
    turns: tuple[RecalledTurn, ...]
    window: int
    projection: str | None
    """Its id; None for the bare history."""
    first: int = 0
    """What was recalled for messages before that position is left out from here on."""


What = GoalsSet | GoalsTracked | ModeSet | PinSet | PutAside | SystemShown | TurnsRecalled
KINDS = frozenset(each.model_fields["kind"].default for each in get_args(What))
"""How the entries are told apart where they are stored."""


class Change(BaseModel, frozen=True, defer_build=True, extra="forbid"):
    """An entry of a session's log that is no message."""

    number: int = 0
    """Grows with each entry of a store, which gives it."""
    branch_id: str
    at: int = Field(ge=0)
    """From how many messages on it holds; of a message, its position."""
    what: Annotated[What, Field(discriminator="kind")]
