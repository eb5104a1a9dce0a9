"""What a person sees: lines, tables, bars; and of them messages, sessions and plans.

Everything is shown on a terminal without Unicode or colours too, and nothing a conversation holds
can steer the terminal. What machines get of the same things stands beside it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text as Text

from compact.apps.cli.changes import FATES, changes_of, fates_by_speaker
from compact.apps.cli.words import counted, one_line, visible, whole
from compact.core.context import render_text
from compact.core.messages import Message
from compact.core.speakers import speaker_of
from compact.wiring import file_formats

if TYPE_CHECKING:
    from compact.apps.cli.jobs import Job
    from compact.core.checkpoints import Checkpoint
    from compact.core.plan import Plan
    from compact.core.sessions import Session
    from compact.core.tokens import TokenCounter
    from compact.managers.context import ContextManager

NARROW = 100
"""Columns where the output is no terminal and COLUMNS says nothing."""
LONGEST_WIDTH = 5
"""Digits beyond which COLUMNS is no number of columns."""
LONGEST_LINE = 400
"""Characters of what is told on one line; the end of what is longer is left out."""

_CELLS = "█▓▒░"
_PLAIN_CELLS = "#+=."
PARTS: Mapping[str, str] = {
    "system": "blue",
    "tools and framing": "bright_blue",
    "record": "bright_green",
    "checkpoint": "green",
    "pinned": "cyan",
    "recent": "yellow",
    "free": "bright_black",
}
"""The parts of a window, and what they look like."""
SPEAKERS: Mapping[str, str] = {
    "system": "blue",
    "person": "bold",
    "checkpoint": "green",
    "injected": "bright_black",
}
"""What the lines of a speaker look like."""

Cell = str | int | Text | None
Row = tuple[int | None, Message, int | None]
"""A message with its number and its tokens, each where it has one."""


# --- lines, tables, bars --------------------------------------------------------------------------


def console(*, on_stderr: bool = False) -> Console:
    """The console of a report."""
    stream = sys.stderr if on_stderr else sys.stdout
    said = os.environ.get("COLUMNS", "")
    width = int(said) if said.isdecimal() and len(said) < LONGEST_WIDTH else 0
    if stream is not None and stream.isatty():
        return Console(file=stream, highlight=False)
    return Console(file=stream, width=width or NARROW, highlight=False)


def show(out: Console, text: str, *, style: str = "") -> None:
    """Text as it is, its own line ends included; the terminal breaks what is too wide."""
    out.print(Text(visible(text), style=style), soft_wrap=True)


def show_line(out: Console, text: str, *, style: str = "", most: int = LONGEST_LINE) -> None:
    """Text on one line, cut where it is longer than anybody reads."""
    show(out, one_line(text, most), style=style)


def tell(text: str, *, style: str = "") -> None:
    """Say one thing to a person on stderr, on one line however long it is."""
    if sys.stderr is not None:
        show_line(console(on_stderr=True), text, style=style)


def show_table(
    out: Console,
    columns: Sequence[str],
    rows: Iterable[Sequence[Cell]],
    *,
    right: Sequence[str] = (),
    no_wrap: Sequence[str] = (),
) -> None:
    """A plain table; the columns named in `right` hold numbers. What is wider than its column goes
    on in the next line: nothing is cut. Those named in `no_wrap` are as wide as what they
    hold.
    """
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold", show_edge=False)
    table.show_header = any(columns)
    for name in columns:
        justify: Literal["left", "right"] = "right" if name in right else "left"
        is_kept = name in right or name in no_wrap
        table.add_column(name, justify=justify, no_wrap=is_kept, overflow="fold")
    for row in rows:
        table.add_row(*map(_cell, row))
    out.print(table)


def _cell(value: Cell) -> Text:
    match value:
        case Text():
            return value
        case int():
            return Text(f"{value:,}")
        case None:
            return Text("")
    return Text(visible(value))


def show_bar(out: Console, parts: Mapping[str, int], total: int) -> None:
    """The parts of a total side by side, and below it what they are."""
    width, ascii_only = min(out.width, 100), out.options.ascii_only
    out.print(bar(parts, total, width, ascii_only=ascii_only))
    out.print(legend(parts, width, ascii_only=ascii_only))


def bar(parts: Mapping[str, int], total: int, width: int, *, ascii_only: bool) -> Text:
    """The parts of a total side by side; every part that has tokens has at least one cell."""
    sizes = _sizes(list(parts.values()), total, width)
    text = Text()
    for (name, cell), size in zip(_cells(parts, ascii_only=ascii_only), sizes, strict=True):
        text.append(cell * size, style=PARTS.get(name, ""))
    return text


def _cells(parts: Mapping[str, int], *, ascii_only: bool) -> Iterator[tuple[str, str]]:
    """Each part with the letter that it is drawn with."""
    cells = _PLAIN_CELLS if ascii_only else _CELLS
    taken, free = cells[:-1], cells[-1]
    for index, name in enumerate(parts):
        yield name, free if name == "free" else taken[index % len(taken)]


def _sizes(parts: Sequence[int], total: int, width: int) -> list[int]:
    """Cells of each part; together exactly the width."""
    if total <= 0 or not parts:
        return [0] * len(parts)
    sizes = [max(1, round(tokens * width / total)) if tokens else 0 for tokens in parts]
    while sum(sizes) != width and any(sizes):
        largest = sizes.index(max(sizes))
        sizes[largest] += 1 if sum(sizes) < width else -1
    return sizes


def legend(parts: Mapping[str, int], width: int, *, ascii_only: bool) -> Text:
    """The names and tokens of a bar's parts, each behind its cell, in lines of that width."""
    text = Text()
    used = 0
    for name, cell in _cells(parts, ascii_only=ascii_only):
        if not parts[name]:
            continue
        words = f" {name} {parts[name]:,}"
        if used:
            gap = "\n" if used + len(words) + 4 > width else "   "
            text.append(gap)
            used = 0 if gap == "\n" else used + len(gap)
        text.append(cell, style=PARTS.get(name, ""))
        text.append(words)
        used += len(words) + 1
    return text


def share_bar(out: Console, share: float, width: int, style: str) -> Text:
    """A share of 1 as a bar."""
    filled = max(round(share * width), 1 if share else 0)
    return Text(("#" if out.options.ascii_only else "█") * filled, style=style)


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
        parts[part] += counter.message(message)
    return parts


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


def show_messages(out: Console, rows: Iterable[Row], *, full: bool) -> None:
    """Messages: a line each, or word for word, each under its heading."""
    for number, message, tokens in rows:
        if full:
            size = "" if tokens is None else f" · {counted(tokens, 'token')}"
            name = whole(message.id) if number is None else f"{number:,} · {whole(message.id)}"
            head = f"{name} · {message.role} · {time_of(message.timestamp)}{size}"
            show_text(out, head, words_of(message))
            continue
        at = "" if number is None else f"{number:,}"
        size = "" if tokens is None else f"{tokens:,}"
        speaker = speaker_of(message)
        line = f"{at:>7}  {time_of(message.timestamp):<16}  {speaker:<11} {size:>8}  "
        line += one_line(words_of(message), 200)
        out.print(Text(line, SPEAKERS.get(speaker, "")), no_wrap=True, overflow="ellipsis")


def show_text(out: Console, head: str, text: str) -> None:
    """A text word for word under its heading."""
    show(out, head, style="bold")
    show(out, text)
    out.print()


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


def show_source(out: Console, job: Job) -> None:
    """What was read, how it is counted, and what the reader left out."""
    transcript, counter = job.transcript, job.counter
    how = "exact"
    if not counter.exact:
        how = f"an estimate, about {margin_of(counter):.0%} above a typical count"
    out.print(Text(one_line(transcript.source, out.width), style="bold"))
    out.print(f"{file_formats()[transcript.format]}; tokens by {counter.estimator.name}, {how}")
    if transcript.notes:
        notes = one_line("; ".join(transcript.notes), LONGEST_LINE)
        out.print(Text(f"notes: {notes}", style="yellow"))


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


def show_plan(out: Console, plan: Plan, job: Job, *, details: bool = False) -> None:
    """What goes in and what comes out, what is done and why, and the new window; with details also
    what may not be shortened and what becomes of the messages.
    """
    show_sizes(out, plan, job)
    show_rungs(out, plan)
    if details:
        show_floor(out, plan)
        show_fates(out, plan, job)
    show_window(out, plan, job)


def show_sizes(out: Console, plan: Plan, job: Job) -> None:
    """What went in and what came out."""
    show_source(out, job)
    before = f"> {plan.limit:,}" if plan.tokens_before is None else f"{plan.tokens_before:,}"
    out.print(f"before {before:>10} tokens {plan.messages_before:>7,} messages")
    after = f"after  {plan.tokens_after:>10,} tokens {len(plan.context.messages):>7,} messages"
    out.print(f"{after}   (at most {plan.limit:,} tokens)\n")


def show_rungs(out: Console, plan: Plan) -> None:
    """The rungs of the ladder: what each did, why, and what it freed."""
    why = f"{plan.why[:1].upper()}{plan.why[1:]}." if plan.why else ""
    if plan.unchanged:
        out.print(Text(why or "Everything fits: nothing was changed."))
        return
    numbers = ("messages", "tokens freed")
    rows = [
        (rung.name, rung.why, rung.messages, "not counted" if rung.freed is None else rung.freed)
        for rung in plan.rungs
    ]
    show_table(out, ("rung", "why", *numbers), rows, right=numbers)
    if why:
        out.print(Text(why))
    out.print()


def show_floor(out: Console, plan: Plan) -> None:
    """What may not be shortened, by part."""
    rows: list[Sequence[Cell]] = list(plan.floor.items())
    total = f"{sum(plan.floor.values()):,}"
    rows.append((Text("together", style="bold"), Text(total, style="bold")))
    show_table(out, ("floor: what may not be shortened", "tokens"), rows, right=("tokens",))
    out.print()


def show_fates(out: Console, plan: Plan, job: Job) -> None:
    """What became of the messages, by who spoke."""
    fates = fates_by_speaker(changes_of(plan, job))
    rows = [(speaker, *map(row.get, FATES)) for speaker, row in fates.items()]
    show_table(out, ("messages of", *FATES), rows, right=FATES)
    out.print()


def show_window(out: Console, plan: Plan, job: Job) -> None:
    """The bar of the window: system, checkpoints, recent, free."""
    show_bar(out, window_of(plan, job), plan.limit)
