"""The short way of a session without summaries: its oldest groups are dropped.

The pipeline chooses anew from all that is in view. Without summaries the outcome is nearly what was
in view before, less the oldest groups, so only these are looked at. What is not plain is left to
the pipeline: a first compression, a pin inside a group of calls, a newest group that is too large.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import accumulate, chain, islice, takewhile

from compact.engine.checkpoint import RECEIPT, sized
from compact.engine.groups import Group, groups_from_end, partition
from compact.engine.history import History
from compact.engine.inputs import Budget, Standing
from compact.engine.ladder import KEEP_STEPS, LEADING, WORDS_SHARES, Ladder
from compact.engine.pipeline import Proposal, news_of
from compact.engine.plan import Fate, Reason, Rung, plan_of
from compact.engine.prepare import SLACK
from compact.engine.prompt_order import pieces_of
from compact.engine.shorten import is_answer
from compact.messages.alternation import Placed, is_gap, seams_of, with_gaps
from compact.messages.boundaries import may_cut_before, violations
from compact.messages.checkpoints import Checkpoint, Span
from compact.messages.context import ActiveContext
from compact.messages.messages import SYSTEM_ROLES, Message
from compact.messages.policy import CompactPolicy
from compact.text.speakers import speaker_of

LEAST_USED = 0.5
"""If less than this share of the limit were used, the pipeline chooses: it shows a part of what is
so large."""
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
    held, floor = _held(history, policy, budget, standing)
    last = _newest_group(history, standing, held)
    sizes = _sizes(history, shown)
    if last is None or not held.keys() <= sizes.keys():
        return None  # what was pinned after it had gone is shown again
    cut = _cut(history, standing, sizes, held, budget.limit - SLACK, last.start)
    gone = {i for i in sizes if i < cut and i not in held}
    receipt = _receipt(history, before, held, cut, gone)
    rows = list(_rest(shown, gone, before.id, receipt.message(history.own)))
    tokens = standing.tokens + receipt.token_count - before.token_count
    tokens -= sum(sizes[i] for i in gone) + _gaps(history, shown)
    limit = budget.limit if tokens <= budget.limit else budget.hard or budget.limit
    if tokens > limit:
        rows, tokens = _clipped(Ladder(history, policy), last, rows, tokens, limit)
    rows, tokens = _with_gaps(history, rows, tokens, limit)
    messages = tuple(message for _, message in rows)
    context = ActiveContext(
        messages=messages, seams=seams_of(rows), tokens=tokens, checkpoints=(receipt,)
    )
    if not LEAST_USED * limit < tokens <= limit or violations(messages, history.wire.rules):
        return None
    why = f"what came before message {cut:,} did not fit and became a receipt"
    covered, freed = receipt.span.messages, standing.tokens - tokens
    plan = plan_of(
        history,
        context,
        limit=budget.limit,
        tokens_before=standing.tokens,
        floor=budget.floor(floor),
        rungs=(Rung(name="summarize", why=why, messages=covered, freed=freed),),
        fates=dict(_fates(history, rows)),
        reasons={i: (held.get(i, "recent"), i) for i, _ in rows if i is not None},
        steps={i: "among the newest messages that fit" for i in sizes if i not in held},
        parts=partition(history, policy, since=cut).sizes(),
    )
    return Proposal(
        plan,
        len(history),
        standing.number + 1,
        cut=cut,
        kept=tuple(sorted(i for i in held if i < cut)),
        pieces=pieces_of(rows, history),
        news=tuple(news_of(standing.live, plan)),
    )


def _receipt_in_view(standing: Standing) -> Checkpoint | None:
    """Return the only checkpoint in view, if it is a receipt."""
    alone = standing.live[0] if len(standing.live) == 1 else None
    return alone if alone and alone.made_by == RECEIPT.summary.made_by else None


def _newest_group(history: History, standing: Standing, held: Collection[int]) -> Group | None:
    """Return the newest group that is not held as a whole. None if a part of it is held, or a
    message that is held belongs to a group of calls.
    """
    if not all(_is_alone(history, i) for i in {*held, *standing.kept}):
        return None
    last = next((g for g in groups_from_end(history) if any(i not in held for i in g)), None)
    return None if last is None or any(i in held for i in last) else last


def _with_gaps(history: History, rows: Rows, tokens: int, limit: int) -> tuple[Rows, int]:
    """Return the rows and their tokens, with notes between turns of one role if these fit."""
    told = with_gaps(rows)
    gaps = _gaps(history, told)
    return (told, tokens + gaps) if tokens + gaps <= limit else (rows, tokens)


def _gaps(history: History, rows: Placed) -> int:
    """Return the tokens of the notes between turns of one role."""
    return sum(history.counter.message(message) for _, message in rows if is_gap(message))


def _held(
    history: History, policy: CompactPolicy, budget: Budget, standing: Standing
) -> tuple[dict[int, Reason], dict[str, int]]:
    """Return the positions that stay whatever their age, with the reason, and the floor's tokens:
    as `Ladder` holds them, but only what is in view.
    """
    held: dict[int, Reason] = {}
    floor = {"system prompt": 0, "pins": 0, "newest user message": 0}
    for position in history.fixed:
        is_system = history[position].role in SYSTEM_ROLES
        held[position] = "system" if is_system else "pin"
        floor["system prompt" if is_system else "pins"] += history.tokens(position)
    in_view = takewhile(lambda p: p >= standing.cut, history.persons())
    before = filter(history.is_person, sorted(standing.kept, reverse=True))
    persons = list(islice(chain(in_view, before), policy.keep_user_messages))
    for position in persons[:1]:
        if position not in held:
            held[position] = "newest words"
            floor["newest user message"] = history.tokens(position)
    for position, why in _opening(history, policy):
        if position in standing.kept:
            held.setdefault(position, why)
    above = budget.limit - budget.overhead_tokens - sum(floor.values())
    held |= {p: held.get(p, "words") for p in _words(history, persons, above, budget.words)}
    return held, floor


def _opening(history: History, policy: CompactPolicy) -> Iterator[tuple[int, Reason]]:
    """Yield the first request, and an earlier checkpoint at the start: no summary includes it."""
    first = history.first_request() if policy.pin_first_request else None
    if first is not None:
        yield first, "first request"
    for position in range(min(len(history), LEADING)):
        if speaker_of(history[position]) == "checkpoint":
            yield position, "checkpoint"
            return


def _words(history: History, persons: Sequence[int], above: int, most: int) -> Sequence[int]:
    """Return the newest of a person's messages that stay: all, half of them, or what fits."""
    for part, share in zip(KEEP_STEPS, WORDS_SHARES, strict=False):
        newest = persons[: max(1, round(len(persons) * part))]
        if sum(map(history.tokens, newest)) <= min(most, int(above * share)):
            return newest
    left = min(most, int(above * WORDS_SHARES[0]))
    sizes = accumulate(map(history.tokens, persons))
    return persons[: sum(1 for _ in takewhile(lambda size: size <= left, sizes))]


def _is_alone(history: History, position: int) -> bool:
    """Whether the message is a group, or may stay without the others of its group."""
    message = history[position]
    return message.role in ("user", *SYSTEM_ROLES) and not message.tool_results


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
    history: History,
    standing: Standing,
    sizes: Mapping[int, int],
    held: Collection[int],
    most: int,
    last: int,
) -> int:
    """Return from where on everything stays, so that `most` tokens stay: at most `last`, where the
    newest group begins.
    """
    cut = standing.cut
    excess = standing.tokens - most
    excess -= sum(size for i, size in sizes.items() if i < cut and i not in held)
    while excess > 0 and cut < last:
        end = cut + 1
        while not may_cut_before(history, end):
            end += 1
        excess -= sum(sizes.get(i, 0) for i in range(cut, end) if i not in held)
        cut = end
    return cut


def _receipt(
    history: History, before: Checkpoint, held: Collection[int], cut: int, gone: Collection[int]
) -> Checkpoint:
    """Return the receipt that covers what went now, too."""
    span = Span(
        first=before.span.first,
        last=max(before.span.last, cut - 1),
        messages=before.span.messages + len(gone),
        tokens=None,
    )
    kept = {*before.kept}.difference(gone) | {i for i in held if before.span.last < i < cut}
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


def _clipped(ladder: Ladder, last: Group, rows: Rows, tokens: int, limit: int) -> tuple[Rows, int]:
    """Return the rows with the newest group shortened to the limit, and their tokens. The same if
    that is not possible.
    """
    piece = ladder.clipped(last, tokens - limit)
    group = frozenset(last)
    places = [i for i, (position, _) in enumerate(rows) if position in group]
    if piece is None or len(places) != len(piece.messages):
        return rows, tokens
    short = dict(zip(places, piece.messages, strict=True))
    shorter = [(position, short.get(i, message)) for i, (position, message) in enumerate(rows)]
    return shorter, tokens + piece.tokens - piece.whole.tokens


def _fates(history: History, rows: Placed) -> Iterator[tuple[int, Fate]]:
    pinned = frozenset(history.fixed)
    for position, message in rows:
        if position is not None:
            fate: Fate = "pinned" if position in pinned else "kept"
            yield position, fate if history.shown(position) is message else "clipped"
