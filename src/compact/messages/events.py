"""Typed events that compact reports to listeners. `telemetry` delivers them.

Each event has a name, a time and a session id. Counts are messages or tokens, as the field says. A
field that may quote a conversation is marked with `CONTENT`, so that `telemetry.plain_words` keeps
it from exporters.
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
Outcome = Literal["done", "again", "failed"]
CONTENT: JsonDict = {"content": True}
"""Marks a field that may quote a conversation, also through a model's or server's answer."""


class Event(BaseModel, frozen=True, defer_build=True, extra="forbid"):
    """The fields of every event. The name comes from the class's name unless the class sets one."""

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
    """The limit of the prompt, in tokens."""
    messages: int
    """Number of messages in the history."""
    tokenizer: str
    """The tokenizer that counted the prompt."""
    exact: bool
    """Whether the model's own tokenizer counted. Otherwise the count is an estimate."""
    complete: bool = True
    """Whether all messages were counted. Otherwise counting stopped above the limit."""
    beside: Mapping[str, int] = Field(default_factory=dict)
    """Tokens of what is sent beside the messages, by part: tool schemas, a system prompt in a
    separate field, goals. `tokens` includes them."""


class TriggerDecision(Event):
    """The decision whether to compress."""

    triggered: bool
    """Whether the session is compressed now."""
    tokens: int
    """Tokens of the prompt."""
    trigger: int
    """The number of tokens from which the session is compressed."""
    reason: str
    """Why the session is compressed or not, in words."""
    window: int = 0
    """The window's size in tokens."""
    model: str = ""
    """The key of the window's model. It is empty if no model is named."""
    policy: CompactPolicy | None = None
    """The applied policy. As JSON it has no `guidance`, because that holds a person's own words."""
    guided: bool = False
    """Whether the policy has guidance: a person's words on what else a summary keeps."""


class StageStarted(Event):
    """A stage of the pipeline begins."""

    stage: Stage
    """`identify`, `prepare`, `summarize`, `checkpoint`, `update` or `validate`."""
    done: float
    """The share of the work that is done so far, 0 to 1."""


class StoryAsked(Event):
    """A model is asked for a story (a summary in prose), or for a part of one."""

    model: str
    """The key of the model."""
    part: int
    """The number of the part, from 1. The last part joins the others."""
    parts: int
    """The number of parts."""
    elapsed: float
    """Seconds since the story began."""
    limit: float | None
    """Upper bound of seconds for the whole story. It is None if there is no bound."""


class SummaryCreated(Event):
    """A checkpoint was made."""

    checkpoint_id: str
    """The checkpoint's id."""
    messages: int
    """Number of messages that the checkpoint replaces."""
    source_tokens: int | None
    """Tokens of the replaced messages; None if they were not counted."""
    tokens: int
    """Tokens of the checkpoint."""
    made_by: str
    """The writer: `extractive` or `receipt` (both are code), `person`, or a model's name."""
    seconds: float | None = None
    """Seconds that a model took to write it. It is None if code or a person wrote it."""
    level: str = "detailed"
    """`detailed`, `moderate`, `compact` or `merged`."""
    summary: str = Field(default="", json_schema_extra=CONTENT)
    """The checkpoint's text."""


class SummaryReplaced(Event):
    """A summary was refused or did not arrive. Another one replaces it."""

    made_by: str
    """The writer of the replacing summary."""
    reason: str = Field(json_schema_extra=CONTENT)
    """Why the summary was replaced, in words."""
    rules: tuple[str, ...] = ()
    """The gate's rules that refused the summary. It is empty if no summary arrived."""


class PrunedMessages(Event):
    """Messages left the active context or were shortened in it."""

    covered: int
    """Number of messages that checkpoints replace."""
    masked: int
    """Number of messages that are shown as stubs."""
    clipped: int
    """Number of messages that are cut in the middle."""
    tokens_before: int | None
    """Tokens of the prompt before. It is None if counting stopped at the limit."""
    tokens_after: int
    """Tokens of the prompt afterwards."""
    kept: int = 0
    """Number of messages that stay word for word, including pinned ones."""
    pinned: int = 0
    """Number of pinned messages."""


class ErrorRaised(Event):
    """Something failed: a compression, its summarizer, an archive, recall, or goal tracking. The
    history and the current view stay unchanged.
    """

    name: ClassVar[str] = "compact.error"
    stage: str
    """The stage that failed. A compression has six stages, and two more names: `draft` if it could
    not begin, `commit` if its result could not be stored. `track` means that goals could not be
    updated. `recall` means that memory could not be searched."""
    error: str
    """The class of the error, such as `ModelUnavailable`."""
    message: str = Field(json_schema_extra=CONTENT)
    """The error's text."""
    serves: str = ""
    """What is served instead, in words. It is empty if nothing fits."""

    @classmethod
    def of(cls, error: Exception, stage: str, serves: str = "") -> ErrorRaised:
        """Return the event of an error."""
        return cls(stage=stage, error=type(error).__name__, message=str(error), serves=serves)


class TurnsQuoted(Event):
    """Old turns were recalled for a person's newest message."""

    window: int
    """The window's size in tokens."""
    turns: int
    """Number of turns."""
    sessions: int
    """Number of sessions that the turns come from."""
    tokens: int
    """Tokens of the message that quotes them."""


class Committed(Event):
    """A compression was committed: prompts now use it."""

    move: int
    """The number of the move in its store."""
    window: int
    """The window's size in tokens."""
    checkpoints: int
    """Number of checkpoints that prompts now use."""


class DraftDropped(Event):
    """An unfinished compression was found and dropped."""

    window: int
    """The window's size in tokens."""
    since: datetime
    """When the compression was begun."""


class EmergencyRung(Event):
    """One rung of the emergency ladder was tried and measured."""

    name: ClassVar[str] = "compact.emergency"
    rung: str
    """The action, in words."""
    snapshot_id: str
    """The snapshot that was taken before."""
    tokens_before: int
    """Tokens of the prompt before."""
    tokens_after: int | None
    """Tokens of the prompt afterwards. It is None if the rung could not make a prompt."""
    needed: int
    """The limit of the prompt, in tokens."""


class BreakerOpened(Event):
    """The summarizer failed repeatedly or did not answer. It is not asked for a while."""

    failures: int
    """Number of failures in a row."""
    until: datetime
    """The time from which the summarizer is asked again."""


class SummarizerChosen(Event):
    """A session's first summary is due. This event says whether a model or code writes it."""

    model: str
    """The key of the model that writes. It is empty if code writes."""
    reason: str
    """Why code writes, in words. It is empty if a model writes."""


class WindowCapped(Event):
    """A window is smaller than requested, because a provider reported a smaller one."""

    asked: int
    """The requested size of the window, in tokens."""
    size: int
    """The actual size of the window, in tokens."""


class RatioLearned(Event):
    """A provider reported how many tokens a prompt had. Later counts are corrected by it."""

    counted: int
    """Tokens that compact counted."""
    reported: int
    """Tokens that the provider reported."""
    ratio: float
    """The ratio by which later counts are multiplied."""


class BranchTaken(Event):
    """A client's whole list differs from the history. It continues as a branch."""

    branch_id: str
    """The new branch's id."""
    known: int
    """Number of the history's messages that the branch shares."""
    left: int
    """Number of the history's messages that stay on the earlier branch only."""
    new: int
    """Number of messages that the branch adds."""
    reason: str
    """`edited`, or `unknown`. Unknown means that only the system prompt was known, or that the list
    holds a checkpoint of another history, which is kept as text."""


class ModelAskedAgain(Event):
    """A model gave no usable answer; it is asked again."""

    model: str
    """The key of the model."""
    attempt: int
    """Number of attempts so far."""
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
    """A model turned out to be unable to call tools. From now on it is asked without them."""

    model: str
    """The key of the model."""
    reason: str = Field(json_schema_extra=CONTENT)
    """Why the model cannot call tools, in words."""


class PromptOverBudget(Event):
    """A part does not fit into the system prompt. The caller's own text is still sent whole."""

    window: int
    """The window's size in tokens."""
    part: str
    """The part's name, such as `Skill sailing`. The caller's own text is `system prompt`."""
    tokens: int
    """Tokens of the part."""
    budget: int
    """The limit of the system prompt, in tokens."""
    is_left_out: bool
    """Whether the part is left out of the prompt."""
    reason: str
    """Why the part does not fit, in words."""


class GoalsChanged(Event):
    """A model's answer changed the goals by markers in its text (`text.markers`)."""

    changes: tuple[str, ...] = Field(json_schema_extra=CONTENT)
    """The accepted markers, as lines."""
    left_out: tuple[str, ...] = Field(default=(), json_schema_extra=CONTENT)
    """The rejected markers, each with the reason."""


class Archival(Event):
    """A transcript or a summary of a compression was stored outside the session's store."""

    what: str
    """`transcript` or `summary`."""
    place: str
    """The place, as a path or an address."""


class MemoryAged(Event):
    """Memory was aged automatically. If that failed, it is tried again within hours."""

    digests: int
    """Number of digests that were written."""
    archived: int
    """Number of sessions whose messages were moved to the archive."""
    failed: int
    """Number of sessions that could not be archived. The next run tries again."""
    problem: str = ""
    """Why the run, or the archiving of sessions, failed. It is empty if nothing failed."""


class JobEnded(Event):
    """A worker ended a job (docs/guides/workers.md)."""

    kind: str
    """`age`, `compress`, `embed` or `index`."""
    outcome: Outcome
    """`done`, `again` if it failed and is tried later, or `failed` if it is not tried again."""
    seconds: float
    """How long it took."""
    tries: int
    """How often it has been tried, with this time."""
    said: str = Field(json_schema_extra=CONTENT)
    """What was done, or why it failed."""


class TrustFaded(Event):
    """A session was compressed so often that a model of this size may have lost track."""

    window: int
    """The window's size in tokens."""
    compressions: int
    """How often the session was compressed."""
    score: float
    """The reliability score, from 0 to 1."""
    warning: str
    """The warning for a person."""


class EventsDropped(Event):
    """An exporter lost events. Its queue was full, or its server was down or refused them."""

    exporter: str
    """The name of the exporter's class."""
    count: int
    """Number of events that it lost since it was added."""


class Heartbeat(Event):
    """An exporter works but had nothing to send for a while."""

    exporter: str
    """The name of the exporter's class."""
    sent: int
    """Number of events that it delivered since it was added."""
    dropped: int
    """Number of events that it lost since it was added."""


class RedactionOff(Event):
    """A setting turned redaction off: exports contain secrets."""

    severity: Literal["high"] = "high"
    """How serious the event is."""
