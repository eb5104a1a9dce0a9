"""Compares what comes after compactions with other moments of the same sessions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from statistics import mean
from typing import NamedTuple

from compact.look.measures import Window

DRAWS = 1_000
"""How many times the sessions are drawn at random, with repetition, to find a 95 % interval
(bootstrap)."""
FEWEST_COMPACTIONS = 10
"""With fewer compactions than this, no difference is said to be due to them."""
Measure = Callable[[Window], float | None]
"""A window's number; None if the window does not tell."""


class Session(NamedTuple):
    """The windows of one session: after its compactions, and after other moments."""

    here: list[Window]
    controls: list[Window]


class Difference(NamedTuple):
    """Two means and their difference, with the 95 % interval of sessions drawn anew."""

    here: float
    without: float
    low: float
    high: float
    compactions: int
    sessions: int

    @property
    def due(self) -> float:
        """The difference of the means."""
        return self.here - self.without

    @property
    def is_told(self) -> bool:
        """Whether it may be called due to the compaction."""
        return self.compactions >= FEWEST_COMPACTIONS and not self.low <= 0 <= self.high


def compare(sessions: Sequence[Session], measure: Measure) -> Difference | None:
    """Compare a measure. A session counts by its compactions, and is compared with itself only.
    None if no session has both kinds of moments.
    """
    rows = list[tuple[int, float, float]]()
    for session in sessions:
        here = [x for each in session.here if (x := measure(each)) is not None]
        without = [x for each in session.controls if (x := measure(each)) is not None]
        if here and without:
            rows.append((len(here), sum(here), len(here) * mean(without)))
    if not rows:
        return None
    random = Random(0)
    drawn = sorted(_difference(random.choices(rows, k=len(rows))) for _ in range(DRAWS))
    count = sum(n for n, _, _ in rows)
    return Difference(
        here=sum(here for _, here, _ in rows) / count,
        without=sum(without for _, _, without in rows) / count,
        low=drawn[DRAWS // 40],
        high=drawn[-1 - DRAWS // 40],
        compactions=count,
        sessions=len(rows),
    )


def contrast(
    here: Sequence[Sequence[Window]], others: Sequence[Sequence[Window]], measure: Measure
) -> Difference | None:
    """Compare a measure between the compactions of two groups of sessions."""
    one, other = _sums(here, measure), _sums(others, measure)
    if not one or not other:
        return None
    random = Random(0)
    drawn = sorted(
        _mean(random.choices(one, k=len(one))) - _mean(random.choices(other, k=len(other)))
        for _ in range(DRAWS)
    )
    count = min(sum(n for n, _ in one), sum(n for n, _ in other))
    low, high = drawn[DRAWS // 40], drawn[-1 - DRAWS // 40]
    return Difference(_mean(one), _mean(other), low, high, count, len(one) + len(other))


def _sums(sessions: Sequence[Sequence[Window]], measure: Measure) -> list[tuple[int, float]]:
    rows = [[x for each in windows if (x := measure(each)) is not None] for windows in sessions]
    return [(len(row), sum(row)) for row in rows if row]


def _mean(rows: Sequence[tuple[int, float]]) -> float:
    return sum(total for _, total in rows) / sum(n for n, _ in rows)


def _difference(rows: Sequence[tuple[int, float, float]]) -> float:
    return sum(here - without for _, here, without in rows) / sum(n for n, _, _ in rows)
