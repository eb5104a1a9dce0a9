"""`compactctl tokens`: where the tokens go, by kind and by tool. Every token is counted once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from compact.apps import cli
from compact.apps.cli.options import FileOptions, command
from compact.apps.cli.told import Share, Styled, Table, Telling
from compact.apps.cli.words import counted, one_line

if TYPE_CHECKING:
    from compact.apps.cli.usage import WindowUsage

TOOLS_SHOWN = 15
"""Tools that get a row, those with most tokens; the others are counted in one line."""


@command
def tokens(options: FileOptions) -> Telling:
    """Show where the tokens go.

    Lists tokens by kind (a person's words, reasoning, tool results, ...) and by tool, with shares.
    Counts are exact for OpenAI's tokenizers; estimates are labelled, with their margin.

    Examples:
      compactctl tokens session.jsonl
      compactctl tokens session.jsonl --tokenizer o200k --json
    """
    with cli.progress.Progress("Counting"):
        job = cli.jobs.job_of(options)
        usage = cli.usage.usage_of(job.transcript, job.counter)
    yield {**cli.views.source_json(job), "messages": len(job.messages), **_json(usage)}
    total = f"{counted(usage.tokens, 'token')} in {counted(len(job.messages), 'message')}"
    yield Styled(total, "bold")
    yield from cli.views.source_parts(job)
    window = job.settings.window()
    if window is not None:
        share = usage.tokens / max(1, window.usable)
        part = f"{share:.0%} of the {window.usable:,} tokens a prompt may use of the window"
        yield Styled(part, "red" if share > 1 else "")
    yield ""
    yield _kinds(usage)
    if tools := usage.by_tool():
        yield ""
        yield _tools(usage)
    if len(tools) > TOOLS_SHOWN:
        yield f"and {counted(len(tools) - TOOLS_SHOWN, 'more tool')}: --json lists all"


def _json(usage: WindowUsage) -> dict[str, Any]:
    total = max(1, usage.tokens)
    return {
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


def _kinds(usage: WindowUsage) -> Table:
    numbers = ("pieces", "tokens", "share")
    rows = []
    for kind, amount in usage.kinds.items():
        if amount.tokens:
            share = amount.tokens / usage.tokens
            counts = (amount.pieces, amount.tokens, f"{share:.1%}", Share(share, "blue"))
            rows.append((cli.usage.KINDS[kind], *counts))
    return Table(("kind", *numbers, ""), rows, right=numbers)


def _tools(usage: WindowUsage) -> Table:
    numbers = ("calls", "in calls", "in results", "share")
    rows = []
    for name, calls, results in usage.by_tool()[:TOOLS_SHOWN]:
        share = (calls.tokens + results.tokens) / usage.tokens
        counts = (calls.pieces, calls.tokens, results.tokens, f"{share:.1%}")
        rows.append((one_line(name, 40), *counts, Share(share, "green")))
    return Table(("tool", *numbers, ""), rows, right=numbers)
