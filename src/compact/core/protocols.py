"""Every port of compact on one page: what the engine asks of the outside world.

Each has at most four methods; single-method ports are callables. Implementations live in providers,
storage and telemetry; their conformance suites in `compact.testing`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from compact.core.checkpoints import Summary, SummaryRequest
    from compact.core.events import Event

Clock = Callable[[], datetime]
"""The current time, with a time zone."""

IdFactory = Callable[[], str]
"""A fresh identifier, unique in its session."""

Emit = Callable[["Event"], None]
"""Hand an event to whoever listens; returns at once and never raises."""


@runtime_checkable
class TokenEstimator(Protocol):
    """Counts the tokens of a text for one tokenizer."""

    @property
    def name(self) -> str:
        """The tokenizer's name, for example `o200k`."""
        ...

    @property
    def exact(self) -> bool:
        """Whether the counts are those of the real tokenizer (else they are an estimate with a
        margin).
        """
        ...

    def count(self, text: str) -> int:
        """Tokens of the text; special tokens are plain text. Never negative; 0 for the empty
        string.
        """
        ...


@runtime_checkable
class Summarizer(Protocol):
    """Writes the summary that stands in for a span of history."""

    @property
    def name(self) -> str:
        """Who writes, for example `extractive`."""
        ...

    @property
    def waits(self) -> bool:
        """Whether summarizing may wait for something outside, such as a model."""
        ...

    def summarize(self, request: SummaryRequest) -> Awaitable[Summary]:
        """Summarize the request's messages within its token cap."""
        ...


@runtime_checkable
class Exporter(Protocol):
    """Carries events to an observer. May be slow or fail: the bus protects its caller."""

    def export(self, event: Event) -> None:
        """Take one event."""
        ...

    def close(self) -> None:
        """Send what is still queued and let go of resources."""
        ...
