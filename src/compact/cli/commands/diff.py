"""`compactctl diff`: shows a conversation before and after compression, message by message."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Annotated, Any

from compact.cli import views
from compact.cli.jobs import PlanOptions, planned
from compact.cli.options import command, flag
from compact.cli.plans import ShownChange, changes_of, fate_parts, plan_json, size_parts, window_bar
from compact.cli.progress import Progress
from compact.cli.render import Report, Styled
from compact.cli.words import one_line

SIGNS = {"checkpoint": "+", "added": "+", "covered": "-", "masked": "~", "clipped": "~"}
STYLES = {
    "checkpoint": "green",
    "added": "green",
    "covered": "red",
    "masked": "yellow",
    "clipped": "magenta",
    "pinned": "cyan",
}
HEAD = f"{'message':>13}  {'fate':<10} {'speaker':<11} {'tokens':>15}  text"
SIGNS_SAID = "+ is new, - is gone from view, ~ is shortened; tokens: before > after."
CHECKPOINT_LINES = 8
"""How many lines of a checkpoint are shown without --full."""

LEAST_RUN = 4
"""A run of more kept messages than this becomes one row."""


@command
def diff(
    options: PlanOptions,
    *,
    full: Annotated[
        bool, flag("--full", "Every message separately, with its reason; new texts in full.")
    ] = False,
) -> Report:
    """Show before and after, message by message.

    Shows in colour which messages are kept, pinned, masked, clipped or covered by the checkpoint,
    with tokens.

    Examples:
      compactctl diff session.jsonl --max-tokens 8000
      compactctl diff session.jsonl --max-tokens 8000 --full | less -R
    """
    with Progress("Reading") as progress:
        job, plan = planned(options, progress)
        rows = changes_of(plan, job)
    yield {**plan_json(plan, job), "messages": [_json(row) for row in rows]}
    yield from size_parts(plan, job)
    yield Styled(HEAD, "bold", is_row=True)
    for run in [[row] for row in rows] if full else _runs(rows):
        style = STYLES.get(run[0].fate, "")
        for line in _lines(run, full=full):
            yield Styled(line, style, is_row=not full)
    yield SIGNS_SAID
    yield ""
    yield from fate_parts(plan, job)
    yield window_bar(plan, job)


def _json(change: ShownChange) -> dict[str, Any]:
    message = change.before or change.after
    return {
        "number": change.number,
        "id": message and message.id,
        "voice": change.speaker,
        "fate": change.fate,
        "why": change.why,
        "tokens_before": change.tokens_before,
        "tokens_after": change.tokens_after,
    }


def _lines(run: Sequence[ShownChange], *, full: bool) -> list[str]:
    first = run[0]
    lines = [_summary(run) if len(run) > 1 else _row(first, full=full)]
    if full and first.why:
        lines.append(f"    {first.why}")
    if first.after is not None and first.fate in SIGNS:
        new = views.words_of(first.after).splitlines()
        excerpt = new if full else new[: CHECKPOINT_LINES if first.fate == "checkpoint" else 0]
        lines += [f"    | {line}" for line in excerpt]
        if 0 < len(excerpt) < len(new):
            lines.append(f"    | … {len(new) - len(excerpt)} more lines")
    return lines


def _row(change: ShownChange, *, full: bool) -> str:
    sign = SIGNS.get(change.fate, " ")
    number = "" if change.number is None else f"{change.number}"
    message = change.after if change.fate in ("masked", "clipped") and not full else change.before
    words = one_line(views.words_of(message), 200) if message is not None else ""
    size = f"{change.tokens_before:,}"
    if change.tokens_after != change.tokens_before:
        size = f"{change.tokens_before:,} > {change.tokens_after:,}"
    return f"{sign} {number:>11}  {change.fate:<10} {change.speaker:<11} {size:>15}  {words}"


def _summary(run: Sequence[ShownChange]) -> str:
    first, last = run[0], run[-1]
    speakers = Counter(change.speaker for change in run)
    who = ", ".join(f"{count:,} {speaker}" for speaker, count in speakers.most_common())
    numbers = f"{first.number}-{last.number}"
    size = f"{sum(change.tokens_before for change in run):,}"
    if first.fate == "covered":
        size += " > 0"
    sign = SIGNS.get(first.fate, " ")
    return f"{sign} {numbers:>11}  {first.fate:<10} {len(run):>5,} messages {size:>14}  {who}"


def _runs(changes: Sequence[ShownChange]) -> Iterator[list[ShownChange]]:
    for fate, group in groupby(changes, key=lambda change: change.fate):
        run = list(group)
        if fate == "covered" or (fate == "kept" and len(run) > LEAST_RUN):
            yield run
        else:
            yield from ([change] for change in run)
