"""Typed events: what compact tells those who listen. How they travel lives in `telemetry`.

Each has a name, a time and a session id; counts are messages or tokens as the field says.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, Field
from pydantic.alias_generators import to_snake

from compact.core import clock_and_ids

Stage = Literal["identify", "prepare", "summarize", "checkpoint", "update", "validate"]
STAGES: tuple[Stage, ...] = ("identify", "prepare", "summarize", "checkpoint", "update", "validate")


class Event(BaseModel, frozen=True, extra="forbid"):
    """What every event carries. Its name is that of its class, where it gives no other."""

    name: ClassVar[str] = "compact.event"
    session_id: str = ""
    at: datetime = Field(default_factory=clock_and_ids.now)

    def __init_subclass__(cls, **settings: Any) -> None:  # noqa: ANN401 - pydantic's own
        super().__init_subclass__(**settings)
        if "name" not in vars(cls):
            cls.name = f"compact.{to_snake(cls.__name__)}"

    def as_dict(self) -> dict[str, Any]:
        """The event as plain JSON values."""
        body = {k: v.isoformat() if isinstance(v, datetime) else v for k, v in self}
        return {"name": self.name, **body}


class TokenEstimate(Event):
    """A prompt was counted."""

    tokens: int
    limit: int
    messages: int
    tokenizer: str
    exact: bool
    complete: bool = True
    """Whether all messages were counted; else counting stopped above the limit."""


class TriggerDecision(Event):
    """Whether to compress was decided."""

    triggered: bool
    tokens: int
    trigger: int
    reason: str


class StageStarted(Event):
    """A stage of the pipeline begins; `done` is the share of the work behind it, 0 to 1."""

    stage: Stage
    done: float


class StoryAsked(Event):
    """A model is asked for a story, or for a part of one."""

    model: str
    part: int
    """Which part, counted from 1; the last one puts the others together."""
    parts: int
    elapsed: float
    """Seconds since the story was begun."""
    limit: float | None
    """Seconds that it may take together; None where nobody gives it up."""


class SummaryCreated(Event):
    """A checkpoint was made."""

    checkpoint_id: str
    messages: int
    source_tokens: int | None
    tokens: int
    made_by: str
    level: str = "detailed"


class SummaryReplaced(Event):
    """A summary was refused or never came; another one stands in for it."""

    made_by: str
    """Who wrote the one that stands in."""
    reason: str


class PrunedMessages(Event):
    """Messages left the active context or were shortened in it."""

    covered: int
    masked: int
    clipped: int
    tokens_before: int | None
    """None where counting stopped at the limit."""
    tokens_after: int


class ErrorRaised(Event):
    """A compression failed, the summarizer that was to write for it, or the note of what a model
    said of the goals; the history, and what is in force, stay as they were.
    """

    name: ClassVar[str] = "compact.error"
    stage: str
    """The stage that failed: of a compression, `draft` where it could not begin, `commit` where the
    result could not be stored; `track` where progress could not be noted."""
    error: str
    message: str
    serves: str = ""
    """What is served nevertheless, in words; empty where nothing fits."""

    @classmethod
    def of(cls, error: Exception, stage: str, serves: str = "") -> ErrorRaised:
        """What is told of an error."""
        return cls(stage=stage, error=type(error).__name__, message=str(error), serves=serves)


class Committed(Event):
    """A compression was put in force."""

    move: int
    """The number of the move in its store."""
    window: int
    checkpoints: int


class DraftDropped(Event):
    """A compression that somebody began and never ended was found, and dropped."""

    window: int
    since: datetime


class EmergencyRung(Event):
    """One rung of the emergency ladder, measured."""

    name: ClassVar[str] = "compact.emergency"
    rung: str
    snapshot_id: str
    tokens_before: int
    tokens_after: int | None
    """None where the rung could make no context at all."""
    needed: int
    """Tokens the prompt may have."""


class BreakerOpened(Event):
    """The summarizer failed again and again; it is left alone for a while."""

    failures: int
    until: datetime


class WindowCapped(Event):
    """A window is smaller than was asked for, because a provider said so, now or earlier."""

    asked: int
    size: int


class RatioLearned(Event):
    """A provider reported what a prompt cost; counts are corrected by it."""

    counted: int
    reported: int
    ratio: float


class BranchTaken(Event):
    """A list that was sent whole left the history before its end; it goes on as a branch."""

    branch_id: str
    known: int
    """Messages of the history that it goes on from."""
    left: int
    """Messages of the history that stay on the branch before."""
    new: int
    """Messages that it adds."""
    reason: str
    """`edited`; or `unknown`, where nothing but a system prompt was known of it, or a checkpoint in
    it has no place in this history and is kept as what it says."""


class ModelAskedAgain(Event):
    """A model did not answer in a way that can be used; it is asked once more."""

    model: str
    attempt: int
    """How many times it was asked so far."""
    wait: float
    """Seconds until it is asked again."""
    reason: str


class ModelReplaced(Event):
    """A model did not answer; another one is asked in its place."""

    model: str
    by: str
    reason: str


class DraftMade(Event):
    """A compression was drafted in the background; it is put in force at the trigger."""

    window: int
    tokens: int
    """Tokens of the context that it would make."""


class ModelChanged(Event):
    """The session goes on with another model or another window."""

    model: str
    window: int


class ToolsWithdrawn(Event):
    """A model cannot call tools after all; it is asked without them from now on."""

    model: str
    reason: str


class PromptOverBudget(Event):
    """A part has no room in the system prompt; the caller's own words are sent whole even so."""

    window: int
    part: str
    """What it is, such as `Skill sailing`; the caller's own words are the part `system prompt`."""
    tokens: int
    """Of the part."""
    budget: int
    """Tokens that the system prompt may have."""
    is_left_out: bool
    reason: str


class GoalsChanged(Event):
    """A model's answer changed the goals by its markers (`core.markers`)."""

    changes: tuple[str, ...]
    """The markers that were heeded, as lines."""
    left_out: tuple[str, ...] = ()
    """The markers that were not, each with the reason."""


class Archival(Event):
    """What a compression left behind was kept outside of the session's store."""

    what: str
    """`transcript` or `summary`."""
    place: str
    """Where, as a path or an address."""


class TrustFaded(Event):
    """A session was compressed so often that a model of its size may have lost track."""

    window: int
    compressions: int
    score: float
    """From 0 to 1."""
    warning: str
    """What a person is told."""
