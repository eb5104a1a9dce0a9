"""What a session is about, in words: its checkpoints, or a summary that nobody needs yet.

Such a summary passes the gate like any other: it is shown to people and sent on, so it holds no
secret, and what a model wrote badly is replaced by the extractive one.
"""

from __future__ import annotations

from compact.compression.extraction.extractive import ExtractiveSummarizer
from compact.compression.gate.rules import Judged, judge
from compact.core.checkpoints import Summary, SummaryRequest
from compact.core.events import ErrorRaised, SummaryReplaced
from compact.core.messages import Message
from compact.managers.breaker import Breaker
from compact.managers.state import SessionState

SUMMARY_TOKENS = 800
"""Size of the summary that is written where no checkpoint exists yet."""


async def summary_of(state: SessionState, breaker: Breaker) -> str:
    """A summary of the whole history."""
    request = SummaryRequest(
        messages=tuple(map(_unpinned, state.history)),
        max_tokens=SUMMARY_TOKENS,
        max_instruction_tokens=SUMMARY_TOKENS // 3,
        mode=state.policy.mode,
        guidance=state.prompting.asked(state.policy).guidance,
        goals=tuple(goal.text for goal in state.goals if goal.status == "active"),
    )
    own = ExtractiveSummarizer(state.counter)
    try:
        written = await breaker.summarizer.summarize(request)
        judged = _judged(state, written, request)
        if judged.accepted:
            return judged.summary.text
        reason = "; ".join(f"{v.rule}: {v.detail}" for v in judged.verdicts if not v.passed)
    except Exception as error:  # noqa: BLE001 - somebody else's code: there is a summary without it
        state.emit(ErrorRaised(stage="summarize", error=type(error).__name__, message=str(error)))
        reason = f"{type(error).__name__}: {error}"
    state.emit(SummaryReplaced(made_by=own.name, reason=reason))
    return _judged(state, own.extracted(request), request).summary.text


def _judged(state: SessionState, written: Summary, request: SummaryRequest) -> Judged:
    tokens = sum(map(state.counter.message, request.messages))
    return judge(written, request, state.counter, source_tokens=tokens)


def _unpinned(message: Message) -> Message:
    """The message as one that a summary may tell of: nothing is covered by this one."""
    if not message.is_pinned:
        return message
    metadata = message.metadata.model_copy(update={"pinned": False, "protected": False})
    return message.model_copy(update={"metadata": metadata})
