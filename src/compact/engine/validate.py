"""The stage *validate*: the new context fits and is legal. The plan then says what was done."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from compact.engine.gate.rules import STANDS_IN
from compact.engine.groups import partition, turns
from compact.engine.history import History
from compact.engine.identify import Selection
from compact.engine.inputs import record_in
from compact.engine.ladder import Form, Layout, Piece
from compact.engine.plan import Fate, Plan, Reason, Rung, RungName, plan_of
from compact.errors import SummaryRejected
from compact.messages.boundaries import violations
from compact.messages.checkpoints import (
    Checkpoint,
)
from compact.messages.context import ActiveContext


def validate(context: ActiveContext, selection: Selection) -> None:
    """Check that the context fits and keeps the provider's rules.

    Raises:
        SummaryRejected: it does not. The earlier context stays in use.
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


MOST_NAMED = 10
"""How many positions one line of a plan names."""
LONGEST_REASON = 200
"""Most characters of the reason why no model wrote the summary."""


def report(selection: Selection, context: ActiveContext) -> Plan:
    """Return the plan that says, step by step, what was done."""
    history, budget = selection.history, selection.budget
    before = selection.standing.tokens if selection.standing.is_session else None
    if before is None and history.counted() == len(history):
        before = budget.overhead_tokens + history.total()
    pieces = selection.layout.pieces()
    rungs = list(_rungs(selection, pieces, context))
    if before is not None:
        rungs += _not_counted_by(rungs, before - context.tokens)
    return plan_of(
        history,
        context,
        limit=budget.limit,
        tokens_before=before,
        floor=budget.floor(selection.layout.floor),
        rungs=tuple(rungs),
        fates=_fates(history, pieces),
        reasons=_reasons(pieces),
        steps=dict(_steps(pieces, selection.policy.keep_tool_pairs)),
        parts=partition(history, selection.policy, since=selection.layout.cut).sizes(),
    )


def _fates(history: History, pieces: Sequence[Piece]) -> dict[int, Fate]:
    pinned = frozenset(history.fixed)
    fates: dict[int, Fate] = {}
    for piece in pieces:
        fate: Fate = "kept" if piece.form == "verbatim" else piece.form
        fates.update((i, "pinned" if i in pinned else fate) for i in piece.positions)
    return fates


def _reasons(pieces: Sequence[Piece]) -> dict[int, tuple[Reason, int]]:
    return {
        i: (piece.why, i if piece.held is None else piece.held)
        for piece in pieces
        for i in piece.positions
    }


def _steps(pieces: Sequence[Piece], pairs: int) -> Iterator[tuple[int, str]]:
    """For each of the newest messages, yield what was done and the token counts that led to it."""
    for piece in pieces:
        if piece.why == "recent":
            needed = f"{piece.whole.tokens:,} of {piece.room:,} tokens were needed"
            what = _step(piece, pairs)
            yield from ((i, f"{what}; {needed}") for i in piece.positions)


def _step(piece: Piece, pairs: int) -> str:
    is_small = piece.whole.tokens <= piece.room
    if piece.form == "verbatim":
        return "among the newest messages that fit" if is_small else "in room that others left"
    if piece.form == "clipped":
        return "head and tail in room that others left" if is_small else "only head and tail fit"
    if piece.cause == "old":
        return f"tool output older than the newest {pairs} pairs"
    if piece.cause == "overtaken":
        return "tool output that was written over, read again or mended since"
    return "tool output larger than the room for it"


def _rungs(selection: Selection, pieces: Sequence[Piece], context: ActiveContext) -> Iterator[Rung]:
    why = "older tool output was replaced by short notes"
    yield from _shortened(pieces, "masked", "mask", why)
    live = selection.standing.live
    yield from _aged(context, live)
    known = {c.id for c in live}
    new = [c for c in context.checkpoints if c.id not in known]
    receipts = [c for c in new if c.made_by == "receipt"]
    made = [c for c in new if not c.parents]
    if made := receipts or made:
        yield _summarized(selection, made)
    yield from _recorded(selection, context)
    for why, messages in (*_not_held(selection), *_fewer(selection)):
        yield Rung(name="lower keep counts", why=why, messages=messages, freed=None)
    why = "a message that was too long was cut in its middle"
    yield from _shortened(pieces, "clipped", "clip", why)


def _aged(context: ActiveContext, live: Sequence[Checkpoint]) -> Iterator[Rung]:
    sizes = {c.id: c.token_count for c in live}
    for checkpoint in context.checkpoints:
        if checkpoint.id in sizes or not checkpoint.parents or checkpoint.made_by == "receipt":
            continue
        merged = len(checkpoint.parents) > 1
        before = sum(sizes.get(parent, 0) for parent in checkpoint.parents)
        what = (
            f"{len(checkpoint.parents)} checkpoints became one" if merged else "a checkpoint aged"
        )
        yield Rung(
            name="merge" if merged else "age",
            why=f"{what}: {checkpoint.level}, {checkpoint.token_count:,} tokens",
            messages=checkpoint.span.messages,
            freed=before - checkpoint.token_count,
        )


def _shortened(shown: Sequence[Piece], form: Form, name: RungName, why: str) -> Iterator[Rung]:
    pieces = [p for p in shown if p.form == form]
    if pieces:
        yield Rung(
            name=name,
            why=why,
            messages=sum(len(p.messages) for p in pieces),
            freed=sum(p.whole.tokens - p.tokens for p in pieces),
        )


def _summarized(selection: Selection, made: Sequence[Checkpoint]) -> Rung:
    by = ", ".join(dict.fromkeys(c.made_by for c in made))
    one = "a receipt" if by == "receipt" else f"a checkpoint ({by})"
    what = one if len(made) == 1 else f"{len(made)} checkpoints ({by})"
    tokens, covered = sum(c.token_count for c in made), [c.span.tokens for c in made]
    known = [size for size in covered if size is not None]
    failed = {v.detail: None for c in made for v in c.verdicts if v.rule == STANDS_IN}
    said = " ".join("; ".join(failed).split())
    shown = said if len(said) <= LONGEST_REASON else f"{said[:LONGEST_REASON]}…"
    return Rung(
        name="summarize",
        why=f"what came before message {selection.layout.cut:,} did not fit and became {what} "
        f"of {tokens:,} tokens{f'; no summary of a model: {shown}' if shown else ''}",
        messages=sum(c.span.messages for c in made),
        freed=sum(known) - tokens if len(known) == len(made) else None,
    )


def _recorded(selection: Selection, context: ActiveContext) -> Iterator[Rung]:
    before, record = selection.standing.record, record_in(context.messages)
    count = selection.history.counter.message
    tokens = count(record) if record else 0
    if freed := (count(before) if before else 0) - tokens:
        why = f"the list of standing facts and rules was rewritten: {tokens:,} tokens"
        yield Rung(name="record", why=why, messages=0, freed=freed)


def _not_counted_by(rungs: Sequence[Rung], freed: int) -> Iterator[Rung]:
    """Yield a step for freed tokens that no other step counts. Steps count the original messages,
    but earlier compressions may have shortened some.
    """
    rest = freed - sum(rung.freed or 0 for rung in rungs)
    if rest:
        why = "of what was freed, so much had been freed already by earlier compressions"
        if rest > 0:
            why = "freed beside the steps above"
        yield Rung(name="rest", why=why, messages=0, freed=rest)


def _fewer(selection: Selection) -> Iterator[tuple[str, int]]:
    """Yield why fewer turns and user messages are kept than the policy wants, and how many."""
    layout, wanted = selection.layout, selection.policy.keep_recent_turns
    newest = islice(turns(selection.history), wanted)
    whole = sum(1 for turn in newest if turn.start >= layout.cut)
    if layout.recent < layout.cut and whole < wanted:
        why = f"recent turns in view as a whole: {whole} instead of {wanted}; "
        why += "of the turn before, only the end is shown"
        yield why, layout.cut - layout.recent
    if layout.users_kept < layout.users_wanted:
        why = f"messages of a person kept word for word: {layout.users_kept} instead of "
        yield f"{why}{layout.users_wanted}", layout.users_wanted - layout.users_kept


def _not_held(selection: Selection) -> Iterator[tuple[str, int]]:
    """Yield which messages did not fit although the policy or a mark wants to keep them."""
    history, layout = selection.history, selection.layout
    first = history.first_request() if selection.policy.pin_first_request else None
    if first is not None and not layout.is_gone(first) and _is_covered(first, layout):
        why = f"the session's first request takes {history.tokens(first):,} tokens, more than "
        yield f"{why}there is room for, and is covered", 1
    gone = [i for i in layout.marked if _is_covered(i, layout)]
    if gone:
        named = ", ".join(f"{i:,}" for i in sorted(gone)[:MOST_NAMED])
        why = f"{len(gone)} that are marked important are larger than the room for them, and "
        yield f"{why}covered: message {named}{', …' * (len(gone) > MOST_NAMED)}", len(gone)


def _is_covered(position: int, layout: Layout) -> bool:
    return position < layout.cut and position not in layout.held
