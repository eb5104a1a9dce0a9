"""Shows the result of compressing a file: as JSON values, as text, or message by message."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Any, get_args

from compact.cli.jobs import Job
from compact.cli.render import Bar, Cell, Shown, Styled, Table
from compact.cli.views import tokens_by_part
from compact.cli.words import LONGEST_LINE, counted, one_line
from compact.engine.plan import Fate, Plan, RungName
from compact.messages.messages import Message
from compact.messages.tokens import TokenCounter
from compact.text.speakers import speaker_of
from compact.wiring import file_formats

FATES: tuple[str, ...] = get_args(Fate)


@dataclass(frozen=True)
class ShownChange:
    """What happened to one message. `number` counts from 0. It is None for a new message."""

    number: int | None
    speaker: str
    fate: str
    before: Message | None
    after: Message | None
    tokens_before: int
    tokens_after: int
    why: str = ""
    """What happened to the message and why, in words."""


def changes_of(plan: Plan, job: Job) -> list[ShownChange]:
    """Return what happened to each message, in order, new messages included.

    Calls and their results are shortened together as a group. A message in a group that did not
    change counts as kept.
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
    old_ids = {message.id for message in job.messages}
    news: dict[str, list[ShownChange]] = {}
    last = ""
    for message in plan.context.messages:
        if message.id in old_ids:
            last = message.id
            continue
        speaker = speaker_of(message)
        fate = "checkpoint" if speaker == "checkpoint" else "added"
        tokens = job.counter.message(message)
        news.setdefault(last, []).append(ShownChange(None, speaker, fate, None, message, 0, tokens))
    return news


def fates_by_speaker(changes: Sequence[ShownChange]) -> dict[str, dict[str, int]]:
    """Return the number of messages: speaker → outcome → number."""
    counts = Counter((each.speaker, each.fate) for each in changes if each.number is not None)
    return {
        speaker: {fate: counts[speaker, fate] for fate in FATES if counts[speaker, fate]}
        for speaker, _ in counts
    }


def margin_of(counter: TokenCounter) -> float:
    """Return how much an estimate exceeds a typical count, as a share. 0 for exact counts."""
    return float(getattr(counter.estimator, "margin", 0.0))


def source_json(job: Job) -> dict[str, Any]:
    """Return the source and the tokenizer, as JSON values."""
    return {
        "file": job.transcript.source,
        "format": job.transcript.format,
        "notes": list(job.transcript.notes),
        "tokenizer": job.counter.estimator.name,
        "exact": job.counter.exact,
        "margin": round(margin_of(job.counter), 4),
    }


def source_parts(job: Job) -> Iterator[Shown]:
    """Yield the source, the tokenizer and the reader's notes, for people."""
    transcript, counter = job.transcript, job.counter
    how = "exact"
    if not counter.exact:
        how = f"an estimate, about {margin_of(counter):.0%} above a typical count"
    yield Styled(transcript.source, is_row=True)
    yield f"{file_formats()[transcript.format]}; tokens by {counter.estimator.name}, {how}"
    if transcript.notes:
        yield Styled(f"notes: {one_line('; '.join(transcript.notes), LONGEST_LINE)}", "yellow")


def window_of(plan: Plan, job: Job) -> dict[str, int]:
    """Return the tokens of each part of the window in the new context, free tokens included."""
    pinned = {job.messages[i].id for i, fate in plan.fates.items() if fate == "pinned"}
    parts = tokens_by_part(plan.context.messages, job.counter, pinned)
    parts["checkpoint"] += parts.pop("record")
    parts["tools and framing"] = plan.tokens_after - sum(parts.values())
    parts["free"] = plan.limit - plan.tokens_after
    return parts


def plan_json(plan: Plan, job: Job) -> dict[str, Any]:
    """Return the plan as JSON values, without the messages."""
    checkpoint = plan.checkpoint
    return {
        **source_json(job),
        "limit": plan.limit,
        "tokens_before": plan.tokens_before,
        "tokens_after": plan.tokens_after,
        "messages_before": plan.messages_before,
        "messages_after": len(plan.context.messages),
        "unchanged": plan.unchanged,
        "floor": dict(plan.floor),
        "rungs": [rung.model_dump(mode="json") for rung in plan.rungs],
        "fates": fates_by_speaker(changes_of(plan, job)),
        "window": window_of(plan, job),
        # `until` may be the time of this run, but the same input must give the same output.
        "checkpoint": checkpoint and checkpoint.model_dump(mode="json", exclude={"until"}),
    }


LEGEND = (
    "kept, pinned: word for word. masked: a note in place of tool output. clipped: head and tail. "
    "covered: in a checkpoint."
)


def plan_parts(plan: Plan, job: Job, *, details: bool = False) -> Iterator[Shown]:
    """Yield the sizes, the steps with their reasons, and the new window. With `details`, also yield
    the content that cannot be shortened, and what happened to the messages of each speaker.
    """
    yield from size_parts(plan, job)
    yield from rung_parts(plan)
    if details and not plan.unchanged:
        rows: list[Sequence[Cell]] = list(plan.floor.items())
        total = f"{sum(plan.floor.values()):,}"
        rows.append((Styled("together", "bold"), Styled(total, "bold")))
        yield Table(("what may not be shortened", "tokens"), rows, right=("tokens",))
        yield ""
        yield from fate_parts(plan, job)
    yield window_bar(plan, job)


def window_bar(plan: Plan, job: Job) -> Bar:
    """Return a bar that shows the parts of the new context."""
    return Bar(window_of(plan, job), plan.limit)


def result_line(plan: Plan, since: float) -> Styled:
    """Return the result in one line: tokens before and after, the share saved, and the seconds.
    `since` is the time when the work began, as a value of `time.monotonic`.
    """
    before, after = plan.tokens_before, plan.tokens_after
    size = f"more than {plan.limit:,}" if before is None else f"{before:,}"
    less = f", −{1 - after / before:.0%}".replace("%", " %") if before and after < before else ""
    return Styled(f"{size} → {after:,} tokens{less}, {monotonic() - since:.1f} s", "bold")


def size_parts(plan: Plan, job: Job) -> Iterator[Shown]:
    """Yield the sizes before and after. The result comes first."""
    yield result_line(plan, job.since)
    messages = f"{plan.messages_before:,} → {counted(len(plan.context.messages), 'message')}"
    yield f"{messages}, at most {plan.limit:,} tokens"
    yield from source_parts(job)
    yield ""


STEPS: Mapping[RungName, str] = {
    "mask": "shorten output",
    "age": "shorten older",
    "merge": "join older",
    "record": "list standing facts",
    "lower keep counts": "fewer recent",
    "clip": "cut middles",
    "close": "answer calls",
    "rest": "the rest",
}
"""Step → a name that users understand, if the step's own name is a term of compact."""


def rung_parts(plan: Plan) -> Iterator[Shown]:
    """Yield a table of the steps: what each did, why, and the tokens that it freed."""
    why = f"{plan.why[:1].upper()}{plan.why[1:]}." if plan.why else ""
    if plan.unchanged:
        yield why or "Everything fits: nothing was changed."
        return
    numbers = ("messages", "tokens freed")
    rows = [
        (
            STEPS.get(rung.name, rung.name),
            rung.why,
            rung.messages,
            "not counted" if rung.freed is None else rung.freed,
        )
        for rung in plan.rungs
    ]
    yield Table(("step", "why", *numbers), rows, right=numbers)
    yield f"{why}\n" if why else ""


def fate_parts(plan: Plan, job: Job) -> Iterator[Shown]:
    """Yield a table of the outcomes of the messages, by speaker."""
    fates = fates_by_speaker(changes_of(plan, job))
    rows = [(speaker, *map(row.get, FATES)) for speaker, row in fates.items()]
    yield Table(("messages of", *FATES), rows, right=FATES)
    yield LEGEND
    yield ""
