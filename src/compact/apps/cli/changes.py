"""What a compression did to each message: before and after, as values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, get_args

from compact.core.messages import Message
from compact.core.plan import Fate, Plan
from compact.core.speakers import speaker_of

if TYPE_CHECKING:
    from compact.apps.cli.jobs import Job

FATES: tuple[str, ...] = get_args(Fate)
LEAST_RUN = 4
"""Neighbours that were kept are shown one by one up to this number."""


@dataclass(frozen=True)
class ShownChange:
    """What became of one message; `number` counts from 0 and is None for what is new."""

    number: int | None
    speaker: str
    fate: str
    before: Message | None
    after: Message | None
    tokens_before: int
    tokens_after: int
    why: str = ""
    """What became of it and why, in words."""


def changes_of(plan: Plan, job: Job) -> list[ShownChange]:
    """Every message of the conversation in order, and what is new where it stands.

    Groups are shortened as a whole; a message of one that stayed as it was counts as kept.
    """
    news = _news(plan, job)
    after = {message.id: message for message in plan.context.messages}
    changes = list(news.pop("", ()))
    for position, message in enumerate(job.messages):
        fate: str = plan.fates.get(position, "covered")
        why, now = plan.why_of(position), None if fate == "covered" else after.get(message.id)
        if fate in ("masked", "clipped") and now is not None and now.content == message.content:
            why = f"kept: of the calls and answers that belong together, others are {fate}"
            fate = "kept"
        changes.append(
            ShownChange(
                number=position,
                speaker=speaker_of(message),
                fate=fate,
                before=message,
                after=now,
                tokens_before=job.counter.message(message),
                tokens_after=job.counter.message(now) if now else 0,
                why=why,
            )
        )
        changes += news.pop(message.id, ())
    return changes


def _news(plan: Plan, job: Job) -> dict[str, list[ShownChange]]:
    """What the context holds that the conversation does not, by the id of the message before it."""
    known = {message.id for message in job.messages}
    news: dict[str, list[ShownChange]] = {}
    last = ""
    for message in plan.context.messages:
        if message.id in known:
            last = message.id
            continue
        speaker = speaker_of(message)
        fate = "checkpoint" if speaker == "checkpoint" else "added"
        tokens = job.counter.message(message)
        news.setdefault(last, []).append(ShownChange(None, speaker, fate, None, message, 0, tokens))
    return news


def fates_by_speaker(changes: Sequence[ShownChange]) -> dict[str, dict[str, int]]:
    """What became of how many messages of the conversation, by who spoke."""
    rows: dict[str, Counter[str]] = {}
    for change in changes:
        if change.number is not None:
            rows.setdefault(change.speaker, Counter())[change.fate] += 1
    return {
        speaker: {fate: row[fate] for fate in FATES if row[fate]} for speaker, row in rows.items()
    }


def runs_of(changes: Sequence[ShownChange]) -> Iterator[list[ShownChange]]:
    """The changes, neighbours of one dull fate together, all others alone."""
    for fate, group in groupby(changes, key=lambda change: change.fate):
        run = list(group)
        if fate == "covered" or (fate == "kept" and len(run) > LEAST_RUN):
            yield run
        else:
            yield from ([change] for change in run)
