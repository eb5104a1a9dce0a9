"""The pipeline: a compression as its six stages. Start reading here."""

from __future__ import annotations

from compact.compression import stages
from compact.core.checkpoints import Summary
from compact.core.events import STAGES, Stage, StageStarted
from compact.core.history import History
from compact.core.plan import Plan
from compact.core.policy import CompactPolicy
from compact.core.protocols import Emit, Summarizer


async def compress(
    history: History,
    policy: CompactPolicy,
    *,
    limit: int,
    aside: int,
    summarizer: Summarizer,
    emit: Emit,
    previous: Summary | None = None,
) -> Plan:
    """Fit the history into `limit` tokens, `aside` of which are taken by what stands beside the messages.

    Returns the plan with the new context. What fits comes back unchanged.

    Raises:
        CannotFit: what may not be shortened exceeds the limit.
        SummaryRejected: the result broke an invariant; the history is untouched.
    """
    total = total_within(history, limit - aside)
    if total is not None:
        return stages.unchanged(history, limit, aside, total + aside)
    emit(_started("identify"))
    selection = stages.identify(history, policy, limit, aside)
    emit(_started("prepare"))
    request = stages.prepare(selection, previous)
    emit(_started("summarize"))
    summary = await summarizer.summarize(request) if request else _receipt(selection)
    emit(_started("checkpoint"))
    emit(_started("update"))
    context = stages.update(selection, summary)
    emit(_started("validate"))
    stages.validate(context, selection, limit)
    before = None
    if history.counted() == len(history):
        before = aside + sum(history.tokens(i) for i in range(len(history)))
    return stages.report(selection, context, limit, before)


def total_within(history: History, limit: int) -> int | None:
    """Tokens of all messages, or None as soon as they exceed the limit; counts from the end."""
    total = 0
    for position in range(len(history) - 1, -1, -1):
        total += history.tokens(position)
        if total > limit:
            return None
    return total


def _receipt(selection: stages.Selection) -> Summary | None:
    return stages.receipt() if selection.layout.cut > len(selection.layout.fixed) else None


def _started(stage: Stage) -> StageStarted:
    return StageStarted(stage=stage, done=STAGES.index(stage) / len(STAGES))
