"""Typed events: what compact tells those who listen. How they travel lives in `telemetry`.

Each has a name, a time and a session id; counts are messages or tokens as the field says.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, ClassVar, Literal

from compact.core import defaults

Stage = Literal["identify", "prepare", "summarize", "checkpoint", "update", "validate"]
STAGES: tuple[Stage, ...] = ("identify", "prepare", "summarize", "checkpoint", "update", "validate")


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """What every event carries."""

    name: ClassVar[str] = "compact.event"
    session_id: str = ""
    at: datetime = field(default_factory=defaults.now)

    def as_dict(self) -> dict[str, Any]:
        """The event as plain JSON values."""
        body = asdict(self)
        return {"name": self.name, **body, "at": self.at.isoformat()}


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenEstimate(Event):
    """A prompt was counted."""

    name: ClassVar[str] = "compact.token_estimate"
    tokens: int
    limit: int
    messages: int
    tokenizer: str
    exact: bool
    complete: bool = True
    """Whether all messages were counted; else counting stopped above the limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerDecision(Event):
    """Whether to compress was decided."""

    name: ClassVar[str] = "compact.trigger_decision"
    triggered: bool
    tokens: int
    trigger: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StageStarted(Event):
    """A stage of the pipeline begins; `done` is the share of the work behind it, 0 to 1."""

    name: ClassVar[str] = "compact.stage_started"
    stage: Stage
    done: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryCreated(Event):
    """A checkpoint was made."""

    name: ClassVar[str] = "compact.summary_created"
    checkpoint_id: str
    messages: int
    source_tokens: int | None
    tokens: int
    made_by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PrunedMessages(Event):
    """Messages left the active context or were shortened in it."""

    name: ClassVar[str] = "compact.pruned_messages"
    covered: int
    masked: int
    clipped: int
    tokens_before: int | None
    """None where counting stopped at the limit."""
    tokens_after: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorRaised(Event):
    """A stage failed; the context stays as it was."""

    name: ClassVar[str] = "compact.error"
    stage: str
    error: str
    message: str
