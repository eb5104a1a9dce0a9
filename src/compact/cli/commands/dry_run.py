"""`compactctl dry-run`: show what `compact` would do."""

from __future__ import annotations

from compact.cli.jobs import PlanOptions, planned
from compact.cli.options import command
from compact.cli.plans import plan_json, plan_parts
from compact.cli.progress import Progress
from compact.cli.render import Report


@command
def dry_run(options: PlanOptions) -> Report:
    """Show what compact would do, and why.

    Lists each step and the tokens it frees, what may not be shortened, and what becomes of the
    messages. Writes nothing.

    Examples:
      compactctl dry-run session.jsonl --max-tokens 8000
      compactctl dry-run session.jsonl --max-tokens 8000 --summarizer off --json
    """
    with Progress("Reading") as progress:
        job, plan = planned(options, progress)
    yield plan_json(plan, job)
    yield from plan_parts(plan, job, details=True)
