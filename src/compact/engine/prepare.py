"""The stage *prepare*: the requests to the summarizer, for new checkpoints and for aged ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

from compact.engine.checkpoint_levels import LEAST_CAP, Rewrite
from compact.engine.checkpoint_text import REFERENCE_TOKENS, Composer
from compact.engine.chronology.notes import MOST_READ
from compact.engine.forms import ClosedMessages, forms_of
from compact.engine.history import History, newest
from compact.engine.identify import Selection, counted, parts_of
from compact.engine.ladder import Layout
from compact.engine.visible import LazyMessages, MessagesInView, VisibleText
from compact.messages.checkpoints import LEAST, Checkpoint, Level, SummaryRequest
from compact.messages.message_redaction import redact_text
from compact.messages.messages import Message
from compact.text.modes import KindWeights, weights_of
from compact.text.speakers import own_words_of


@dataclass(frozen=True, slots=True)
class Task:
    """A checkpoint to write: the request, and what the checkpoint will replace."""

    level: Level
    request: SummaryRequest | None
    """None means a receipt."""
    source_tokens: int | None
    """Tokens of the text to summarize. None if not all were counted."""
    sources: tuple[Checkpoint, ...] = ()
    """Checkpoints that the new one replaces."""
    positions: Sequence[int] = ()
    """Positions of messages that no earlier checkpoint covers."""
    part: tuple[int, int] | None = None
    """Start (included) and end (not included) of the span, if there are several parts."""
    unread: int = 0
    """How many of the messages were not read."""
    room: int = 0
    """Tokens for the text of a single call's checkpoint, without its heading."""


MOST_OF_SOURCE = 0.25
"""If a mode lowers the room, a summary first gets at most this share of its source."""
STORY_OF_SOURCE, LONGEST_STORY = 4, 3_000
"""A model's summary takes at most one part in `STORY_OF_SOURCE` of its source, and at most
`LONGEST_STORY` tokens. Longer ones repeat themselves."""
REBUILD = 2
"""An aged checkpoint is written from the history if its span is at most this many times the usable
window. A longer one is written from its text."""
SLACK = 12
"""Tokens left free, because numbers in the heading may grow by a digit."""


def prepare(selection: Selection) -> list[Task]:
    """Return the checkpoints to write: for newly covered messages, and for checkpoints that age."""
    live = selection.standing.live
    new = _newly_covered(selection)
    if not selection.policy.summarizes:
        if not (new or (live and selection.standing.pressure == "merge")):
            return []
        return [Task("merged", None, None, sources=live, positions=new)]
    rewrites = selection.ageing.rewrites
    if not (new and live and new[-1] < selection.layout.since):
        tasks = [_rewrite(selection, rewrite, ()) for rewrite in rewrites]
        return [*tasks, *_summaries_of_new(selection, new)] if new else tasks
    # the new messages were kept until now: the newest checkpoint takes them in
    last = next((r for r in rewrites if live[-1] in r.sources), None)
    if last is None:
        last = Rewrite((live[-1],), live[-1].level, max(LEAST_CAP, live[-1].token_count))
        rewrites = (*rewrites, last)
    return [_rewrite(selection, r, new if r is last else ()) for r in rewrites]


def _newly_covered(selection: Selection) -> list[int]:
    """Return in order the positions that the prompt no longer shows and no checkpoint covers."""
    layout = selection.layout
    released = sorted(i for i in layout.spared if i not in layout.held)
    return released + layout.covered()


def composer_of(selection: Selection) -> Composer:
    """Return the composer of the record for what the prompt shows."""
    assert selection.notes is not None, "a summary is asked for"
    seen = _seen(selection)
    if selection.composed is None or selection.composed[0] is not seen:
        composer = Composer(
            selection.notes,
            selection.history.counter,
            VisibleText([shape.visible for shape in _staying(selection)], beside=seen),
            selection.policy.mode,
            selection.policy.strategy,
            selection.layout.cut,
            [i for p in selection.layout.pieces() if p.form != "verbatim" for i in p.positions],
            selection.standing.by_model,
        )
        selection.composed = seen, composer
    return selection.composed[1]


def _seen(selection: Selection) -> VisibleText:
    shapes = [piece.shape for piece in selection.layout.pieces()]
    if selection.seen is None or selection.seen[0] != shapes:
        selection.seen = shapes, VisibleText([shape.visible for shape in shapes])
    return selection.seen[1]


def _staying(selection: Selection) -> list[ClosedMessages]:
    """Return the checkpoints that are not rewritten."""
    stays = [step for step in selection.ageing.steps if isinstance(step, Checkpoint)]
    return forms_of(selection.history).standing(stays)


def _summaries_of_new(selection: Selection, new: list[int]) -> list[Task]:
    """Return the tasks for newly covered messages, usually one. A session that was loaded whole
    gets one for each level, within its cap. The newest may take the room that the others leave.
    """
    layout, history, standing = selection.layout, selection.history, selection.standing
    if not standing.is_session:
        return [_summary_of_call(selection, new)]
    parts = parts_of(history, standing, selection.policy, new)
    if len(parts) == 1:
        cap = _room_of_new(selection, newest(history, new, MOST_READ)[1])
        return [_summary_of_part(selection, new, selection.policy.new_level, cap, None)]
    caps, heading = standing.caps, _heading_tokens(selection)
    room = layout.limit - layout.tokens - selection.ageing.tokens - selection.record
    room = min(room, caps.together)
    wanted = [caps.of(level) for level, _ in parts]
    shares = [int(each * min(1.0, room / sum(wanted))) for each in wanted]
    shares[-1] += min(room - sum(shares), caps.together // 2 - shares[-1])
    begins = [standing.cut, *(positions[0] for _, positions in parts[1:]), layout.cut]
    return [
        _summary_of_part(selection, list(positions), level, max(24, share - heading), part)
        for (level, positions), share, part in zip(parts, shares, pairwise(begins), strict=True)
    ]


def _summary_of_call(selection: Selection, new: list[int]) -> Task:
    layout, source = selection.layout, counted(selection.history, new)
    composer = composer_of(selection)
    room = _wanted(_room_of_new(selection, source), source, composer.weights)
    record, cap = composer.planned(room)
    request = _request(selection, new, record, "detailed", cap, (0, layout.cut))
    if selection.standing.by_model:
        told = min(max(cap, composer.story_room(room)), max(LEAST_CAP, source // STORY_OF_SOURCE))
        asked = max(1, min(_asked_of_model(selection, told), LONGEST_STORY))
        request = request.model_copy(update={"max_tokens": asked})
    return Task("detailed", request, source, positions=new, room=room)


def _summary_of_part(
    selection: Selection, new: list[int], level: Level, cap: int, part: tuple[int, int] | None
) -> Task:
    standing, notes = selection.standing, selection.notes
    composer = composer_of(selection)
    read, source = newest(selection.history, new, MOST_READ)
    cap = _wanted(cap, source, composer.weights)
    record = composer.now(selection.record)
    reach = part or (standing.cut, selection.layout.cut)
    request = _request(selection, read, record, level, cap, reach)
    if part is not None and notes is not None and notes.items.forgotten > part[0]:
        anew = {"notes": None, "reach": (0, 1 << 60)}  # the notes forgot too much: read again
        request = request.model_copy(update=anew)
    unread = len(new) - len(read)
    size = None if unread else source
    return Task(level, request, size, positions=new, part=part, unread=unread, room=cap)


def _request(
    selection: Selection,
    read: Sequence[int],
    record: str,
    level: Level,
    cap: int,
    reach: tuple[int, int],
) -> SummaryRequest:
    layout, history = selection.layout, selection.history
    stays = [shape.told(history, ()) for shape in _staying(selection)]
    if selection.standing.by_model:  # a model reads what the prompt only shows shortened
        read = sorted({*read, *composer_of(selection).clipped})
    return SummaryRequest.model_construct(
        # redacted first: this finds secrets for the fields below
        kept=_redacted_view(selection, stays),
        messages=_originals(selection, read),
        record=record,
        notes=selection.notes,
        reach=reach,
        answers=_answers(layout, history),
        max_tokens=max(1, _asked_of_model(selection, cap)),
        stand_in_tokens=max(1, cap),
        level=level,
        **_wishes(selection),
    )


def _originals(selection: Selection, positions: Sequence[int]) -> Sequence[Message]:
    """Return the redacted messages at these positions. If they are in the notes, their secrets are
    known, and they are read lazily.
    """
    history, notes = selection.history, selection.notes
    messages = LazyMessages(lambda: [history.redacted(i) for i in positions])
    if notes is None or any(i < notes.since for i in positions):
        len(messages)
    return messages


def _asked_of_model(selection: Selection, cap: int) -> int:
    """Return how many tokens to ask a model for. A small model writes badly at length."""
    share = selection.policy.level_share
    return min(cap, max(LEAST[selection.policy.new_level], int(cap * share)))


def _room_of_new(selection: Selection, source: int) -> int:
    """Return the tokens for the new checkpoint, without its heading."""
    layout, standing = selection.layout, selection.standing
    heading = _heading_tokens(selection)
    room = layout.limit - layout.tokens - selection.ageing.tokens - selection.record - heading
    if standing.is_session:
        caps = standing.caps
        others = min(caps.together - selection.ageing.tokens, caps.together // 2)
        room = min(room, max(caps.of(selection.policy.new_level), others) - heading)
        if standing.by_model:
            room = min(room, LONGEST_STORY, max(LEAST_CAP, source // STORY_OF_SOURCE))
    return max(24, min(room, source))


def _wishes(selection: Selection) -> dict[str, Any]:
    """Return the fields that all requests share: strategy, mode, guidance, goals, tasks."""
    policy, standing = selection.policy, selection.standing
    redacted = partial(redact_text, known=selection.history.secrets)
    return {
        "strategy": policy.strategy,
        "mode": policy.mode,
        "guidance": redacted(policy.guidance),
        "goals": tuple(map(redacted, standing.goals)),
        "open_tasks": tuple(map(redacted, standing.open_tasks)),
    }


def _wanted(room: int, source: int, weights: KindWeights) -> int:
    """Return how much of the room to use: less if the mode wants a short summary."""
    if weights.room < 1:
        room = int(min(room, source * MOST_OF_SOURCE) * weights.room)
    return max(24, room)


def _rewrite(selection: Selection, rewrite: Rewrite, more: Sequence[int]) -> Task:
    """Return the task for an aged checkpoint, with the messages at `more` added. It is written from
    the history. If that is too long, or if the user wrote a summary, it is written from the
    checkpoints.
    """
    history, sources, standing = selection.history, rewrite.sources, selection.standing
    kept = _redacted_view(selection)  # redacted first: this finds secrets for the messages below
    source = sum(c.span.tokens or 0 for c in sources)
    by_person = any(c.is_by_person for c in sources)
    known = all(c.span.tokens is not None for c in sources) and not by_person
    if known and source <= REBUILD * standing.caps.usable:
        covered = [i for c in sources for i in c.covered()]
        messages = _originals(selection, [*covered, *more])
    else:
        told = [c.message(history.own) for c in sources]
        messages = [*told, *_originals(selection, more)]
        source = sum(c.token_count for c in sources)
    weights = weights_of(selection.policy.mode, selection.policy.strategy)
    cap = _wanted(rewrite.cap - _heading_tokens(selection), source, weights)
    first = min(c.span.first for c in sources)
    notes = selection.notes
    if notes is not None and (by_person or notes.items.forgotten > first):
        notes = None  # the notes lack the user's summary, or forgot too much
    request = SummaryRequest.model_construct(
        kept=kept,
        messages=messages,
        notes=notes,
        reach=(first, max(c.span.last for c in sources) + 1) if notes else (0, 1 << 60),
        max_tokens=cap,
        level=rewrite.level,
        **_wishes(selection),
    )
    size = source + counted(history, more)
    return Task(rewrite.level, request, size, sources=sources, positions=more)


def _answers(layout: Layout, history: History) -> dict[str, str]:
    """Return the user's answers that stay in the prompt, by the ids of messages that do not."""
    found: dict[str, str] = {}
    for position in layout.held:
        asked = position - 1
        if (
            layout.since <= asked < layout.cut
            and asked not in layout.held
            and history.is_person(position)
        ):
            found[history[asked].id] = own_words_of(history.redacted(position))
    return found


def _heading_tokens(selection: Selection) -> int:
    reference = REFERENCE_TOKENS if selection.standing.is_session else 0
    return 40 + reference + selection.history.counter.framing.per_message + SLACK


def _redacted_view(selection: Selection, before: Sequence[ClosedMessages] = ()) -> MessagesInView:
    """Return these checkpoints and the messages after them, with secrets redacted."""
    history, pieces = selection.history, selection.layout.pieces()
    told = [piece.shape.told(history, piece.positions) for piece in pieces]
    same = all(shape is piece.shape for shape, piece in zip(told, pieces, strict=True))
    view = _seen(selection) if same else VisibleText([shape.visible for shape in told])
    messages = [message for shape in (*before, *told) for message in shape.messages]
    return MessagesInView(messages, VisibleText([shape.visible for shape in before], beside=view))
