"""Typed events: what compact reports to listeners. `telemetry` delivers them.

Each has a name, a time and a session id. Counts are messages or tokens, as the field says. A field
that may quote a conversation is marked with `CONTENT`: `telemetry.plain_words` keeps it from
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
    """Tokens of the whole prompt."""
    limit: int
    """The prompt's upper bound, in tokens."""
    messages: int
    """Messages in the history."""
    tokenizer: str
    """The tokenizer that counted."""
    exact: bool
    """Whether the count is the model's own; else it is an estimate."""
    complete: bool = True
    """Whether all messages were counted; else counting stopped above the limit."""
    beside: Mapping[str, int] = Field(default_factory=dict)
    """Tokens of what is sent beside the messages, by part: tool schemas, a system prompt in a field
    of its own, goals. They are included in `tokens`."""


class TriggerDecision(Event):
    """The decision whether to compress."""

    triggered: bool
    """Whether the session is compressed now."""
    tokens: int
    """Tokens of the prompt."""
    trigger: int
    """Tokens from which it is compressed."""
    reason: str
    """Why it is compressed or not, in words."""
    window: int = 0
    """The window's size in tokens."""
    model: str = ""
    """The key of the window's model; empty if none is named."""
    policy: CompactPolicy | None = None
    """The applied policy. As JSON it has no `guidance`, which holds a person's own words."""
    guided: bool = False
    """Whether it has guidance: a person's words on what else a summary keeps."""


class StageStarted(Event):
    """A stage of the pipeline begins."""

    stage: Stage
    """`identify`, `prepare`, `summarize`, `checkpoint`, `update` or `validate`."""
    done: float
    """The share of the work done so far, 0 to 1."""


class StoryAsked(Event):
    """A model is asked for a story, or for a part of one."""

    model: str
    """The key of the model."""
    part: int
    """Which part, counted from 1; the last one joins the others."""
    parts: int
    """How many parts there are."""
    elapsed: float
    """Seconds since the story began."""
    limit: float | None
    """Upper bound of seconds for the whole story; None if it has none."""


class SummaryCreated(Event):
    """A checkpoint was made."""

    checkpoint_id: str
    """The checkpoint's id."""
    messages: int
    """Messages that it replaces."""
    source_tokens: int | None
    """Tokens of the replaced messages; None if they were not counted."""
    tokens: int
    """Tokens of the checkpoint."""
    made_by: str
    """The checkpoint's writer: `extractive` or `receipt` (code), `person`, or a model."""
    seconds: float | None = None
    """Seconds that a model took to write it; None if no model did."""
    level: str = "detailed"
    """`detailed`, `moderate`, `compact` or `merged`."""
    summary: str = Field(default="", json_schema_extra=CONTENT)
    """The checkpoint's text."""


class SummaryReplaced(Event):
    """A summary was refused or never came; another one replaces it."""

    made_by: str
    """The writer of the replacement."""
    reason: str = Field(json_schema_extra=CONTENT)
    """Why the summary was replaced, in words."""
    rules: tuple[str, ...] = ()
    """The gate's rules that refused it; none if it never came."""


class PrunedMessages(Event):
    """Messages left the active context or were shortened in it."""

    covered: int
    """Messages that checkpoints replace."""
    masked: int
    """Messages shown as stubs."""
    clipped: int
    """Messages cut in the middle."""
    tokens_before: int | None
    """Tokens of the prompt before; None if counting stopped at the limit."""
    tokens_after: int
    """Tokens of the prompt afterwards."""
    kept: int = 0
    """Messages that stay word for word, pinned ones among them."""
    pinned: int = 0
    """Messages that are pinned."""


class ErrorRaised(Event):
    """Something failed: a compression, its summarizer, an archive, recall, or goal tracking. The
    history, and what is in force, stay unchanged.
    """

    name: ClassVar[str] = "compact.error"
    stage: str
    """The stage that failed: of a compression, `draft` where it could not begin, `commit` where the
    result could not be stored; `track` where progress could not be noted, `recall` where memory
    could not be asked."""
    error: str
    """The kind of error, such as `ModelUnavailable`."""
    message: str = Field(json_schema_extra=CONTENT)
    """The error's text."""
    serves: str = ""
    """What is served instead, in words; empty if nothing fits."""

    @classmethod
    def of(cls, error: Exception, stage: str, serves: str = "") -> ErrorRaised:
        """The event of an error."""
        return cls(stage=stage, error=type(error).__name__, message=str(error), serves=serves)


class TurnsQuoted(Event):
    """Old turns were recalled for a person's newest message."""

    window: int
    """The window's size in tokens."""
    turns: int
    """Number of turns."""
    sessions: int
    """Number of their sessions."""
    tokens: int
    """Tokens of the message that quotes them."""


class Committed(Event):
    """A compression was put in force."""

    move: int
    """The number of the move in its store."""
    window: int
    """The window's size in tokens."""
    checkpoints: int
    """Checkpoints in force."""


class DraftDropped(Event):
    """An unfinished compression was found, and dropped."""

    window: int
    """The window's size in tokens."""
    since: datetime
    """When it was begun."""


class EmergencyRung(Event):
    """One rung of the emergency ladder, measured."""

    name: ClassVar[str] = "compact.emergency"
    rung: str
    """The action, in words."""
    snapshot_id: str
    """The snapshot that was taken before."""
    tokens_before: int
    """Tokens of the prompt before."""
    tokens_after: int | None
    """Tokens afterwards; None if the rung could make no context."""
    needed: int
    """Upper bound of the prompt, in tokens."""


class BreakerOpened(Event):
    """The summarizer failed repeatedly or did not answer; it is not asked for a while."""

    failures: int
    """Failures in a row."""
    until: datetime
    """The time when it is asked again."""


class SummarizerChosen(Event):
    """A session's first summary is due. Its named model writes it, or code does."""

    model: str
    """The key of the session's model, if it writes; empty if code does."""
    reason: str
    """Why code writes, in words; empty if the model does."""


class WindowCapped(Event):
    """A window is smaller than requested, because a provider said so, now or earlier."""

    asked: int
    """The requested size, in tokens."""
    size: int
    """The window's size in tokens."""


class RatioLearned(Event):
    """A provider reported a prompt's tokens; later counts are corrected."""

    counted: int
    """Tokens that compact counted."""
    reported: int
    """Tokens that the provider reported."""
    ratio: float
    """The ratio by which later counts are multiplied."""


class BranchTaken(Event):
    """A list that was sent whole differs from the history; it continues as a branch."""

    branch_id: str
    """The new branch's id."""
    known: int
    """Messages of the history that it continues."""
    left: int
    """Messages of the history that stay on the earlier branch."""
    new: int
    """Messages that it adds."""
    reason: str
    """`edited`; or `unknown`: only its system prompt was known, or it holds a checkpoint of another
    history, which is kept as text."""


class ModelAskedAgain(Event):
    """A model gave no usable answer; it is asked again."""

    model: str
    """The key of the model."""
    attempt: int
    """Attempts so far."""
    wait: float
    """Seconds until the next attempt."""
    reason: str = Field(json_schema_extra=CONTENT)
    """Why the answer cannot be used, in words."""


class ModelReplaced(Event):
    """A model did not answer; another one is asked instead."""

    model: str
    """The key of the model that did not answer."""
    by: str
    """The key of the model that is asked instead."""
    reason: str = Field(json_schema_extra=CONTENT)
    """Why the model did not answer, in words."""


class DraftMade(Event):
    """A compression was drafted in the background; it takes effect at the trigger."""

    window: int
    """The window's size in tokens."""
    tokens: int
    """Tokens of the drafted context."""


class ModelChanged(Event):
    """The session continues with another model or window."""

    model: str
    """The key of the model."""
    window: int
    """The window's size in tokens."""


class ToolsWithdrawn(Event):
    """A model cannot call tools after all; from now on it is asked without them."""

    model: str
    """The key of the model."""
    reason: str = Field(json_schema_extra=CONTENT)
    """Why the model cannot call tools, in words."""


class PromptOverBudget(Event):
    """A part does not fit into the system prompt. The caller's own words are still sent whole."""

    window: int
    """The window's size in tokens."""
    part: str
    """The part's name, such as `Skill sailing`; the caller's own words are `system prompt`."""
    tokens: int
    """Tokens of the part."""
    budget: int
    """Upper bound of the system prompt, in tokens."""
    is_left_out: bool
    """Whether it is left out."""
    reason: str
    """Why the part does not fit, in words."""


class GoalsChanged(Event):
    """A model's answer changed the goals by its markers (`text.markers`)."""

    changes: tuple[str, ...] = Field(json_schema_extra=CONTENT)
    """The accepted markers, as lines."""
    left_out: tuple[str, ...] = Field(default=(), json_schema_extra=CONTENT)
    """The rejected markers, each with the reason."""


class Archival(Event):
    """A transcript or a summary of a compression was stored outside of the session's store."""

    what: str
    """`transcript` or `summary`."""
    place: str
    """The place, as a path or an address."""


class MemoryAged(Event):
    """Memory was aged automatically. If that failed, it is tried again within hours."""

    digests: int
    """Digests that were written."""
    archived: int
    """Sessions whose messages were moved to the archive."""
    failed: int
    """Sessions that could not be archived. The next run tries again."""
    problem: str = ""
    """Why the run, or the archiving of sessions, failed. Empty if nothing did."""


class TrustFaded(Event):
    """After so many compressions a model of this size may have lost track."""

    window: int
    """The window's size in tokens."""
    compressions: int
    """How often it was compressed."""
    score: float
    """The reliability score, from 0 to 1."""
    warning: str
    """The warning for a person."""


class EventsDropped(Event):
    """An exporter lost events: its queue was full, or its server was down or refused them."""

    exporter: str
    """The exporter's class."""
    count: int
    """Events it lost since it was added."""


class Heartbeat(Event):
    """An exporter is alive but had nothing to send for a while."""

    exporter: str
    """The exporter's class."""
    sent: int
    """Events it delivered since it was added."""
    dropped: int
    """Events it lost."""


class RedactionOff(Event):
    """A setting turned redaction off: exports contain secrets."""

    severity: Literal["high"] = "high"
    """How serious that is."""
