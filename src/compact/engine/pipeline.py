"""The pipeline: a compression as its six stages. Start reading here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from compact.engine import shorten
from compact.engine.checkpoint import RECEIPT, draft
from compact.engine.chronology.extractive import ExtractiveSummarizer
from compact.engine.gate.rules import STANDS_IN as STANDS_IN
from compact.engine.gate.rules import Judged, by_person, judged_or_extracted
from compact.engine.groups import groups_of
from compact.engine.history import History, newest
from compact.engine.identify import Selection, identify
from compact.engine.inputs import ONE_CALL, Budget, Standing
from compact.engine.plan import Plan, Rung, plan_of
from compact.engine.prepare import Task, prepare
from compact.engine.summarize import Answer, all_asked, is_down
from compact.engine.update import exchanged, pieces_in_order, update
from compact.engine.validate import report, validate
from compact.errors import NotFound, SummaryRejected, failing_at
from compact.messages import clock_and_ids
from compact.messages.alternation import seams_of
from compact.messages.checkpoints import Checkpoint
from compact.messages.context import ActiveContext
from compact.messages.events import (
    STAGES,
    Event,
    PrunedMessages,
    Stage,
    StageStarted,
    SummaryCreated,
    TokenEstimate,
)
from compact.messages.messages import Message
from compact.messages.policy import CompactPolicy
from compact.messages.protocols import Emit, Summarizer
from compact.messages.sessions import Piece


class Drafted(NamedTuple):
    """The parts of a proposal, kept so that the user may rewrite summaries."""

    selection: Selection
    rows: Sequence[tuple[Task, Judged]]


@dataclass(frozen=True, slots=True)
class Proposal:
    """The result of a compression: the plan with its context, and the pieces to build it again.
    Nothing changes until the caller commits it.
    """

    plan: Plan
    at: int
    """How many messages the history had at the start."""
    number: int = 1
    """How many compressions led to this result. Those of another window count if its checkpoints
    were taken over."""
    cut: int = 0
    kept: tuple[int, ...] = ()
    pieces: tuple[Piece, ...] = ()
    asked: int = 0
    """How many summaries the summarizer was asked for."""
    replaced: int = 0
    """How many summaries were replaced by extracted ones: none came, or the gate refused it."""
    failed: int = 0
    """How many answers count as failures: those that were not merely too long."""
    is_down: bool = False
    """Whether the summarizer did not answer at all."""
    news: tuple[Event, ...] = ()
    """Events to emit when the result is committed."""
    drafted: Drafted | None = field(default=None, repr=False)
    """The parts from which it was made. None if everything fits."""

    def tell(self, emit: Emit) -> None:
        """Emit the events. Call it once the result is committed."""
        for event in self.news:
            emit(event.model_copy(update={"at": clock_and_ids.now()}))

    @property
    def checkpoints(self) -> tuple[Checkpoint, ...]:
        """The live checkpoints, oldest span first."""
        return self.plan.context.checkpoints


async def compress(
    history: History,
    policy: CompactPolicy,
    *,
    budget: Budget,
    summarizer: Summarizer,
    emit: Emit,
    standing: Standing = ONE_CALL,
) -> Proposal:
    """Fit the history into the budget. A history that fits comes back unchanged. `standing` is the
    state of a session: what its earlier compressions covered stays covered, and its checkpoints
    age.

    Raises:
        CannotFit: what may not be shortened exceeds the limit.
        SummaryRejected: the result broke an invariant.
        CompressionFailed: a stage failed. The error names it. Nothing was changed.
    """
    at, number = len(history), standing.number + 1
    if not (standing.cut or standing.live):
        overhead = budget.overhead_tokens
        _, counted = newest(history, range(at), budget.limit - overhead)
        total = overhead + counted
        emit(_estimate(history, budget, total, complete=total <= budget.limit))
        if total <= budget.limit and (fits := unchanged(history, budget, total)):
            pieces = pieces_in_order(history, fits.context)
            return Proposal(fits, at, number, pieces=pieces)
    else:
        emit(_estimate(history, budget, standing.tokens, complete=True))
    with _stage("identify", emit):
        by_code = summarizer.name == ExtractiveSummarizer.name
        standing = replace(standing, by_model=summarizer.waits, by_code=by_code)
        selection, at = _selected(history, policy, budget, standing)
    with _stage("prepare", emit):
        tasks = prepare(selection)
    with _stage("summarize", emit):
        texts = await all_asked(summarizer, [task.request for task in tasks], emit)
    with _stage("checkpoint", emit):
        drafts = [(t, _judged(t, x, selection, emit)) for t, x in zip(tasks, texts, strict=True)]
    with _stage("update", emit):
        context, pieces = update(selection, drafts)
    with _stage("validate", emit):
        validate(context, selection)
        plan = report(selection, context)
    stand_ins = [x for _, x in drafts if any(v.rule == STANDS_IN for v in x.verdicts)]
    return Proposal(
        plan,
        at,
        number,
        cut=selection.layout.cut,
        kept=tuple(sorted(i for i in selection.layout.held if i < selection.layout.cut)),
        pieces=pieces,
        asked=sum(1 for task in tasks if task.request is not None),
        replaced=len(stand_ins),
        failed=sum(1 for x in stand_ins if not (x.instead_of and x.instead_of.is_too_long)),
        is_down=any(map(is_down, texts)),
        news=tuple(news_of(selection.standing.live, plan)),
        drafted=Drafted(selection, drafts),
    )


def rewritten(proposal: Proposal, stories: Mapping[str, str]) -> Proposal:
    """Return the proposal with summaries that the user wrote, by the ids of new checkpoints. The
    gate judges them within the same budget.

    Raises:
        NotFound: there is no such checkpoint, or it is only a receipt.
        SummaryRejected: the gate refuses a summary, or the context no longer fits.
    """
    found, tasks, others = proposal.drafted, _tasks(proposal), dict[str, Checkpoint]()
    if found is None or not stories:
        return proposal
    selection, rooms = found.selection, rooms_of(proposal)
    for id, story in stories.items():
        task = tasks.get(id)
        if task is None or task.request is None:
            raise NotFound(f"checkpoint {id!r} holds no story of this proposal that can be edited")
        request = task.request.model_copy(update={"max_tokens": rooms[id]})
        count, size = selection.history.counter, task.source_tokens
        judged = by_person(story, request, count, source_tokens=size)
        if not judged.accepted:
            raise SummaryRejected(f"the summary given for {id} cannot be used: {judged.reason}")
        others[id] = draft(selection, task, judged)
    own, before = selection.history.own, proposal.plan.context
    context, pieces = exchanged(before, proposal.pieces, others, own)
    validate(context, selection)
    plan = report(selection, context)
    return replace(
        proposal, plan=plan, pieces=pieces, news=tuple(news_of(selection.standing.live, plan))
    )


def rooms_of(proposal: Proposal) -> dict[str, int]:
    """Return the tokens that a user's summary may have, by checkpoint id."""
    if proposal.drafted is None:
        return {}
    caps = proposal.drafted.selection.standing.caps
    asked = {id: (task.level, task.request) for id, task in _tasks(proposal).items()}
    return {
        id: max(request.max_tokens, request.stand_in_tokens or 0, caps.of(level))
        for id, (level, request) in asked.items()
        if request is not None
    }


def _tasks(proposal: Proposal) -> dict[str, Task]:
    if proposal.drafted is None:
        return {}
    selection, rows = proposal.drafted
    return {draft(selection, *row).id: row[0] for row in rows}


def _selected(
    history: History, policy: CompactPolicy, budget: Budget, standing: Standing
) -> tuple[Selection, int]:
    """Choose what stays. If another thread appended meanwhile, choose again, up to twice. After
    that, the commit refuses the mixture.
    """
    for _ in range(3):
        at = len(history)
        selection = identify(history, policy, budget, standing)
        if len(history) == at:
            break
    return selection, at


def _judged(task: Task, written: Answer, selection: Selection, emit: Emit) -> Judged:
    if task.request is None:
        return RECEIPT
    history = selection.history
    return judged_or_extracted(
        written,
        task.request,
        history.counter,
        source_tokens=task.source_tokens,
        secrets=history.secrets,
        emit=emit,
    )


@contextmanager
def _stage(stage: Stage, emit: Emit) -> Iterator[None]:
    """Announce a stage, and name the stage in any error that it raises."""
    emit(StageStarted(stage=stage, done=STAGES.index(stage) / len(STAGES)))
    with failing_at(stage):
        yield


def _estimate(history: History, budget: Budget, total: int, *, complete: bool) -> TokenEstimate:
    return TokenEstimate(
        tokens=total,
        limit=budget.limit,
        messages=len(history),
        tokenizer=history.counter.estimator.name,
        exact=history.counter.exact,
        complete=complete,
        beside=dict(budget.overhead),
    )


def news_of(live: Sequence[Checkpoint], plan: Plan) -> Iterator[Event]:
    """Yield the events of a compression that takes over these checkpoints."""
    before = {c.id for c in live}
    for checkpoint in (c for c in plan.context.checkpoints if c.id not in before):
        yield SummaryCreated(
            checkpoint_id=checkpoint.id,
            messages=checkpoint.span.messages,
            source_tokens=checkpoint.span.tokens,
            tokens=checkpoint.token_count,
            made_by=checkpoint.made_by,
            seconds=checkpoint.seconds,
            level=checkpoint.level,
            summary=checkpoint.summary,
        )
    yield PrunedMessages(
        covered=plan.covered,
        masked=plan.count("masked"),
        clipped=plan.count("clipped"),
        tokens_before=plan.tokens_before,
        tokens_after=plan.tokens_after,
        kept=plan.count("kept") + plan.count("pinned"),
        pinned=plan.count("pinned"),
    )


def unchanged(history: History, budget: Budget, total: int) -> Plan | None:
    """Return the plan for a prompt of `total` tokens that fits. Only calls without results are
    closed. Return None if the prompt no longer fits after that.
    """
    before, notes = total, 0
    messages: list[tuple[int | None, Message]] = []
    for group in groups_of(history):
        whole = [history.shown(i) for i in group]
        shown, places = shorten.closed(whole), {m.id: i for i, m in zip(group, whole, strict=True)}
        if shown != whole:
            total -= sum(history.tokens(i) for i in group)
            total += sum(map(history.counter.message, shown))
            notes += 1
        messages += [(places.get(message.id), message) for message in shown]
    if total > budget.limit:
        return None
    why = "calls without a result were answered by a note, results without a call became one"
    closing = Rung(name="close", why=why, messages=notes, freed=before - total)
    return plan_of(
        history,
        ActiveContext(
            messages=tuple(message for _, message in messages),
            seams=seams_of(messages) if notes else (),
            tokens=total,
        ),
        limit=budget.limit,
        tokens_before=before,
        floor=budget.floor({}),
        rungs=(closing,) if notes else (),
        fates=dict.fromkeys(range(len(history)), "kept"),
    )
