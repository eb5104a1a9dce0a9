"""What a session is about, in words: its checkpoints, or a story that nobody needs yet.

Such a story passes the gate like any other: what a model wrote badly is replaced by the extractive
one. It is shown to people and sent on, so secrets in it are redacted, whoever wrote it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from compact.engine.chronology.extractive import ExtractiveSummarizer
from compact.messages.checkpoints import SummaryRequest
from compact.messages.events import ErrorRaised, SummaryReplaced
from compact.secrets.redaction import redact

if TYPE_CHECKING:
    from compact.session.state import SessionState
    from compact.session.views.breaker import Breaker

SUMMARY_TOKENS = 800
"""Size of the summary that is written where no checkpoint exists yet."""


async def summary_of(state: SessionState, breaker: Breaker) -> str:
    """A summary of the whole history, without secrets."""
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
