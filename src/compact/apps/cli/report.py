"""A plan as a person reads it, and as a machine does."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.text import Text

from compact.apps.cli.changes import FATES, changes_of, fates_by_voice
from compact.apps.cli.drawing import STYLES, Part, bar, console, legend, one_line, table, visible
from compact.apps.cli.work import Job
from compact.core.plan import Plan
from compact.core.tokens import TokenCounter
from compact.core.voices import voice_of
from compact.wiring import file_formats


def margin_of(counter: TokenCounter) -> float:
    """The share by which an estimate lies above a typical count; 0 for exact counts."""
    return float(getattr(counter.estimator, "margin", 0.0))


def counted_by(counter: TokenCounter) -> str:
    """How the tokens were counted, in words."""
    name = counter.estimator.name
    if counter.exact:
        return f"{name}, exact"
    return f"{name}, an estimate, about {margin_of(counter):.0%} above a typical count"


def window_of(plan: Plan, job: Job) -> dict[str, int]:
    """Where the tokens of the new context are: by part, what is free included."""
    parts = dict.fromkeys(STYLES, 0)
    pinned = {job.messages[i].id for i, fate in plan.fates.items() if fate == "pinned"}
    for message in plan.context.messages:
        voice = voice_of(message)
        name: str = voice if voice in ("system", "checkpoint") else "recent"
        if name == "recent" and message.id in pinned:
            name = "pinned"
        parts[name] += job.counter.message(message)
    parts["tools and framing"] = plan.tokens_after - sum(parts.values())
    parts["free"] = plan.limit - plan.tokens_after
    return parts


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
        "fates": fates_by_voice(changes_of(plan, job)),
        "window": window_of(plan, job),
        # a file without times would get the time of this run: the same input, the same bytes
        "checkpoint": checkpoint and checkpoint.model_dump(mode="json", exclude={"until"}),
    }


def show_source(out: Console, job: Job) -> None:
    """What was read, how it is counted, and what the reader left out."""
    transcript = job.transcript
    out.print(Text(one_line(transcript.source, out.width), style="bold"))
    out.print(f"{file_formats()[transcript.format]}; tokens by {counted_by(job.counter)}")
    if transcript.notes:
        out.print(Text(f"notes: {one_line('; '.join(transcript.notes), 400)}", style="yellow"))


def show_head(out: Console, plan: Plan, job: Job) -> None:
    """What went in and what came out."""
    show_source(out, job)
    before = f"> {plan.limit:,}" if plan.tokens_before is None else f"{plan.tokens_before:,}"
    out.print(f"before {before:>10} tokens {plan.messages_before:>7,} messages")
    after = f"after  {plan.tokens_after:>10,} tokens {len(plan.context.messages):>7,} messages"
    out.print(f"{after}   (at most {plan.limit:,} tokens)")


def show_window(out: Console, plan: Plan, job: Job) -> None:
    """The bar of the window: system, checkpoints, recent, free."""
    parts = [Part(n, t, STYLES[n]) for n, t in window_of(plan, job).items()]
    ascii_only = out.options.ascii_only
    width = min(out.width, 100)
    out.print(bar(parts, plan.limit, width, ascii_only=ascii_only))
    out.print(legend(parts, width, ascii_only=ascii_only))


def show_rungs(out: Console, plan: Plan) -> None:
    """The rungs of the ladder: what each did, why, and what it freed."""
    if plan.unchanged:
        out.print(Text(_sentence(plan.why) or "Everything fits: nothing was changed."))
        return
    rows = table("rung", "why", "messages", "tokens freed", right=("messages", "tokens freed"))
    for rung in plan.rungs:
        freed = "not counted" if rung.freed is None else f"{rung.freed:,}"
        rows.add_row(rung.name, Text(rung.why), f"{rung.messages:,}", freed)
    out.print(rows)
    if plan.why:
        out.print(Text(_sentence(plan.why)))
    out.print()


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}." if text else ""


def show_floor(out: Console, plan: Plan) -> None:
    """What may not be shortened, by part."""
    rows = table("floor: what may not be shortened", "tokens", right=("tokens",))
    for name, tokens in plan.floor.items():
        rows.add_row(name, f"{tokens:,}")
    rows.add_row("together", f"{sum(plan.floor.values()):,}", style="bold")
    out.print(rows)
    out.print()


def show_fates(out: Console, plan: Plan, job: Job) -> None:
    """What became of the messages, by who spoke."""
    fates = fates_by_voice(changes_of(plan, job))
    rows = table("messages of", *FATES, right=FATES)
    for voice, row in fates.items():
        rows.add_row(voice, *(f"{row[fate]:,}" if fate in row else "" for fate in FATES))
    out.print(rows)
    out.print()


def show_result(plan: Plan, job: Job, *, ending: str) -> None:
    """The report of a compression that was done, on stderr: stdout is for data."""
    out = console(on_stderr=True)
    show_head(out, plan, job)
    out.print()
    show_rungs(out, plan)
    show_window(out, plan, job)
    if ending:
        out.print(Text(visible(ending)))
