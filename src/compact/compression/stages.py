"""The six stages of a compression, value to value: identify, prepare, summarize, checkpoint,
update, validate.

Each is a plain function of what the stages before it yielded; only the summarizer, which the
pipeline calls, may wait. Nothing is stored, and the history is never changed.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice

from compact.compression.ladder import Ladder, shortened
from compact.compression.layout import Layout
from compact.core.checkpoints import Checkpoint, Span, Summary, SummaryRequest, checkpoint_id
from compact.core.context import ActiveContext
from compact.core.history import History
from compact.core.messages import Message
from compact.core.policy import CompactPolicy
from compact.core.provider_rules import violations
from compact.core.voices import person_text
from compact.errors import CannotFit, SummaryRejected

RECEIPT = Summary(text="Earlier messages are not shown.", made_by="receipt")
"""What stands in for a span that nobody summarizes: the heading says how much is not shown."""
LEAST_RESERVE = 2_000
LARGEST_SHARE, LARGE_LIMIT_SHARE = 0.75, 0.45
SMALL_LIMIT = (3_000, 8_000)
"""Limits up to which a checkpoint may take the first of these shares, and from which the second."""
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
    """What the prompt may grow to for the sake of its newest group; None where the limit is all
    there is. A session aims at a limit below: it will grow again, so that there is no need to use
    the limit up either."""

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
        empty = Layout(limit)
        if carried:
            empty = Layout(limit, since=carried.cut, spared=carried.spared)
        layout = ladder.lay_out(empty, reserve, hard=hard)
    except CannotFit as error:
        raise CannotFit({**error.floor, "tools and framing": budget.aside}, budget.limit) from None
    if not layout.covers:
        ladder.fill(layout, layout.limit - layout.tokens, clip=budget.fill)
    return Selection(history, policy, ladder, layout, budget)


def _reserve(history: History, policy: CompactPolicy, limit: int) -> int:
    """Tokens set aside for the checkpoint: its share, and room for the instructions it must
    carry.
    """
    if policy.strategy != "task_state":
        return 64
    share = min(max(LEAST_RESERVE, int(policy.checkpoint_share * limit)), MOST_RESERVE)
    most = int(policy.instruction_share * limit)
    demand = min(_instruction_tokens(history, most), most)
    return min(share + demand, int(_largest_share(limit) * limit))


def _largest_share(limit: int) -> float:
    """The most a checkpoint may take: less of a larger limit, where more can be shown as it was."""
    small, large = SMALL_LIMIT
    way = min(1.0, max(0.0, (limit - small) / (large - small)))
    return LARGEST_SHARE + way * (LARGE_LIMIT_SHARE - LARGEST_SHARE)


def _instruction_tokens(history: History, most: int) -> int:
    """About how many tokens a person's instructions would take, counted no further than `most`."""
    total = 0
    for position in islice(history.persons(), MOST_PERSONS):
        total += history.instruction_tokens(position)
        if total > most:
            break
    return total


def prepare(selection: Selection, carried: Carried | None = None) -> SummaryRequest | None:
    """What the summarizer is asked for; None when the checkpoint would cover nothing."""
    layout, history = selection.layout, selection.history
    if selection.policy.strategy != "task_state" or not layout.covers:
        return None
    unread = _unread(layout, carried)
    source = sum(history.tokens(i) for i in unread) + (carried.tokens if carried else 0)
    room = layout.limit - layout.tokens - _heading_tokens(selection)
    cap = max(24, min(room, source))
    return SummaryRequest(
        messages=[history[i] for i in unread],
        kept=in_view(selection),
        answers=_answers(layout, history),
        first_request_kept=layout.first_request is not None,
        shortened=[history[i] for i in shortened(layout)],
        max_tokens=cap,
        max_instruction_tokens=min(cap, int(selection.policy.instruction_share * layout.limit)),
        strategy=selection.policy.strategy,
        previous=carried.summary if carried else None,
    )


def _answers(layout: Layout, history: History) -> dict[str, str]:
    """What a person, whose message stays in view, said to a message that does not."""
    found: dict[str, str] = {}
    for position in layout.held:
        asked = position - 1
        if 0 <= asked < layout.cut and asked not in layout.held and history.is_person(position):
            found[history[asked].id] = person_text(history[position])
    return found


def carry(selection: Selection, carried: Carried | None, summary: Summary) -> Carried:
    """What the next compression needs to know of this one. To be asked before `update` moves the
    cut.
    """
    layout, history = selection.layout, selection.history
    read = sum(history.tokens(i) for i in _unread(layout, carried))
    spared = frozenset(i for i in layout.held if i < layout.cut)
    return Carried(summary, layout.cut, spared, read + (carried.tokens if carried else 0))


def _unread(layout: Layout, carried: Carried | None) -> list[int]:
    """Covered positions that the summary before has not read yet, in the order of the log."""
    if carried is None:
        return list(layout.covered())
    released = sorted(i for i in carried.spared if i not in layout.held)
    return released + [i for i in range(carried.cut, layout.cut) if i not in layout.held]


def _heading_tokens(selection: Selection) -> int:
    return 40 + selection.history.counter.framing.per_message + SLACK


def in_view(selection: Selection) -> list[Message]:
    """The messages in view, in the order of the log; no checkpoint among them."""
    return [m for piece in selection.layout.pieces() for m in piece.messages]


def draft(selection: Selection, summary: Summary, read: Carried | None) -> Checkpoint | None:
    """The checkpoint that stands in for what the layout covers; None where it covers nothing.

    `read` is what the summary was made of.

    Raises:
        SummaryRejected: the summary is empty.
    """
    if not summary.text.strip():
        raise SummaryRejected(f"{summary.made_by} wrote an empty summary")
    history, layout = selection.history, selection.layout
    covered = layout.covers
    if not covered:
        return None
    first = _span_start(layout, history)
    tokens = None
    if read is not None:
        back = [i for i in range(layout.cut, read.cut) if i not in layout.held]
        tokens = read.tokens - sum(history.tokens(i) for i in back)
    span = Span(first=first, last=layout.cut - 1, messages=covered, tokens=tokens)
    checkpoint = Checkpoint(
        id=checkpoint_id(span, [history[i].id for i in (first, layout.cut - 1)], summary.text),
        span=span,
        summary=summary.text,
        kept=tuple(i for i in sorted(layout.held) if first <= i < layout.cut),
        anchors=summary.anchors,
        made_by=summary.made_by,
        until=history[layout.cut - 1].timestamp,
    )
    size = history.counter.message(checkpoint.message())
    return checkpoint.model_copy(update={"token_count": size})


def _redrafted(
    checkpoint: Checkpoint, selection: Selection, read: Carried | None
) -> Checkpoint | None:
    """The same summary over what the layout covers now."""
    text, names = checkpoint.summary, checkpoint.anchors
    return draft(selection, Summary(text=text, anchors=names, made_by=checkpoint.made_by), read)


def _span_start(layout: Layout, history: History) -> int:
    """The first position that is not a leading system message."""
    first = 0
    while (
        first < layout.cut
        and first in layout.held
        and history[first].role in ("system", "developer")
    ):
        first += 1
    return first


def update(
    selection: Selection, checkpoint: Checkpoint | None, read: Carried | None
) -> ActiveContext:
    """The new context: the checkpoint at its span's start, what is in view, and spare room used."""
    layout, counter = selection.layout, selection.history.counter
    if checkpoint is not None:
        cut, room = layout.cut, layout.limit - layout.tokens - checkpoint.token_count - SLACK
        if room > WORTH_FILLING * layout.limit:
            room = selection.ladder.fill(layout, room, clip=selection.budget.fill)
        if room > WORTH_FILLING * layout.limit and selection.budget.fill:
            selection.ladder.extend(layout, room)
        if layout.cut != cut:
            checkpoint = _redrafted(checkpoint, selection, read)
        if checkpoint is None:  # all is in view after all: its room is free again
            room = layout.limit - layout.tokens
            selection.ladder.fill(layout, room, clip=selection.budget.fill)
    messages = in_view(selection)
    if checkpoint is not None:
        lead = sum(1 for i in layout.held if i < checkpoint.span.first)
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
        raise SummaryRejected(
            f"the new context has {context.tokens:,} tokens, the limit is {limit:,}"
        )
    broken = violations(context.messages, selection.history.wire.rules)
    pairing = [x for x in broken if "call" in x or "result" in x]
    if pairing:
        raise SummaryRejected(f"the new context would be refused: {pairing[0]}")
    return context
