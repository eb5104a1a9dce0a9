"""A stored session: its branches, entries, projections, moves and snapshots.

A session is a tree of *branches*. Each is a history that only grows, and continues another one from
a position. What a model sees is not stored as text. A *projection* lists its positions, checkpoints
and shortened messages; later messages follow. *Moves* say which projection is active: each
compression, undo, redo and restore appends one. So nothing is ever overwritten.

Positions count from 0 along a branch, including its ancestors' messages.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel, Field

from compact.messages import clock_and_ids
from compact.messages.changes import Change
from compact.messages.checkpoints import Checkpoint
from compact.messages.goals import Goal
from compact.messages.messages import Message

FIXED, PERSON = 1, 2
"""Marks of an entry: it must never be pruned; a person wrote it."""

SHORTEST_ID = 8
"""To how many characters a message's id may be shortened. Summaries shorten random ids so."""

DEFAULT_SCOPE = "default"
"""The scope of a store with a single user."""
CHAT_NOTE = "chat"
"""Name of the session's note that says which model the chat program uses for it."""

MoveKind = Literal["compress", "undo", "redo", "restore"]
Purpose = Literal["recovery", "rollback", "emergency"]


class Entry(NamedTuple):
    """A message as a store takes and returns it."""

    message: Message
    tokens: int | None = None
    """Tokens of the message as sent, if counted."""
    marks: int = 0


class Branch(BaseModel, frozen=True, defer_build=True):
    """One line of a session's history."""

    id: str
    session_id: str
    parent: str | None = None
    fork: int = 0
    """Positions below this one belong to the parent."""
    messages: int = 0
    """How many messages the branch has, including its ancestors'."""
    tokens: int = 0
    """Tokens of the messages that were counted."""
    created_at: datetime = Field(default_factory=clock_and_ids.now)


def free_branch_id(session_id: str, branches: int, is_taken: Callable[[str], bool]) -> str:
    """Return an id for a session's next branch. Taken ids are skipped: a branch's id is unique in
    the whole store.
    """
    if not branches and not is_taken(session_id):
        return session_id
    number = max(2, branches + 1)
    while is_taken(name := f"{session_id}~{number}"):
        number += 1
    return name


class Session(BaseModel, frozen=True, defer_build=True):
    """A conversation with an id."""

    id: str
    scope: str = DEFAULT_SCOPE
    title: str | None = None
    model: str | None = None
    mode: str | None = None
    wire: str = "chat_completions"
    """The wire format of the session's messages."""
    tokenizer: str = ""
    """The tokenizer that made the stored counts."""
    created_at: datetime = Field(default_factory=clock_and_ids.now)
    updated_at: datetime = Field(default_factory=clock_and_ids.now)
    metadata: Mapping[str, Any] = Field(default_factory=dict)
    branch: Branch
    """The active branch."""


@dataclass(frozen=True, slots=True)
class Run:
    """Messages that a projection shows unchanged: first and last position, both included."""

    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Shown:
    """A shortened message, or one that compact made and that is stored nowhere else."""

    message: Message
    position: int | None = None
    """Position of the original of a shortened message; None if compact made the message."""


@dataclass(frozen=True, slots=True)
class CheckpointRef:
    """The place of a checkpoint in a projection."""

    checkpoint_id: str


Piece = Run | Shown | CheckpointRef


class Projection(BaseModel, frozen=True, defer_build=True):
    """How an active context is composed: its pieces in order, then the messages from `at` on."""

    id: str = Field(default_factory=clock_and_ids.new_id)
    window: int
    """Size of the window that it is made for, in tokens."""
    number: int = Field(ge=0)
    """How many compressions led to this projection."""
    at: int = Field(ge=0)
    """How many messages the branch had when the projection was made."""
    cut: int = Field(ge=0)
    """Checkpoints cover all messages before this position that are not kept."""
    kept: tuple[int, ...] = ()
    pieces: tuple[Piece, ...] = ()
    checkpoints: tuple[Checkpoint, ...] = ()
    """The checkpoints in use, oldest span first."""
    tokens: int = Field(ge=0)
    parent: str | None = None
    """The projection that this one was made from."""
    made_at: datetime = Field(default_factory=clock_and_ids.now)

    @property
    def is_by_model(self) -> bool:
        """Whether a model wrote a part of the checkpoints."""
        return any(checkpoint.is_by_model for checkpoint in self.checkpoints)


class Destination(NamedTuple):
    """The state that a step leads to."""

    branch_id: str
    at: int
    """How many messages the branch has there."""
    projection: Projection | None
    """The projection that is active there; None for the bare history."""
    begins: Branch | None = None
    """The branch, if the step begins it."""
    changes: tuple[Change, ...] = ()
    """Log entries that the step adds."""


class Step(BaseModel, frozen=True, defer_build=True):
    """A change of what is active. It is committed in one transaction or not at all."""

    kind: MoveKind
    session_id: str
    branch_id: str
    window: int
    base: int
    """The number of the move that the step builds on, 0 for none. The step is refused if another
    move was made meanwhile."""
    at: int
    """How many messages the branch has."""
    projection: Projection | None
    """The projection that is active afterwards; None for the bare history. A compression leaves the
    session's branch active; every other step activates its own."""
    begins: Branch | None = None
    """A new branch that the step begins. Its id is the step's branch id."""
    changes: tuple[Change, ...] = ()
    """Log entries that the step adds."""
    notes: Mapping[str, Mapping[str, Any]] = Field(default_factory=dict)
    """Notes of the session that are stored with the step."""
    forget: tuple[str, ...] = ()
    """Notes of the session that the step removes, such as its draft."""

    def move(self, number: int, before: str | None) -> Move:
        """Return the step as a move. `before` is the id of the projection that was active."""
        return Move(
            number=number,
            kind=self.kind,
            branch_id=self.branch_id,
            window=self.window,
            at=self.at,
            projection_id=self.projection.id if self.projection else None,
            before=before,
        )


class Move(BaseModel, frozen=True, defer_build=True):
    """A committed step."""

    number: int = Field(ge=1)
    """The number of the move; grows with each move of a session."""
    kind: MoveKind
    branch_id: str
    window: int
    at: int
    projection_id: str | None
    before: str | None = None
    """The id of the projection that was active before."""
    made_at: datetime = Field(default_factory=clock_and_ids.now)


class Snapshot(BaseModel, frozen=True, defer_build=True):
    """A recovery point: a position and what was active there. It is never sent to a model."""

    id: str = Field(default_factory=lambda: "sn-" + clock_and_ids.new_id()[:12])
    session_id: str
    branch_id: str
    purpose: Purpose = "recovery"
    note: str = ""
    at: int
    """How many messages the branch has."""
    window: int
    projection_id: str | None = None
    checkpoint_ids: tuple[str, ...] = ()
    goals: tuple[Goal, ...] = ()
    policy: Mapping[str, Any] = Field(default_factory=dict)
    created_at: datetime = Field(default_factory=clock_and_ids.now)


class Found(NamedTuple):
    """A message found by a search."""

    position: int
    score: float
    """How well the message matches: higher is better; comparable within one search."""
