"""The pipeline: a compression as its six stages. Start reading here."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from compact.compression import reporting, stages
from compact.compression.stages import Budget, Carried
from compact.core.events import (
    STAGES,
    ErrorRaised,
    PrunedMessages,
    Stage,
    StageStarted,
    SummaryCreated,
    TokenEstimate,
)
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

    `carried` is what an earlier compression of the same history handed on, so that nothing is
    summarized twice.

    Raises:
        CannotFit: what may not be shortened exceeds the limit.
        SummaryRejected: the result broke an invariant; the history is untouched.
    """
    total = counted_until(history, budget.limit - budget.aside) + budget.aside
    emit(_estimate(history, budget, total))
    if total <= budget.limit and (fits := reporting.unchanged(history, budget, total)):
        return Outcome(fits, carried)
    with _stage("identify", emit):
        selection = stages.identify(history, policy, budget, carried)
    with _stage("prepare", emit):
        request = stages.prepare(selection, carried)
    with _stage("summarize", emit):
        written = await summarizer.summarize(request) if request else None
    with _stage("checkpoint", emit):
        read = stages.carry(selection, carried, written) if written else None
        draft = stages.draft(selection, written or stages.RECEIPT, read)
    with _stage("update", emit):
        context = stages.update(selection, draft, read)
    with _stage("validate", emit):
        stages.validate(context, selection)
    plan = reporting.report(selection, context)
    _tell(plan, emit)
    return Outcome(plan, read)


def counted_until(history: History, limit: int) -> int:
    """Tokens of all messages, or of the newest as soon as they exceed the limit."""
    total = 0
    for position in range(len(history) - 1, -1, -1):
        total += history.tokens(position)
        if total > limit:
            break
    return total


@contextmanager
def _stage(stage: Stage, emit: Emit) -> Iterator[None]:
    """Say that a stage begins, and if it fails, that and why."""
    emit(StageStarted(stage=stage, done=STAGES.index(stage) / len(STAGES)))
    try:
        yield
    except Exception as error:
        emit(ErrorRaised(stage=stage, error=type(error).__name__, message=str(error)))
        raise


def _estimate(history: History, budget: Budget, total: int) -> TokenEstimate:
    return TokenEstimate(
        tokens=total,
        limit=budget.limit,
        messages=len(history),
        tokenizer=history.counter.estimator.name,
        exact=history.counter.exact,
        complete=total <= budget.limit,
    )


def _tell(plan: Plan, emit: Emit) -> None:
    checkpoint = plan.checkpoint
    if checkpoint is not None:
        emit(
            SummaryCreated(
                checkpoint_id=checkpoint.id,
                messages=checkpoint.span.messages,
                source_tokens=checkpoint.span.tokens,
                tokens=checkpoint.token_count,
                made_by=checkpoint.made_by,
            )
        )
    emit(
        PrunedMessages(
            covered=plan.covered,
            masked=plan.count("masked"),
            clipped=plan.count("clipped"),
            tokens_before=plan.tokens_before,
            tokens_after=plan.tokens_after,
        )
    )
