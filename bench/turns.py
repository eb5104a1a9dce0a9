"""A growing conversation: 10,000 turns, each one message added and the prompt asked for."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping
from typing import Any

from bench.counting import count_and_keep
from bench.histories import Record, history
from bench.measuring import WINDOWS, Check, Setting, Spread, Table, number
from bench.session import session

TURNS = 10_000
MOST = 1.8
"""A mean turn ÷ its floor: 0.1 ms, where the floor takes 0.055 ms (RESULTS.md)."""
MOST_GROWTH = 1.3
"""The last turns ÷ the first ones."""
BLOCK = 1_000
RUNS = 5


def measure(setting: Setting) -> list[Table]:
    """With the summarizer off, as limits ask; then with the extractive one, published beside."""
    messages = history(TURNS)
    table = Table(
        f"{TURNS:,} turns of add_message + get_context_for_model, CPU ms a turn",
        ("summarizer", "window", "floor", "mean", "mean ÷ floor", f"first {BLOCK:,}",
         f"last {BLOCK:,}", "median turn", "largest turn"),
    )  # fmt: skip
    table.notes.append(
        "The floor counts the texts of each message once and keeps it in a list; it runs before "
        "each run. Mean, floor: median (smallest–largest) of whole runs."
    )
    for window in WINDOWS:
        floor, runs = _runs(messages, window, None, RUNS)
        ratio = _row(table, floor, runs, "off", window)
        what = f"mean turn ÷ floor, summarizer off, window {window:,}"
        table.checks.append(Check(what, ratio.median, MOST))
        flat = statistics.median(
            statistics.mean(run[-BLOCK:]) / statistics.mean(run[:BLOCK]) for run in runs
        )
        what = f"last {BLOCK:,} ÷ first {BLOCK:,} turns, summarizer off, window {window:,}"
        table.checks.append(Check(what, flat, MOST_GROWTH))
    for window in WINDOWS[:1] if setting.quick else WINDOWS:
        _row(table, *_runs(messages, window, "extractive", 1), "extractive", window)
    return [table]


def _runs(
    messages: list[Record], window: int, summarizer: str | None, runs: int
) -> tuple[Spread, list[list[float]]]:
    """CPU milliseconds a message of the floor, and of each turn, run by run."""
    floor, turns = [], []
    for _ in range(runs):
        kept: list[Mapping[str, Any]] = []
        started = time.process_time()
        for message in messages:
            count_and_keep(kept, message)
        floor.append((time.process_time() - started) / len(messages) * 1e3)
        turns.append(_run(messages, window, summarizer))
    return Spread(tuple(floor)), turns


def _run(messages: list[Record], window: int, summarizer: str | None) -> list[float]:
    """CPU milliseconds of each turn."""
    manager = session(window, summarizer)
    turns: list[float] = []
    for message in messages:
        started = time.process_time_ns()
        manager.add_message(message)
        manager.get_context_for_model()
        turns.append((time.process_time_ns() - started) / 1e6)
    return turns


def _row(
    table: Table, floor: Spread, runs: list[list[float]], summarizer: str, window: int
) -> Spread:
    """The mean turn of each run ÷ its floor."""
    mean = Spread(tuple(statistics.mean(run) for run in runs))
    first = statistics.median(statistics.mean(run[:BLOCK]) for run in runs)
    last = statistics.median(statistics.mean(run[-BLOCK:]) for run in runs)
    middle = statistics.median(statistics.median(run) for run in runs)
    largest = statistics.median(max(run) for run in runs)
    figures = [number(x) for x in (first, last, middle, largest)]
    ratio = mean.over(floor)
    spreads = [spread.text() for spread in (floor, mean, ratio)]
    table.rows.append((summarizer, f"{window:,}", *spreads, *figures))
    return ratio
