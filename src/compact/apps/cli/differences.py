"""`compactctl diff`: before and after, message by message."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from compact.apps.cli.options import PlanOptions, taking

if TYPE_CHECKING:
    from rich.text import Text

    from compact.apps.cli.changes import Change
    from compact.core.messages import Message

SIGNS = {"checkpoint": "+", "added": "+", "covered": "-", "masked": "~", "clipped": "~"}
STYLES = {
    "checkpoint": "green",
    "added": "green",
    "covered": "red",
    "masked": "yellow",
    "clipped": "magenta",
    "pinned": "cyan",
}
CHECKPOINT_LINES = 8


@dataclass(frozen=True, kw_only=True)
class DiffOptions(PlanOptions):
    """What `diff` takes."""

    full: Annotated[
        bool, typer.Option("--full", help="Every message on a line of its own, new texts whole.")
    ] = False


@taking(DiffOptions)
def diff(options: DiffOptions) -> None:
    """Show before and after, message by message.

    What is kept, pinned, masked, clipped or covered by the checkpoint, with tokens, in colour.

    Examples:
      compactctl diff session.jsonl --max-tokens 8000
      compactctl diff session.jsonl --max-tokens 8000 --full | less -R
    """
    from compact.apps.cli import changes, drawing, output, report
    from compact.apps.cli.progress import Progress
    from compact.apps.cli.work import job_of, plan_of

    with Progress("Reading") as progress:
        job = job_of(options)
        plan = plan_of(job, options, progress)
        rows = changes.changes_of(plan, job)
    if options.json:
        output.print_json({**report.plan_json(plan, job), "messages": [_json(r) for r in rows]})
        return
    out = drawing.console()
    report.show_head(out, plan, job)
    out.print()
    runs = [[row] for row in rows] if options.full else changes.runs_of(rows)
    for run in runs:
        for line in _lines(run, full=options.full):
            if options.full:
                out.print(line, soft_wrap=True)
            else:
                out.print(line, no_wrap=True, overflow="ellipsis")
    out.print()
    report.show_fates(out, plan, job)
    report.show_window(out, plan, job)


def _json(change: Change) -> dict[str, Any]:
    known = change.before or change.after
    return {
        "number": change.number,
        "id": known and known.id,
        "voice": change.voice,
        "fate": change.fate,
        "tokens_before": change.tokens_before,
        "tokens_after": change.tokens_after,
    }


def _lines(run: Sequence[Change], *, full: bool) -> list[Text]:
    """A run as lines: one that says what happened, and the text that is new."""
    from compact.apps.cli.drawing import Text, visible

    first = run[0]
    style = STYLES.get(first.fate, "")
    lines = [Text(_summary(run) if len(run) > 1 else _row(first, full=full), style=style)]
    if first.after is not None and first.fate in SIGNS:
        new = visible(_words(first.after)).splitlines()
        shown = new if full else new[: CHECKPOINT_LINES if first.fate == "checkpoint" else 0]
        lines += [Text(f"    | {line}", style=style) for line in shown]
        if 0 < len(shown) < len(new):
            lines.append(Text(f"    | … {len(new) - len(shown)} more lines", style=style))
    return lines


def _row(change: Change, *, full: bool) -> str:
    from compact.apps.cli.drawing import one_line

    sign = SIGNS.get(change.fate, " ")
    number = "" if change.number is None else f"{change.number}"
    told = change.after if change.fate in ("masked", "clipped") and not full else change.before
    words = one_line(_words(told), 200) if told is not None else ""
    size = f"{change.tokens_before:,}"
    if change.tokens_after != change.tokens_before:
        size = f"{change.tokens_before:,} > {change.tokens_after:,}"
    return f"{sign} {number:>11}  {change.fate:<10} {change.voice:<11} {size:>15}  {words}"


def _summary(run: Sequence[Change]) -> str:
    first, last = run[0], run[-1]
    voices = Counter(change.voice for change in run)
    who = ", ".join(f"{count:,} {voice}" for voice, count in voices.most_common())
    numbers = f"{first.number}-{last.number}"
    size = f"{sum(change.tokens_before for change in run):,}"
    if first.fate == "covered":
        size += " > 0"
    sign = SIGNS.get(first.fate, " ")
    return f"{sign} {numbers:>11}  {first.fate:<10} {len(run):>5,} messages {size:>14}  {who}"


def _words(message: Message) -> str:
    """What a message says, its tool calls and results included."""
    from compact.core.context import render_text

    return render_text([message]).partition("\n")[2]
