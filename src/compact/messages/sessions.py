"""A stored session: its branches, entries, projections, moves and snapshots.

A session is a tree of *branches*. A branch is a history that only grows, and may continue another
branch from a position. What a model sees is not stored as text. A *projection* lists the positions,
checkpoints and shortened messages of a prompt; later messages follow. A *move* says which
projection is active: each compression, undo, redo and restore appends one. So nothing is ever
overwritten.

Positions count from 0 along a branch, and include the messages of its ancestors.
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
"""Marks of an entry. FIXED: it must never be pruned. PERSON: a person wrote it."""

SHORTEST_ID = 8
"""How many characters a shortened message id has. Summaries shorten random ids to this length."""

DEFAULT_SCOPE = "default"
"""The scope of a store that has a single user."""
CHAT_NOTE = "chat"
"""Name of the session's note that says which model the chat program uses."""

MoveKind = Literal["compress", "undo", "redo", "restore"]
Purpose = Literal["recovery", "rollback", "emergency"]


class Entry(NamedTuple):
    """A message as a store takes and returns it."""

    message: Message
    tokens: int | None = None
    """Tokens of the message as it is sent. It is None if it was not counted."""
    marks: int = 0


class Branch(BaseModel, frozen=True, defer_build=True):
    """One line of a session's history."""

    id: str
    session_id: str
    parent: str | None = None
    fork: int = 0
    """The number of messages that come from the parent. Positions below it belong to the parent."""
    messages: int = 0
    """Number of messages of the branch, including its ancestors'."""
    tokens: int = 0
    """The sum of the tokens of those messages that were counted."""
    created_at: datetime = Field(default_factory=clock_and_ids.now)


def free_branch_id(session_id: str, branches: int, is_taken: Callable[[str], bool]) -> str:
    """Return an id for a session's next branch. Ids that exist are skipped, because a branch's id
    is unique in the whole store.
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
    """The tokenizer that made the stored token counts."""
    created_at: datetime = Field(default_factory=clock_and_ids.now)
    updated_at: datetime = Field(default_factory=clock_and_ids.now)
    metadata: Mapping[str, Any] = Field(default_factory=dict)
    branch: Branch
    """The active branch."""


@dataclass(frozen=True, slots=True)
class Run:
    """Messages that a projection shows unchanged. First and last position are included."""

    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Shown:
    """A shortened message, or a message that compact made and that is stored nowhere else."""

    message: Message
    position: int | None = None
    """Position of the original of a shortened message. It is None if compact made the message."""


@dataclass(frozen=True, slots=True)
class CheckpointRef:
    """The place of a checkpoint in a projection."""

    checkpoint_id: str


Piece = Run | Shown | CheckpointRef


class Projection(BaseModel, frozen=True, defer_build=True):
    """What an active context consists of: its pieces, then the messages from position `at`."""

    id: str = Field(default_factory=clock_and_ids.new_id)
    window: int
    """Size in tokens of the window for which it is made."""
    number: int = Field(ge=0)
    """The number of compressions that led to this projection."""
    at: int = Field(ge=0)
    """The number of messages that the branch had when the projection was made."""
    cut: int = Field(ge=0)
    """Checkpoints replace all messages before this position, except those in `kept`."""
    kept: tuple[int, ...] = ()
    pieces: tuple[Piece, ...] = ()
    checkpoints: tuple[Checkpoint, ...] = ()
    """The checkpoints in use. The checkpoint of the oldest span comes first."""
    tokens: int = Field(ge=0)
    parent: str | None = None
    """The id of the projection from which this one was made."""
    made_at: datetime = Field(default_factory=clock_and_ids.now)

    @property
    def is_by_model(self) -> bool:
        """Whether a model wrote a part of the checkpoints."""
        return any(checkpoint.is_by_model for checkpoint in self.checkpoints)


class Destination(NamedTuple):
    """The state to which a step leads."""

    branch_id: str
    at: int
    """The number of messages that the branch has there."""
    projection: Projection | None
    """The projection that is active there. None means the whole history without a compression."""
    begins: Branch | None = None
    """The new branch, if the step begins one."""
    changes: tuple[Change, ...] = ()
    """Log entries that the step adds."""


class Step(BaseModel, frozen=True, defer_build=True):
    """A change of the active projection or branch, committed in one transaction or not at all."""

    kind: MoveKind
    session_id: str
    branch_id: str
    window: int
    base: int
    """The number of the move on which the step builds, 0 if there is none. The step is refused if
    another move was made meanwhile."""
    at: int
    """The number of messages that the branch has."""
    projection: Projection | None
    """The projection that is active afterwards. None means the whole history without a compression.
    A compression leaves the session's branch active. Every other step activates its own branch."""
    begins: Branch | None = None
    """A new branch that the step begins. Its id is the step's branch id."""
    changes: tuple[Change, ...] = ()
    """Log entries that the step adds."""
    notes: Mapping[str, Mapping[str, Any]] = Field(default_factory=dict)
    """Notes of the session that are stored together with the step."""
    forget: tuple[str, ...] = ()
    """Names of the session's notes that the step removes, such as its draft."""

    def move(self, number: int, before: str | None) -> Move:
        """Return the move that records this step. `before` is the projection active until now."""
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
    """The stored record of a step: which projection became active, on which branch, and when."""

    number: int = Field(ge=1)
    """The number of the move. Later moves of a session have larger numbers."""
    kind: MoveKind
    branch_id: str
    window: int
    at: int
    projection_id: str | None
    before: str | None = None
    """The id of the projection that was active before the move."""
    made_at: datetime = Field(default_factory=clock_and_ids.now)


class Snapshot(BaseModel, frozen=True, defer_build=True):
    """A recovery point: a position in a branch, and the projection, checkpoints, goals and policy
    that were active there. It is never sent to a model.
    """

    id: str = Field(default_factory=lambda: "sn-" + clock_and_ids.new_id()[:12])
    session_id: str
    branch_id: str
    purpose: Purpose = "recovery"
    note: str = ""
    at: int
    """The number of messages that the branch has."""
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
    """How well the message matches. Higher is better. Only scores of one search can be compared."""
