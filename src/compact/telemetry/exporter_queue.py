"""The bounded queue of one exporter, and the thread that empties it in batches.

Whoever puts an event in waits for nothing. What the exporter does not get or cannot deliver is
counted; as soon as it takes events again it is told how many it lost.
"""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Callable, Sequence

from compact.messages.events import Event, EventsDropped, Heartbeat
from compact.messages.protocols import Exporter

BATCH = 250
"""Events that an exporter is given at once, at most."""


class ExporterQueue:
    """One exporter, its queue and its thread. `prepare` makes of an event what may leave."""

    def __init__(
        self,
        exporter: Exporter,
        *,
        prepare: Callable[[Event], Event],
        failed: Callable[[], None],
        size: int,
        linger: float,
        heartbeat: float | None,
    ) -> None:
        self.name = type(exporter).__name__
        self._exporter = exporter
        self._prepare = prepare
        self._failed = failed
        self._size = size
        self._linger = linger
        self._heartbeat = heartbeat
        self.dropped = 0
        """Events that the exporter lost."""
        self._told = 0
        """How many of these it was told of."""
        self._sent = 0
        self._start()

    @property
    def untold(self) -> int:
        """Lost events that nobody was told of."""
        return self.dropped - self._told

    def _start(self) -> None:
        self._process = os.getpid()
        self._queue: queue.SimpleQueue[Event | None] = queue.SimpleQueue()
        self._hurry = threading.Event()
        self._counting = threading.RLock()
        self._open = 0
        """Events taken of which nobody knows yet whether they arrive."""
        self._is_left = False
        """Whether the thread was left behind, and counts no more."""
        self._thread = threading.Thread(target=self._work, name="compact-exporter", daemon=True)
        self._thread.start()

    def put(self, event: Event) -> None:
        """Take an event, or count it as lost where too many wait."""
        if self._process != os.getpid():  # the thread stayed with the parent, and what it had to do
            self._start()
        with self._counting:
            waiting = self._queue.qsize()
            if waiting >= self._size:
                self.dropped += 1
                return
            self._open += 1
        self._queue.put(event)
        if 2 * waiting >= self._size and not self._hurry.is_set():
            self._hurry.set()

    def end(self) -> bool:
        """Ask for the end; whether there is a thread to wait for."""
        if self._process != os.getpid():
            return False
        self._queue.put(None)
        self._hurry.set()
        return True

    def join(self, until: float) -> None:
        """Wait for the end until this time by the monotonic clock; what is not sent then is lost.

        The thread is left behind where the exporter does not come back.
        """
        self._thread.join(max(0.0, until - time.monotonic()))
        with self._counting:
            self._is_left = self._thread.is_alive()
            self.dropped += self._open
            self._open = 0

    # --- in the thread ----------------------------------------------------------------------------

    def _work(self) -> None:
        ended = False
        while not (ended or self._is_left):
            try:
                first = self._queue.get(timeout=self._heartbeat)
            except queue.Empty:
                self._export([], [self._beat()])
                continue
            batch = self._batch(first)
            ended = batch[-1] is None
            self._export([event for event in batch if event is not None])
        try:
            self._exporter.close()
        except BaseException:  # noqa: BLE001 - somebody else's code, in a thread of ours
            self._failed()

    def _beat(self) -> Event:
        return Heartbeat(exporter=self.name, sent=self._sent, dropped=self.dropped)

    def _batch(self, first: Event | None) -> list[Event | None]:
        """The first and what waits behind it; None, at the end, where it is to end."""
        if first is None:
            return [None]
        if self._linger:
            self._hurry.wait(self._linger)
        found: list[Event | None] = [first]
        while found[-1] is not None and len(found) < BATCH:
            try:
                found.append(self._queue.get_nowait())
            except queue.Empty:
                self._hurry.clear()
                break
        return found

    def _export(self, events: Sequence[Event], news: Sequence[Event] = ()) -> None:
        """Hand over events that count, and news of the queue itself: how many were lost before
        comes last.
        """
        told, batch = self.dropped, [*events, *news]
        if told > self._told:
            batch.append(EventsDropped(exporter=self.name, count=told))
        if not batch:
            return
        lost = len(batch)
        try:
            lost = self._exporter.export([self._prepare(event) for event in batch]) or 0
        except BaseException:  # noqa: BLE001 - else Python prints all that it says
            self._failed()
        with self._counting:
            if self._is_left:
                return
            count = max(0, lost - (len(batch) - len(events)))  # news are no events to be counted
            self._open -= len(events)
            self.dropped += count
            self._sent += len(events) - count
            if not lost:
                self._told = told
