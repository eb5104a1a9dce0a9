"""A list that is resent whole with nothing new in it: what `preflight` costs for it, and keeps."""

from __future__ import annotations

import gc
import time
import tracemalloc
from typing import Any

from bench.measuring import Check, Setting, Spread, Table, number
from compact import CompactConfig, CompactManager

SIZES = (100, 500, 2_000)
"""Messages in the list."""
CALLS = 50
MOST = 5.0
"""Microseconds of a resent short message."""
MOST_KEPT = 64.0
"""KiB by which memory may grow in as many calls."""


def measure(setting: Setting) -> list[Table]:
    """Processor time of each call, and what all of them leave in memory."""
    table = Table(
        "preflight of a list with nothing new: CPU time",
        ("short messages", "ms a call", "µs a message", f"KiB kept after {CALLS} calls"),
    )
    for size in SIZES[:2] if setting.quick else SIZES:
        messages = _talk(size)
        with CompactManager(CompactConfig(max_context_tokens=128_000)) as manager:
            manager.preflight("s", messages)
            calls = Spread(tuple(_ms(manager, messages) for _ in range(CALLS)))
            kept = _kept(manager, messages)
        each = calls.median * 1_000 / size
        row = (f"{size:,}", calls.text(), number(each), number(kept))
        table.rows.append(row)
        table.checks.append(Check(f"µs a message, {size:,} messages", each, MOST))
        table.checks.append(Check(f"KiB kept, {size:,} messages", kept, MOST_KEPT))
    return [table]


def _talk(size: int) -> list[dict[str, Any]]:
    roles = ("user", "assistant")
    return [{"role": roles[i % 2], "content": f"{i}: is beam {i} sound?"} for i in range(size)]


def _ms(manager: CompactManager, messages: list[dict[str, Any]]) -> float:
    started = time.thread_time_ns()
    manager.preflight("s", messages)
    return (time.thread_time_ns() - started) / 1e6


def _kept(manager: CompactManager, messages: list[dict[str, Any]]) -> float:
    tracemalloc.start()
    try:
        manager.preflight("s", messages)
        gc.collect()
        before, _ = tracemalloc.get_traced_memory()
        for _ in range(CALLS):
            manager.preflight("s", messages)
        gc.collect()
        return (tracemalloc.get_traced_memory()[0] - before) / 1_024
    finally:
        tracemalloc.stop()
