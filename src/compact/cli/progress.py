"""Shows the progress of long work as a line on the terminal, which appears after half a second."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Self

from rich.console import Console
from rich.status import Status

from compact.cli.errors import REDACTOR, say
from compact.messages.events import (
    Event,
    ModelAskedAgain,
    ModelReplaced,
    StageStarted,
    StoryAsked,
    SummaryReplaced,
    TrustFaded,
    WindowCapped,
)
from compact.telemetry.plain_words import redacted, sentence, stage_of

DELAY = 0.5
"""How many seconds to wait before the line appears, so that it does not flicker in short work."""


class Progress:
    """Shows the current step on stderr, if stderr is a terminal."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._lock = threading.Lock()
        self._status: Status | None = None
        self._ended = False
        self._notes: list[str] = []
        self._timer: threading.Timer | None = None

    def __enter__(self) -> Self:
        """Start the delay."""
        if sys.stderr is not None and sys.stderr.isatty():
            self._timer = threading.Timer(DELAY, self._show)
            self._timer.daemon = True
            self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the line, and print the important events that happened meanwhile."""
        if self._timer is not None:
            self._timer.cancel()
        with self._lock:
            self._ended = True
            if self._status is not None:
                self._status.stop()
        for line in self._notes:
            say(line)

    def now(self, text: str) -> None:
        """Show this text from now on."""
        with self._lock:
            self._text = text
            if self._status is not None:
                self._status.update(f"{text}…")

    def on_event(self, event: Event) -> None:
        """Show the progress that an event of a compression reports."""
        match event:
            case StageStarted():
                self.now(f"Compressing context: {stage_of(event)}")
            case ModelAskedAgain() | StoryAsked():
                self.now(f"Compressing context: {_sentence(event)}")
            case ModelReplaced() | SummaryReplaced() | WindowCapped() | TrustFaded():
                self._notes.append(_sentence(event))

    def _show(self) -> None:
        screen = Console(stderr=True)
        with self._lock:
            if not self._ended:
                self._status = screen.status(f"{self._text}…")
                self._status.start()


def counting(progress: Progress, text: str, what: str = "messages") -> Callable[[int, int], None]:
    """Return a callback that shows how many messages, or other things, are done."""
    return lambda done, every: progress.now(f"{text} {done:,} of {every:,} {what}")


def share_done(progress: Progress, text: str) -> Callable[[int, int], None]:
    """Return a callback that shows the share of the work that is done."""
    return lambda done, of: progress.now(f"{text}, {100 * done // max(1, of)} %")


def _sentence(event: Event) -> str:
    # The event is redacted first, because the sentence cuts long reasons and might cut within a
    # secret.
    return sentence(redacted(event, REDACTOR.get()))
