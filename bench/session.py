"""`ContextManager` with a long history loaded: what a prompt costs, whatever the length."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial
from typing import Any

from bench.counting import ColdEstimator, count_and_keep
from bench.histories import Record, history
from bench.measuring import WINDOWS, Check, Setting, Spread, Table, wall_ms
from compact.session.context_manager import ContextManager

MOST = 67.0
"""A prompt ÷ its floor: 0.2 ms, where the floor takes 0.003 ms."""
MOST_GROWTH = 1.5
"""The same at many messages ÷ at few."""
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
         "÷ floor", "nothing new"),
    )  # fmt: skip
    for window in WINDOWS:
        later = [_prompts(table, messages[-size:], window) for size in (SHORT, long)]
        for size, (_, ratio) in zip((SHORT, long), later, strict=True):
            what = f"a prompt after a new message ÷ floor, {size:,} messages, window {window:,}"
            table.checks.append(Check(what, ratio.median, MOST))
        what = f"the same at {long:,} ÷ at {SHORT:,} messages, window {window:,}"
        table.checks.append(Check(what, later[1][0].median / later[0][0].median, MOST_GROWTH))
    table.notes.append(
        f"Median of {ROUNDS} prompts. The first prompt plans cold: counting happens in it. The "
        "floor counts the new message's text and keeps it in a list."
    )
    return [table]


def _prompts(table: Table, messages: list[Record], window: int) -> tuple[Spread, Spread]:
    """Times of prompts after one new message each, and the same ÷ floor; compressions are left to
    `bench turns`.
    """
    manager = session(window)
    *loaded, asked = [m for m in messages if m["role"] != "system"]
    started = time.perf_counter()
    for message in loaded:
        manager.add_message(message)
    loading = (time.perf_counter() - started) / len(loaded) * 1e6
    first = wall_ms(manager.get_context_for_model)
    kept: list[Mapping[str, Any]] = []
    floor, after_new = [], []
    for i in range(ROUNDS):
        message = {"role": "user", "content": asked["content"] + str(i)}
        floor.append(wall_ms(partial(count_and_keep, kept, message)))
        manager.add_message(message)
        after_new.append(wall_ms(manager.get_context_for_model))
    nothing_new = Spread(tuple(wall_ms(manager.get_context_for_model) for _ in range(ROUNDS)))
    taken = Spread(tuple(after_new))
    ratio = taken.over(Spread(tuple(floor)))
    row = (f"{len(messages):,}", f"{window:,}", f"{loading:.1f}", f"{first:.1f} [1]")
    table.rows.append((*row, *(spread.text() for spread in (taken, ratio, nothing_new))))
    return taken, ratio
