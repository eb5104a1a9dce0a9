"""The stage *update*: build the new context, each checkpoint at the start of its span.

The pieces say how to build the same context again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from compact.engine.checkpoint import RECEIPT, draft
from compact.engine.checkpoint_text import AFTER_TOKENS, REFERENCE_TOKENS
from compact.engine.gate.rules import Judged
from compact.engine.groups import group_at
from compact.engine.history import History
from compact.engine.identify import Selection
from compact.engine.prepare import SLACK, Task, composer_of
from compact.engine.prompt_order import pieces_of
from compact.messages.alternation import is_gap, seams_of, with_gaps
from compact.messages.checkpoints import (
    Checkpoint,
    record_message,
)
from compact.messages.context import ActiveContext
from compact.messages.messages import Message
from compact.messages.own_text import OwnText
from compact.messages.sessions import CheckpointRef, Piece
from compact.secrets.redaction import redact

RECORD_HEADING = 60
"""Most tokens above the first section of a record."""
LEAST_RECORD = 160
"""Tokens that a record may take even if the target leaves less, if the usable window has them. With
fewer it could not name anything."""
WORTH_FILLING = 0.03
"""Spare room above this share of the limit is filled with more messages. A lower share uses the
room better, but more checkpoints must be written twice."""
REDRAFT_PART = 14
"""A checkpoint that is written again for other messages may grow by one part in this many. Its
lines may then be joined in another way, and no rule may be lost by that."""
SHRINKS = 4
"""How often a checkpoint or record is written again in less room. After that, a receipt replaces
the checkpoint, and the record is left out."""
FILLS = 3
"""How often spare room is filled with more messages."""
MOST_RECORD = 3
"""The record may take this many times its cap if the target leaves the room."""


def update(
    selection: Selection, written: Sequence[tuple[Task, Judged]]
) -> tuple[ActiveContext, tuple[Piece, ...]]:
    """Return the new context, and the pieces to build it again. Spare room is filled first."""
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
    """Show more messages in spare room; return the checkpoints. If the checkpoint of a single call
    then covers less, it is written again, and the room that this frees is used too.
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
        if not checkpoints:  # no message is covered any more: the checkpoint's room is free
            ladder.fill(layout, layout.limit - layout.tokens, clip=fill)
            return checkpoints
    return checkpoints


def _record(selection: Selection, checkpoints: Sequence[Checkpoint]) -> Message | None:
    """Return a session's record, within its reserve and the room that the target leaves."""
    standing = selection.standing
    if not (selection.policy.summarizes and standing.is_session and checkpoints):
        return None
    layout, history, budget = selection.layout, selection.history, selection.budget
    taken = layout.tokens + sum(c.token_count for c in checkpoints) + SLACK
    free = layout.limit - taken
    # the limit may have been raised for a large group: the record must not use that room
    raised = layout.limit - (budget.limit - budget.overhead_tokens)
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
    replaced = {parent for c in made for parent in c.parents}
    stays = [s for s in selection.ageing.steps if isinstance(s, Checkpoint)]
    if not selection.policy.summarizes:
        stays = list(selection.standing.live)
    rows = [c for c in stays if c.id not in replaced]
    return sorted((*rows, *made), key=lambda c: (c.span.first, c.span.last))


def _redrafted(
    selection: Selection, written: Sequence[tuple[Task, Judged]], before: Checkpoint
) -> list[Checkpoint]:
    """Write the checkpoint of a single call again for the messages that are covered now."""
    ((task, judged),) = written
    covered = selection.layout.covered()
    if not covered:
        return []
    size = selection.history.counter.text(before.summary)
    room = size + size // REDRAFT_PART + SLACK
    if selection.standing.by_model:  # a story is not shortened, and its size includes these lines
        room += REFERENCE_TOKENS + AFTER_TOKENS
    return [_fitting(selection, replace(task, positions=covered, room=room), judged)]


def _fitting(selection: Selection, task: Task, judged: Judged) -> Checkpoint:
    """Return the checkpoint. If that of a single call is too large, write it again in less room,
    and in the end as a receipt. Some tokenizers count joined lines higher than each line alone.
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
    """Return the messages that the prompt shows, in the order of the log, each with its position.
    Shortened messages keep their position; None means that compact made the message. The record
    comes at the cut, so that the text before it does not change.
    """
    history = selection.history
    read = history.compacted  # a provider ignores everything before its own compaction
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
    by_id = {history[i].id: i for i in positions}
    as_said = {id(history.shown(i)): i for i in positions}
    return [(as_said.get(id(m), by_id.get(m.id)), m) for m in messages]


def pieces_in_order(history: History, context: ActiveContext) -> tuple[Piece, ...]:
    """Return the pieces of a context that shows the whole history, with calls closed."""
    return pieces_of(_placed(history, range(len(history)), context.messages), history)


def exchanged(
    context: ActiveContext,
    pieces: Sequence[Piece],
    others: Mapping[str, Checkpoint],
    own: OwnText,
) -> tuple[ActiveContext, tuple[Piece, ...]]:
    """Return the context and pieces, with other checkpoints in place of those with the same ids."""
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
    return told, tuple(
        CheckpointRef(ids.get(piece.checkpoint_id, piece.checkpoint_id))
        if isinstance(piece, CheckpointRef)
        else piece
        for piece in pieces
    )
