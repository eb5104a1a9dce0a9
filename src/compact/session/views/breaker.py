"""Chooses what writes a session's summaries now, with a circuit breaker.

The breaker opens if a summarizer does not answer (`Proposal.is_down`), or if the gate refuses its
texts several times in a row (`Proposal.failed`). While it is open, the extractive summarizer
writes, so that every turn gets its prompt. The state is stored with the session under the
summarizer's name. So it survives a restart, and another summarizer starts afresh.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from compact.engine.chronology.extractive import ExtractiveSummarizer
from compact.messages import clock_and_ids
from compact.messages.checkpoints import SummaryRequest
from compact.messages.events import BreakerOpened, ErrorRaised, SummarizerChosen, SummaryReplaced
from compact.secrets.redaction import redact
from compact.session import running
from compact.session.running import TimeoutSummarizer, name_of

if TYPE_CHECKING:
    from compact.engine.pipeline import Proposal
    from compact.messages.protocols import Summarizer
    from compact.messages.tokens import TokenCounter
    from compact.session.state import SessionState

PREFIX = "breaker:"
"""The prefix of the stored note's name. The summarizer's name follows."""
MOST_FAILURES = 3
"""How many refused summaries in a row open the breaker. One missing answer is enough."""
FIRST_PAUSE, LONGEST_PAUSE = timedelta(minutes=1), timedelta(hours=1)
"""How long the breaker stays open the first time, and at most. The pause doubles each time in a
row."""


class Breaker:
    """Counts how often in a row the session's summarizer failed.

    The breaker never opens for the extractive summarizer, because nothing else could replace it.
    """

    def __init__(self, state: SessionState) -> None:
        self._state = state
        self._said: set[str] = set()
        """Reported choices of a writer, so that none is reported twice."""
        self.follow()

    def follow(self) -> None:
        """Load the stored state of the session's summarizer, which may have changed."""
        state = self._state
        self._is_last = isinstance(state.summarizer, ExtractiveSummarizer)
        self._name = f"{PREFIX}{name_of(state.summarizer)}"
        note: Mapping[str, Any] = state.store.notes(state.id).get(self._name, {})
        self.failures = int(note.get("failures", 0))
        self.until = datetime.fromisoformat(note["until"]) if note.get("until") else None
        self._pauses = int(note.get("pauses", 0))

    @property
    def is_open(self) -> bool:
        """Whether the summarizer is not asked now. If the clock was set back, the breaker stays
        open no longer than the longest pause.
        """
        if self.until is None:
            return False
        left = self.until - clock_and_ids.now()
        return timedelta() < left <= LONGEST_PAUSE

    def summarizer(self, counter: TokenCounter) -> Summarizer:
        """Return the summarizer to use now: the session's own with its time limit, or the
        extractive one while the breaker is open or the call must not wait. Report once whether the
        session's own model writes, or why not.
        """
        chosen, (_, own, why) = self._state.summarizer, self._state.writers
        cannot_wait = bool(own) and running.is_in_loop()
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
        """Record how the summarizer did. A summary that is only too long does not count."""
        if proposal.failed:
            self.failed(at_once=proposal.is_down)
        elif proposal.asked > proposal.replaced:
            self.succeeded()

    def succeeded(self) -> None:
        """Record that the gate accepted the summarizer's text, and close the breaker."""
        if self.failures or self._pauses:
            self.failures, self._pauses, self.until = 0, 0, None
            self._keep()

    def failed(self, *, at_once: bool = False) -> None:
        """Record a failure. Open the breaker after `MOST_FAILURES` in a row, or `at_once`."""
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


# --- a summary on request ------------------------------------------------------------------------

SUMMARY_TOKENS = 800
"""The longest summary, in tokens, when there is no checkpoint yet."""


async def summary_of(state: SessionState, breaker: Breaker) -> str:
    """Summarize the whole history, without secrets.

    The gate judges this summary like any other. If it refuses a model's text, the extractive
    summary is returned. Secrets are redacted in both, because people read and share summaries.
    """
    return redact(await _told(state, breaker), state.history.secrets).text


async def _told(state: SessionState, breaker: Breaker) -> str:
    from compact.engine.gate.rules import judge

    request = SummaryRequest(
        messages=tuple(map(state.history.redacted, range(len(state.history)))),
        max_tokens=SUMMARY_TOKENS,
        mode=state.policy.mode,
        guidance=state.prompting.asked(state.policy).guidance,
        goals=tuple(goal.text for goal in state.goals if goal.status == "active"),
    )
    own = ExtractiveSummarizer(state.counter)
    extracted = own.extracted(request)
    try:
        written = await breaker.summarizer(state.counter).summarize(request)
        if written.made_by == own.name:
            return written.text
        tokens = sum(map(state.counter.message, request.messages))
        judged = judge(written, request, state.counter, extracted=extracted, source_tokens=tokens)
        if judged.accepted:
            return written.text
        reason, rules = judged.reason, judged.rejected_by
    except Exception as error:  # noqa: BLE001 - somebody else's code: there is a summary without it
        state.emit(ErrorRaised.of(error, "summarize", serves="an extracted summary"))
        reason, rules = f"{type(error).__name__}: {error}", ()
    state.emit(SummaryReplaced(made_by=own.name, reason=reason, rules=rules))
    return extracted.text
