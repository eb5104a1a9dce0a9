"""`compactctl compact` and `dry-run`: fit a conversation, or say how it would be done."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import typer

from compact.apps.cli import output, render
from compact.apps.cli.errors import Stop
from compact.apps.cli.jobs import job_of, plan_of
from compact.apps.cli.options import Out, PlanOptions, taking
from compact.apps.cli.progress import Progress
from compact.wiring import write_transcript


@dataclass(frozen=True, kw_only=True)
class CompactOptions(PlanOptions):
    """What `compact` takes."""

    out: Out = None
    render: Annotated[
        Literal["file", "text"],
        typer.Option(help="file: the format read, where it is written; text: what a model sees."),
    ] = "file"
    force: Annotated[bool, typer.Option("--force", help="Let OUT replace FILE itself.")] = False


@taking(CompactOptions)
def compact(options: CompactOptions) -> None:
    """Fit a conversation into a number of tokens.

    It stays in the format it is in where that can be written, else it becomes chat completions,
    which hold no reasoning: a note says how much is left out, and only the rest is counted. What
    fits is not shortened; a call that nobody answered gets a note as its answer, which providers
    ask for.
    The result goes to OUT or to standard output, the report to standard error. With --json the
    report is a JSON object on standard output, and OUT must be given.

    Examples:
      compactctl compact session.jsonl --max-tokens 32000 -o out.jsonl
      compactctl compact session.jsonl --max-tokens 8000 --pin 4 --pin "never push" > out.jsonl
      cat chat.json | compactctl compact - --max-tokens 4000 --render text | less
    """
    if options.json and options.out is None:
        raise Stop("--json prints the plan where the result would go: give -o OUT, or use dry-run")
    output.check_name("-o", options.out)
    if options.out and not options.force and output.is_same_file(options.out, options.file):
        raise Stop(f"{options.out} is the input itself; --force replaces it")
    with Progress("Reading") as progress:
        job = job_of(options)
        plan = plan_of(job, options, progress)
        progress.now("Writing")
        if options.render == "text":
            text = plan.context.render_text() + "\n"
        else:
            context = plan.context.messages
            text = write_transcript(job.transcript, context, pre_tokens=plan.tokens_before)
    size = output.write(options.out, text)
    if options.json:
        output.print_json({**render.plan_json(plan, job), "out": options.out})
        return
    out = render.console(on_stderr=True)
    render.show_sizes(out, plan, job)
    render.show_rungs(out, plan)
    render.show_window(out, plan, job)
    if size is not None:
        render.show(out, f"wrote {options.out} ({size:,} bytes)")


@taking(PlanOptions)
def dry_run(options: PlanOptions) -> None:
    """Show what compact would do, and why.

    Rung by rung, with what each freed, the floor and every message's fate. Nothing is written.

    Examples:
      compactctl dry-run session.jsonl --max-tokens 8000
      compactctl dry-run session.jsonl --max-tokens 8000 --summarizer off --json
    """
    with Progress("Reading") as progress:
        job = job_of(options)
        plan = plan_of(job, options, progress)
    if options.json:
        output.print_json(render.plan_json(plan, job))
        return
    out = render.console()
    render.show_sizes(out, plan, job)
    render.show_rungs(out, plan)
    render.show_floor(out, plan)
    render.show_fates(out, plan, job)
    render.show_window(out, plan, job)
