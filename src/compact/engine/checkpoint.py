"""The stage *checkpoint*: a judged summary becomes a checkpoint with a span, a level and a size."""

from __future__ import annotations

from itertools import takewhile

from compact.engine.chronology.extractive import ExtractiveSummarizer
from compact.engine.gate.rules import Judged
from compact.engine.history import History
from compact.engine.identify import Selection, counted
from compact.engine.inputs import left_by
from compact.engine.prepare import Task, composer_of
from compact.messages.checkpoints import (
    IN_RECORD,
    PERSON,
    REFERENCE_LINE,
    Checkpoint,
    Span,
    Summary,
    checkpoint_id,
)
from compact.messages.messages import SYSTEM_ROLES
from compact.secrets.redaction import redact

RECEIPT = Judged(Summary(text="Earlier messages are not shown.", made_by="receipt"), ())
"""Replaces messages without a summary. The heading says how many messages are hidden."""


def draft(selection: Selection, task: Task, judged: Judged) -> Checkpoint:
    """Build the checkpoint for a task from its judged summary."""
    history, standing = selection.history, selection.standing
    summary = judged.summary
    text = _text_of(selection, task, summary)
    if judged is not RECEIPT:  # the checkpoint may outlive its messages
        text = redact(text, history.secrets).text
    if task.unread:
        text += f"\n\n{task.unread:,} of the earliest messages were not read for this summary."
    span, kept, released = _reach(selection, task)
    number = max((c.number for c in task.sources), default=standing.number + 1)
    made = Checkpoint(
        id="",
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
    return sized(made, history, is_session=standing.is_session)


def sized(made: Checkpoint, history: History, *, is_session: bool = True) -> Checkpoint:
    """Return the checkpoint with its id and its tokens."""
    span = made.span
    source = [history[i].id for i in (span.first, span.last)]
    if is_session:  # other settings make another checkpoint of the same words
        source.append(f"{history.link(span.last + 1)} {made.number} {made.kept} {made.released}")
    made = made.model_copy(update={"id": checkpoint_id(span, source, made.summary)})
    message = made.message(history.own)
    history.counter.composed(message.text)
    return made.model_copy(update={"token_count": history.counter.message(message)})


def _is_in_record(selection: Selection, task: Task, summary: Summary) -> bool:
    by_code = task.request is not None and summary.made_by == ExtractiveSummarizer.name
    persons = any(c.is_by_person for c in task.sources)
    return selection.standing.by_record and by_code and not persons


def _maker_of(task: Task, summary: Summary) -> str:
    if summary.made_by != PERSON and any(c.is_by_person for c in task.sources):
        return f"{PERSON}, {summary.made_by}"
    return summary.made_by


def _text_of(selection: Selection, task: Task, summary: Summary) -> str:
    if task.request is None:
        return summary.text
    if selection.standing.is_session:
        return f"{REFERENCE_LINE}\n{summary.text}" if summary.text else REFERENCE_LINE
    story = None if summary.made_by == ExtractiveSummarizer.name else summary.text
    text = composer_of(selection).written(story, task.room)
    after = _after(selection)
    return "\n\n".join(filter(None, (REFERENCE_LINE + after, text)))


def _after(selection: Selection) -> str:
    """Say what follows the checkpoint in full, and how many earlier user messages stay."""
    layout = selection.layout
    kept = sum(1 for i in layout.held if selection.history.is_person(i) and i < layout.cut)
    where = "between them" if kept > 1 else "around it"
    alone = f"{kept:,} of a person's messages without what was said {where}, then " if kept else ""
    stand = "stand" if kept > 1 else "stands"
    return f" Below it {stand} {alone}everything from message {layout.cut:,} on."


def _reach(selection: Selection, task: Task) -> tuple[Span, tuple[int, ...], tuple[int, ...]]:
    """Return the span, its positions that stay in the prompt, and released ones before it."""
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
    """Count the system messages at the history's start that stay in the prompt."""
    layout, history = selection.layout, selection.history
    is_shown = (i in layout.held and history[i].role in SYSTEM_ROLES for i in range(layout.cut))
    return sum(1 for _ in takewhile(bool, is_shown))
