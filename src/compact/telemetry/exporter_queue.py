"""The bounded queue of one exporter, and the thread that empties the queue in batches.

`put` never waits. Events are counted as lost if the queue is full or the exporter cannot send them.
As soon as the exporter works again, it gets an `EventsDropped` with the number of lost events.
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
"""At most this many events go to an exporter at once."""


class ExporterQueue:
    """Holds one exporter, its queue and its thread. `prepare` removes what must not be exported."""

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
        """Number of lost events."""
        self._reported = 0  # lost events that the exporter was told of
        self._sent = 0
        self._start()

    @property
    def unreported(self) -> int:
        """Number of lost events that were not reported yet."""
        return self.dropped - self._reported

    def _start(self) -> None:
        self._process = os.getpid()
        self._queue: queue.SimpleQueue[Event | None] = queue.SimpleQueue()
        self._hurry = threading.Event()
        self._counting = threading.RLock()
        self._open = 0  # events in the queue or being sent
        self._is_left = False  # whether `join` gave up; then the thread must not count any more
        self._thread = threading.Thread(target=self._work, name="compact-exporter", daemon=True)
        self._thread.start()

    def put(self, event: Event) -> None:
        """Queue an event, or count it as lost if the queue is full."""
        if self._process != os.getpid():  # after a fork, thread and queue stay with the parent
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
        """Ask the thread to end. Return False if the thread belongs to a parent process."""
        if self._process != os.getpid():
            return False
        self._queue.put(None)
        self._hurry.set()
        return True

    def join(self, until: float) -> None:
        """Wait for the thread to end, until the time `until` of the monotonic clock.

        Events that are not sent by then count as lost, and the thread is abandoned.
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
                beat = Heartbeat(exporter=self.name, sent=self._sent, dropped=self.dropped)
                self._export([], [beat])
                continue
            batch = self._batch(first)
            ended = batch[-1] is None
            self._export([event for event in batch if event is not None])
        try:
            self._exporter.close()
        except BaseException:  # noqa: BLE001 - other people's code in our thread
            self._failed()

    def _batch(self, first: Event | None) -> list[Event | None]:
        """Return `first` and the events that wait after it. A None at the end means: stop."""
        if first is None:
            return [None]
        if self._linger:
            self._hurry.wait(self._linger)
        batch: list[Event | None] = [first]
        while batch[-1] is not None and len(batch) < BATCH:
            try:
                batch.append(self._queue.get_nowait())
            except queue.Empty:
                self._hurry.clear()
                break
        return batch

    def _export(self, events: Sequence[Event], news: Sequence[Event] = ()) -> None:
        """Export events and the queue's own events (`news`), then an `EventsDropped` if needed."""
        dropped, batch = self.dropped, [*events, *news]
        if dropped > self._reported:
            batch.append(EventsDropped(exporter=self.name, count=dropped))
        if not batch:
            return
        lost = len(batch)
        try:
            lost = self._exporter.export([self._prepare(event) for event in batch]) or 0
        except BaseException:  # noqa: BLE001 - else Python prints the traceback
            self._failed()
        with self._counting:
            if self._is_left:
                return
            # the queue's own events are not counted
            count = max(0, lost - (len(batch) - len(events)))
            self._open -= len(events)
            self.dropped += count
            self._sent += len(events) - count
            if not lost:
                self._reported = dropped
