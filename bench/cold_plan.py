"""A cold plan without summary, held against the least work that gives an exact window, and against
peers.

The least work is one scan of the roles and counting from the end (`counting.tail_count`); it
knows no pairs, no pins and no person, so its window is not always one that may be sent.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from bench import peers
from bench.counting import VERDICT_HEAD, ColdEstimator, tail_count, verdict
from bench.histories import SIZES, Record, history
from bench.measuring import WINDOWS, Check, Setting, Spread, Table, in_turn
from compact.engine.plan import Plan
from compact.messages.formats.known import format_named
from compact.session.one_call import plan

MOST = 1.5
PEERS = ("langchain exact", "langchain approximate", "litellm")


def cold_plan(messages: list[Record], budget: int) -> Plan:
    """A plan by a counter that has counted nothing yet."""
    return plan(messages, max_tokens=budget, summarizer=None, tokenizer=ColdEstimator())


def measure(setting: Setting) -> list[Table]:
    """Ours beside the yardstick, then peers on the same histories."""
    ours = Table(
        "Cold plan without summary, CPU ms",
        ("messages", "budget", "who", "CPU ms", "÷ tail count", *VERDICT_HEAD),
    )
    sizes = SIZES[:2] if setting.quick else SIZES
    with tempfile.TemporaryDirectory() as folder:
        for size in sizes:
            messages = history(size)
            path = Path(folder) / f"{size}.json"
            path.write_text(json.dumps(messages), encoding="utf-8")
            for budget in WINDOWS:
                tail = _ours(ours, messages, budget, setting.runs)
                if setting.peers:
                    _peers(ours, messages, path, budget, tail)
    return [ours]


def _ours(table: Table, messages: list[Record], budget: int, runs: int) -> Spread:
    done = cold_plan(messages, budget)
    chosen = format_named("chat_completions").render(done.context.messages)

    works = (lambda: tail_count(messages, budget), lambda: cold_plan(messages, budget))
    tail, ours = in_turn(works, runs)
    kept, system = tail_count(messages, budget)
    window = [messages[i] for i in system] + messages[len(messages) - kept :]
    where = (f"{len(messages):,}", f"{budget:,}")
    judged = verdict(window, messages, budget).cells()
    table.rows.append((*where, "scan of the roles + tail count", tail.text(), "1", *judged))
    ratio = ours.over(tail)
    judged = verdict(chosen, messages, budget).cells()
    table.rows.append((*where, "**compact**", ours.text(), ratio.text(), *judged))
    what = f"cold plan ÷ (tail count + role scan), {len(messages):,} messages, {budget:,} tokens"
    table.checks.append(Check(what, ratio.median, MOST))
    return tail


def _peers(table: Table, messages: list[Record], path: Path, budget: int, tail: Spread) -> None:
    where = (f"{len(messages):,}", f"{budget:,}")
    blank = ("",) * len(VERDICT_HEAD)
    for peer in PEERS:
        try:
            peers.versions()
            result = peers.trim(peer, path, budget, 5)
        except peers.NoPeers as reason:
            table.rows.append((*where, peer, f"left out: {reason}", "", *blank))
            continue
        if result is None:
            table.rows.append((*where, peer, f"> {peers.PATIENCE:,} s", "", *blank))
            continue
        ratio = result.spread.over(tail.median).text()
        judged = verdict(result.messages, messages, budget).cells()
        table.rows.append((*where, peer, result.spread.text(), ratio, *judged))
