"""Programs that are killed at random instants, and what they promised before (NFR-2).

A nursery imports everything once. It forks a worker for each line on its standard input and prints
the worker's process id. A worker writes a line of JSON to the ledger after each call that returned:
what stands there was promised.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import pytest

ROOT = Path(__file__).resolve().parents[1]
PATIENCE = 60
"""Seconds after which a worker hangs, on a machine that is busy with others."""
LONGEST_LIFE = 120
"""Seconds after which a worker ends that nobody has killed: whoever began it is gone."""
ENDS = (b'"error"', b'"complete"')
"""What a ledger says when its worker does nothing more."""

forking = pytest.mark.skipif(not hasattr(os, "fork"), reason="the worker forks")


class Ledger:
    """Lines that outlive their writer: each is one write to a file, no buffer between."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def note(self, **row: object) -> None:
        os.write(self._file, (json.dumps(row) + "\n").encode())


def serve(work: Callable[..., None]) -> None:
    """Be a nursery: `work(database, ledger, *words of the line)` in a child for each line."""
    database, path = sys.argv[1:]
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            signal.alarm(LONGEST_LIFE)
            work(database, Ledger(path), *line.split())
            os._exit(0)
        print(child, flush=True)
        os.waitpid(child, 0)
        print("gone", flush=True)


class Nursery:
    """A nursery of workers, the database they write to, and what they promised."""

    def __init__(self, module: str, folder: Path, number: int) -> None:
        self.folder, self.number = folder, number
        self.database, self.ledger = folder / "chat.db", folder / "ledger.jsonl"
        self.ledger.touch()
        self.rng = random.Random(number)
        self._read = 0
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, str(self.database), str(self.ledger)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"},
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate(timeout=60)

    def run(self, *words: object, lines: int | None = None, pause: float = 0.02) -> None:
        """Let a worker work until it ends; where `lines` are given, until it has promised so many
        more: then it is killed in what it does next.

        How far it comes is counted in its promises, so that a busy machine changes nothing.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        before = self.ledger.stat().st_size
        self._process.stdin.write(" ".join(map(str, words)) + "\n")
        self._process.stdin.flush()
        worker = int(self._process.stdout.readline())
        if lines is not None:
            self._kill(worker, before, lines, pause)
        assert self._process.stdout.readline() == "gone\n"

    def _kill(self, worker: int, before: int, lines: int, pause: float) -> None:
        until = time.monotonic() + PATIENCE
        while (said := self._after(before)).count(b"\n") < lines:
            if any(end in said for end in ENDS):
                break
            assert time.monotonic() < until, "the worker hangs"
            time.sleep(0.0005)
        time.sleep(self.rng.random() * pause)
        with suppress(ProcessLookupError):  # it had less to do
            os.kill(worker, signal.SIGKILL)

    def _after(self, position: int) -> bytes:
        with self.ledger.open("rb") as file:
            file.seek(position)
            return file.read()

    def promised(self) -> list[dict[str, Any]]:
        """What was promised since the last time; a line that was cut off was not."""
        data = self._after(self._read)
        self._read += len(data)
        return [json.loads(line) for line in data[: data.rfind(b"\n") + 1].splitlines()]
