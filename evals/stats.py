"""Means, quantiles and bootstrap intervals, of few numbers and always the same."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from statistics import mean
from typing import TypeVar

ROUNDS = 10_000
T = TypeVar("T")


def quantile(values: Sequence[float], share: float) -> float:
    """The value below which that share of the values lies, interpolated."""
    ordered = sorted(values)
    at = share * (len(ordered) - 1)
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


def interval(values: Sequence[float], *, seed: int = 7) -> tuple[float, float]:
    """A 95 % bootstrap interval of the mean: values are drawn again, with replacement."""
    return _bootstrap(values, mean, seed)


def clustered_interval(
    clusters: Sequence[Sequence[float]], *, seed: int = 7
) -> tuple[float, float]:
    """The same where values of one cluster belong together: whole clusters are drawn."""

    def of_all(drawn: Sequence[Sequence[float]]) -> float:
        return mean(value for cluster in drawn for value in cluster)

    return _bootstrap(clusters, of_all, seed)


def _bootstrap(
    items: Sequence[T], statistic: Callable[[Sequence[T]], float], seed: int
) -> tuple[float, float]:
    draw = random.Random(seed)
    found = [statistic(draw.choices(items, k=len(items))) for _ in range(ROUNDS)]
    return quantile(found, 0.025), quantile(found, 0.975)
