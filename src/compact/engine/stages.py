"""The six stages of a compression, value to value: identify, prepare, summarize, checkpoint,
update, validate.

Each is a plain function of what the stages before it yielded; only the summarizer, which the
pipeline calls, may wait. Nothing is stored, and the history is never changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice, takewhile

from compact.engine.aging import Ageing, age
from compact.engine.chronology.extractive import ExtractiveSummarizer
from compact.engine.chronology.notes import notes_of
from compact.engine.fold import pieces_of
from compact.engine.gate.rules import Judged
from compact.engine.groups import group_at
from compact.engine.history import History
from compact.engine.ladder import CHECKPOINT_SHARE, LEAST_CHECKPOINT, Ladder
from compact.engine.layout import Layout
from compact.engine.preparing import SLACK, composer_of, counted, parts_of
from compact.engine.standing import Standing, left_by
from compact.engine.values import Budget, Selection, Task
from compact.errors import CannotFit, SummaryRejected
from compact.messages.alternation import is_gap, seams_of, with_gaps
from compact.messages.checkpoints import (
    IN_RECORD,
    PERSON,
    REFERENCE_LINE,
    Checkpoint,
    Span,
    Summary,
    checkpoint_id,
    record_message,
)
from compact.messages.context import ActiveContext
from compact.messages.messages import SYSTEM_ROLES, Message
from compact.messages.own_text import OwnText
from compact.messages.policy import CompactPolicy
from compact.messages.provider_rules import violations
from compact.messages.sessions import CheckpointRef, Piece
from compact.secrets.redaction import redact

RECEIPT = Judged(Summary(text="Earlier messages are not shown.", made_by="receipt"), ())
"""What stands in for a span that nobody summarizes: the heading says how much is not shown."""
RECEIPT_TOKENS = 64
"""Tokens set aside for it and its heading."""
LEAST_RESERVE, MOST_RESERVE = 2_000, 12_000
"""Tokens set aside for a single call's checkpoint, at least and at most, before the instructions
that it must carry: more of them tell more of what is not in view, and leave less in view."""
LARGEST_SHARE, LARGE_LIMIT_SHARE = 0.75, 0.45
"""The most that a single call's checkpoint may take of a small limit, and of a large one."""
SMALL_LIMIT = (3_000, 8_000)
"""Limits up to which a checkpoint may take the first of these shares, and from which the second."""
TALK_SHARE = 0.7
"""The share of a checkpoint of plain talk."""
SESSION_SHARE, RECORD_SHARE, ALONE_SHARE = 0.4, 0.4, 0.6
"""Largest shares of what lies above the floor: of a session's checkpoints, of its record beside
them, and of a record that tells all there is."""
RECORD_HEADING = 60
"""Tokens of what stands above a record's first section, at most."""
LEAST_RECORD = 160
"""Tokens that a record may take also where the target leaves less, as long as the usable window has
them: with fewer it could name nothing."""
MOST_PERSONS = 500
"""Messages of a person that are asked for instructions when room is set aside for them."""
WORTH_FILLING = 0.03
"""Share of the limit above which spare room is filled with more of what was said: a lower one uses
the room better, and has more checkpoints written twice."""
REDRAFT_PART = 14
"""Part of its tokens that a checkpoint has left over when it is written again for what is in view
then: what it says may join in another way, and no rule is to be lost by it.
"""
SHRINKS = 4
"""How often a checkpoint or a record is written, each time in less room, before a receipt stands in
for it, or nothing."""
FILLS = 3
"""How often room that is left is filled with more of what was said."""
MOST_RECORD = 3
"""How many times what is set aside for it the record may take where the target leaves it."""


def identify(
    history: History, policy: CompactPolicy, budget: Budget, standing: Standing
) -> Selection:
    """Choose what stays in view. What a session has covered stays covered. A limit that is below
    what may not be shortened is raised to `budget.hard`.

    Raises:
        CannotFit: what may not be shortened exceeds the limit, raised or not.
    """
    limit = budget.limit - budget.overhead_tokens
    hard = (budget.hard or budget.limit) - budget.overhead_tokens
    ageing, record = Ageing(()), 0
    notes = notes_of(history, known=standing.record) if policy.summarizes else None
    ladder = Ladder(history, policy, notes.work.stale if notes else ())

    def reserve(above: int) -> int:
        nonlocal ageing, record
        if notes is None or not standing.is_session:
            most = max(LEAST_CHECKPOINT, int(above * CHECKPOINT_SHARE))
            is_talk = notes is not None and notes.is_plain_talk
            return min(_reserve(history, policy, limit, is_talk=is_talk), most)
        new = LEAST_CHECKPOINT
        if not standing.by_record:
            new = min(_cap_of_new(history, policy, standing), max(new, above // 3))
        room = min(standing.caps.together, int(above * SESSION_SHARE)) - new
        ageing = age(
            standing.live,
            number=standing.number + 1,
            caps=standing.caps,
            room=room,
            pressure=standing.pressure,
        )
        left = max(0, above - ageing.tokens - new - ladder.unseen(empty))
        caps, most = standing.caps, int(above * RECORD_SHARE)
        record = min(caps.record, most, left)
        if standing.by_record:
            most = int(above * ALONE_SHARE)
            record = min(caps.record + room - ageing.tokens, most, left)
        return ageing.tokens + new + record

    empty = Layout(limit, since=standing.cut, spared=standing.kept)
    try:
        told = notes is not None and not (
            standing.is_session or standing.by_model or notes.is_plain_talk
        )
        layout = ladder.lay_out(empty, reserve, hard=hard, words=budget.words, told=told)
    except CannotFit as error:
        if budget.limit < (most := budget.hard or 0):
            return identify(history, policy, replace(budget, limit=most), standing)
        raise CannotFit(budget.floor(error.floor), budget.limit) from None
    if all(i in layout.held for i in range(layout.cut)):
        ladder.fill(layout, layout.limit - layout.tokens, clip=budget.fill)
    return Selection(history, policy, ladder, layout, budget, standing, ageing, notes, record)


def _cap_of_new(history: History, policy: CompactPolicy, standing: Standing) -> int:
    """Tokens that what is newly covered may take, of a session loaded whole in its parts."""
    levels = {level for level, _ in parts_of(history, standing, policy, range(len(history)))}
    return min(sum(map(standing.caps.of, levels)), standing.caps.together)


def _reserve(history: History, policy: CompactPolicy, limit: int, *, is_talk: bool) -> int:
    """Tokens set aside for the one checkpoint of a single call: its share, and room for the
    instructions it must carry; of plain talk, every sentence of which may matter, more.
    """
    if not policy.summarizes:
        return RECEIPT_TOKENS
    if is_talk:
        return min(int(TALK_SHARE * limit), MOST_RESERVE)
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


# --- checkpoint -----------------------------------------------------------------------------------


def draft(selection: Selection, task: Task, judged: Judged) -> Checkpoint:
    """The checkpoint of what was asked for and written."""
    history, standing = selection.history, selection.standing
    summary = judged.summary
    said = _text_of(selection, task, summary)
    text = redact(said, history.secrets).text  # it outlives what it was read from
    if task.unread:
        text += f"\n\n{task.unread:,} of the earliest messages were not read for this summary."
    span, kept, released = _reach(selection, task)
    number = max((c.number for c in task.sources), default=standing.number + 1)
    source = [history[i].id for i in (span.first, span.last)]
    if standing.is_session:  # another recipe of the same words is another checkpoint
        source.append(f"{history.link(span.last + 1)} {number} {kept} {released}")
    made = Checkpoint(
        id=checkpoint_id(span, source, text),
        span=span,
        summary=text,
        level=task.level if standing.is_session else "detailed",
        number=number,
        kept=kept,
        released=released,
        anchors=summary.anchors,
        made_by=_maker_of(task, summary),
        seconds=summary.seconds,
        parents=tuple(c.id for c in task.sources),
        verdicts=judged.verdicts + (IN_RECORD,) * _is_in_record(selection, task, summary),
        until=history[span.last].timestamp,
    )
    message = made.message(history.own)
    history.counter.composed(message.text)
    size = history.counter.message(message)
    return made.model_copy(update={"token_count": size})


def _is_in_record(selection: Selection, task: Task, summary: Summary) -> bool:
    """Whether the session's record tells what a checkpoint covers: nobody else wrote of it."""
    by_code = task.request is not None and summary.made_by == ExtractiveSummarizer.name
    persons = any(c.is_by_person for c in task.sources)
    return selection.standing.by_record and by_code and not persons


def _maker_of(task: Task, summary: Summary) -> str:
    """Who wrote a checkpoint: a person, too, who wrote what it was made from."""
    if summary.made_by != PERSON and any(c.is_by_person for c in task.sources):
        return f"{PERSON}, {summary.made_by}"
    return summary.made_by


def _text_of(selection: Selection, task: Task, summary: Summary) -> str:
    """What a checkpoint says: its story; a single call's holds record and lists, too."""
    if task.request is None:
        return summary.text
    if selection.standing.is_session:
        return f"{REFERENCE_LINE}\n{summary.text}" if summary.text else REFERENCE_LINE
    story = None if summary.made_by == ExtractiveSummarizer.name else summary.text
    text = composer_of(selection).written(story, task.room)
    after = _after(selection)
    return "\n\n".join(filter(None, (REFERENCE_LINE + after, text)))


def _after(selection: Selection) -> str:
    """How what is in view joins: what stands below in full, and what of before it is kept."""
    layout = selection.layout
    kept = sum(1 for i in layout.held if selection.history.is_person(i) and i < layout.cut)
    where = "between them" if kept > 1 else "around it"
    alone = f"{kept:,} of a person's messages without what was said {where}, then " if kept else ""
    stand = "stand" if kept > 1 else "stands"
    return f" Below it {stand} {alone}everything from message {layout.cut:,} on."


def _reach(selection: Selection, task: Task) -> tuple[Span, tuple[int, ...], tuple[int, ...]]:
    """What a checkpoint stands in for: its span, what of it stayed in view, and what before it."""
    layout, history, sources = selection.layout, selection.history, task.sources
    kept, cut = left_by(sources)
    since = layout.since if selection.standing.live else 0
    first = sources[0].span.first if sources else since or _leading(selection)
    end = layout.cut
    if task.part is not None:
        first, end = max(first, task.part[0]), task.part[1]
    released = [i for c in sources for i in c.released if i < first]
    if task.positions:
        last = end - 1
        kept = kept.difference(task.positions) if kept else kept
        kept |= {i for i in layout.held if max(first, cut) <= i < end}
        released += takewhile(lambda i: i < first, task.positions)  # they are in order
    else:
        last = cut - 1
    new_tokens = None
    if task.request is not None and not task.unread:
        new_tokens = counted(history, task.positions)
    counts = [*(c.span.tokens for c in sources), new_tokens]
    span = Span(
        first=first,
        last=max(first, last),
        messages=sum(c.span.messages for c in sources) + len(task.positions),
        tokens=None if None in counts else sum(c for c in counts if c is not None),
    )
    return span, tuple(sorted(kept)), tuple(sorted(released))


def _leading(selection: Selection) -> int:
    """How many system messages the history begins with that stay in view."""
    layout, history = selection.layout, selection.history
    is_shown = (i in layout.held and history[i].role in SYSTEM_ROLES for i in range(layout.cut))
    return sum(1 for _ in takewhile(bool, is_shown))


# --- update ---------------------------------------------------------------------------------------


def update(
    selection: Selection, written: Sequence[tuple[Task, Judged]]
) -> tuple[ActiveContext, tuple[Piece, ...]]:
    """The new context: checkpoints, what is in view, spare room used; and its recipe."""
    layout = selection.layout
    checkpoints = _live(selection, [_fitting(selection, *row) for row in written])
    record = _record(selection, checkpoints)
    if checkpoints:
        checkpoints = _filled(selection, written, checkpoints, record)
    shown = _shown(selection, checkpoints, record)
    count = selection.history.counter.message
    made = (c.message(selection.history.own) for c in checkpoints)
    tokens = selection.budget.overhead_tokens + sum(map(count, made))
    tokens += count(record) if record is not None else 0
    tokens += sum(p.shape.sent(selection.history.counter) for p in layout.pieces())
    told = with_gaps(shown)
    gaps = sum(count(message) for _, message in told if is_gap(message))
    if tokens + gaps <= layout.limit + selection.budget.overhead_tokens:
        shown, tokens = told, tokens + gaps
    context = ActiveContext(
        messages=tuple(message for _, message in shown),
        seams=seams_of(shown),
        tokens=tokens,
        checkpoints=tuple(checkpoints),
    )
    return context, pieces_of(shown, selection.history)


def _filled(
    selection: Selection,
    written: Sequence[tuple[Task, Judged]],
    checkpoints: list[Checkpoint],
    record: Message | None,
) -> list[Checkpoint]:
    """Use the room that is left for more of what was said; the checkpoints afterwards. Where a
    single call's then covers less, it is written again, and what that leaves free is used, too.
    """
    layout, ladder, fill = selection.layout, selection.ladder, selection.budget.fill
    beside = selection.history.counter.message(record) if record else 0
    for _ in range(FILLS):
        cut, taken = layout.cut, sum(c.token_count for c in checkpoints) + beside
        margin = taken // REDRAFT_PART if fill else 0
        room = layout.limit - layout.tokens - taken - SLACK - margin
        if room > WORTH_FILLING * layout.limit:
            room = ladder.fill(layout, room, clip=fill)
        if room > WORTH_FILLING * layout.limit and fill:
            ladder.extend(layout, room)
        if layout.cut == cut:
            return checkpoints
        checkpoints = _redrafted(selection, written, checkpoints[0])
        if not checkpoints:  # all is in view after all: its room is free again
            ladder.fill(layout, layout.limit - layout.tokens, clip=fill)
            return checkpoints
    return checkpoints


def _record(selection: Selection, checkpoints: Sequence[Checkpoint]) -> Message | None:
    """The standing record of a session, in its room and in what the target leaves."""
    standing = selection.standing
    if not (selection.policy.summarizes and standing.is_session and checkpoints):
        return None
    layout, history, budget = selection.layout, selection.history, selection.budget
    taken = layout.tokens + sum(c.token_count for c in checkpoints) + SLACK
    free = layout.limit - taken
    raised = layout.limit - (budget.limit - budget.overhead_tokens)  # for a large group
    most = free if standing.by_record else standing.caps.record * MOST_RECORD
    room = max(selection.record, min(free - raised, most))
    if min(room, free) < LEAST_RECORD:
        usable = (budget.hard or budget.limit) - budget.overhead_tokens
        room, free = LEAST_RECORD, max(free, usable - taken)
    told, until = [c.body for c in checkpoints], history[len(history) - 1].timestamp
    room = min(room, free)
    for _ in range(SHRINKS):
        said = composer_of(selection).standing(room - RECORD_HEADING, told)
        text = redact(said, history.secrets).text
        if not text:
            return None
        record = record_message(text, messages=len(history), until=until, own=history.own)
        history.counter.composed(record.text)
        over = history.counter.message(record) - free
        if over <= 0:
            return record
        room -= over
    return None


def _live(selection: Selection, made: Sequence[Checkpoint]) -> list[Checkpoint]:
    """The live checkpoints afterwards, oldest span first."""
    replaced = {parent for c in made for parent in c.parents}
    stays = [s for s in selection.ageing.steps if isinstance(s, Checkpoint)]
    if not selection.policy.summarizes:
        stays = list(selection.standing.live)
    rows = [c for c in stays if c.id not in replaced]
    return sorted((*rows, *made), key=lambda c: (c.span.first, c.span.last))


def _redrafted(
    selection: Selection, written: Sequence[tuple[Task, Judged]], before: Checkpoint
) -> list[Checkpoint]:
    """A single call's checkpoint over what is covered now, hardly larger than before."""
    ((task, judged),) = written
    covered = selection.layout.covered()
    if not covered:
        return []
    size = selection.history.counter.text(before.summary)
    room = size + size // REDRAFT_PART + SLACK
    return [_fitting(selection, replace(task, positions=covered, room=room), judged)]


def _fitting(selection: Selection, task: Task, judged: Judged) -> Checkpoint:
    """The checkpoint; a single call's in less room where it takes more than there is, as some
    tokenizers count lines higher together than alone, and at last as a receipt.
    """
    layout = selection.layout
    for _ in range(SHRINKS):
        made = draft(selection, task, judged)
        over = made.token_count + layout.tokens - layout.limit
        if over <= 0 or selection.standing.is_session:
            return made
        task = replace(task, room=task.room - over)
    return draft(selection, replace(task, request=None), RECEIPT)


def _shown(
    selection: Selection, checkpoints: Sequence[Checkpoint], record: Message | None = None
) -> list[tuple[int | None, Message]]:
    """The messages in view and the checkpoints, in the order of the log, each with its position,
    also where it is shortened; None for what we made. The record stands at the cut, so that what
    was shown before stays as it was.
    """
    history = selection.history
    read = history.compacted  # what stands before it, its provider does not read
    read = group_at(history, read).stop if read >= 0 else 0
    rows: list[tuple[int, int, list[tuple[int | None, Message]]]] = [
        (max(read, c.span.first), 0, [(None, c.message(history.own))]) for c in checkpoints
    ]
    if record is not None:
        rows.append((max(read, selection.layout.cut), -1, [(None, record)]))
    for piece in selection.layout.pieces():
        rows.append((piece.positions[0], 1, _placed(history, piece.positions, piece.messages)))
    rows.sort(key=lambda row: row[:2])
    return [shown for _, _, told in rows for shown in told]


def _placed(
    history: History, positions: Sequence[int], messages: Sequence[Message]
) -> list[tuple[int | None, Message]]:
    """Messages that are shown of some positions, each with the one it stands for."""
    by_id = {history[i].id: i for i in positions}
    as_said = {id(history.shown(i)): i for i in positions}
    return [(as_said.get(id(m), by_id.get(m.id)), m) for m in messages]


def pieces_in_order(history: History, context: ActiveContext) -> tuple[Piece, ...]:
    """The recipe of a context that shows the whole history, calls closed."""
    return pieces_of(_placed(history, range(len(history)), context.messages), history)


def exchanged(
    context: ActiveContext,
    pieces: Sequence[Piece],
    others: Mapping[str, Checkpoint],
    own: OwnText,
) -> tuple[ActiveContext, tuple[Piece, ...]]:
    """The same context and recipe with other checkpoints in the places of some, by their ids."""
    before = [c for c in context.checkpoints if c.id in others]
    more = sum(others[c.id].token_count - c.token_count for c in before)
    told = context.model_copy(
        update={
            "messages": tuple(
                others[m.id].message(own) if m.id in others else m for m in context.messages
            ),
            "checkpoints": tuple(others.get(c.id, c) for c in context.checkpoints),
            "tokens": context.tokens + more,
        }
    )
    ids = {before: other.id for before, other in others.items()}
    return told, tuple(_renamed(piece, ids) for piece in pieces)


def _renamed(piece: Piece, ids: Mapping[str, str]) -> Piece:
    if isinstance(piece, CheckpointRef):
        return CheckpointRef(ids.get(piece.checkpoint_id, piece.checkpoint_id))
    return piece


def validate(context: ActiveContext, selection: Selection) -> None:
    """Prove that the context fits and keeps to the provider's rules.

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
