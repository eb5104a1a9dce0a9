"""What several commands tell of messages, sessions and plans: as JSON values, and in parts for a
person.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from datetime import datetime
from time import monotonic
from typing import TYPE_CHECKING, Any

from compact.apps.cli.changes import FATES, changes_of, fates_by_speaker
from compact.apps.cli.told import PARTS, Bar, Cell, Shown, Styled, Table
from compact.apps.cli.words import LONGEST_LINE, counted, one_line, whole
from compact.core.context import ActiveContext, render_text
from compact.core.formats.known import prompt_of
from compact.core.messages import Message
from compact.core.remembered import KIND
from compact.core.speakers import speaker_of
from compact.wiring import file_formats

if TYPE_CHECKING:
    from compact.apps.cli.jobs import Job
    from compact.core.checkpoints import Checkpoint
    from compact.core.plan import Plan, RungName
    from compact.core.sessions import Session
    from compact.core.tokens import TokenCounter
    from compact.managers.context_manager import ContextManager
    from compact.managers.session.history import SessionHistory

SPEAKERS: Mapping[str, str] = {
    "system": "blue",
    "person": "bold",
    "checkpoint": "green",
    "injected": "bright_black",
}
"""What the lines of a speaker look like."""

Row = tuple[int | None, Message, int | None]
"""A message with its number and its tokens, each where it has one."""


# --- messages and sessions ------------------------------------------------------------------------


def words_of(message: Message) -> str:
    """What a message says, its tool calls and results included."""
    return render_text([message]).partition("\n")[2]


def time_of(at: datetime) -> str:
    """A time for people, of the zone they are in."""
    try:
        return at.astimezone().strftime("%Y-%m-%d %H:%M")
    except (OverflowError, ValueError, OSError):  # the year 1 or 9999, beyond the zone's tables
        return at.isoformat(" ", "minutes")


def session_json(session: Session) -> dict[str, Any]:
    """A session as JSON values."""
    return {
        "id": session.id,
        "title": session.title,
        "scope": session.scope,
        "model": session.model,
        "format": session.wire,
        "tokenizer": session.tokenizer,
        "messages": session.branch.messages,
        "tokens": session.branch.tokens,
        "branch": session.branch.id,
        "created_at": session.created_at.isoformat(),
        "updated_at": session.updated_at.isoformat(),
    }


def messages_json(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """Messages as JSON values; their numbers count from 0."""
    return [
        {
            "number": number,
            "id": message.id,
            "role": message.role,
            "voice": speaker_of(message),
            "time": message.timestamp.isoformat(),
            "tokens": tokens,
            "text": words_of(message),
        }
        for number, message, tokens in rows
    ]


def checkpoint_json(checkpoint: Checkpoint, *, live: bool) -> dict[str, Any]:
    """A checkpoint as JSON values; its messages count from 0."""
    span = checkpoint.span
    return {
        "id": checkpoint.id,
        "live": live,
        "level": checkpoint.level,
        "first": span.first,
        "last": span.last,
        "messages": span.messages,
        "tokens_of_messages": span.tokens,
        "tokens": checkpoint.token_count,
        "made_by": checkpoint.made_by,
        "parents": list(checkpoint.parents),
    }


def standing_json(ctx: ContextManager) -> dict[str, Any]:
    """Where a session stands, as JSON values; the tokens are those that `context` shows."""
    return {
        "session": ctx.id,
        "branch": ctx.branch_id,
        "messages": len(ctx.history),
        "window": ctx.window.size,
        "tokens": ctx.context_at(len(ctx.history)).tokens,
        "checkpoints": [checkpoint.id for checkpoint in ctx.checkpoints],
    }


def standing_line(ctx: ContextManager) -> str:
    """Where a session stands, on one line."""
    used = ctx.context_at(len(ctx.history)).tokens
    line = (
        f"session {ctx.id!r}, branch {ctx.branch_id!r}: {counted(len(ctx.history), 'message')}; "
        f"the context for a window of {ctx.window.size:,} has {counted(used, 'token')}, "
        f"{counted(len(ctx.checkpoints), 'checkpoint')}"
    )
    later = "; it will be compressed before the next prompt"
    return line + later if used > ctx.window.trigger else line


def messages_parts(rows: Iterable[Row], *, full: bool) -> Iterator[Shown]:
    """Messages: a line each, or word for word, each under its heading."""
    for number, message, tokens in rows:
        if full:
            size = "" if tokens is None else f" · {counted(tokens, 'token')}"
            name = whole(message.id) if number is None else f"{number:,} · {whole(message.id)}"
            head = f"{name} · {message.role} · {time_of(message.timestamp)}{size}"
            yield from headed(head, words_of(message))
            continue
        at = "" if number is None else f"{number:,}"
        size = "" if tokens is None else f"{tokens:,}"
        speaker = speaker_of(message)
        rest = f"{speaker:<11} {size:>8}  {one_line(words_of(message), 200)}"
        line = f"{at:>7}  {time_of(message.timestamp):<16}  {rest}"
        yield Styled(line, SPEAKERS.get(speaker, ""), is_row=True, short=f"{at:>7}  {rest}")


def headed(head: str, text: str) -> Iterator[Shown]:
    """A text word for word under its heading."""
    yield Styled(head, "bold")
    yield Styled(f"{text}\n")


# --- contexts of a session ------------------------------------------------------------------------


def context_json(ctx: ContextManager, wire: str, seen: ActiveContext, at: int) -> dict[str, Any]:
    """A context as JSON values, its messages in the session's wire format."""
    system = {"system": seen.system_text} if seen.system else {}
    return {
        "session": ctx.id,
        "branch": ctx.branch_id,
        "at": at,
        **system,
        "window": ctx.window.size,
        "usable": ctx.window.usable,
        "tokens": seen.tokens,
        "checkpoints": [checkpoint.id for checkpoint in seen.checkpoints],
        "messages": prompt_of(seen, wire),
    }


def context_parts(
    ctx: ContextManager, seen: ActiveContext, at: int, *, most: int, full: bool
) -> Iterator[Shown]:
    """A context as a person sees it: how large it is, and its newest messages."""
    total, window, system = len(ctx.history), ctx.window, seen.system_text
    of_all = counted(total, "message")
    when = f"now, with {of_all}" if at == total else f"at {at:,} of {of_all}"
    yield Styled(one_line(f"{ctx.id} · {when}", 200), "bold")
    usable = f"the {window.usable:,} tokens a prompt may use of {window.size:,}"
    if (over := seen.tokens - window.usable) > 0:
        yield Styled(f"{seen.tokens:,} tokens: {over:,} more than {usable}", "bold red")
    else:
        yield f"{seen.tokens:,} of {usable}"
    parts = tokens_by_part(seen.messages, ctx.history.counter)
    del parts["pinned"]
    parts["system"] += ctx.estimate_tokens(system) if system else 0
    parts["tools and framing"] = max(0, seen.tokens - sum(parts.values()))
    parts["free"] = max(0, window.usable - seen.tokens)
    yield Bar(parts, max(window.usable, seen.tokens))
    if at == total and seen.tokens > window.trigger:
        trigger = f"the trigger of {window.trigger:,} tokens was passed"
        yield Styled(f"{trigger}: the next prompt is compressed first", "yellow")
    yield ""
    rows = list(_placed(ctx.history, seen.messages[-most:]))
    if left := len(seen.messages) - len(rows):
        verb = "is" if left == 1 else "are"
        older = counted(left, "older message")
        yield f"{older} {verb} not shown: --most {len(seen.messages)} shows all\n"
    if system:
        rows.insert(0, (None, Message(role="system", content=system), ctx.estimate_tokens(system)))
    yield from messages_parts(rows, full=full)


def _placed(history: SessionHistory, messages: Sequence[Message]) -> Iterator[Row]:
    """Messages of a context with their numbers and tokens. They stand in the order of the history,
    so that the next one is mostly the one after.
    """
    after = 0
    for message in messages:
        position: int | None = after
        if after >= len(history) or history[after].id != message.id:
            position = history.position_of(message.id)
        if position is None:
            yield None, message, history.counter.message(message)
            continue
        after = position + 1
        is_whole = not message.edited
        tokens = history.tokens(position) if is_whole else history.counter.message(message)
        yield position, message, tokens


def tokens_by_part(
    messages: Iterable[Message], counter: TokenCounter, pinned: Set[str] = frozenset()
) -> dict[str, int]:
    """Where the tokens of a context's messages are: by part, those of the window that they have
    none of included; `pinned` are ids.
    """
    parts = dict.fromkeys(PARTS, 0)
    for message in messages:
        speaker = speaker_of(message)
        part: str = speaker if speaker in ("system", "checkpoint") else "recent"
        if part == "recent" and message.id in pinned:
            part = "pinned"
        if part == "checkpoint" and message.text.startswith("[Record "):
            part = "record"
        elif speaker == "injected" and message.text.startswith(f"[{KIND} "):
            part = "memory"
        parts[part] += counter.message(message)
    return parts


# --- conversations from files, and plans for them -------------------------------------------------


def margin_of(counter: TokenCounter) -> float:
    """The share by which an estimate lies above a typical count; 0 for exact counts."""
    return float(getattr(counter.estimator, "margin", 0.0))


def source_json(job: Job) -> dict[str, Any]:
    """What was read and how it is counted, as JSON values."""
    return {
        "file": job.transcript.source,
        "format": job.transcript.format,
        "notes": list(job.transcript.notes),
        "tokenizer": job.counter.estimator.name,
        "exact": job.counter.exact,
        "margin": round(margin_of(job.counter), 4),
    }


def source_parts(job: Job) -> Iterator[Shown]:
    """What was read, how it is counted, and what the reader left out."""
    transcript, counter = job.transcript, job.counter
    how = "exact"
    if not counter.exact:
        how = f"an estimate, about {margin_of(counter):.0%} above a typical count"
    yield Styled(transcript.source, is_row=True)
    yield f"{file_formats()[transcript.format]}; tokens by {counter.estimator.name}, {how}"
    if transcript.notes:
        yield Styled(f"notes: {one_line('; '.join(transcript.notes), LONGEST_LINE)}", "yellow")


def window_of(plan: Plan, job: Job) -> dict[str, int]:
    """Where the tokens of the new context are: by part, what is free included."""
    pinned = {job.messages[i].id for i, fate in plan.fates.items() if fate == "pinned"}
    parts = tokens_by_part(plan.context.messages, job.counter, pinned)
    parts["checkpoint"] += parts.pop("record")
    parts["tools and framing"] = plan.tokens_after - sum(parts.values())
    parts["free"] = plan.limit - plan.tokens_after
    return parts


def plan_json(plan: Plan, job: Job) -> dict[str, Any]:
    """The plan as JSON values, without the messages."""
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
        # a file without times would get the time of this run: the same input, the same bytes
        "checkpoint": checkpoint and checkpoint.model_dump(mode="json", exclude={"until"}),
    }


LEGEND = (
    "kept, pinned: word for word. masked: a note in place of tool output. clipped: head and tail. "
    "covered: in a checkpoint."
)
"""What becomes of messages, in words."""


def plan_parts(plan: Plan, job: Job, *, details: bool = False) -> Iterator[Shown]:
    """What goes in and what comes out, what is done and why, and the new window; with details also
    what may not be shortened and what becomes of the messages.
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
    """Where the tokens of the new context are, drawn."""
    return Bar(window_of(plan, job), plan.limit)


def result_line(plan: Plan, since: float) -> Styled:
    """The result in one line: tokens before and after, the share that is gone, and the seconds
    since the work began (by `monotonic`).
    """
    before, after = plan.tokens_before, plan.tokens_after
    known = f"more than {plan.limit:,}" if before is None else f"{before:,}"
    less = f", −{1 - after / before:.0%}".replace("%", " %") if before and after < before else ""
    return Styled(f"{known} → {after:,} tokens{less}, {monotonic() - since:.1f} s", "bold")


def size_parts(plan: Plan, job: Job) -> Iterator[Shown]:
    """What went in and what came out, the result first."""
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
"""What a step is called where its own name is a word of ours."""


def rung_parts(plan: Plan) -> Iterator[Shown]:
    """The rungs of the ladder: what each did, why, and what it freed."""
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
    """What became of the messages, by who spoke."""
    fates = fates_by_speaker(changes_of(plan, job))
    rows = [(speaker, *map(row.get, FATES)) for speaker, row in fates.items()]
    yield Table(("messages of", *FATES), rows, right=FATES)
    yield LEGEND
    yield ""
