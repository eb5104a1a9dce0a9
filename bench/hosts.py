"""Frameworks that go through the same hundred turns: with compact, with their own means, with none.

A turn is a question, a call of a tool, its result and an answer; four results are larger than the
window. A scripted server is the model, and counts what it is sent. In the second table a llama.cpp
server counts, whose tokenizer nobody named: what it would refuse is an overflow. Needs: of four
sentences that the person says once, those in the last request.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from bench.measuring import CannotMeasure, Check, Setting, Table, number

SMALL = 2048
HEAD = ("framework", "window kept by", "requests", "overflows", "broken", "stable prefix", "needs",
        "host's messages", "tokens sent", "CPU ms a request")  # fmt: skip


def measure(setting: Setting) -> list[Table]:
    """Both servers."""
    try:
        from tests.integrations import turns
        from tests.models import tiny_llama
    except ImportError as missing:
        raise CannotMeasure(f"{missing.name} is not installed") from None
    many = 24 if setting.quick else turns.TURNS
    title = f"A scripted server, window {turns.WINDOW:,}"
    tables = [_table(title, turns.WINDOW, None, many)]
    with tempfile.TemporaryDirectory() as folder:
        tiny_llama.build(Path(folder))
        with tiny_llama.serving(Path(folder), SMALL) as url:
            count = turns.asked_of(url)
            title = f"A llama.cpp server, window {SMALL:,}"
            tables.append(_table(title, SMALL, count, many))
    return tables


def _table(title: str, window: int, count: Callable[[Any], int] | None, turns: int) -> Table:
    from tests.integrations import hosts

    table = Table(title, HEAD)
    for name in hosts.HOSTS:
        for kept in ("compact", "its own", "nobody"):
            overflows, row = _gone_through(name, kept, window, count, turns)
            table.rows.append((name, kept, *row))
            print(*table.rows[-1], sep=" | ", file=sys.stderr, flush=True)
            if kept == "compact":
                table.checks.append(Check(f"overflows of {name} with compact", overflows, 0))
    return table


def _gone_through(
    name: str, kept: str, window: int, count: Callable[[Any], int] | None, turns: int
) -> tuple[int, tuple[str, ...]]:
    from tests.integrations import hosts
    from tests.integrations.turns import Judge, question, tokens

    with ExitStack() as opened:
        judge = opened.enter_context(Judge(window, count or tokens))
        keeper: Any = "own" if kept == "its own" else None
        if kept == "compact":
            keeper = opened.enter_context(hosts.manager(window))
        host = hosts.HOSTS[name](judge.url, keeper)
        opened.callback(host.close)
        started = time.process_time()
        for turn in range(turns):
            host.say(question(turn))
        spent = time.process_time() - started
        return judge.overflows, (
            str(len(judge.prompts)),
            str(judge.overflows),
            str(len(judge.broken_rules)),
            f"{judge.stable:.2f}",
            str(judge.needs(judge.asked[-1])),
            f"{len(host.state())} of {4 * turns}",
            f"{sum(each.tokens for each in judge.prompts):,}",
            number(spent * 1e3 / len(judge.prompts)),
        )
