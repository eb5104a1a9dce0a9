"""The bounded queue of one exporter, and the thread that empties it in batches.

`put` never waits. Events that the exporter does not get or cannot deliver are counted. As soon as
the exporter takes events again, it gets an `EventsDropped` with their number.
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
"""The most events that an exporter gets at once."""


class ExporterQueue:
    """One exporter, its queue and its thread. `prepare` makes an event fit to leave the process."""

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
        self._reported = 0  # lost events that were reported to it
        self._sent = 0
        self._start()

    @property
    def unreported(self) -> int:
        """Lost events that were not reported yet."""
        return self.dropped - self._reported

    def _start(self) -> None:
        self._process = os.getpid()
        self._queue: queue.SimpleQueue[Event | None] = queue.SimpleQueue()
        self._hurry = threading.Event()
        self._counting = threading.RLock()
        self._open = 0  # events that were taken and not sent yet
        self._is_left = False  # whether the thread was given up, and counts no more
        self._thread = threading.Thread(target=self._work, name="compact-exporter", daemon=True)
        self._thread.start()

    def put(self, event: Event) -> None:
        """Take an event, or count it as lost if too many wait."""
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
        """Ask the thread to end; return whether this process has the thread."""
        if self._process != os.getpid():
            return False
        self._queue.put(None)
        self._hurry.set()
        return True

    def join(self, until: float) -> None:
        """Wait for the end until this time by the monotonic clock.

        Events that are not sent by then are lost, and the thread is given up.
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
        """Return the first event and those that wait behind it. A last None asks for the end."""
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
        """Hand over events, and news of the queue itself. The number of lost events comes last."""
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
            count = max(0, lost - (len(batch) - len(events)))  # news are not counted
            self._open -= len(events)
            self.dropped += count
            self._sent += len(events) - count
            if not lost:
                self._reported = dropped
