"""A real terminal of a size, by tmux, with a program in it: keys go in, cells come out."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Self
from uuid import uuid4

import pytest

ROOT = Path(__file__).resolve().parents[3]
PATIENCE = 120.0
"""Seconds after which what does not come is a failure; a machine may be slow."""


def needs_tmux() -> None:
    """Skip where there is none, and say so."""
    if shutil.which("tmux") is None:
        pytest.skip("tmux is not installed: the chat program is not driven in a terminal")


class Terminal:
    """One `compactctl` in a terminal, until it ends or is killed."""

    def __init__(
        self,
        folder: Path,
        *arguments: str,
        env: Mapping[str, str],
        size: tuple[int, int] = (80, 24),
    ) -> None:
        self._socket = f"compact-{uuid4().hex[:12]}"
        path = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
        given = {"PYTHONPATH": path, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8", **env}
        variables = [f"{name}={value}" for name, value in given.items()]
        width, height = map(str, size)
        session = ("new-session", "-d", "-x", width, "-y", height, "-c", str(folder))
        program = ("env", *variables, sys.executable, "-m", "compact", *arguments)
        self._tmux("-f", "/dev/null", *session, *program)
        self._tmux("set-option", "-g", "remain-on-exit", "on")
        self.pid = int(self._tmux("display-message", "-p", "#{pane_pid}"))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with suppress(subprocess.CalledProcessError):
            self._tmux("kill-server")

    def _tmux(self, *arguments: str) -> str:
        command = ["tmux", "-L", self._socket, *arguments]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        return done.stdout

    @property
    def text(self) -> str:
        """What is on the screen."""
        return self._tmux("capture-pane", "-p")

    @property
    def has_ended(self) -> bool:
        return self._tmux("display-message", "-p", "#{pane_dead}").strip() == "1"

    def press(self, *keys: str) -> None:
        """Press keys by their names, such as `Enter` and `Escape`."""
        self._tmux("send-keys", *keys)

    def write(self, text: str) -> None:
        """Write what a person would, and send it."""
        self._tmux("send-keys", "-l", text)
        self.press("Enter")

    def kill(self) -> None:
        """Kill the program, as `kill -9` does."""
        os.kill(self.pid, 9)
        self.until(lambda _: self.has_ended, "it has ended")

    def until(self, holds: Callable[[str], bool], what: str) -> str:
        """Wait until it holds of the screen; the screen then."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            seen = self.text
            if holds(seen):
                return seen
            time.sleep(0.05)
        raise AssertionError(f"never: {what}\n{self.text}")

    def sees(self, *words: str) -> str:
        """Wait until all these words are on the screen; the screen then."""
        return self.until(lambda seen: all(word in seen for word in words), ", ".join(words))


@contextmanager
def chatting(
    folder: Path, *arguments: str, env: Mapping[str, str] | None = None
) -> Iterator[Terminal]:
    """The chat program in a terminal, when it can be written to."""
    needs_tmux()
    with Terminal(folder, "chat", *arguments, env=env or {}) as terminal:
        terminal.sees("Say something")
        yield terminal
