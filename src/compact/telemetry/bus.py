"""The event bus passes events to subscribers and exporters. Their errors never reach the caller.

Subscribers are called at once, in the order in which they subscribed. Their exceptions are caught
and counted. Each exporter has a bounded queue and a thread that empties it, so callers never wait.
If an exporter is slow or fails, events are lost, counted and reported. The conversation's text and
secrets are removed before exporters get an event. Subscribers get events unchanged.
"""

from __future__ import annotations

import atexit
import time
from collections.abc import Callable, Iterable
from typing import TypedDict, Unpack
from weakref import WeakSet

from compact.errors import InvalidArgument
from compact.messages.calls import got, known_options
from compact.messages.events import Event, EventsDropped
from compact.messages.options import taking
from compact.messages.protocols import Exporter
from compact.secrets.redactor import NOTHING_ELSE, Redactor
from compact.telemetry.event_privacy import redacted, without_content
from compact.telemetry.exporter_queue import ExporterQueue

Subscriber = Callable[[Event], None]
QUEUE_SIZE = 1_000
"""At most this many events wait for an exporter. Further events are dropped and counted."""
LINGER = 1.0
"""For this many seconds, an event for a server waits for more events to be sent together."""
CLOSE_SECONDS = 2.0
"""Longest time, in seconds, that closing waits for all exporters together."""


class Pace(TypedDict, total=False):
    """How an exporter gets its events."""

    queue_size: int
    """At most this many events wait for the exporter; `QUEUE_SIZE` by default."""
    linger: float
    """For this many seconds, an event waits for more to be sent together; 0 by default."""
    heartbeat: float | None
    """After this many seconds without an event, send a `Heartbeat`; never if None, the default."""


class EventBus:
    """Passes events to subscribers and exporters.

    `content` says whether exporters get the conversation's text. `redact` says whether secrets are
    redacted before exporters get an event. `redactor` finds secrets beyond the built-in ones.
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
        """Number of events that were lost: a queue was full, or an exporter could not send them."""
        return self._closed_dropped + sum(queue.dropped for queue in self._queues)

    def emit(self, event: Event) -> None:
        """Pass an event on. This never raises and never waits for an exporter."""
        self._notify(event)
        for queue in self._queues:
            queue.put(event)

    def subscribe(self, subscriber: Subscriber) -> Callable[[], None]:
        """Call `subscriber` with every event from now on; return a function that unsubscribes it.

        Raises:
            InvalidArgument: `subscriber` is not callable.
        """
        if not callable(subscriber):  # else every event would fail without a report
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

        For lost events that were not reported yet, subscribers get an `EventsDropped`.
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
    until = time.monotonic() + CLOSE_SECONDS  # for all queues together
    ending = [queue for queue in queues if queue.end()]
    for queue in ending:
        queue.join(until)


@atexit.register
def _close_all() -> None:
    _finish([queue for bus in _with_exporters for queue in bus._queues])
