"""The event bus passes events to subscribers and exporters. Their errors never reach the caller.

Subscribers are called at once, in the order in which they subscribed. Their exceptions are caught
and counted.

Each exporter has a bounded queue and a thread that sends the queue in batches, so callers never
wait. If the queue is full or the exporter fails, events are lost and counted. As soon as the
exporter works again, it gets an `EventsDropped` with the number of lost events.

The conversation's text and secrets are removed before exporters get an event. Subscribers get
events unchanged. `ConsoleExporter` writes every event as a line of JSON to stderr; it is off by
default.
"""

from __future__ import annotations

import atexit
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from queue import Empty, SimpleQueue
from typing import TextIO, TypedDict, Unpack
from weakref import WeakSet

from compact.errors import InvalidArgument
from compact.messages.calls import got, known_options
from compact.messages.events import Event, EventsDropped, Heartbeat
from compact.messages.options import taking
from compact.messages.protocols import Exporter
from compact.secrets.redactor import NOTHING_ELSE, Redactor
from compact.telemetry.plain_words import redacted, without_content

# --- exporter queue -------------------------------------------------------------------------------

BATCH = 250
"""How many events go to an exporter at once, at most."""


class ExporterQueue:
    """One exporter with its queue and its thread. `prepare` removes from events what is private."""

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
        self._reported = 0  # lost events that were already reported
        self._sent = 0
        self._start()

    @property
    def unreported(self) -> int:
        """Number of lost events that are not reported yet."""
        return self.dropped - self._reported

    def _start(self) -> None:
        self._process = os.getpid()
        self._queue: SimpleQueue[Event | None] = SimpleQueue()
        self._hurry = threading.Event()
        self._counting = threading.RLock()
        self._open = 0  # events in the queue or being sent
        self._is_left = False  # whether `join` gave up; the thread must then stop counting
        self._thread = threading.Thread(target=self._work, name="compact-exporter", daemon=True)
        self._thread.start()

    def put(self, event: Event) -> None:
        """Queue an event, or count it as lost if the queue is full."""
        if self._process != os.getpid():  # after a fork, the thread and queue belong to the parent
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
        """Wait for the thread to end, at most until the time `until` of the monotonic clock.

        Events that are not sent by then count as lost, and the thread is no longer waited for.
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
            except Empty:
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
        """Return `first` and the events after it in the queue. A None at the end means: stop."""
        if first is None:
            return [None]
        if self._linger:
            self._hurry.wait(self._linger)
        batch: list[Event | None] = [first]
        while batch[-1] is not None and len(batch) < BATCH:
            try:
                batch.append(self._queue.get_nowait())
            except Empty:
                self._hurry.clear()
                break
        return batch

    def _export(self, events: Sequence[Event], news: Sequence[Event] = ()) -> None:
        """Export events and the queue's own (`news`), and an `EventsDropped` after losses."""
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


# --- bus ------------------------------------------------------------------------------------------

Subscriber = Callable[[Event], None]
QUEUE_SIZE = 1_000
"""How many events wait for an exporter at most. Further events are dropped and counted."""
LINGER = 1.0
"""How many seconds an event for a server waits, so that several events are sent together."""
CLOSE_SECONDS = 2.0
"""How many seconds closing waits at most, for all exporters together."""


class Pace(TypedDict, total=False):
    """How an exporter gets its events."""

    queue_size: int
    """How many events wait for the exporter at most. `QUEUE_SIZE` by default."""
    linger: float
    """How many seconds an event waits, so that several are sent together. 0 by default."""
    heartbeat: float | None
    """Seconds without an event after which a `Heartbeat` is sent. None, the default: never."""


class EventBus:
    """Passes events to subscribers and exporters.

    `content` says whether exporters get the conversation's text. `redact` says whether secrets are
    redacted before exporters get an event. `redactor` finds secrets in addition to the built-in
    ones.
    """

    def __init__(
        self, *, content: bool = False, redact: bool = True, redactor: Redactor = NOTHING_ELSE
    ) -> None:
        self._content = content
        self._redact = redact
        self._redactor = redactor
        self._subscribers: list[Subscriber] = []
        self._queues: list[ExporterQueue] = []
        self._closed_dropped = 0
        self.failures = 0
        """Number of exceptions that subscribers and exporters raised."""

    @property
    def dropped(self) -> int:
        """Number of lost events. A queue was full, or an exporter could not send them."""
        return self._closed_dropped + sum(queue.dropped for queue in self._queues)

    def emit(self, event: Event) -> None:
        """Pass an event on. This never raises, and never waits for an exporter."""
        self._notify(event)
        for queue in self._queues:
            queue.put(event)

    def subscribe(self, subscriber: Subscriber) -> Callable[[], None]:
        """Call `subscriber` with every event from now on. Return a function that ends this.

        Raises:
            InvalidArgument: `subscriber` is not callable.
        """
        if not callable(subscriber):  # otherwise every event would fail silently
            reason = f"a subscriber must be a function, got {got(subscriber)}"
            raise InvalidArgument("subscriber", reason)
        self._subscribers.append(subscriber)

        def end() -> None:
            if subscriber in self._subscribers:
                self._subscribers.remove(subscriber)

        return end

    @taking(Pace)
    def export_to(self, exporter: Exporter, **pace: Unpack[Pace]) -> None:
        """Send every event from now on to the exporter, in a separate thread.

        At exit, the program waits up to `CLOSE_SECONDS` until the remaining events are sent.
        """
        known_options(pace, Pace)
        queue = ExporterQueue(
            exporter,
            prepare=self._outgoing,
            failed=self._count_failure,
            size=pace.get("queue_size", QUEUE_SIZE),
            linger=pace.get("linger", 0.0),
            heartbeat=pace.get("heartbeat"),
        )
        self._queues.append(queue)
        _with_exporters.add(self)

    def close(self) -> None:
        """Wait up to `CLOSE_SECONDS` until exporters have sent their events, and close them.

        Subscribers then get an `EventsDropped` for lost events that were not reported yet.
        """
        queues, self._queues = self._queues, []
        _finish(queues)
        for queue in queues:
            self._closed_dropped += queue.dropped
            if queue.unreported:
                self._notify(EventsDropped(exporter=queue.name, count=queue.dropped))

    def _notify(self, event: Event) -> None:
        for subscriber in tuple(self._subscribers):
            try:
                subscriber(event)
            except Exception:  # noqa: BLE001 - other people's code
                self._count_failure()

    def _outgoing(self, event: Event) -> Event:
        event = event if self._content else without_content(event)
        return redacted(event, self._redactor) if self._redact else event

    def _count_failure(self) -> None:
        self.failures += 1


_with_exporters: WeakSet[EventBus] = WeakSet()


def _finish(queues: Iterable[ExporterQueue]) -> None:
    until = time.monotonic() + CLOSE_SECONDS  # the limit is for all queues together
    ending = [queue for queue in queues if queue.end()]
    for queue in ending:
        queue.join(until)


@atexit.register
def _close_all() -> None:
    _finish([queue for bus in _with_exporters for queue in bus._queues])


# --- console --------------------------------------------------------------------------------------


class ConsoleExporter:
    """Writes events as lines of JSON to `stream`, or by default to stderr."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream

    def export(self, events: Sequence[Event]) -> None:
        """Write a line for each event."""
        stream = sys.stderr if self._stream is None else self._stream
        for event in events:
            stream.write(json.dumps(event.as_dict(), ensure_ascii=False, default=str) + "\n")
        stream.flush()

    def close(self) -> None:
        """Do nothing: the exporter holds no resource."""
