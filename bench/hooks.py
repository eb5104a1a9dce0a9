"""The hooks of Claude Code and Codex as fresh processes: how long the host waits, and what making
the text costs, for a transcript of about 4 MB and for one of 100 MB.

It needs a real transcript: the largest in the folder that COMPACT_DATA names.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.measuring import REPO_ROOT, CannotMeasure, Check, Setting, Spread, Table

STARTS, MAKINGS, LARGE = 40, 5, 100_000_000
START_MS, MAKING_MS = 500.0, 3_000.0
"""Most milliseconds: of wall time in 19 of 20 starts; of CPU for the text of 4 MB."""
RUN = (
    "import sys; sys.argv = ['compactctl', 'hook', {!r}]; from compact.cli.entry import run; run()"
)
INSTEAD_OF_A_FORK = "import os; del os.fork; "
"""So that the process itself makes the text, and its CPU time is that of the work."""


def measure(setting: Setting) -> list[Table]:
    """Wall and CPU of both hooks."""
    folder = os.environ.get("COMPACT_DATA")
    found = sorted(
        Path(folder or "").glob("claude_code_*/*.jsonl") if folder else (),
        key=lambda path: path.stat().st_size,
    )
    if not found:
        raise CannotMeasure("COMPACT_DATA names no folder with transcripts of Claude Code")
    table = Table("Hooks, fresh processes, ms", ("hook", "wall", "19 of 20", "CPU"))
    with tempfile.TemporaryDirectory() as name:
        large = Path(name) / "large.jsonl"
        part, boundary = found[-1].read_bytes(), b'{"type":"system","subtype":"compact_boundary"}\n'
        with large.open("wb") as stream:
            while stream.tell() < LARGE:
                stream.write(part + boundary)
            stream.write(part)
        for path, size in ((found[-1], f"{len(part) / 1e6:.1f} MB"), (large, "100 MB")):
            hook = Hook(path, Path(name) / "state")
            waits, makings, starts = [], [], []
            for _ in range(2 if setting.quick else MAKINGS):
                waits.append(hook.run("pre-compact"))
                time.sleep(0.1)  # the fork goes on; its record is then written anew
                makings.append(hook.run("pre-compact", INSTEAD_OF_A_FORK))
            for _ in range(STARTS // 4 if setting.quick else STARTS):
                hook.put_back()
                starts.append(hook.run("session-start"))
            _row(table, f"pre-compact, {size}: the host waits", waits)
            _row(table, f"pre-compact, {size}: the text is made", makings)
            _row(table, f"session-start, {size}, the text is made", starts)
            if path is not large:
                cpu = Spread(tuple(cpu for _, cpu in makings)).median
                table.checks.append(Check("CPU of a text of 4 MB, ms", cpu, MAKING_MS))
                late = _late(wall for wall, _ in starts)
                table.checks.append(Check("start, 19 of 20, ms", late, START_MS))
    return [table]


def _late(times: object) -> float:
    """The time that 19 of 20 stay below."""
    ordered = sorted(times)  # type: ignore[call-overload]
    return float(ordered[max(0, len(ordered) * 19 // 20 - 1)])


def _row(table: Table, name: str, taken: list[tuple[float, float]]) -> None:
    wall, cpu = (Spread(tuple(values)) for values in zip(*taken, strict=True))
    table.rows.append((name, wall.text(), f"{_late(wall.values):.0f}", cpu.text()))


class Hook:
    """The hooks of one transcript, with a state folder of their own."""

    def __init__(self, transcript: Path, state: Path) -> None:
        event = {"session_id": "s", "transcript_path": str(transcript), "source": "compact"}
        self._event = json.dumps(event).encode()
        self._state = state
        self._record = b""

    def run(self, event: str, before: str = "") -> tuple[float, float]:
        """Wall and CPU milliseconds of a process."""
        env = {"PYTHONPATH": str(REPO_ROOT / "src"), "XDG_STATE_HOME": str(self._state)}
        used, started = _cpu(), time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-c", before + RUN.format(event)],
            input=self._event,
            env=os.environ | env,
            capture_output=True,
            check=False,
        )
        wall = (time.perf_counter() - started) * 1e3
        if done.returncode or (event == "session-start") != bool(done.stdout):
            raise CannotMeasure(
                f"the hook {event} gave {done.stdout[:80]!r} {done.stderr[-200:]!r}"
            )
        if before:
            self._record = self._file.read_bytes()
        return wall, _cpu() - used

    @property
    def _file(self) -> Path:
        return next(self._state.glob("compact/hooks/*.json"))

    def put_back(self) -> None:
        """The record as it is before a start."""
        self._file.write_bytes(self._record)


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (used.ru_utime + used.ru_stime) * 1e3
