"""Turns events into spans, for exporters of traces.

Each session is a trace. Each compression is a span from its trigger to its end, and its stages are
child spans. Any other event is a span without duration. It is a child of the compression, if one is
running. A span is returned once, when it has ended. Calls without a session (`compress`) share one
trace.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, NamedTuple

from compact.messages import clock_and_ids
from compact.messages.events import (
    BreakerOpened,
    Committed,
    DraftMade,
    EmergencyRung,
    ErrorRaised,
    Event,
    ModelAskedAgain,
    ModelReplaced,
    PrunedMessages,
    StageStarted,
    StoryAsked,
    SummarizerChosen,
    SummaryCreated,
    SummaryReplaced,
    TokenEstimate,
    TriggerDecision,
)

CALLS = "calls"
"""The name of the trace for calls without a session."""
COMPRESSION = "compact.compression"
"""The name of a compression's span."""
MOST_OPEN = 1_000
"""How many compressions are open at most. If there are more, the oldest is ended."""
Kind = Literal["compression", "stage", "event"]
_NOT_DATA = {"name", "session_id", "at"}
"""Fields of an event that are not repeated in a span's data."""
_DURING = (
    *(StoryAsked, SummaryReplaced, TokenEstimate),
    *(BreakerOpened, ModelAskedAgain, ModelReplaced, SummarizerChosen),
)
"""Events that may happen within a stage of a compression."""
_BETWEEN = (StageStarted, SummaryCreated, PrunedMessages, Committed, DraftMade, EmergencyRung)
"""Events that end the current stage of a compression."""
_NOT_ENDING = ("summarize", "track", "sync", "archive")
"""Stages whose errors do not end a compression."""


class Trace(NamedTuple):
    """The trace to which a session's spans belong."""

    id: str
    """The session's id, or for calls without a session an id that is unique to this exporter."""
    name: str
    session_id: str


@dataclass(frozen=True, slots=True)
class EndedSpan:
    """A span that has ended."""

    trace: Trace
    id: str
    """The span's id: 16 hexadecimal digits."""
    parent: str | None
    name: str
    kind: Kind
    start: datetime
    end: datetime
    data: Mapping[str, Any]
    """JSON values by name. None and empty values are left out."""
    error: str = ""
    """The class of the error with which the span ended. It is empty if there was none."""
    events: int = 1
    """How many events are lost if this span is lost."""


@dataclass(slots=True)
class _Open:
    id: str
    start: datetime
    last: datetime
    data: dict[str, Any] = field(default_factory=dict)
    stage: StageStarted | None = None


class Spans:
    """Turns events into spans. The events must be given in order."""

    def __init__(self) -> None:
        self._calls = f"{CALLS}-{clock_and_ids.new_id()}"
        self._open: OrderedDict[str, _Open] = OrderedDict()
        self._count = 0
        self._begun = clock_and_ids.new_id()

    def of(self, events: Sequence[Event]) -> list[EndedSpan]:
        """Return the spans that end with these events."""
        return [span for event in events for span in self._ended_by(event)]

    def close(self) -> list[EndedSpan]:
        """End all open spans, and return them."""
        return [span for session in list(self._open) for span in self._end_open(session)]

    def _ended_by(self, event: Event) -> Iterator[EndedSpan]:
        key = event.session_id
        if _begins(event, self._open.get(key)):
            yield from self._end_open(key)
            yield from self._begin(event)
        opened = self._open.get(key)
        if opened is None or not (_ends_stage(event) or _is_during(event)):
            yield self._event_span(event, None)
            return
        opened.last = max(opened.last, event.at)
        if _ends_stage(event):
            yield from self._end_stage(key, opened)
        if isinstance(event, StageStarted):
            opened.stage = event
            return
        opened.data.update(_of_compression(event))
        yield self._event_span(event, opened.id)
        if outcome := _outcome(event):
            yield self._end(key, outcome, event)

    def _begin(self, event: Event) -> Iterator[EndedSpan]:
        if len(self._open) >= MOST_OPEN:
            yield from self._end_open(next(iter(self._open)))
        self._open[event.session_id] = _Open(self._new_id(), event.at, event.at)

    def _end_open(self, session: str) -> Iterator[EndedSpan]:
        opened = self._open.get(session)
        if opened is not None:
            yield from self._end_stage(session, opened)
            yield self._end(session, "left", None)

    def _end_stage(self, session: str, opened: _Open) -> Iterator[EndedSpan]:
        stage, opened.stage = opened.stage, None
        if stage is not None:
            yield EndedSpan(
                trace=self._trace(session),
                id=self._new_id(),
                parent=opened.id,
                name=f"compact.stage.{stage.stage}",
                kind="stage",
                start=stage.at,
                end=max(stage.at, opened.last),
                data=_data(stage),
            )

    def _end(self, session: str, outcome: str, event: Event | None) -> EndedSpan:
        opened = self._open.pop(session)
        return EndedSpan(
            trace=self._trace(session),
            id=opened.id,
            parent=None,
            name=COMPRESSION,
            kind="compression",
            start=opened.start,
            end=max(opened.start, opened.last),
            data={"outcome": outcome, **opened.data},
            error=event.error if isinstance(event, ErrorRaised) else "",
            events=0,
        )

    def _event_span(self, event: Event, parent: str | None) -> EndedSpan:
        return EndedSpan(
            trace=self._trace(event.session_id),
            id=self._new_id(),
            parent=parent,
            name=event.name,
            kind="event",
            start=event.at,
            end=event.at,
            data=_data(event),
            error=event.error if isinstance(event, ErrorRaised) else "",
        )

    def _trace(self, session: str) -> Trace:
        return Trace(session or self._calls, session or CALLS, session)

    def _new_id(self) -> str:
        self._count += 1
        seed = f"{self._begun}:{self._count}".encode()
        return hashlib.blake2b(seed, digest_size=8).hexdigest()


def _begins(event: Event, opened: _Open | None) -> bool:
    # A draft in the background has no trigger, so it begins with a stage.
    return _is_trigger(event) or (isinstance(event, StageStarted) and opened is None)


def _is_during(event: Event) -> bool:
    return isinstance(event, (*_DURING, ErrorRaised)) or _is_trigger(event)


def _ends_stage(event: Event) -> bool:
    return isinstance(event, _BETWEEN) or (isinstance(event, ErrorRaised) and _ends(event))


def _is_trigger(event: Event) -> bool:
    return isinstance(event, TriggerDecision) and event.triggered


def _ends(event: ErrorRaised) -> bool:
    return event.stage not in _NOT_ENDING


def _outcome(event: Event) -> str:
    """Return how the event ended its compression. It is empty if the compression continues."""
    match event:
        case Committed():
            return "committed"
        case DraftMade():
            return "drafted"
        case PrunedMessages(session_id=""):  # a call without a session commits nothing
            return "returned"
        case ErrorRaised() if _ends(event):
            return "failed"
        case _:
            return ""


def _of_compression(event: Event) -> dict[str, Any]:
    match event:
        case TriggerDecision(tokens=tokens, window=window, reason=reason, model=model):
            data = {"tokens_before": tokens, "window": window, "reason": reason, "model": model}
        case PrunedMessages():
            data = _data(event)
        case SummaryCreated(made_by=maker):
            data = {"made_by": maker}
        case ErrorRaised(stage=stage, message=message) if _ends(event):
            data = {"stage": stage, "message": message}
        case _:
            data = {}
    return {name: value for name, value in data.items() if not _is_empty(value)}


def _data(event: Event) -> dict[str, Any]:
    fields = event.as_dict()
    return {name: v for name, v in fields.items() if name not in _NOT_DATA and not _is_empty(v)}


def _is_empty(value: object) -> bool:
    return value is None or value in ("", (), {}, [])
