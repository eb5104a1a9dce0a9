"""`python -m bench.million [MESSAGES]`: a memory of a million messages, in bounded memory.

Half of them are one session, the rest sessions of twenty-two. Each step runs in a process of its
own, which says how long it took and the most it held.
"""

from __future__ import annotations

import random
import resource
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from bench.memory import _stored, _text
from compact import CompactConfig, MemoryManager

NOW = datetime(2045, 1, 1, tzinfo=UTC)
"""When everything has aged."""
QUESTIONS = 20
NOTHING_KEPT = CompactConfig(retain_score=1.0, age_automatically=False)
"""No session is important enough to age slower, and none ages while something else is measured."""


def store(file: Path, size: int) -> str:
    """Make the memory."""
    stored, text = _stored(size, file, random.Random(7))
    return f"{stored:,.0f} messages a second, {text / 1e6:,.0f} MB of text"


def index(file: Path, _: int) -> str:
    """Index it."""
    with MemoryManager(file, settings=NOTHING_KEPT) as memory:
        done = memory.catch_up()
    return f"complete: {done}, a file of {file.stat().st_size / 1e6:,.0f} MB"


def search(file: Path, _: int) -> str:
    """Ask it something, again and again."""
    draw, times = random.Random(8), []
    with MemoryManager(file, settings=NOTHING_KEPT) as memory:
        for _ in range(QUESTIONS):
            started = time.perf_counter()
            memory.search(_text(draw, 40))
            times.append(1e3 * (time.perf_counter() - started))
    return (
        f"first {times[0]:,.0f} ms, then {sorted(times[1:])[QUESTIONS // 2]:,.0f} ms in the median"
    )


def status(file: Path, _: int) -> str:
    """Say what it holds."""
    with MemoryManager(file, settings=NOTHING_KEPT) as memory:
        told = memory.status()
    return f"{told.sessions:,} sessions, {told.messages:,} messages"


def would_age(file: Path, _: int) -> str:
    """Say what ageing would do."""
    with MemoryManager(file, settings=NOTHING_KEPT) as memory:
        return f"{len(memory.age(NOW, dry_run=True).rows):,} sessions"


def age(file: Path, _: int) -> str:
    """Age it, and archive everything."""
    with MemoryManager(file, settings=NOTHING_KEPT) as memory:
        report = memory.age(NOW)
    moved = report.archive
    archived = len(moved.archived) if moved else 0
    return f"{archived:,} archived, a file of {file.stat().st_size / 1e6:,.0f} MB"


STEPS = (store, index, search, status, would_age, age)


def main(arguments: list[str]) -> None:
    """Run all steps, or one of them in this process."""
    if len(arguments) == 3:
        name, file, size = arguments
        (step,) = (each for each in STEPS if each.__name__ == name)
        started = time.perf_counter()
        said = step(Path(file), int(size))
        spent = time.perf_counter() - started
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"{name}: {spent:,.1f} s, {most:,.0f} MB; {said}", flush=True)
        return
    size = arguments[0] if arguments else "1000000"
    with tempfile.TemporaryDirectory() as folder:
        for step in STEPS:
            command = [sys.executable, "-m", "bench.million", step.__name__, f"{folder}/m.db", size]
            subprocess.run(command, check=True)


if __name__ == "__main__":
    main(sys.argv[1:])
