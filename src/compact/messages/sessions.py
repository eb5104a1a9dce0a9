"""What a store keeps of a session: its branches, entries, projections, moves and snapshots.

A session is a tree of *branches*; each is a history that only grows and goes on from a position of
another one. What a model sees is never stored as such: a *projection* names the positions, the
checkpoints and the shortened forms it consists of, and messages that come later follow it. Moves
say which projection is the one in force: a compression, an undo, a redo and a restore each append
one. So nothing is ever overwritten.

Positions count from 0 along a branch, its ancestors' messages included.
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
"""Marks of an entry: it may never be pruned; a person wrote it."""

SHORTEST_ID = 8
"""Characters to which a message's id may be shortened: summaries show no more of a random one."""

DEFAULT_SCOPE = "default"
"""Of sessions where one person uses the store."""

MoveKind = Literal["compress", "undo", "redo", "restore"]
Purpose = Literal["recovery", "rollback", "emergency"]


class Entry(NamedTuple):
    """A message as a store takes and gives it."""

    message: Message
    tokens: int | None = None
    """Its tokens as sent, where somebody counted."""
    marks: int = 0


class Branch(BaseModel, frozen=True, defer_build=True):
    """One line of a session's history."""

    id: str
    session_id: str
    parent: str | None = None
    fork: int = 0
    """Positions below it are the parent's."""
    messages: int = 0
    """How many there are, the ancestors' included."""
    tokens: int = 0
    """Tokens of those that were counted."""
    created_at: datetime = Field(default_factory=clock_and_ids.now)


def free_branch_id(session_id: str, branches: int, is_taken: Callable[[str], bool]) -> str:
    """The id of the next branch of a session that has so many. One that is taken, by whatever
    session, is passed over: a branch's id says in its whole store which one is meant.
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
    """The tokenizer its stored counts were made with."""
    created_at: datetime = Field(default_factory=clock_and_ids.now)
    updated_at: datetime = Field(default_factory=clock_and_ids.now)
    metadata: Mapping[str, Any] = Field(default_factory=dict)
    branch: Branch
    """The branch that is in force."""


@dataclass(frozen=True, slots=True)
class Run:
    """Messages of a projection that are shown as they were said: positions, both included."""

    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Shown:
    """A message of a projection that stands nowhere else: shortened, or made by us."""

    message: Message
    position: int | None = None
    """Where the original of what is shortened stands; None for what we made."""


@dataclass(frozen=True, slots=True)
class CheckpointRef:
    """Where a checkpoint stands in a projection."""

    checkpoint_id: str


Piece = Run | Shown | CheckpointRef


class Projection(BaseModel, frozen=True, defer_build=True):
    """The recipe of an active context: its pieces, in order. Messages from `at` on follow."""

    id: str = Field(default_factory=clock_and_ids.new_id)
    window: int
    """The window it was made for, in tokens."""
    number: int = Field(ge=0)
    """How many compressions led to it."""
    at: int = Field(ge=0)
    """How many messages the branch had."""
    cut: int = Field(ge=0)
    """Everything before it that is not kept is covered by checkpoints."""
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
        """Whether a model wrote some of what stands for the past."""
        return any(checkpoint.is_by_model for checkpoint in self.checkpoints)


class Destination(NamedTuple):
    """Where a step leads."""

    branch_id: str
    at: int
    """How many messages the branch has there."""
    projection: Projection | None
    """What is in force there; None for the bare history."""
    begins: Branch | None = None
    """The branch, if it begins with the step."""
    changes: tuple[Change, ...] = ()
    """Entries of the session's log that are made with it."""


class Step(BaseModel, frozen=True, defer_build=True):
    """A change of what is in force, to be committed in one transaction or not at all."""

    kind: MoveKind
    session_id: str
    branch_id: str
    window: int
    base: int
    """Number of the move it builds on, 0 for none; refused if another one came in between."""
    at: int
    """How many messages the branch had."""
    projection: Projection | None
    """What is in force afterwards; None for the bare history. A compression leaves the session on
    the branch it is on; every other step puts its own in force."""
    begins: Branch | None = None
    """The branch that begins with it; its id is the step's, its parent and fork say where."""
    changes: tuple[Change, ...] = ()
    """Entries of the session's log that are made with it."""
    notes: Mapping[str, Mapping[str, Any]] = Field(default_factory=dict)
    """Notes of the session that are kept with it."""
    forget: tuple[str, ...] = ()
    """Notes of the session that end with it, such as the draft it was."""

    def move(self, number: int, before: str | None) -> Move:
        """The move that it becomes, where a projection of that id was in force before."""
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
    """A step that was committed."""

    number: int = Field(ge=1)
    """Grows with each move of a store."""
    kind: MoveKind
    branch_id: str
    window: int
    at: int
    projection_id: str | None
    before: str | None = None
    """The projection in force until then."""
    made_at: datetime = Field(default_factory=clock_and_ids.now)


class Snapshot(BaseModel, frozen=True, defer_build=True):
    """A recovery point: a position, and what was in force there. Never sent to a model."""

    id: str = Field(default_factory=lambda: "sn-" + clock_and_ids.new_id()[:12])
    session_id: str
    branch_id: str
    purpose: Purpose = "recovery"
    note: str = ""
    at: int
    """How many messages the branch had."""
    window: int
    projection_id: str | None = None
    checkpoint_ids: tuple[str, ...] = ()
    goals: tuple[Goal, ...] = ()
    policy: Mapping[str, Any] = Field(default_factory=dict)
    created_at: datetime = Field(default_factory=clock_and_ids.now)


class Found(NamedTuple):
    """A message that a search found."""

    position: int
    score: float
    """Higher is better; comparable within one search."""
