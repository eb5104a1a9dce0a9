"""Who writes a session's summaries now, and the circuit breaker: a summarizer that does not answer
(`Proposal.is_down`), or whose stories are refused again and again (`Proposal.failed`), is left
alone for a while.

Meanwhile the extractive one writes, so that every turn is served. What the breaker knows is kept
with the session under the summarizer's name, so that a restart does not begin the storm again, and
another summarizer is not blamed.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from compact.engine.chronology.extractive import ExtractiveSummarizer
from compact.messages import clock_and_ids
from compact.messages.events import BreakerOpened, SummarizerChosen
from compact.session.running import blocking
from compact.session.running.timeout_summarizer import TimeoutSummarizer, name_of

if TYPE_CHECKING:
    from compact.engine.pipeline import Proposal
    from compact.messages.protocols import Summarizer
    from compact.messages.tokens import TokenCounter
    from compact.session.state import SessionState

PREFIX = "breaker:"
"""How the note's name begins; the summarizer's name follows."""
MOST_FAILURES = 3
"""Refused stories in a row after which it opens; one answer that never came is enough."""
FIRST_PAUSE, LONGEST_PAUSE = timedelta(minutes=1), timedelta(hours=1)
"""How long it stays open the first time; each further time twice as long, up to the second."""


class Breaker:
    """Counts the failures in a row of the session's summarizer.

    It never opens for the extractive one: nothing else could take its place.
    """

    def __init__(self, state: SessionState) -> None:
        self._state = state
        self._said: set[str] = set()
        """What was said already of who writes."""
        self.follow()

    def follow(self) -> None:
        """Go by what is known of the session's summarizer, which may be another one now."""
        state = self._state
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
        extractive one, by that tokenizer. It is said once where that is the session's own model,
        and why it is not.
        """
        chosen, (_, own, why) = self._state.summarizer, self._state.writers
        cannot_wait = bool(own) and blocking.is_in_loop()
        if cannot_wait:
            own, why = "", f"this call blocks an event loop, and does not wait for {own} there"
        self._say(own, why)
        if self._is_last or self.is_open or cannot_wait:
            return ExtractiveSummarizer(counter)
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
            self.failed(at_once=proposal.is_down)
        elif proposal.asked > proposal.replaced:
            self.succeeded()

    def succeeded(self) -> None:
        """The summarizer has written what the gate accepted."""
        if self.failures or self._pauses:
            self.failures, self._pauses, self.until = 0, 0, None
            self._keep()

    def failed(self, *, at_once: bool = False) -> None:
        """It has not; after some times in a row the breaker opens, or `at_once`."""
        if self._is_last:
            return
        self.failures += 1
        if at_once or self.failures >= MOST_FAILURES:
            pause = min(FIRST_PAUSE * 2**self._pauses, LONGEST_PAUSE)
            self.until = clock_and_ids.now() + pause
            self._pauses = min(self._pauses + 1, 10)
            self._state.emit(BreakerOpened(failures=self.failures, until=self.until))
        self._keep()

    def _say(self, own: str, why: str) -> None:
        if (said := own or why) and said not in self._said:
            self._said.add(said)
            self._state.emit(SummarizerChosen(model=own, reason=why))

    def _keep(self) -> None:
        until = self.until.isoformat() if self.until else None
        value = {"failures": self.failures, "until": until, "pauses": self._pauses}
        self._state.store.note(self._state.id, self._name, value if self.failures else None)
