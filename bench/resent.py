"""A list that is resent whole with nothing new in it: what `preflight` costs for it, and keeps."""

from __future__ import annotations

import gc
import time
import tracemalloc
from itertools import product
from tempfile import TemporaryDirectory
from typing import Any

from bench.measuring import Check, Setting, Spread, Table, number
from compact import CompactConfig, CompactManager

SIZES = (100, 500, 2_000)
"""Messages in the list."""
MEMORY, FILE = "in memory", "in a file"
CALLS = 50
MOST = 5.0
"""Microseconds of a resent short message."""
MOST_KEPT = 64.0
"""KiB by which memory may grow in as many calls."""


def measure(setting: Setting) -> list[Table]:
    """Processor time of each call, and what all of them leave in memory."""
    table = Table(
        "preflight of a list with nothing new: CPU time",
        ("store", "short messages", "ms a call", "µs a message", f"KiB kept after {CALLS} calls"),
    )
    sizes = SIZES[:2] if setting.quick else SIZES
    with TemporaryDirectory() as folder:
        for (store, file), size in product(((MEMORY, None), (FILE, f"{folder}/s.db")), sizes):
            messages, config = _talk(size), CompactConfig(max_context_tokens=128_000, store=file)
            with CompactManager(config) as manager:
                manager.preflight(f"{size}", messages)
                calls = Spread(tuple(_ms(manager, f"{size}", messages) for _ in range(CALLS)))
                kept = _kept(manager, f"{size}", messages)
            each = calls.median * 1_000 / size
            table.rows.append((store, f"{size:,}", calls.text(), number(each), number(kept)))
            what = f"{size:,} messages, {store}"
            table.checks.append(Check(f"µs a message, {what}", each, MOST))
            table.checks.append(Check(f"KiB kept, {what}", kept, MOST_KEPT))
    return [table]


def _talk(size: int) -> list[dict[str, Any]]:
    roles = ("user", "assistant")
    return [{"role": roles[i % 2], "content": f"{i}: is beam {i} sound?"} for i in range(size)]


def _ms(manager: CompactManager, session_id: str, messages: list[dict[str, Any]]) -> float:
    started = time.thread_time_ns()
    manager.preflight(session_id, messages)
    return (time.thread_time_ns() - started) / 1e6


def _kept(manager: CompactManager, session_id: str, messages: list[dict[str, Any]]) -> float:
    tracemalloc.start()
    try:
        manager.preflight(session_id, messages)
        gc.collect()
        before, _ = tracemalloc.get_traced_memory()
        for _ in range(CALLS):
            manager.preflight(session_id, messages)
        gc.collect()
        return (tracemalloc.get_traced_memory()[0] - before) / 1_024
    finally:
        tracemalloc.stop()
