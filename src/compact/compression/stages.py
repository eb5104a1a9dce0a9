"""The six stages of a compression, value to value: identify, prepare, summarize, checkpoint, update, validate.

Each is a plain function of what the stages before it yielded; only the summarizer, which the pipeline calls, may wait.
Nothing is stored, and the history is never changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from compact.compression import shorten
from compact.compression.ladder import Ladder, Layout
from compact.core.boundaries import may_cut_before
from compact.core.checkpoints import Checkpoint, Span, Summary, SummaryRequest, checkpoint_id
from compact.core.context import ActiveContext
from compact.core.groups import groups_of
from compact.core.history import History
from compact.core.messages import Message
from compact.core.partition import partition, turns
from compact.core.plan import Fate, Plan, Rung
from compact.core.policy import CompactPolicy
from compact.core.provider_rules import violations
from compact.errors import CannotFit, SummaryRejected

LEAST_RESERVE = 2_000
LARGEST_SHARE = 0.75
MOST_RESERVE = 12_000
SLACK = 12
"""Tokens kept free for the heading's counts to change by a digit."""
MOST_PERSONS = 500
"""Messages of a person that are asked for instructions when room is set aside for them."""
WORTH_FILLING = 0.03


@dataclass(frozen=True, slots=True)
class Budget:
    """The tokens of a prompt, and how many of them are taken by what stands beside the messages."""

    limit: int
    aside: int
    """Tool schemas, a system prompt in a field of its own, the priming of the reply."""
    hard: int | None = None
    """What the prompt may grow to for the sake of its newest group; None where the limit is all there is. A session aims
    at a limit below: it will grow again, so that there is no need to use the limit up either."""

    @property
    def fill(self) -> bool:
        """Whether to use the limit up, clipping at the cut."""
        return self.hard is None


@dataclass(frozen=True, slots=True)
class Carried:
    """A summary that is carried on: what it has read, so that nothing is read twice."""

    summary: Summary
    cut: int
    """Everything before it was read, except ..."""
    spared: frozenset[int]
    """... these positions, which were kept."""
    tokens: int


@dataclass(frozen=True, slots=True)
class Selection:
    """What `identify` chose: the layout, and the ladder that can still change it."""

    history: History
    policy: CompactPolicy
    ladder: Ladder
    layout: Layout
    budget: Budget


def identify(
    history: History, policy: CompactPolicy, budget: Budget, carried: Carried | None
) -> Selection:
    """Choose what stays in view. What a summary that is carried on has covered stays covered.

    Raises:
        CannotFit: what may not be shortened exceeds the limit.
    """
    ladder = Ladder(history, policy)
    limit = budget.limit - budget.aside
    try:
        hard = (budget.hard or budget.limit) - budget.aside
        reserve = _reserve(history, policy, limit)
        since = carried.cut if carried else 0
        layout = ladder.lay_out(limit, reserve, hard=hard, since=since)
    except CannotFit as error:
        raise CannotFit({**error.floor, "tools and framing": budget.aside}, budget.limit) from None
    if layout.cut <= _fixed_before_cut(layout):
        ladder.fill(layout, layout.limit - layout.tokens, clip=budget.fill)
    return Selection(history, policy, ladder, layout, budget)


def _reserve(history: History, policy: CompactPolicy, limit: int) -> int:
    """Tokens set aside for the checkpoint: its share, and room for the instructions it must carry."""
    if policy.strategy != "task_state":
        return 64
    share = min(max(LEAST_RESERVE, int(policy.checkpoint_share * limit)), MOST_RESERVE)
    most = int(policy.instruction_share * limit)
    demand = min(_instruction_tokens(history, most), most)
    return min(share + demand, int(LARGEST_SHARE * limit))


def _instruction_tokens(history: History, most: int) -> int:
    """About how many tokens a person's instructions would take, counted no further than `most`."""
    total = 0
    for position in islice(history.persons(), MOST_PERSONS):
        total += history.instruction_tokens(position)
        if total > most:
            break
    return total


def _fixed_before_cut(layout: Layout) -> int:
    return sum(1 for i in layout.fixed if i < layout.cut)


def prepare(selection: Selection, carried: Carried | None = None) -> SummaryRequest | None:
    """What the summarizer is asked for; None when the checkpoint would cover nothing."""
    layout, history = selection.layout, selection.history
    if selection.policy.strategy != "task_state" or layout.cut <= _fixed_before_cut(layout):
        return None
    unread = _unread(layout, carried)
    source = sum(history.tokens(i) for i in unread) + (carried.tokens if carried else 0)
    room = layout.limit - layout.tokens - _heading_tokens(selection)
    cap = max(24, min(room, source))
    return SummaryRequest(
        messages=[history[i] for i in unread],
        kept=list(in_view(selection)),
        first_request_kept=layout.first_request is not None,
        shortened=[history[i] for i in selection.ladder.shortened(layout)],
        max_tokens=cap,
        max_instruction_tokens=min(cap, int(selection.policy.instruction_share * layout.limit)),
        strategy=selection.policy.strategy,
        previous=carried.summary if carried else None,
    )


def carry(selection: Selection, carried: Carried | None, summary: Summary) -> Carried:
    """What the next compression needs to know of this one. To be asked before `update` moves the cut."""
    layout, history = selection.layout, selection.history
    read = sum(history.tokens(i) for i in _unread(layout, carried))
    spared = frozenset(i for i in layout.fixed if i < layout.cut)
    return Carried(summary, layout.cut, spared, read + (carried.tokens if carried else 0))


def _unread(layout: Layout, carried: Carried | None) -> list[int]:
    """Covered positions that the summary before has not read yet, in the order of the log."""
    if carried is None:
        return layout.covered()
    released = sorted(i for i in carried.spared if i not in layout.fixed)
    return released + [i for i in range(carried.cut, layout.cut) if i not in layout.fixed]


def _heading_tokens(selection: Selection) -> int:
    return 40 + selection.history.counter.framing.per_message + SLACK


def in_view(selection: Selection) -> Sequence[Message]:
    """The messages in view, in the order of the log, closed as providers accept them; no checkpoint among them."""
    history, layout = selection.history, selection.layout
    rows: list[tuple[int, list[Message]]] = []
    for piece in layout.tail:
        shown = [i for i in piece.group if i not in layout.fixed]
        rows.append((shown[0] if shown else piece.group.start, piece.messages))
    blocks: list[list[int]] = []
    for i in sorted(layout.fixed):
        if blocks and blocks[-1][-1] == i - 1 and not may_cut_before(history, i):
            blocks[-1].append(i)
        else:
            blocks.append([i])
    rows += [(block[0], shorten.closed([history[i] for i in block])) for block in blocks]
    rows.sort(key=lambda row: row[0])
    return [m for _, messages in rows for m in messages]


def make_checkpoint(selection: Selection, summary: Summary, read: Carried | None) -> Checkpoint:
    """The checkpoint that stands in for what the layout covers; `read` is what the summary was made of."""
    history, layout = selection.history, selection.layout
    first = _span_start(layout, history)
    tokens = None
    if read is not None:
        back = [i for i in range(layout.cut, read.cut) if i not in layout.fixed]
        tokens = read.tokens - sum(history.tokens(i) for i in back)
    covered = layout.cut - _fixed_before_cut(layout)
    span = Span(first=first, last=layout.cut - 1, messages=covered, tokens=tokens)
    checkpoint = Checkpoint(
        id=checkpoint_id(span, [history[i].id for i in (first, layout.cut - 1)]),
        span=span,
        summary=summary.text,
        kept_ids=tuple(history[i].id for i in sorted(layout.fixed) if first <= i < layout.cut),
        anchors=summary.anchors,
        made_by=summary.made_by,
    )
    size = history.counter.message(checkpoint.message())
    return checkpoint.model_copy(update={"token_count": size})


def _span_start(layout: Layout, history: History) -> int:
    """The first position that is not a leading system message."""
    first = 0
    while first < layout.cut and first in layout.fixed and history[first].role in ("system", "developer"):
        first += 1
    return first


def receipt_for(selection: Selection) -> Summary | None:
    """What stands in for a span when nobody summarizes it: the heading says what is not shown."""
    if selection.layout.cut <= _fixed_before_cut(selection.layout):
        return None
    return Summary(text="Earlier messages are not shown.", made_by="receipt")


def update(selection: Selection, summary: Summary | None, read: Carried | None) -> ActiveContext:
    """The new context: the checkpoint at its span's start, what is in view, and room that was left put to use."""
    layout, counter = selection.layout, selection.history.counter
    checkpoint = make_checkpoint(selection, summary, read) if summary else None
    if summary and checkpoint:
        room = layout.limit - layout.tokens - checkpoint.token_count - SLACK
        least = WORTH_FILLING * layout.limit
        if room > least:
            room = selection.ladder.fill(layout, room, clip=selection.budget.fill)
        if room > least and selection.budget.fill:
            selection.ladder.extend(layout, room)
        everything = layout.cut <= _fixed_before_cut(layout)
        checkpoint = None if everything else make_checkpoint(selection, summary, read)
    messages = list(in_view(selection))
    if checkpoint is not None:
        lead = sum(1 for i in layout.fixed if i < checkpoint.span.first)
        messages.insert(lead, checkpoint.message())
    return ActiveContext(
        messages=tuple(messages),
        tokens=selection.budget.aside + sum(map(counter.message, messages)),
        checkpoints=(checkpoint,) if checkpoint else (),
    )


def validate(context: ActiveContext, selection: Selection) -> ActiveContext:
    """The context itself, once it is proven to fit and to keep to the provider's rules.

    Raises:
        SummaryRejected: it does not; the context before stays as it was.
    """
    limit = max(selection.budget.hard or 0, selection.budget.limit)
    if context.tokens > limit:
        raise SummaryRejected(f"the new context has {context.tokens:,} tokens, the limit is {limit:,}")
    broken = violations(context.messages, selection.history.wire.rules)
    pairing = [x for x in broken if "call" in x or "result" in x]
    if pairing:
        raise SummaryRejected(f"the new context would be refused: {pairing[0]}")
    return context


def report(selection: Selection, context: ActiveContext) -> Plan:
    """The plan that says what was done, rung by rung."""
    history, layout, budget = selection.history, selection.layout, selection.budget
    before = None
    if history.counted() == len(history):
        before = budget.aside + history.total()
    fates: dict[int, Fate] = {}
    pinned = set(history.fixed)
    for position in layout.fixed:
        fates[position] = "pinned" if position in pinned else "kept"
    for piece in layout.tail:
        fate: Fate = "kept" if piece.form == "verbatim" else piece.form
        fates.update({i: fate for i in piece.group if i not in layout.fixed})
    return Plan(
        limit=budget.limit,
        tokens_before=before,
        tokens_after=context.tokens,
        messages_before=len(history),
        floor={**layout.floor, "tools and framing": selection.budget.aside},
        rungs=tuple(_rungs(selection, context)),
        fates=fates,
        parts=partition(history, selection.policy).sizes(),
        context=context,
        tokenizer=history.counter.estimator.name,
        exact=history.counter.exact,
    )


def _rungs(selection: Selection, context: ActiveContext) -> list[Rung]:
    layout, policy = selection.layout, selection.policy
    rungs: list[Rung] = []
    masked = [p for p in layout.tail if p.form == "masked"]
    if masked:
        freed = sum(p.whole - p.tokens for p in masked)
        why = "tool output that is not among the newest became stubs"
        rungs.append(Rung(name="mask", why=why, messages=sum(len(p.messages) for p in masked), freed=freed))
    checkpoint = context.checkpoints[-1] if context.checkpoints else None
    if checkpoint is not None:
        tokens = checkpoint.span.tokens
        freed_by = None if tokens is None else tokens - checkpoint.token_count
        what = "a receipt" if checkpoint.made_by == "receipt" else f"a checkpoint ({checkpoint.made_by})"
        why = f"masking was not enough; what came before message {layout.cut + 1:,} became {what} of {checkpoint.token_count:,} tokens"
        rungs.append(Rung(name="summarize", why=why, messages=checkpoint.span.messages, freed=freed_by))
    if layout.recent < layout.cut:
        wanted, seen = policy.keep_recent_turns, _turns_in_view(selection)
        why = f"recent turns in view as a whole: {seen} instead of {wanted}; the turn before is cut between groups"
        rungs.append(Rung(name="lower keep counts", why=why, messages=layout.cut - layout.recent, freed=0))
    if layout.users_kept < layout.users_wanted:
        why = f"messages of a person kept word for word: {layout.users_kept} instead of {layout.users_wanted}"
        rungs.append(Rung(name="lower keep counts", why=why, messages=layout.users_wanted - layout.users_kept, freed=0))
    clipped = [p for p in layout.tail if p.form == "clipped"]
    if clipped:
        freed = sum(p.whole - p.tokens for p in clipped)
        why = "one oversized group kept its head and tail"
        rungs.append(Rung(name="clip", why=why, messages=sum(len(p.messages) for p in clipped), freed=freed))
    return rungs


def _turns_in_view(selection: Selection) -> int:
    whole = 0
    for turn in turns(selection.history):
        if turn.start < selection.layout.cut:
            break
        whole += 1
    return whole


def unchanged(history: History, budget: Budget, total: int) -> Plan | None:
    """The plan for a prompt that fits: nothing is done but closing calls that nobody answered.

    `total` are the prompt's tokens as it is. None where it no longer fits with those calls closed.
    """
    messages: list[Message] = []
    for group in groups_of(history):
        whole = [history[i] for i in group]
        shown = shorten.closed(whole)
        if shown != whole:
            total -= sum(history.tokens(i) for i in group)
            total += sum(map(history.counter.message, shown))
        messages += shown
    if total > budget.limit:
        return None
    context = ActiveContext(messages=tuple(messages), tokens=total)
    return Plan(
        limit=budget.limit,
        tokens_before=total,
        tokens_after=total,
        messages_before=len(history),
        floor={"tools and framing": budget.aside},
        context=context,
        fates={i: "kept" for i in range(len(history))},
        tokenizer=history.counter.estimator.name,
        exact=history.counter.exact,
    )
