"""A plan as a person reads it, and as a machine does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, get_args

from rich.console import Console
from rich.text import Text

from compact.apps.cli.drawing import STYLES, Part, bar, console, legend, one_line, table
from compact.apps.cli.work import Job
from compact.core.plan import Fate, Plan
from compact.core.tokens import TokenCounter
from compact.core.voices import voice_of

FATES: tuple[Fate, ...] = get_args(Fate)


def margin_of(counter: TokenCounter) -> float:
    """The share by which an estimate lies above a typical count; 0 for exact counts."""
    return float(getattr(counter.estimator, "margin", 0.0))


def counted_by(counter: TokenCounter) -> str:
    """How the tokens were counted, in words."""
    name = counter.estimator.name
    if counter.exact:
        return f"{name}, exact"
    return f"{name}, an estimate: about {margin_of(counter):.0%} above a typical count"


def window_of(plan: Plan, job: Job) -> dict[str, int]:
    """Where the tokens of the new context are: by part, what is free included."""
    parts = dict.fromkeys(STYLES, 0)
    pinned = {job.messages[i].id for i, fate in plan.fates.items() if fate == "pinned"}
    for message in plan.context.messages:
        voice = voice_of(message)
        name = voice if voice in ("system", "checkpoint") else "recent"
        if name == "recent" and message.id in pinned:
            name = "pinned"
        parts[name] += job.counter.message(message)
    parts["tools and framing"] = plan.tokens_after - sum(parts.values())
    parts["free"] = plan.limit - plan.tokens_after
    return parts


def fates_by_voice(plan: Plan, job: Job) -> dict[str, dict[str, int]]:
    """What became of how many messages, by who spoke."""
    rows: dict[str, Counter[str]] = {}
    for position, message in enumerate(job.messages):
        rows.setdefault(voice_of(message), Counter())[plan.fates.get(position, "covered")] += 1
    return {voice: {fate: row[fate] for fate in FATES if row[fate]} for voice, row in rows.items()}


def plan_json(plan: Plan, job: Job) -> dict[str, Any]:
    """The plan as JSON values, without the messages."""
    checkpoint = plan.checkpoint
    return {
        "file": job.transcript.source,
        "format": job.transcript.format,
        "notes": list(job.transcript.notes),
        "tokenizer": plan.tokenizer,
        "exact": plan.exact,
        "margin": round(margin_of(job.counter), 4),
        "limit": plan.limit,
        "tokens_before": plan.tokens_before,
        "tokens_after": plan.tokens_after,
        "messages_before": plan.messages_before,
        "messages_after": len(plan.context.messages),
        "unchanged": plan.unchanged,
        "floor": dict(plan.floor),
        "rungs": [rung.model_dump(mode="json") for rung in plan.rungs],
        "fates": fates_by_voice(plan, job),
        "window": window_of(plan, job),
        "checkpoint": checkpoint and checkpoint.model_dump(mode="json"),
    }


def show_head(out: Console, plan: Plan, job: Job) -> None:
    """What went in and what came out, in one line each."""
    before = "more" if plan.tokens_before is None else f"{plan.tokens_before:,}"
    name, kind = one_line(job.transcript.source, 60), job.transcript.format
    out.print(Text(f"{name}  {kind}, counted by {counted_by(job.counter)}", style="bold"))
    for note in job.transcript.notes:
        out.print(Text(f"note: {one_line(note, 200)}", style="yellow"))
    out.print(f"before  {before:>9} tokens  {plan.messages_before:>6,} messages")
    after = f"after   {plan.tokens_after:>9,} tokens  {len(plan.context.messages):>6,} messages"
    out.print(f"{after}  of {plan.limit:,} tokens allowed")


def show_window(out: Console, plan: Plan, job: Job) -> None:
    """The bar of the window: system, checkpoints, recent, free."""
    parts = [Part(n, t, STYLES[n]) for n, t in window_of(plan, job).items()]
    ascii_only = out.options.ascii_only
    width = min(out.width, 100)
    out.print(bar(parts, plan.limit, width, ascii_only=ascii_only))
    out.print(legend(parts, ascii_only=ascii_only))


def show_rungs(out: Console, plan: Plan) -> None:
    """The rungs of the ladder: what each did, why, and what it freed."""
    if plan.unchanged:
        out.print("Everything fits: nothing was changed.")
        return
    rows = table("rung", "why", "messages", "tokens freed", right=("messages", "tokens freed"))
    for rung in plan.rungs:
        freed = "not counted" if rung.freed is None else f"{rung.freed:,}"
        rows.add_row(rung.name, Text(rung.why), f"{rung.messages:,}", freed)
    out.print(rows)


def show_floor(out: Console, plan: Plan) -> None:
    """What may not be shortened, by part."""
    rows = table("floor: what may not be shortened", "tokens", right=("tokens",))
    for name, tokens in plan.floor.items():
        rows.add_row(name, f"{tokens:,}")
    rows.add_row("together", f"{sum(plan.floor.values()):,}", style="bold")
    out.print(rows)


def show_fates(out: Console, fates: Mapping[str, Mapping[str, int]]) -> None:
    """What became of the messages, by who spoke."""
    rows = table("messages of", *FATES, right=FATES)
    for voice, row in fates.items():
        rows.add_row(voice, *(f"{row[fate]:,}" if fate in row else "" for fate in FATES))
    out.print(rows)


def show_result(plan: Plan, job: Job, *, ending: str) -> None:
    """The report of a compression that was done, on stderr: stdout is for data."""
    out = console(on_stderr=True)
    show_head(out, plan, job)
    out.print()
    show_rungs(out, plan)
    show_window(out, plan, job)
    if ending:
        out.print(Text(ending))
