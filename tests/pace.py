"""Time without the machine's pace: growth with the input, and bounds that a slow one stretches."""

import asyncio
import gc
import json
import selectors
import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from compact.text.passages import passages

T = TypeVar("T")

FLOOR = 0.06
"""Seconds of the processor below which nobody asks."""
MOST_GROWTH = 8**0.5
"""How many times as long the double may take; a linear reading takes twice as long, a quadratic one
four times. The bound lies between, as far from one as from the other."""


def seconds(work: Callable[[Any], object], given: object, tries: int = 1) -> float:
    """Of this thread's processor time, the least of some tries; nothing is remembered of a text.
    Garbage is not collected meanwhile: that takes as long as other tests have left objects.
    """
    best = float("inf")
    for _ in range(tries):
        passages.cache_clear()
        gc.disable()
        try:
            start = time.thread_time()
            work(given)
            best = min(best, time.thread_time() - start)
        finally:
            gc.enable()
    return best


def is_linear(work: Callable[[Any], object], given: str | list) -> bool:
    """Whether the whole takes about as many times as long as a part of it, in one of some tries.

    A reading that is quadratic grows from a quarter to the half as from the half to the whole. One
    that is linear may do so once, where what it needs outgrows a part of the memory.
    """
    if seconds(work, given) < FLOOR:
        return True
    parts = [given[: len(given) // share] for share in (4, 2, 1)]
    for tries in (1, 2, 3, 5, 9):
        quarter, half, whole = (seconds(work, part, tries) for part in parts)
        if min(half / quarter, whole / half) < MOST_GROWTH:
            return True
    return False


YARDSTICK = 0.012
"""Seconds of the processor that `_fixed_work` takes on the machine the bounds were written for."""


def _fixed_work(_: object = None) -> None:
    """Something that takes as long as the machine is slow."""
    for _ in range(4):
        json.loads(json.dumps([{"key": f"value {n}"} for n in range(2_000)]))


def slowness() -> float:
    """How many times as long as on that machine everything takes now; at least 1."""
    return max(1.0, seconds(_fixed_work, None, 9) / YARDSTICK)


class _AtOnce(selectors.SelectSelector):
    """Waits for nothing: where nothing has happened, the time it was to wait for has passed."""

    passed = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        found = super().select(0 if timeout else timeout)
        if timeout and not found:
            self.passed += timeout
        return found


class _OwnTime(asyncio.SelectorEventLoop):
    """A loop whose time passes by waiting alone, at once."""

    def __init__(self) -> None:
        self._waits = _AtOnce()
        super().__init__(self._waits)

    def time(self) -> float:
        return self._waits.passed


def run_at_once(work: Coroutine[Any, Any, T]) -> T:
    """`asyncio.run` for what waits for time alone, neither for threads nor for others: as long as
    its waits are, whatever the machine's pace.
    """
    with asyncio.Runner(loop_factory=_OwnTime) as runner:
        return runner.run(work)
