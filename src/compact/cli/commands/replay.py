"""`compactctl replay`: shows what a conversation costs under each policy, call by call."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from compact import wiring
from compact.cli import output
from compact.cli.errors import Stop
from compact.cli.jobs import FileOptions, job_of
from compact.cli.options import command, number_option, text_option
from compact.cli.pages.page import BEGINS
from compact.cli.pages.replay_page import replay_html
from compact.cli.plans import source_json, source_parts
from compact.cli.progress import Progress, counting
from compact.cli.render import Report, Styled, Table
from compact.cli.replaying import Played, Replay, policy_named
from compact.cli.words import counted

DEFAULT = ("all", "newest:32k", "compact:32k")
PRICES = {
    "claude-opus-4-5": (5, 0.5, 25),
    "claude-sonnet-4-5": (3, 0.3, 15),
    "claude-haiku-4-5": (1, 0.1, 5),
    "gpt-5": (1.25, 0.125, 10),
    "gpt-5-mini": (0.25, 0.025, 2),
    "gpt-4.1": (2, 0.5, 8),
}
"""Model → dollars for a million new, cached and answered tokens. These are list prices of November
2025, without what some providers charge for writing into the cache."""
SAMPLE = 20
"""For how many calls a model is asked."""


@dataclass(frozen=True, kw_only=True)
class ReplayOptions(FileOptions):
    """What is replayed, and what is measured."""

    policy: Annotated[
        list[str] | None,
        text_option("POLICY", "all, newest:SIZE or compact:SIZE; may be repeated. Default: 32k."),
    ] = None
    price: Annotated[
        str | None,
        text_option(
            "IN,CACHED,OUT",
            "Dollars for a million tokens, as 3,0.3,15, or a model of the table of list prices "
            f"(November 2025): {', '.join(PRICES)}.",
        ),
    ] = None
    html: Annotated[str | None, text_option("OUT", "Also write a page with the plot.")] = None
    ask: Annotated[
        str | None, text_option("KEY", "Ask this model whether its next action differs.")
    ] = None
    sample: Annotated[int, number_option("For how many calls it is asked.")] = SAMPLE


@command
def replay(options: ReplayOptions) -> Report:
    """Replay a conversation under policies: what each sends, what a cache saves, what is lost.

    For each answer of the file, each policy makes the prompt that it would have sent: all messages,
    the newest that fit, or what compact makes of them in that window. Cached are the tokens with
    which the prompt before begins too. Names are those in the next calls that stood in messages
    before: how many the prompt still shows. The answers are always those of the file. With --ask a
    model is asked for its next action under each policy, and twice under the first.

    Examples:
      compactctl replay session.jsonl
      compactctl replay session.jsonl --policy all --policy newest:8k --policy compact:8k
      compactctl replay session.jsonl --price claude-sonnet-4-5 --html plot.html
      compactctl replay session.jsonl --policy all --policy compact:8k --ask ollama:qwen3:8b
    """
    policies = [policy_named(each) for each in options.policy or DEFAULT]
    price = _price(options.price)
    _may_write(options.html)
    asked: list[dict[str, Any]] = []
    with Progress("Reading") as progress:
        run = Replay(job_of(options))
        played = [
            run.play(each, counting(progress, f"Replaying {each.name}:", "calls"))
            for each in policies
        ]
        if options.ask is not None:
            progressing = counting(progress, f"Asking {options.ask}:", "calls")
            model = wiring.chat_model(options.ask)
            asked = asyncio.run(run.agreement(model, policies, options.sample, progressing))
    rows = [_row(each, price) for each in played]
    series = [{"tokens_by_call": each.tokens, "uncached_by_call": each.uncached} for each in played]
    values = [{**row, **more} for row, more in zip(rows, series, strict=True)]
    yield {**source_json(run.job), "calls": len(run.calls), "policies": values, "asked": asked}
    yield Styled(counted(len(run.calls), "call"), "bold")
    yield from source_parts(run.job)
    yield ""
    yield _table(rows)
    for row in asked:
        again = ", asked again" if row["again"] else ""
        yield (
            f"{row['policy']}{again}: of {row['asked']} next actions {row['same_tool']} with the "
            f"same tool, {row['same_action']} the same"
        )
    if options.html is not None:
        size = output.write(options.html, replay_html(run.job.transcript.source, played))
        yield f"wrote {options.html} ({size or 0:,} bytes)"


def _row(played: Played, price: Sequence[float] | None) -> dict[str, Any]:
    sent, new = sum(played.tokens), sum(played.uncached)
    return {
        "policy": played.policy.name,
        "tokens": sent,
        "uncached": new,
        "cached_share": round(1 - new / sent, 4) if sent else None,
        "largest": max(played.tokens, default=0),
        "rewrites": played.rewrites,
        "names_needed": played.needed,
        "names_shown": played.held,
        "did_not_fit": played.refused,
        **({"dollars": round(played.money(price), 4)} if price else {}),
    }


def _table(rows: list[dict[str, Any]]) -> Table:
    numbers = ["sent", "uncached", "cached", "largest", "rewrites", "names", "did not fit"]
    cells = [
        [
            *(row["policy"], row["tokens"], row["uncached"]),
            "" if row["cached_share"] is None else f"{row['cached_share']:.0%}",
            *(row["largest"], row["rewrites"]),
            f"{row['names_shown'] / row['names_needed']:.0%}" if row["names_needed"] else "",
            row["did_not_fit"],
            *([f"${row['dollars']:,.2f}"] if "dollars" in row else []),
        ]
        for row in rows
    ]
    numbers += ["cost"] if "dollars" in rows[0] else []
    return Table(("policy", *numbers), cells, right=numbers, whole=("policy",))


def _price(text: str | None) -> Sequence[float] | None:
    if text is None or text in PRICES:
        return PRICES.get(text or "")
    try:
        price = [float(each) for each in text.split(",")]
    except ValueError:
        price = []
    if len(price) != 3 or min(price) < 0:
        raise typer.BadParameter(
            f"--price {text!r}: three numbers, dollars for a million tokens that are new, cached "
            f"and answered, as 3,0.3,15; or one of {', '.join(PRICES)}"
        )
    return price


def _may_write(name: str | None) -> None:
    output.check_name("--html", name)
    start = output.beginning_of(name, len(BEGINS.encode())) if name else b""
    if start and start != BEGINS.encode():
        raise Stop(f"{name} exists and is no page of compact's: name another file")
