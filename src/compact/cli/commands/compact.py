"""`compactctl compact` and `dry-run`: fit a conversation, or show what would be done."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from compact import wiring
from compact.cli import output
from compact.cli.errors import Stop
from compact.cli.jobs import PlanOptions, planned
from compact.cli.options import Out, command, flag
from compact.cli.plans import plan_json, plan_parts
from compact.cli.progress import Progress
from compact.cli.render import Aside, Report


@command
def compact(
    options: PlanOptions,
    *,
    out: Out = None,
    form: Annotated[
        Literal["file", "text"],
        typer.Option(
            "--render",
            help="file: the input's format, if it can be written; text: what a model sees.",
        ),
    ] = "file",
    force: Annotated[bool, flag("--force", "Allow OUT to replace FILE itself.")] = False,
) -> Report:
    """Fit a conversation into a number of tokens.

    The result keeps its format if that can be written. Otherwise it becomes chat completions, which
    hold no reasoning: a note says how much is left out, and only the rest is counted. If everything
    fits, nothing is shortened. A tool call without a result gets a note as its result, because
    providers require one.
    The result goes to OUT or to standard output, the report to standard error. With --json the
    report is a JSON object on standard output, and OUT is required.

    Examples:
      compactctl compact session.jsonl --max-tokens 32000 -o out.jsonl
      compactctl compact session.jsonl --max-tokens 8000 --pin 4 --pin "never push" > out.jsonl
      cat chat.json | compactctl compact - --max-tokens 4000 --render text | less
    """
    if options.json and out is None:
        raise Stop("--json prints the plan where the result would go: give -o OUT, or use dry-run")
    output.check_name("-o", out)
    if out and not force and output.is_same_file(out, options.file):
        raise Stop(f"{out} is the input itself; --force replaces it")
    with Progress("Reading") as progress:
        job, plan = planned(options, progress)
        progress.now("Writing")
        if form == "text":
            text = plan.context.render_text() + "\n"
        else:
            messages, before = plan.context.messages, plan.tokens_before
            text = wiring.write_transcript(job.transcript, messages, pre_tokens=before)
    size = output.write(out, text)
    yield {**plan_json(plan, job), "out": out}
    yield from (Aside(part) for part in plan_parts(plan, job))
    if size is not None:
        yield Aside(f"wrote {out} ({size:,} bytes)")


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
