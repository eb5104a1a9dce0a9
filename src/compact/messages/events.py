"""Typed events: what compact reports to listeners. `telemetry` delivers them.

Each has a name, a time and a session id. Counts are messages or tokens, as the field says. A field
that may quote a conversation is marked with `CONTENT`: `telemetry.event_privacy` keeps it from
exporters.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, Field
from pydantic.alias_generators import to_snake
from pydantic.config import JsonDict

from compact.messages import clock_and_ids
from compact.messages.policy import CompactPolicy

Stage = Literal["identify", "prepare", "summarize", "checkpoint", "update", "validate"]
STAGES: tuple[Stage, ...] = ("identify", "prepare", "summarize", "checkpoint", "update", "validate")
CONTENT: JsonDict = {"content": True}
"""Marks a field that may quote a conversation, directly or through a model or server."""


class Event(BaseModel, frozen=True, defer_build=True, extra="forbid"):
    """Fields of every event. The name comes from the class's name unless the class sets one."""

    name: ClassVar[str] = "compact.event"
    session_id: str = ""
    at: datetime = Field(default_factory=clock_and_ids.now)

    def __init_subclass__(cls, **settings: Any) -> None:  # noqa: ANN401 - pydantic's own
        super().__init_subclass__(**settings)
        if "name" not in vars(cls):
            cls.name = f"compact.{to_snake(cls.__name__)}"

    def as_dict(self) -> dict[str, Any]:
        """The event as plain JSON values."""
        return {"name": self.name, **{k: _plain(v) for k, v in self}}


def _plain(value: object) -> object:
    match value:
        case datetime():
            return value.isoformat()
        case CompactPolicy():
            return value.model_dump(mode="json", exclude={"guidance"})
        case _:
            return value


class TokenEstimate(Event):
    """A prompt was counted."""

    tokens: int
    """Of the whole prompt."""
    limit: int
    """Tokens that it is to have at most."""
    messages: int
    """In the history."""
    tokenizer: str
    """What they were counted with."""
    exact: bool
    """Whether that is how the model counts; else it is an estimate."""
    complete: bool = True
    """Whether all messages were counted; else counting stopped above the limit."""
    beside: Mapping[str, int] = Field(default_factory=dict)
    """Tokens of what is sent beside the messages, by part: tool schemas, a system prompt in a field
    of its own, goals. They are among `tokens`."""


class TriggerDecision(Event):
    """Whether to compress was decided."""

    triggered: bool
    """Whether the session is compressed now."""
    tokens: int
    """Of the prompt."""
    trigger: int
    """Tokens from which it is compressed."""
    reason: str
    """Why, in words."""
    window: int = 0
    """The window's size in tokens."""
    model: str = ""
    """The key of the model that the window belongs to; empty where none is named."""
    policy: CompactPolicy | None = None
    """The policy that was applied. As JSON it has no `guidance`, which is somebody's own words."""
    guided: bool = False
    """Whether it has any: words of somebody's on what else a summary is to keep."""


class StageStarted(Event):
    """A stage of the pipeline begins."""

    stage: Stage
    """`identify`, `prepare`, `summarize`, `checkpoint`, `update` or `validate`."""
    done: float
    """The share of the work behind it, 0 to 1."""


class StoryAsked(Event):
    """A model is asked for a story, or for a part of one."""

    model: str
    """The key of the model."""
    part: int
    """Which part, counted from 1; the last one puts the others together."""
    parts: int
    """How many parts there are."""
    elapsed: float
    """Seconds since the story was begun."""
    limit: float | None
    """Seconds that it may take together; None where nobody gives it up."""


class SummaryCreated(Event):
    """A checkpoint was made."""

    checkpoint_id: str
    """The checkpoint's id."""
    messages: int
    """Messages that it stands in for."""
    source_tokens: int | None
    """Their tokens; None where they were not counted."""
    tokens: int
    """Of the checkpoint."""
    made_by: str
    """Who wrote it: `extractive`, or a model."""
    seconds: float | None = None
    """Time that a model took for it; None where none wrote it."""
    level: str = "detailed"
    """`detailed`, `moderate`, `compact` or `merged`."""
    summary: str = Field(default="", json_schema_extra=CONTENT)
    """What the checkpoint says."""


class SummaryReplaced(Event):
    """A summary was refused or never came; another one stands in for it."""

    made_by: str
    """Who wrote the one that stands in."""
    reason: str = Field(json_schema_extra=CONTENT)
    """Why, in words."""
    rules: tuple[str, ...] = ()
    """The rules of the gate that refused it; none where it never came."""


class PrunedMessages(Event):
    """Messages left the active context or were shortened in it."""

    covered: int
    """Messages that checkpoints stand in for."""
    masked: int
    """Messages shown as stubs."""
    clipped: int
    """Messages cut in the middle."""
    tokens_before: int | None
    """None where counting stopped at the limit."""
    tokens_after: int
    """Of the prompt."""
    kept: int = 0
    """Messages that stay word for word, pinned ones among them."""
    pinned: int = 0
    """Messages that somebody pinned."""


class ErrorRaised(Event):
    """Something failed: a compression, its summarizer, an archive, recall, or a note of the goals.
    The history, and what is in force, stay as they were.
    """

    name: ClassVar[str] = "compact.error"
    stage: str
    """The stage that failed: of a compression, `draft` where it could not begin, `commit` where the
    result could not be stored; `track` where progress could not be noted, `recall` where memory
    could not be asked."""
    error: str
    """The kind of error, such as `ModelUnavailable`."""
    message: str = Field(json_schema_extra=CONTENT)
    """What it says."""
    serves: str = ""
    """What is served nevertheless, in words; empty where nothing fits."""

    @classmethod
    def of(cls, error: Exception, stage: str, serves: str = "") -> ErrorRaised:
        """What is told of an error."""
        return cls(stage=stage, error=type(error).__name__, message=str(error), serves=serves)


class TurnsQuoted(Event):
    """Old turns were recalled for a person's newest message."""

    window: int
    """The window's size in tokens."""
    turns: int
    """How many."""
    sessions: int
    """From how many sessions."""
    tokens: int
    """Of the message that quotes them."""


class Committed(Event):
    """A compression was put in force."""

    move: int
    """The number of the move in its store."""
    window: int
    """The window's size in tokens."""
    checkpoints: int
    """Checkpoints that are in force."""


class DraftDropped(Event):
    """A compression that somebody began and never ended was found, and dropped."""

    window: int
    """The window's size in tokens."""
    since: datetime
    """When it was begun."""


class EmergencyRung(Event):
    """One rung of the emergency ladder, measured."""

    name: ClassVar[str] = "compact.emergency"
    rung: str
    """What was done, in words."""
    snapshot_id: str
    """The snapshot taken before."""
    tokens_before: int
    """Of the prompt."""
    tokens_after: int | None
    """None where the rung could make no context at all."""
    needed: int
    """Tokens the prompt may have."""


class BreakerOpened(Event):
    """The summarizer did not answer, or failed again and again; it is left alone for a while."""

    failures: int
    """In a row."""
    until: datetime
    """When it is asked again."""


class SummarizerChosen(Event):
    """A session has named a model, and its first summary is due: the model writes, or code does."""

    model: str
    """The key of the session's own model, where it writes; empty where code does."""
    reason: str
    """Why code writes, in words; empty where the model does."""


class WindowCapped(Event):
    """A window is smaller than was asked for, because a provider said so, now or earlier."""

    asked: int
    """The size that was asked for, in tokens."""
    size: int
    """The window's size in tokens."""


class RatioLearned(Event):
    """A provider reported what a prompt cost; counts are corrected by it."""

    counted: int
    """Tokens that compact counted."""
    reported: int
    """Tokens that the provider reported."""
    ratio: float
    """By which counts are multiplied."""


class BranchTaken(Event):
    """A list that was sent whole differs from the history; it goes on as a branch."""

    branch_id: str
    """The new branch's id."""
    known: int
    """Messages of the history that it goes on from."""
    left: int
    """Messages of the history that stay on the branch before."""
    new: int
    """Messages that it adds."""
    reason: str
    """`edited`; or `unknown`: nothing but its system prompt was known, or it holds a checkpoint of
    another history, which is kept as what it says."""


class ModelAskedAgain(Event):
    """A model did not answer in a way that can be used; it is asked once more."""

    model: str
    """The key of the model."""
    attempt: int
    """How many times it was asked so far."""
    wait: float
    """Seconds until it is asked again."""
    reason: str = Field(json_schema_extra=CONTENT)
    """Why, in words."""


class ModelReplaced(Event):
    """A model did not answer; another one is asked in its place."""

    model: str
    """The key of the model that did not answer."""
    by: str
    """The key of the one that is asked."""
    reason: str = Field(json_schema_extra=CONTENT)
    """Why, in words."""


class DraftMade(Event):
    """A compression was drafted in the background; it is put in force at the trigger."""

    window: int
    """The window's size in tokens."""
    tokens: int
    """Tokens of the context that it would make."""


class ModelChanged(Event):
    """The session goes on with another model or another window."""

    model: str
    """The key of the model."""
    window: int
    """The window's size in tokens."""


class ToolsWithdrawn(Event):
    """A model cannot call tools after all; it is asked without them from now on."""

    model: str
    """The key of the model."""
    reason: str = Field(json_schema_extra=CONTENT)
    """Why, in words."""


class PromptOverBudget(Event):
    """A part has no room in the system prompt; the caller's own words are sent whole even so."""

    window: int
    """The window's size in tokens."""
    part: str
    """What it is, such as `Skill sailing`; the caller's own words are the part `system prompt`."""
    tokens: int
    """Of the part."""
    budget: int
    """Tokens that the system prompt may have."""
    is_left_out: bool
    """Whether it is not sent."""
    reason: str
    """Why, in words."""


class GoalsChanged(Event):
    """A model's answer changed the goals by its markers (`text.markers`)."""

    changes: tuple[str, ...] = Field(json_schema_extra=CONTENT)
    """The markers that were heeded, as lines."""
    left_out: tuple[str, ...] = Field(default=(), json_schema_extra=CONTENT)
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
    """The window's size in tokens."""
    compressions: int
    """How often it was compressed."""
    score: float
    """From 0 to 1."""
    warning: str
    """What a person is told."""


class EventsDropped(Event):
    """An exporter did not get or could not deliver some events: its queue was full, its server was
    down or refused them.
    """

    exporter: str
    """Its class."""
    count: int
    """All that it lost since it was added."""


class Heartbeat(Event):
    """An exporter has had nothing to send for a while, and is alive."""

    exporter: str
    """Its class."""
    sent: int
    """Events that it delivered since it was added."""
    dropped: int
    """Events that it lost."""


class RedactionOff(Event):
    """A setting turned redaction off: secrets in what is exported are sent as they are."""

    severity: Literal["high"] = "high"
    """How much that matters."""
