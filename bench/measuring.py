"""What a measurement is made of: spreads of repeated runs, limits, tables. Nothing here knows what
is measured.

CPU time is that of the process (`time.process_time`), so that a busy machine disturbs little.
Things that are compared run in turn, A B A B …, within one process where that is possible. Each
table has a floor, the least work of its kind, and its limits are ratios to that: so a slow machine
gives the same verdict.
"""

from __future__ import annotations

import gc
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

REPO_ROOT = Path(__file__).resolve().parents[1]
RUNS = 7
WINDOWS = (8_000, 128_000)

Work = Callable[[], object]


class CannotMeasure(Exception):
    """Something the measurement needs is missing; the text says what."""


@dataclass(frozen=True, slots=True)
class Setting:
    """How thoroughly to measure."""

    quick: bool = False
    peers: bool = True

    @property
    def runs(self) -> int:
        """How often each figure is taken; never fewer than five times."""
        return 5 if self.quick else RUNS


@dataclass(frozen=True, slots=True)
class Spread:
    """A figure that was taken several times."""

    values: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    def over(self, floor: Spread | float) -> Spread:
        """How many times the floor: round by round, or of one figure where rounds were not taken
        in turn.
        """
        if isinstance(floor, Spread):
            pairs = zip(self.values, floor.values, strict=True)
            return Spread(tuple(value / least for value, least in pairs))
        return Spread(tuple(value / floor for value in self.values))

    def text(self, unit: str = "") -> str:
        """Median, smallest and largest; how many runs where they were fewer than five."""
        low, high = min(self.values), max(self.values)
        few = f" [{len(self.values)}]" if len(self.values) < 5 else ""
        return f"{number(self.median)}{unit} ({number(low)}–{number(high)}){few}"


@dataclass(frozen=True, slots=True)
class Check:
    """A figure and the most it may be."""

    what: str
    value: float
    most: float
    unit: str = ""

    @property
    def ok(self) -> bool:
        return self.value <= self.most

    def text(self) -> str:
        verdict = "ok  " if self.ok else "over"
        limit = f"(limit {number(self.most)}{self.unit})"
        return f"{verdict}  {self.what}: {number(self.value)}{self.unit} {limit}"


@dataclass(slots=True)
class Table:
    """One measurement's result."""

    title: str
    head: Sequence[str]
    rows: list[Sequence[str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)

    def markdown(self) -> str:
        lines = [f"### {self.title}", "", *(f"{note}" for note in self.notes), ""]
        if self.rows:
            lines += ["| " + " | ".join(self.head) + " |", "|" + "---|" * len(self.head)]
            lines += ["| " + " | ".join(row) + " |" for row in self.rows]
        if self.checks:
            lines += ["", "```", *(check.text() for check in self.checks), "```"]
        return "\n".join(lines) + "\n"

    def record(self) -> dict[str, Any]:
        """The table as plain data."""
        checks = [{**asdict(check), "ok": check.ok} for check in self.checks]
        return {"title": self.title, "head": list(self.head), "rows": self.rows, "checks": checks}


def number(value: float) -> str:
    """A number with three significant digits, so that nobody reads noise."""
    size = abs(value)
    if size >= 100:
        return f"{value:,.0f}"
    if size >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}" if size >= 1 else f"{value:.3g}"


def cpu_ms(work: Work) -> float:
    """CPU milliseconds of one run, garbage of earlier ones collected."""
    gc.collect()
    started = time.process_time_ns()
    work()
    return (time.process_time_ns() - started) / 1e6


def wall_ms(work: Work) -> float:
    """Wall milliseconds of one run."""
    started = time.perf_counter_ns()
    work()
    return (time.perf_counter_ns() - started) / 1e6


def in_turn(works: Sequence[Work], runs: int) -> list[Spread]:
    """CPU milliseconds of each work, taken in turn after one run that does not count."""
    for work in works:
        work()
    taken = [[cpu_ms(work) for work in works] for _ in range(runs)]
    return [Spread(values) for values in zip(*taken, strict=True)]


def child(module: str, *arguments: object) -> dict[str, Any]:
    """What a module of the bench prints as JSON when run in a fresh process."""
    command = [sys.executable, "-m", module, *map(str, arguments)]
    paths = [str(REPO_ROOT), str(REPO_ROOT / "src"), os.environ.get("PYTHONPATH", "")]
    env = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
    done = subprocess.run(
        command, capture_output=True, text=True, encoding="utf-8", env=env, check=False
    )
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or ["no reason given"]
        raise CannotMeasure(f"{module} failed: {last[0]}")
    result: dict[str, Any] = json.loads(done.stdout)
    return result
