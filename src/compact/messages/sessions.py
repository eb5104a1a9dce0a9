"""A stored session: its branches, entries, projections, moves and snapshots.

A session is a tree of *branches*. Each is a history that only grows, and continues another one from
a position. The model's view is not stored as such. A *projection* names its positions, checkpoints
and shortened messages; later messages follow it. Moves say which projection is in force: a
compression, an undo, a redo and a restore each append one. So nothing is ever overwritten.

Positions count from 0 along a branch, with its ancestors' messages.
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
"""Characters to which a message's id may be shortened. Summaries show so many of a random id."""

DEFAULT_SCOPE = "default"
"""The scope of a store with a single user."""
CHAT_NOTE = "chat"
"""The note of a session that names the model the chat program uses for it."""

MoveKind = Literal["compress", "undo", "redo", "restore"]
Purpose = Literal["recovery", "rollback", "emergency"]


class Entry(NamedTuple):
    """A message as a store takes and returns it."""

    message: Message
    tokens: int | None = None
    """Tokens as sent, if counted."""
    marks: int = 0


class Branch(BaseModel, frozen=True, defer_build=True):
    """One line of a session's history."""

    id: str
    session_id: str
    parent: str | None = None
    fork: int = 0
    """Positions below it belong to the parent."""
    messages: int = 0
    """Number of messages, the ancestors' included."""
    tokens: int = 0
    """Tokens of the counted messages."""
    created_at: datetime = Field(default_factory=clock_and_ids.now)


def free_branch_id(session_id: str, branches: int, is_taken: Callable[[str], bool]) -> str:
    """An id for a session's next branch. Taken ids are skipped, because a branch's id is unique in
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
    """The wire format of its messages."""
    tokenizer: str = ""
    """The tokenizer of its stored counts."""
    created_at: datetime = Field(default_factory=clock_and_ids.now)
    updated_at: datetime = Field(default_factory=clock_and_ids.now)
    metadata: Mapping[str, Any] = Field(default_factory=dict)
    branch: Branch
    """The branch in force."""


@dataclass(frozen=True, slots=True)
class Run:
    """Original messages of a projection: positions, both included."""

    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Shown:
    """A shortened message, or one that compact made: it stands nowhere else."""

    message: Message
    position: int | None = None
    """Position of a shortened message's original; None for compact's own."""


@dataclass(frozen=True, slots=True)
class CheckpointRef:
    """Where a checkpoint stands in a projection."""

    checkpoint_id: str


Piece = Run | Shown | CheckpointRef


class Projection(BaseModel, frozen=True, defer_build=True):
    """How an active context is composed: its pieces, in order. Messages from `at` on follow."""

    id: str = Field(default_factory=clock_and_ids.new_id)
    window: int
    """Its window, in tokens."""
    number: int = Field(ge=0)
    """How many compressions led to it."""
    at: int = Field(ge=0)
    """The branch's number of messages at that time."""
    cut: int = Field(ge=0)
    """Checkpoints cover everything before it that is not kept."""
    kept: tuple[int, ...] = ()
    pieces: tuple[Piece, ...] = ()
    checkpoints: tuple[Checkpoint, ...] = ()
    """The live ones, oldest span first."""
    tokens: int = Field(ge=0)
    parent: str | None = None
    """The projection it was made from."""
    made_at: datetime = Field(default_factory=clock_and_ids.now)

    @property
    def is_by_model(self) -> bool:
        """Whether a model wrote a part of its checkpoints."""
        return any(checkpoint.is_by_model for checkpoint in self.checkpoints)


class Destination(NamedTuple):
    """The state after a step."""

    branch_id: str
    at: int
    """The branch's number of messages there."""
    projection: Projection | None
    """The projection in force there; None for the bare history."""
    begins: Branch | None = None
    """The branch, if it begins with the step."""
    changes: tuple[Change, ...] = ()
    """Log entries that are made with the step."""


class Step(BaseModel, frozen=True, defer_build=True):
    """A change of what is in force. It is committed in one transaction or not at all."""

    kind: MoveKind
    session_id: str
    branch_id: str
    window: int
    base: int
    """Number of the move it builds on, 0 for none. It is refused if another move came in
    between."""
    at: int
    """The branch's number of messages."""
    projection: Projection | None
    """The projection in force afterwards; None for the bare history. A compression leaves the
    session's branch unchanged; every other step puts its own in force."""
    begins: Branch | None = None
    """A new branch that begins with the step. It has the step's branch id."""
    changes: tuple[Change, ...] = ()
    """Log entries that are made with the step."""
    notes: Mapping[str, Mapping[str, Any]] = Field(default_factory=dict)
    """Notes of the session that are kept with it."""
    forget: tuple[str, ...] = ()
    """Notes of the session that it removes, such as its draft."""

    def move(self, number: int, before: str | None) -> Move:
        """The step as a move. `before` is the id of the earlier projection in force."""
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
    """Grows with each move of a store."""
    kind: MoveKind
    branch_id: str
    window: int
    at: int
    projection_id: str | None
    before: str | None = None
    """The earlier projection in force."""
    made_at: datetime = Field(default_factory=clock_and_ids.now)


class Snapshot(BaseModel, frozen=True, defer_build=True):
    """A recovery point: a position and what was in force there. It is never sent to a model."""

    id: str = Field(default_factory=lambda: "sn-" + clock_and_ids.new_id()[:12])
    session_id: str
    branch_id: str
    purpose: Purpose = "recovery"
    note: str = ""
    at: int
    """The branch's number of messages."""
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
    """Higher is better; comparable within one search."""
