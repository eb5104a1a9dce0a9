"""The six stages of a compression, value to value: identify, prepare, summarize, checkpoint,
update, validate.

Each is a plain function of what the stages before it yielded; only the summarizer, which the
pipeline calls, may wait. Nothing is stored, and the history is never changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from compact.compression.aging import LEAST_CAP, Ageing, Rewrite, age
from compact.compression.fold import pieces_of
from compact.compression.gate import Judged
from compact.compression.ladder import CHECKPOINT_SHARE, LEAST_CHECKPOINT, Ladder, shortened
from compact.compression.layout import Layout
from compact.compression.standing import Standing, left_by
from compact.core.checkpoints import (
    Checkpoint,
    Level,
    Span,
    Summary,
    SummaryRequest,
    checkpoint_id,
)
from compact.core.context import ActiveContext
from compact.core.history import History
from compact.core.messages import SYSTEM_ROLES, Message
from compact.core.policy import CompactPolicy
from compact.core.provider_rules import violations
from compact.core.sessions import Piece
from compact.core.voices import person_text
from compact.errors import CannotFit, SummaryRejected

RECEIPT = Judged(Summary(text="Earlier messages are not shown.", made_by="receipt"), ())
"""What stands in for a span that nobody summarizes: the heading says how much is not shown."""
RECEIPT_TOKENS = 64
LEAST_RESERVE = 2_000
LARGEST_SHARE, LARGE_LIMIT_SHARE = 0.75, 0.45
SMALL_LIMIT = (3_000, 8_000)
"""Limits up to which a checkpoint may take the first of these shares, and from which the second."""
MOST_RESERVE = 12_000
SESSION_SHARE = 0.6
"""Largest share of what lies above the floor that a session's checkpoints may take together."""
SLACK = 12
"""Tokens kept free for the heading's counts to change by a digit."""
MOST_PERSONS = 500
"""Messages of a person that are asked for instructions when room is set aside for them."""
WORTH_FILLING = 0.03
MOST_READ = 1_000_000
"""Tokens of a session that are read for one checkpoint, the newest ones; a session that was
imported whole may have more. The summary says what was not read."""
REBUILD = 2
"""Usable windows that may be read again to write an aged checkpoint from history."""


@dataclass(frozen=True, slots=True)
class Budget:
    """The tokens of a prompt, and how many of them are taken by what stands beside the messages."""

    limit: int
    aside: int
    """Tool schemas, a system prompt in a field of its own, goals, the priming of the reply."""
    hard: int | None = None
    """What the prompt may grow to for the sake of its newest group; None where the limit is all
    there is. A session aims at a limit below: it will grow again, so that there is no need to use
    the limit up either."""

    @property
    def fill(self) -> bool:
        """Whether to use the limit up, clipping at the cut."""
        return self.hard is None


@dataclass(frozen=True, slots=True)
class Selection:
    """What `identify` chose: the layout, the ladder that can still change it, and how the live
    checkpoints age.
    """

    history: History
    policy: CompactPolicy
    ladder: Ladder
    layout: Layout
    budget: Budget
    standing: Standing | None
    ageing: Ageing


@dataclass(frozen=True, slots=True)
class Task:
    """A checkpoint to write: what the summarizer is asked for, and what it will stand in for."""

    level: Level
    request: SummaryRequest | None
    """None where a receipt is enough."""
    source_tokens: int | None
    """Tokens of what it is made from; None where not all were counted."""
    sources: tuple[Checkpoint, ...] = ()
    """Checkpoints it takes the place of."""
    positions: Sequence[int] = ()
    """Messages it stands in for that no checkpoint has covered."""
    unread: int = 0
    """How many of them were left unread."""


@dataclass(slots=True)
class Update:
    """The new context, and the recipe to make it again."""

    context: ActiveContext
    pieces: tuple[Piece, ...] = field(default=())


def identify(
    history: History, policy: CompactPolicy, budget: Budget, standing: Standing | None
) -> Selection:
    """Choose what stays in view. What a session has covered stays covered.

    Raises:
        CannotFit: what may not be shortened exceeds the limit.
    """
    ladder = Ladder(history, policy)
    limit = budget.limit - budget.aside
    hard = (budget.hard or budget.limit) - budget.aside
    ageing = Ageing(())

    def reserve(above: int) -> int:
        nonlocal ageing
        if standing is None or policy.strategy != "task_state":
            most = max(LEAST_CHECKPOINT, int(above * CHECKPOINT_SHARE))
            return min(_reserve(history, policy, limit), most)
        new = min(standing.caps.of("detailed"), max(LEAST_CHECKPOINT, above // 3))
        room = min(standing.caps.together, int(above * SESSION_SHARE)) - new
        ageing = age(
            standing.live,
            number=standing.number + 1,
            caps=standing.caps,
            room=room,
            pressure=standing.pressure,
        )
        return ageing.tokens + new

    empty = Layout(limit)
    if standing is not None:
        empty = Layout(limit, since=standing.cut, spared=standing.kept)
    try:
        layout = ladder.lay_out(empty, reserve, hard=hard)
    except CannotFit as error:
        raise CannotFit({**error.floor, "tools and framing": budget.aside}, budget.limit) from None
    if not layout.covers:
        ladder.fill(layout, layout.limit - layout.tokens, clip=budget.fill)
    return Selection(history, policy, ladder, layout, budget, standing, ageing)


def _reserve(history: History, policy: CompactPolicy, limit: int) -> int:
    """Tokens set aside for the one checkpoint of a single call: its share, and room for the
    instructions it must carry.
    """
    if policy.strategy != "task_state":
        return RECEIPT_TOKENS
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


# --- prepare --------------------------------------------------------------------------------------


def prepare(selection: Selection) -> list[Task]:
    """The checkpoints to write: for what is newly covered, and for those that age."""
    live = selection.standing.live if selection.standing else ()
    new = _newly_covered(selection)
    if selection.policy.strategy != "task_state":
        pressed = selection.standing is not None and selection.standing.pressure == "merge"
        if not (new or (live and pressed)):
            return []
        return [Task("merged", None, None, sources=live, positions=new)]
    rewrites = selection.ageing.rewrites
    if not (new and live and new[-1] < selection.layout.since):
        tasks = [_rewrite(selection, rewrite, ()) for rewrite in rewrites]
        return [*tasks, _summary_of_new(selection, new)] if new else tasks
    # only messages that were kept so far leave the view: the newest checkpoint takes them over
    last = next((r for r in rewrites if live[-1] in r.sources), None)
    if last is None:
        last = Rewrite((live[-1],), live[-1].level, max(LEAST_CAP, live[-1].token_count))
        rewrites = (*rewrites, last)
    return [_rewrite(selection, r, new if r is last else ()) for r in rewrites]


def _newly_covered(selection: Selection) -> list[int]:
    """Positions that no checkpoint stands in for yet, and that leave the view, in order."""
    layout, standing = selection.layout, selection.standing
    if standing is None:
        return list(layout.covered())
    released = sorted(i for i in standing.kept if i not in layout.held)
    return released + [i for i in range(standing.cut, layout.cut) if i not in layout.held]


def _counted(history: History, positions: Sequence[int]) -> int:
    return sum(map(history.tokens, positions))


def _summary_of_new(selection: Selection, new: list[int]) -> Task:
    layout, history, standing = selection.layout, selection.history, selection.standing
    read, source = new, 0
    if standing is not None:
        read, source = _newest(history, new, MOST_READ)
    else:
        source = _counted(history, new)
    heading = _heading_tokens(selection)
    room = layout.limit - layout.tokens - selection.ageing.tokens - heading
    if standing is not None:
        room = min(room, standing.caps.of("detailed") - heading)
    cap = max(24, min(room, source))
    share = int(selection.policy.instruction_share * layout.limit)
    stays = [s.message() for s in selection.ageing.steps if isinstance(s, Checkpoint)]
    request = SummaryRequest(
        messages=[history[i] for i in read],
        kept=[*stays, *in_view(selection)],
        answers=_answers(layout, history),
        first_request_kept=layout.first_request is not None,
        shortened=[history[i] for i in shortened(layout)],
        max_tokens=cap,
        max_instruction_tokens=min(cap, share),
        strategy=selection.policy.strategy,
    )
    unread = len(new) - len(read)
    return Task("detailed", request, None if unread else source, positions=new, unread=unread)


def _newest(history: History, positions: list[int], most: int) -> tuple[list[int], int]:
    """The newest of these positions within so many tokens, in order, and their tokens."""
    total, start = 0, len(positions)
    while start > 0 and total <= most:
        start -= 1
        total += history.tokens(positions[start])
    return positions[start:], total


def _rewrite(selection: Selection, rewrite: Rewrite, more: Sequence[int]) -> Task:
    """An aged checkpoint: written from history where that is not too much to read again, else from
    the checkpoints themselves; and from the messages at `more`.
    """
    history, sources, standing = selection.history, rewrite.sources, selection.standing
    assert standing is not None, "only a session has checkpoints that age"
    source = sum(c.span.tokens or 0 for c in sources)
    known = all(c.span.tokens is not None for c in sources)
    if known and source <= REBUILD * standing.caps.usable:
        messages = [history[i] for c in sources for i in c.covered()]
    else:
        messages = [c.message() for c in sources]
        source = sum(c.token_count for c in sources)
    messages += [history[i] for i in more]
    cap = max(24, rewrite.cap - _heading_tokens(selection))
    request = SummaryRequest(
        messages=messages,
        kept=in_view(selection),
        first_request_kept=selection.layout.first_request is not None,
        max_tokens=cap,
        max_instruction_tokens=int(cap * selection.policy.instruction_share),
        strategy=selection.policy.strategy,
        level=rewrite.level,
    )
    size = source + _counted(history, more)
    return Task(rewrite.level, request, size, sources=sources, positions=more)


def _answers(layout: Layout, history: History) -> dict[str, str]:
    """What a person, whose message stays in view, said to a message that does not."""
    found: dict[str, str] = {}
    for position in layout.held:
        asked = position - 1
        if (
            layout.since <= asked < layout.cut
            and asked not in layout.held
            and history.is_person(position)
        ):
            found[history[asked].id] = person_text(history[position])
    return found


def _heading_tokens(selection: Selection) -> int:
    return 40 + selection.history.counter.framing.per_message + SLACK


def in_view(selection: Selection) -> list[Message]:
    """The messages in view, in the order of the log; no checkpoint among them."""
    return [m for piece in selection.layout.pieces() for m in piece.messages]


# --- checkpoint -----------------------------------------------------------------------------------


def draft(selection: Selection, task: Task, judged: Judged) -> Checkpoint:
    """The checkpoint of what was asked for and written."""
    history, standing = selection.history, selection.standing
    summary = judged.summary
    text = summary.text
    if task.unread:
        text += f"\n\n{task.unread:,} of the earliest messages were not read for this summary."
    span, kept, released = _reach(selection, task)
    number = _number(selection, task)
    source = [history[i].id for i in (span.first, span.last)]
    if standing is not None:  # another recipe of the same words is another checkpoint
        source.append(f"{number} {kept} {released}")
    made = Checkpoint(
        id=checkpoint_id(span, source, text),
        span=span,
        summary=text,
        level=task.level if standing else "detailed",
        number=number,
        kept=kept,
        released=released,
        anchors=summary.anchors,
        made_by=summary.made_by,
        parents=tuple(c.id for c in task.sources),
        verdicts=judged.verdicts,
        until=history[span.last].timestamp,
    )
    size = history.counter.message(made.message())
    return made.model_copy(update={"token_count": size})


def _number(selection: Selection, task: Task) -> int:
    """The compression that the checkpoint's age counts from."""
    if task.sources:
        return max(c.number for c in task.sources)
    return selection.standing.number + 1 if selection.standing else 1


def _reach(selection: Selection, task: Task) -> tuple[Span, tuple[int, ...], tuple[int, ...]]:
    """What a checkpoint stands in for: its span, what of it stayed in view, and what before it."""
    layout, history, sources = selection.layout, selection.history, task.sources
    kept, cut = left_by(sources)
    live = selection.standing.live if selection.standing else ()
    start = layout.since if live else 0
    first = sources[0].span.first if sources else _span_start(selection, start)
    released = [i for c in sources for i in c.released if i < first]
    if task.positions:
        last = layout.cut - 1
        new = frozenset(task.positions)
        kept = (kept - new) | {i for i in layout.held if max(first, cut) <= i < layout.cut}
        released += [i for i in task.positions if i < first]
    else:
        last = cut - 1
    new_tokens = None
    if task.request is not None and not task.unread:
        new_tokens = _counted(history, task.positions)
    counts = [*(c.span.tokens for c in sources), new_tokens]
    span = Span(
        first=first,
        last=max(first, last),
        messages=sum(c.span.messages for c in sources) + len(task.positions),
        tokens=None if None in counts else sum(c for c in counts if c is not None),
    )
    return span, tuple(sorted(kept)), tuple(sorted(released))


def _span_start(selection: Selection, start: int) -> int:
    """The first position from there on that is not a leading system message."""
    layout, history = selection.layout, selection.history
    first = start
    while (
        first < layout.cut
        and first in layout.held
        and start == 0
        and history[first].role in SYSTEM_ROLES
    ):
        first += 1
    return first


# --- update ---------------------------------------------------------------------------------------


def update(selection: Selection, written: Sequence[tuple[Task, Judged]]) -> Update:
    """The new context: each checkpoint at its span's start, what is in view, and spare room
    used.
    """
    layout = selection.layout
    checkpoints = _live(selection, [draft(selection, *row) for row in written])
    taken = sum(c.token_count for c in checkpoints)
    fill = selection.budget.fill
    if checkpoints:
        cut, room = layout.cut, layout.limit - layout.tokens - taken - SLACK
        if room > WORTH_FILLING * layout.limit:
            room = selection.ladder.fill(layout, room, clip=fill)
        if room > WORTH_FILLING * layout.limit and fill:
            selection.ladder.extend(layout, room)
        if layout.cut != cut:
            checkpoints = _redrafted(selection, written)
        if not checkpoints:  # all is in view after all: its room is free again
            selection.ladder.fill(layout, layout.limit - layout.tokens, clip=fill)
    shown = _shown(selection, checkpoints)
    count = selection.history.counter.message
    tokens = selection.budget.aside + sum(count(message) for _, message in shown)
    messages = tuple(message for _, message in shown)
    context = ActiveContext(messages=messages, tokens=tokens, checkpoints=tuple(checkpoints))
    return Update(context, pieces_of(shown, selection.history))


def _live(selection: Selection, made: Sequence[Checkpoint]) -> list[Checkpoint]:
    """The live checkpoints afterwards, oldest span first."""
    replaced = {parent for c in made for parent in c.parents}
    stays = [s for s in selection.ageing.steps if isinstance(s, Checkpoint)]
    if selection.standing and selection.policy.strategy != "task_state":
        stays = list(selection.standing.live)
    rows = [c for c in stays if c.id not in replaced]
    return sorted((*rows, *made), key=lambda c: (c.span.first, c.span.last))


def _redrafted(selection: Selection, written: Sequence[tuple[Task, Judged]]) -> list[Checkpoint]:
    """The one checkpoint of a single call over what the layout covers now."""
    ((task, judged),) = written
    covered = list(selection.layout.covered())
    if not covered:
        return []
    again = replace(task, positions=covered)
    return [draft(selection, again, judged)]


def _shown(
    selection: Selection, checkpoints: Sequence[Checkpoint]
) -> list[tuple[int | None, Message]]:
    """The messages in view and the checkpoints, in the order of the log, each with its position,
    also where it is shortened; None for what we made.
    """
    history = selection.history
    rows: list[tuple[int, int, list[tuple[int | None, Message]]]] = [
        (c.span.first, 0, [(None, c.message())]) for c in checkpoints
    ]
    for piece in selection.layout.pieces():
        rows.append((piece.positions[0], 1, _placed(history, piece.positions, piece.messages)))
    rows.sort(key=lambda row: row[:2])
    return [shown for _, _, told in rows for shown in told]


def _placed(
    history: History, positions: Sequence[int], messages: Sequence[Message]
) -> list[tuple[int | None, Message]]:
    """Messages that are shown of some positions, each with the one it stands for."""
    by_id = {history[i].id: i for i in positions}
    as_said = {id(history[i]): i for i in positions}
    return [(as_said.get(id(m), by_id.get(m.id)), m) for m in messages]


def pieces_in_order(history: History, context: ActiveContext) -> tuple[Piece, ...]:
    """The recipe of a context that shows the whole history, calls closed."""
    return pieces_of(_placed(history, range(len(history)), context.messages), history)


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
