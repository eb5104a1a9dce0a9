"""Work that is done again and again in a thread that stops cleanly."""

from __future__ import annotations

from collections.abc import Callable
from threading import TIMEOUT_MAX, Condition, Event, Thread
from typing import Generic, Self, TypeVar

T = TypeVar("T")


class Schedule(Generic[T]):
    """Does its work at once, and then again so many seconds after it has ended, until it is
    stopped. What the work raises ends nothing: it is kept, and the work is done again next time.

    A forked child has no such thread.
    """

    def __init__(self, work: Callable[[Callable[[], bool]], T], *, every: float) -> None:
        self._work, self._every = work, every
        self._stops, self._ran = Event(), Condition()
        self.runs = 0
        self.last: T | None = None
        """What the work came to last."""
        self.error: Exception | None = None
        """What it raised last; None after a run that went well."""
        self._thread = Thread(target=self._run, name="compact-schedule", daemon=True)
        self._thread.start()

    @property
    def is_running(self) -> bool:
        """Whether there is a thread that does the work."""
        return self._thread.is_alive()

    def wait(self, runs: int, seconds: float | None = None) -> bool:
        """Wait, for so many seconds at most, until it was done so many times; whether it was."""
        with self._ran:
            return self._ran.wait_for(lambda: self.runs >= runs, seconds)

    def stop(self, seconds: float | None = None) -> bool:
        """Let it end after what it is doing, and wait, for so many seconds at most; whether it has
        ended.
        """
        self._stops.set()
        self._thread.join(seconds)
        return not self.is_running

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def _run(self) -> None:
        while not self._stops.is_set():
            try:
                self.last, self.error = self._work(self._stops.is_set), None
            except Exception as error:  # noqa: BLE001 - the next run may go well
                self.error = error
            with self._ran:
                self.runs += 1
                self._ran.notify_all()
            self._stops.wait(min(self._every, TIMEOUT_MAX))
