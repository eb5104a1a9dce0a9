"""The pipeline: a compression as its six stages. Start reading here."""

from __future__ import annotations

from dataclasses import dataclass

from compact.compression import stages
from compact.compression.stages import Budget, Carried
from compact.core.events import STAGES, Stage, StageStarted
from compact.core.history import History
from compact.core.plan import Plan
from compact.core.policy import CompactPolicy
from compact.core.protocols import Emit, Summarizer


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a compression yields: the plan with its context, and what to hand on to the next one."""

    plan: Plan
    carried: Carried | None = None


async def compress(
    history: History,
    policy: CompactPolicy,
    *,
    budget: Budget,
    summarizer: Summarizer,
    emit: Emit,
    carried: Carried | None = None,
) -> Outcome:
    """Fit the history into the budget. What fits comes back unchanged.

    `carried` is what an earlier compression of the same history handed on, so that nothing is summarized twice.

    Raises:
        CannotFit: what may not be shortened exceeds the limit.
        SummaryRejected: the result broke an invariant; the history is untouched.
    """
    total = total_within(history, budget.limit - budget.aside)
    if total is not None and (fits := stages.unchanged(history, budget, total + budget.aside)):
        return Outcome(fits, carried)
    emit(_started("identify"))
    selection = stages.identify(history, policy, budget, carried)
    emit(_started("prepare"))
    request = stages.prepare(selection, carried)
    emit(_started("summarize"))
    summary = await summarizer.summarize(request) if request else stages.receipt_for(selection)
    emit(_started("checkpoint"))
    read = stages.carry(selection, carried, summary) if request and summary else None
    emit(_started("update"))
    context = stages.update(selection, summary, read)
    emit(_started("validate"))
    stages.validate(context, selection)
    return Outcome(stages.report(selection, context), read)


def total_within(history: History, limit: int) -> int | None:
    """Tokens of all messages, or None as soon as they exceed the limit; counts from the end."""
    total = 0
    for position in range(len(history) - 1, -1, -1):
        total += history.tokens(position)
        if total > limit:
            return None
    return total


def _started(stage: Stage) -> StageStarted:
    return StageStarted(stage=stage, done=STAGES.index(stage) / len(STAGES))
