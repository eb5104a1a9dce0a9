"""The bus: hands events to subscribers and exporters, and cannot hurt its caller.

Subscribers run at once, in the order they came; what they raise is caught and counted. An exporter
gets a bounded queue of its own and a thread that empties it: a slow or dead one loses events, which
are counted, and never makes a caller wait. This is one of the two places that may catch everything.
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable
from functools import partial

from compact.core.events import Event
from compact.core.protocols import Exporter

Subscriber = Callable[[Event], None]
QUEUE_SIZE = 1_000
"""Events that may wait for an exporter; while so many wait, newer ones are dropped and counted."""
CLOSE_SECONDS = 2.0
"""How long closing waits for an exporter to empty its queue."""


class EventBus:
    """Carries events from those who emit to those who listen."""

    def __init__(self) -> None:
        self._subscribers: list[Subscriber] = []
        self._lines: list[_ExporterQueue] = []
        self.failures = 0
        """Exceptions that subscribers and exporters raised, caught and counted."""

    @property
    def dropped(self) -> int:
        """Events that exporters did not get because their queues were full."""
        return sum(line.dropped for line in self._lines)

    def emit(self, event: Event) -> None:
        """Hand over an event; never raises, never waits for an exporter."""
        for subscriber in tuple(self._subscribers):
            _guarded(partial(subscriber, event), self._count_failure)
        for line in self._lines:
            line.put(event)

    def subscribe(self, subscriber: Subscriber) -> Callable[[], None]:
        """Call the function with every event from now on; returns a function that ends it."""
        self._subscribers.append(subscriber)

        def end() -> None:
            if subscriber in self._subscribers:
                self._subscribers.remove(subscriber)

        return end

    def export_to(self, exporter: Exporter, *, queue_size: int = QUEUE_SIZE) -> None:
        """Send every event from now on to the exporter, from a thread of its own."""
        self._lines.append(_ExporterQueue(exporter, queue_size, self._count_failure))

    def close(self) -> None:
        """Let exporters empty their queues, for at most `CLOSE_SECONDS` each, and close them."""
        for line in self._lines:
            line.close()
        self._lines.clear()

    def _count_failure(self) -> None:
        self.failures += 1


class _ExporterQueue:
    """One exporter, its queue and its thread."""

    def __init__(self, exporter: Exporter, size: int, failed: Callable[[], None]) -> None:
        self._exporter = exporter
        self._failed = failed
        self._size = size
        self.dropped = 0
        self._start()

    def _start(self) -> None:
        self._process = os.getpid()
        self._queue: queue.Queue[Event | None] = queue.Queue(self._size)
        self._thread = threading.Thread(target=self._work, name="compact-exporter", daemon=True)
        self._thread.start()

    def put(self, event: Event) -> None:
        if self._process != os.getpid():  # the thread stayed with the parent, and what it had to do
            self._start()
        try:
            self._queue.put_nowait(event)
        except queue.Full:
            self.dropped += 1

    def close(self) -> None:
        if self._process != os.getpid():
            return
        try:
            self._queue.put(None, timeout=CLOSE_SECONDS)
        except queue.Full:
            self.dropped += self._queue.qsize()
            return
        self._thread.join(CLOSE_SECONDS)

    def _work(self) -> None:
        while (event := self._queue.get()) is not None:
            _guarded(partial(self._exporter.export, event), self._failed)
        _guarded(self._exporter.close, self._failed)


def _guarded(call: Callable[[], object], failed: Callable[[], None]) -> None:
    """Call a listener, whose failure is counted and hurts nobody else."""
    try:
        call()
    except Exception:  # noqa: BLE001 - somebody else's code
        failed()
