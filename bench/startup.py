"""Starting: `import compact` and `compactctl --help` as fresh processes, beside an empty Python
and peers' imports.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from bench import peers
from bench.measuring import REPO_ROOT, CannotMeasure, Check, Setting, Spread, Table

RUNS = 15
FLOOR = "an empty Python"
LIMITS = {"import compact": 13.0, "compactctl --help": 26.0}
"""Most times an empty Python: 150 and 300 ms, where that takes 11.2 ms (RESULTS.md)."""
OURS: dict[str, Sequence[str]] = {
    FLOOR: ("-c", "pass"),
    "import compact": ("-c", "import compact"),
    "from compact import compress": ("-c", "from compact import compress"),
    "from compact import ContextManager": ("-c", "from compact import ContextManager"),
    "compactctl --help": ("-m", "compact.cli.main", "--help"),
}
PEERS: dict[str, Sequence[str]] = {
    "import langchain_core.messages": ("-c", "import langchain_core.messages"),
    "from litellm.utils import trim_messages": ("-c", "from litellm.utils import trim_messages"),
}


def measure(setting: Setting) -> list[Table]:
    """Wall and CPU of each command, taken in turn with an empty Python."""
    table = Table("Starting, fresh processes, ms", ("command", "wall", "CPU", f"CPU ÷ {FLOOR}"))
    _rows(table, Path(sys.executable), OURS, RUNS)
    if setting.peers:
        try:
            peers.versions()
            _rows(table, peers.PYTHON, PEERS, 5)
        except peers.NoPeers as reason:
            table.notes.append(f"Peers left out: {reason}.")
    return [table]


def _rows(table: Table, python: Path, commands: dict[str, Sequence[str]], runs: int) -> None:
    taken = _in_turn(python, {FLOOR: OURS[FLOOR], **commands}, runs)
    floor = taken[FLOOR][1]
    for name in commands:
        wall, cpu = taken[name]
        ratio = cpu.over(floor)
        table.rows.append((name, wall.text(), cpu.text(), ratio.text()))
        if name in LIMITS:
            table.checks.append(Check(f"{name} ÷ {FLOOR}", ratio.median, LIMITS[name]))


def _in_turn(
    python: Path, commands: dict[str, Sequence[str]], runs: int
) -> dict[str, tuple[Spread, Spread]]:
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
    for turn in range(runs + 1):
        for name, arguments in commands.items():
            times = _start([str(python), *arguments])
            if turn:  # the first one warms the disk's cache
                taken[name].append(times)
    return {
        name: (Spread(tuple(w for w, _ in times)), Spread(tuple(c for _, c in times)))
        for name, times in taken.items()
    }


def _start(command: Sequence[str]) -> tuple[float, float]:
    """Wall and CPU milliseconds of one process."""
    env = os.environ | {"PYTHONPATH": str(REPO_ROOT / "src")}
    before, started = _children_ms(), time.perf_counter()
    done = subprocess.run(command, capture_output=True, env=env, check=False)
    wall, after = (time.perf_counter() - started) * 1e3, _children_ms()
    if done.returncode:
        last = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        raise CannotMeasure(f"{' '.join(command[1:])} failed: {' '.join(last)}")
    return wall, after - before


def _children_ms() -> float:
    """CPU milliseconds of all processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (used.ru_utime + used.ru_stime) * 1e3
