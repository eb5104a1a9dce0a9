"""A growing conversation: 10,000 turns, each one message added and the prompt asked for."""

from __future__ import annotations

import statistics
import time

from bench.counting import O200K
from bench.histories import Record, history
from bench.measuring import WINDOWS, Check, Setting, Spread, Table, number
from bench.session import session

TURNS = 10_000
MOST_MS = 0.1
MOST_RATIO = 1.3
BLOCK = 1_000
RUNS = 5


def measure(setting: Setting) -> list[Table]:
    """With the summarizer off, as limits ask; then with the extractive one, published beside."""
    messages = history(TURNS)
    counting = _counting(messages)
    table = Table(
        f"{TURNS:,} turns of add_message + get_context_for_model, CPU ms a turn",
        ("summarizer", "window", "mean", f"first {BLOCK:,}", f"last {BLOCK:,}", "median turn",
         "largest turn"),
    )  # fmt: skip
    table.notes.append(
        f"Counting the texts of each message once takes {number(counting)} ms a message here; "
        "it is part of every turn. Mean: median (smallest–largest) of whole runs."
    )
    for window in WINDOWS:
        runs = [_run(messages, window, None) for _ in range(RUNS)]
        mean = _row(table, runs, "off", window)
        what = f"mean turn, summarizer off, window {window:,}"
        table.checks.append(Check(what, mean.median, MOST_MS, " ms"))
        flat = statistics.median(
            statistics.mean(run[-BLOCK:]) / statistics.mean(run[:BLOCK]) for run in runs
        )
        what = f"last {BLOCK:,} ÷ first {BLOCK:,} turns, summarizer off, window {window:,}"
        table.checks.append(Check(what, flat, MOST_RATIO))
    for window in WINDOWS[:1] if setting.quick else WINDOWS:
        _row(table, [_run(messages, window, "extractive")], "extractive", window)
    return [table]


def _counting(messages: list[Record]) -> float:
    """Milliseconds a message for one tokenizer pass over its texts."""
    started = time.process_time()
    for message in messages:
        O200K.count(message["content"])
        for call in message.get("tool_calls", ()):
            O200K.count(call["function"]["name"])
            O200K.count(call["function"]["arguments"])
    return (time.process_time() - started) / len(messages) * 1e3


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


def _row(table: Table, runs: list[list[float]], summarizer: str, window: int) -> Spread:
    mean = Spread(tuple(statistics.mean(run) for run in runs))
    first = statistics.median(statistics.mean(run[:BLOCK]) for run in runs)
    last = statistics.median(statistics.mean(run[-BLOCK:]) for run in runs)
    middle = statistics.median(statistics.median(run) for run in runs)
    largest = statistics.median(max(run) for run in runs)
    figures = [number(x) for x in (first, last, middle, largest)]
    table.rows.append((summarizer, f"{window:,}", mean.text(), *figures))
    return mean
