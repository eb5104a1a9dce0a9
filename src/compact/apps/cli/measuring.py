"""`compactctl tokens`: where the window goes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from compact.apps.cli.options import FileOptions, taking
from compact.apps.cli.words import counted

if TYPE_CHECKING:
    from rich.console import Console

    from compact.apps.cli.usage import Usage
    from compact.apps.cli.work import Job

TOOLS_SHOWN = 15
BAR = 30


@taking(FileOptions)
def tokens(options: FileOptions) -> None:
    """Show where the window goes.

    Tokens by kind (a person's words, reasoning, tool results, ...) and by tool, with shares. Counts
    are exact for OpenAI's tokenizers; an estimate is called one, with its margin.

    Examples:
      compactctl tokens session.jsonl
      compactctl tokens session.jsonl --tokenizer o200k --json
    """
    from compact.apps.cli import output
    from compact.apps.cli.progress import Progress
    from compact.apps.cli.usage import usage_of
    from compact.apps.cli.work import job_of

    with Progress("Counting"):
        job = job_of(options)
        usage = usage_of(job.transcript, job.counter)
    if options.json:
        output.print_json(_json(job, usage))
        return
    _show(job, usage)


def _json(job: Job, usage: Usage) -> dict[str, Any]:
    from compact.apps.cli.report import margin_of

    total = max(1, usage.tokens)
    return {
        "file": job.transcript.source,
        "format": job.transcript.format,
        "notes": list(job.transcript.notes),
        "tokenizer": job.counter.estimator.name,
        "exact": job.counter.exact,
        "margin": round(margin_of(job.counter), 4),
        "messages": len(job.messages),
        "tokens": usage.tokens,
        "kinds": {
            kind: {
                "pieces": amount.pieces,
                "tokens": amount.tokens,
                "share": round(amount.tokens / total, 4),
            }
            for kind, amount in usage.kinds.items()
        },
        "tools": {
            name: {
                "calls": calls.pieces,
                "call_tokens": calls.tokens,
                "result_tokens": results.tokens,
                "share": round((calls.tokens + results.tokens) / total, 4),
            }
            for name, calls, results in usage.by_tool()
        },
    }


def _show(job: Job, usage: Usage) -> None:
    from compact.apps.cli import drawing, report

    out = drawing.console()
    report.show_source(out, job)
    out.print(f"{counted(usage.tokens, 'token')} in {counted(len(job.messages), 'message')}")
    window = job.settings.window()
    if window is not None:
        share = usage.tokens / max(1, window.usable)
        out.print(f"{share:.0%} of the {window.usable:,} tokens a prompt may use of the window")
    out.print()
    _show_kinds(out, usage)
    if usage.by_tool():
        _show_tools(out, usage)


def _show_kinds(out: Console, usage: Usage) -> None:
    from compact.apps.cli import drawing
    from compact.apps.cli.usage import KINDS

    rows = drawing.table(
        "kind", "pieces", "tokens", "share", "", right=("pieces", "tokens", "share")
    )
    width = max(0, min(BAR, out.width - 50))
    for kind, amount in usage.kinds.items():
        if amount.tokens:
            share = amount.tokens / usage.tokens
            cells = drawing.share_bar(share, width, ascii_only=out.options.ascii_only)
            numbers = (f"{amount.pieces:,}", f"{amount.tokens:,}", f"{share:.1%}")
            rows.add_row(KINDS[kind], *numbers, drawing.Text(cells, style="blue"))
    out.print(rows)
    out.print()


def _show_tools(out: Console, usage: Usage) -> None:
    from compact.apps.cli import drawing

    numbers = ("calls", "in calls", "in results", "share")
    rows = drawing.table("tool", *numbers, "", right=numbers)
    tools = usage.by_tool()
    width = max(0, min(BAR, out.width - 80))
    for name, calls, results in tools[:TOOLS_SHOWN]:
        share = (calls.tokens + results.tokens) / usage.tokens
        cells = drawing.share_bar(share, width, ascii_only=out.options.ascii_only)
        rows.add_row(
            drawing.Text(drawing.one_line(name, 40)),
            f"{calls.pieces:,}",
            f"{calls.tokens:,}",
            f"{results.tokens:,}",
            f"{share:.1%}",
            drawing.Text(cells, style="green"),
        )
    out.print(rows)
    if len(tools) > TOOLS_SHOWN:
        out.print(f"and {counted(len(tools) - TOOLS_SHOWN, 'more tool')}: --json lists all")
