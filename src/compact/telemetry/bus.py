"""The event bus: hands events to subscribers and exporters. It never harms its caller.

Subscribers run at once, in the order they subscribed. Their exceptions are caught and counted. Each
exporter has a bounded queue and a thread that empties it in batches. A slow or dead exporter loses
events, which are counted and reported. It never makes a caller wait. Texts of the conversation and
secrets are removed before an exporter gets an event; subscribers get events unchanged.
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
"""Events that may wait for an exporter. Further events are dropped and counted."""
LINGER = 1.0
"""Seconds that events for a server wait for others to be sent with them."""
CLOSE_SECONDS = 2.0
"""The most seconds that closing waits for all exporters together."""


class Pace(TypedDict, total=False):
    """How an exporter gets its events."""

    queue_size: int
    """The most events that wait for it; `QUEUE_SIZE` by default."""
    linger: float
    """Seconds that an event waits for more to be sent with it; 0 by default."""
    heartbeat: float | None
    """Seconds without an event after which it gets a `Heartbeat`; None, the default, for never."""


class EventBus:
    """Carries events to subscribers and exporters.

    `content` says whether exporters get texts of a conversation. `redact` says whether secrets are
    replaced for them. `redactor` finds secrets beyond the built-in ones.
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
        """Events that exporters lost: their queues were full, or they could not deliver them."""
        return self._closed_dropped + sum(queue.dropped for queue in self._queues)

    def emit(self, event: Event) -> None:
        """Hand over an event. It never raises and never waits for an exporter."""
        self._notify(event)
        for queue in self._queues:
            queue.put(event)

    def subscribe(self, subscriber: Subscriber) -> Callable[[], None]:
        """Call the function with every event from now on; return a function that ends this.

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
        """Send every event from now on to the exporter, from a thread of its own.

        Events that wait when the program ends are sent then, for at most `CLOSE_SECONDS`.
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
        """Let exporters empty their queues, for at most `CLOSE_SECONDS` together, and close them.

        Subscribers get an `EventsDropped` for losses that were not reported yet.
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
