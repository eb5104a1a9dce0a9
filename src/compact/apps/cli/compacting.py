"""`compactctl compact` and `dry-run`: fit a conversation, or say how it would be done."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import typer

from compact.apps.cli.ending import Stop
from compact.apps.cli.options import PlanOptions, taking


@dataclass(frozen=True, kw_only=True)
class CompactOptions(PlanOptions):
    """What `compact` takes."""

    out: Annotated[
        str | None,
        typer.Option("--out", "-o", metavar="OUT", help="Where the result goes. Default: stdout."),
    ] = None
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
    _check(options)
    from compact.apps.cli import output, report
    from compact.apps.cli.progress import Progress
    from compact.apps.cli.work import job_of, plan_of
    from compact.wiring import write_transcript

    with Progress("Reading") as progress:
        job = job_of(options)
        plan = plan_of(job, options, progress)
        progress.now("Writing")
        if options.render == "text":
            text = plan.context.render_text() + "\n"
        else:
            context = plan.context.messages
            text = write_transcript(job.transcript, context, pre_tokens=plan.tokens_before)
    ending = ""
    if options.out is None:
        output.print_data(text)
    else:
        ending = f"wrote {options.out} ({output.write_file(options.out, text):,} bytes)"
    if options.json:
        output.print_json({**report.plan_json(plan, job), "out": options.out})
    else:
        report.show_result(plan, job, ending=ending)


def _check(options: CompactOptions) -> None:
    """What can be refused before any work.

    Raises:
        Stop: two options do not go together.
    """
    from compact.apps.cli.output import is_same_file

    if options.json and options.out is None:
        raise Stop("--json prints the plan where the result would go: give -o OUT, or use dry-run")
    if options.out == "":
        raise Stop("-o: an empty name")
    if options.out is not None and not options.force and is_same_file(options.out, options.file):
        raise Stop(f"{options.out} is the input itself; --force replaces it")


@taking(PlanOptions)
def dry_run(options: PlanOptions) -> None:
    """Show what compact would do, and why.

    Rung by rung, with what each freed, the floor and every message's fate. Nothing is written.

    Examples:
      compactctl dry-run session.jsonl --max-tokens 8000
      compactctl dry-run session.jsonl --max-tokens 8000 --summarizer off --json
    """
    from compact.apps.cli import drawing, output, report
    from compact.apps.cli.progress import Progress
    from compact.apps.cli.work import job_of, plan_of

    with Progress("Reading") as progress:
        job = job_of(options)
        plan = plan_of(job, options, progress)
    if options.json:
        output.print_json(report.plan_json(plan, job))
        return
    out = drawing.console()
    report.show_head(out, plan, job)
    out.print()
    report.show_rungs(out, plan)
    report.show_floor(out, plan)
    report.show_fates(out, plan, job)
    report.show_window(out, plan, job)
