"""The short way of a session without summaries: its oldest groups are dropped.

The pipeline chooses anew from all that is in view. Without summaries the outcome is nearly what was
in view before, less the oldest groups, so only these are looked at. The ladder says what stays
whatever its age. The pipeline makes a first compression, and shows what was pinned after it had
gone or was cut.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from compact.engine.checkpoint import RECEIPT, sized
from compact.engine.checkpoint_levels import Ageing
from compact.engine.history import History
from compact.engine.identify import RECEIPT_TOKENS, Selection
from compact.engine.inputs import Budget, Standing
from compact.engine.ladder import Ladder, Layout, Piece
from compact.engine.pipeline import Proposal, news_of
from compact.engine.prepare import SLACK
from compact.engine.prompt_order import pieces_of
from compact.engine.shorten import is_answer
from compact.engine.validate import report
from compact.errors import CannotFit
from compact.messages.alternation import Placed, is_gap, seams_of, with_gaps
from compact.messages.boundaries import may_cut_before, violations
from compact.messages.checkpoints import Checkpoint, Span
from compact.messages.context import ActiveContext
from compact.messages.messages import Message
from compact.messages.policy import CompactPolicy

Rows = list[tuple[int | None, Message]]


def without_oldest(
    history: History, policy: CompactPolicy, budget: Budget, standing: Standing, shown: Placed
) -> Proposal | None:
    """Return `shown`, what is in view in a session without summaries, without the oldest groups
    that do not fit the limit. None if the pipeline has to choose.
    """
    before = _receipt_in_view(standing)
    if before is None or standing.pressure != "none" or history.compacted >= 0:
        return None
    hard, beside = budget.hard or budget.limit, budget.overhead_tokens
    layout = Layout(budget.limit - beside, since=standing.cut, spared=standing.kept)
    ladder = Ladder(history, policy)
    try:
        ladder.hold(layout, lambda _: RECEIPT_TOKENS, hard=hard - beside, words=budget.words)
    except CannotFit:
        return None
    last = ladder.newest(layout)
    if last is None or not _are_shown(layout, shown):
        return None
    sizes = _sizes(history, shown)
    _cut(history, layout, sizes, standing.tokens - (layout.limit + beside - SLACK), last.start)
    gone = {i for i in sizes if i < layout.cut and i not in layout.held}
    receipt = _receipt(history, before, layout, gone)
    rows = list(_rest(shown, gone, before.id, receipt.message(history.own)))
    tokens = standing.tokens + receipt.token_count - before.token_count
    tokens -= sum(sizes[i] for i in gone) + _gaps(history, shown)
    limit = budget.limit if tokens <= budget.limit else hard
    if tokens > limit:
        rows, tokens = _clipped(ladder, last, rows, tokens, limit)
    rows, tokens = _with_gaps(history, rows, tokens, limit)
    messages = tuple(message for _, message in rows)
    context = ActiveContext(
        messages=messages, seams=seams_of(rows), tokens=tokens, checkpoints=(receipt,)
    )
    if tokens > limit or violations(messages, history.wire.rules):
        return None
    short = {i for i, m in rows if i is not None and history.shown(i) is not m}
    ladder.take_tail(layout, short)
    plan = report(Selection(history, policy, ladder, layout, budget, standing, Ageing(())), context)
    return Proposal(
        plan,
        len(history),
        standing.number + 1,
        cut=layout.cut,
        kept=tuple(sorted(i for i in layout.held if i < layout.cut)),
        pieces=pieces_of(rows, history),
        news=tuple(news_of(standing.live, plan)),
    )


def _receipt_in_view(standing: Standing) -> Checkpoint | None:
    """Return the only checkpoint in view, if it is a receipt."""
    alone = standing.live[0] if len(standing.live) == 1 else None
    return alone if alone and alone.made_by == RECEIPT.summary.made_by else None


def _are_shown(layout: Layout, shown: Placed) -> bool:
    """Whether the prompt shows what is held, in the form in which it is held. It does not show what
    was pinned after it had gone, and shows a part of what was pinned after it was clipped.
    """
    held = {message.id: message for piece in layout.beside() for message in piece.messages}
    at = {position for position, _ in shown}
    return layout.held.keys() <= at and all(
        message == held.get(message.id) for position, message in shown if position in layout.held
    )


def _with_gaps(history: History, rows: Rows, tokens: int, limit: int) -> tuple[Rows, int]:
    """Return the rows and their tokens, with notes between turns of one role if these fit."""
    told = with_gaps(rows)
    gaps = _gaps(history, told)
    return (told, tokens + gaps) if tokens + gaps <= limit else (rows, tokens)


def _gaps(history: History, rows: Placed) -> int:
    """Return the tokens of the notes between turns of one role."""
    return sum(history.counter.message(message) for _, message in rows if is_gap(message))


def _sizes(history: History, shown: Placed) -> dict[int, int]:
    """Return the tokens of each message in view, with those of the notes behind it."""
    sizes: dict[int, int] = {}
    newest: int | None = None
    for position, message in shown:
        if position is not None:
            newest = position
            is_whole = history.shown(position) is message
            size = history.tokens(position) if is_whole else history.counter.message(message)
            sizes[position] = sizes.get(position, 0) + size
        elif newest is not None and is_answer(message):
            sizes[newest] += history.counter.message(message)
    return sizes


def _cut(
    history: History, layout: Layout, sizes: Mapping[int, int], excess: int, last: int
) -> None:
    """Cut so that the tokens in excess go, but keep the newest group, which begins at `last`."""
    cut, held = layout.since, layout.held
    excess -= sum(size for i, size in sizes.items() if i < cut and i not in held)
    while excess > 0 and cut < last:
        end = cut + 1
        while not may_cut_before(history, end):
            end += 1
        excess -= sum(sizes.get(i, 0) for i in range(cut, end) if i not in held)
        cut = end
    layout.cut = cut


def _receipt(
    history: History, before: Checkpoint, layout: Layout, gone: Collection[int]
) -> Checkpoint:
    """Return the receipt that covers what went now, too."""
    cut = layout.cut
    span = Span(
        first=before.span.first,
        last=max(before.span.last, cut - 1),
        messages=before.span.messages + len(gone),
        tokens=None,
    )
    kept = {*before.kept}.difference(gone) | {i for i in layout.held if before.span.last < i < cut}
    made = before.model_copy(
        update={
            "span": span,
            "kept": tuple(sorted(kept)),
            "parents": (before.id,),
            "until": history[span.last].timestamp,
        }
    )
    return sized(made, history)


def _rest(
    shown: Placed,
    gone: Collection[int],
    receipt_id: str,
    receipt: Message,
) -> Iterator[tuple[int | None, Message]]:
    """Yield the rows that stay. A note that answers a call goes with it."""
    is_gone = False
    for position, message in shown:
        if position is not None:
            is_gone = position in gone
        if message.id == receipt_id:
            yield None, receipt
        elif not (is_gap(message) or is_gone):
            yield position, message


def _clipped(ladder: Ladder, last: Piece, rows: Rows, tokens: int, limit: int) -> tuple[Rows, int]:
    """Return the rows with the newest group shortened to the limit, and their tokens. The same if
    that is not possible.
    """
    whole = last.tokens
    places = [i for i, (position, _) in enumerate(rows) if position in last.positions]
    is_clipped = ladder.clip(last, whole - (tokens - limit))
    if not is_clipped or len(places) != len(last.messages):
        return rows, tokens
    short = dict(zip(places, last.messages, strict=True))
    shorter = [(position, short.get(i, message)) for i, (position, message) in enumerate(rows)]
    return shorter, tokens + last.tokens - whole
