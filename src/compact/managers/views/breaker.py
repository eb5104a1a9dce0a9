"""The circuit breaker: a summarizer that fails again and again (`Proposal.failed`) is left alone
for a while.

Meanwhile the extractive one writes, so that every turn is served. What it knows is kept with the
session under the summarizer's name, so that a restart does not begin the storm again, and another
summarizer is not blamed.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from compact.compression.extraction.extractive import ExtractiveSummarizer
from compact.compression.pipeline import Proposal
from compact.core import clock_and_ids
from compact.core.events import BreakerOpened
from compact.core.protocols import Summarizer
from compact.core.tokens import TokenCounter
from compact.managers.running.timeout_summarizer import TimeoutSummarizer, name_of
from compact.managers.session.state import SessionState

PREFIX = "breaker:"
"""How the note's name begins; the summarizer's name follows."""
MOST_FAILURES = 3
"""Failures in a row after which it opens."""
FIRST_PAUSE, LONGEST_PAUSE = timedelta(minutes=1), timedelta(hours=1)
"""How long it stays open the first time; each further time twice as long, up to the second."""


class Breaker:
    """Counts the failures in a row of the session's summarizer.

    It never opens for the extractive one: nothing else could take its place.
    """

    def __init__(self, state: SessionState) -> None:
        self._state = state
        self._is_last = isinstance(state.summarizer, ExtractiveSummarizer)
        self._name = f"{PREFIX}{name_of(state.summarizer)}"
        note: Mapping[str, Any] = state.store.notes(state.id).get(self._name, {})
        self.failures = int(note.get("failures", 0))
        self.until = datetime.fromisoformat(note["until"]) if note.get("until") else None
        self._pauses = int(note.get("pauses", 0))

    @property
    def is_open(self) -> bool:
        """Whether the summarizer is left alone now. A clock that went backwards cannot keep it open
        longer than its longest pause.
        """
        if self.until is None:
            return False
        left = self.until - clock_and_ids.now()
        return timedelta() < left <= LONGEST_PAUSE

    def summarizer(self, counter: TokenCounter) -> Summarizer:
        """Who writes now: the session's summarizer, within its time; while that is left alone, the
        extractive one, by that tokenizer.
        """
        if self._is_last or self.is_open:
            return ExtractiveSummarizer(counter)
        chosen = self._state.summarizer
        return (
            TimeoutSummarizer(chosen, self._state.policy.summary_seconds)
            if chosen.waits
            else chosen
        )

    def heard(self, proposal: Proposal) -> None:
        """Count what came of asking the summarizer. One that writes too long is asked again the
        next time, as if it had not been.
        """
        if proposal.failed:
            self.failed()
        elif proposal.asked > proposal.replaced:
            self.succeeded()

    def succeeded(self) -> None:
        """The summarizer has written what the gate accepted."""
        if self.failures or self._pauses:
            self.failures, self._pauses, self.until = 0, 0, None
            self._keep()

    def failed(self) -> None:
        """It has not; after some times in a row the breaker opens."""
        if self._is_last:
            return
        self.failures += 1
        if self.failures >= MOST_FAILURES:
            pause = min(FIRST_PAUSE * 2**self._pauses, LONGEST_PAUSE)
            self.until = clock_and_ids.now() + pause
            self._pauses = min(self._pauses + 1, 10)
            self._state.emit(BreakerOpened(failures=self.failures, until=self.until))
        self._keep()

    def _keep(self) -> None:
        until = self.until.isoformat() if self.until else None
        value = {"failures": self.failures, "until": until, "pauses": self._pauses}
        self._state.store.note(self._state.id, self._name, value if self.failures else None)
