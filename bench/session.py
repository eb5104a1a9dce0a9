"""`ContextManager` with a long history loaded: what a prompt costs, whatever the length."""

from __future__ import annotations

import time

from bench.counting import ColdEstimator
from bench.histories import Record, history
from bench.measuring import WINDOWS, Check, Setting, Spread, Table
from compact.managers.context import ContextManager

MOST_MS = 0.2
MOST_RATIO = 1.5
SHORT, LONG = 1_000, 100_000
ROUNDS = 200


def session(window: int, summarizer: str | None = None) -> ContextManager:
    """An empty session with counters of its own."""
    return ContextManager(window=window, summarizer=summarizer, tokenizer=ColdEstimator())


def measure(setting: Setting) -> list[Table]:
    """The first prompt after loading, then after one more message each, then with nothing new."""
    long = 20_000 if setting.quick else LONG
    messages = history(long)
    table = Table(
        "ContextManager, history loaded, summarizer off: wall ms of get_context_for_model()",
        ("messages", "window", "loading, µs a message", "first prompt", "after a new message",
         "nothing new"),
    )  # fmt: skip
    for window in WINDOWS:
        later = [_prompts(table, messages[-size:], window) for size in (SHORT, long)]
        for size, spread in zip((SHORT, long), later, strict=True):
            what = (
                f"get_context_for_model after a new message, {size:,} messages, window {window:,}"
            )
            table.checks.append(Check(what, spread.median, MOST_MS, " ms"))
        what = f"the same at {long:,} ÷ at {SHORT:,} messages, window {window:,}"
        table.checks.append(Check(what, later[1].median / later[0].median, MOST_RATIO))
    table.notes.append(
        f"Median of {ROUNDS} prompts. The first prompt plans cold: counting happens in it."
    )
    return [table]


def _prompts(table: Table, messages: list[Record], window: int) -> Spread:
    """Times of prompts after one new message each, compressions left to `bench turns`."""
    manager = session(window)
    *loaded, asked = [m for m in messages if m["role"] != "system"]
    started = time.perf_counter()
    for message in loaded:
        manager.add_message(message)
    loading = (time.perf_counter() - started) / len(loaded) * 1e6
    first = _wall_ms(manager)
    after_new: list[float] = []
    for _ in range(ROUNDS):
        manager.add_message({"role": "user", "content": asked["content"] + str(len(after_new))})
        after_new.append(_wall_ms(manager))
    nothing_new = [_wall_ms(manager) for _ in range(ROUNDS)]
    spreads = Spread(tuple(after_new)), Spread(tuple(nothing_new))
    row = (f"{len(messages):,}", f"{window:,}", f"{loading:.1f}", f"{first:.1f} [1]")
    table.rows.append((*row, *(spread.text() for spread in spreads)))
    return spreads[0]


def _wall_ms(manager: ContextManager) -> float:
    started = time.perf_counter_ns()
    manager.get_context_for_model()
    return (time.perf_counter_ns() - started) / 1e6
