"""The bus: hands events to subscribers and exporters, and cannot hurt its caller.

Subscribers run at once, in the order they came; what they raise is caught and counted. An exporter
gets a bounded queue of its own and a thread that empties it in batches: a slow or dead one loses
events, which are counted and told, and never makes a caller wait. Before any exporter, and only
there, texts of the conversation and secrets are taken out. This is one of the two places that may
catch everything.
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
"""Events that may wait for an exporter; while so many wait, newer ones are dropped and counted."""
LINGER = 1.0
"""Seconds that events for a server wait for others to be sent with them."""
CLOSE_SECONDS = 2.0
"""How long closing waits for all exporters together to empty their queues."""


class Pace(TypedDict, total=False):
    """How an exporter gets its events."""

    queue_size: int
    """Events that may wait for it."""
    linger: float
    """Seconds that it waits for more events to send together; 0, the default, for none."""
    heartbeat: float | None
    """Seconds without an event after which it gets a `Heartbeat`; None, the default, for never."""


class EventBus:
    """Carries events from those who emit to those who listen.

    `content` says whether exporters get texts of a conversation, `redact` whether secrets in what
    they get are replaced, and `redactor` what is a secret beside what always is one.
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
        """Exceptions that subscribers and exporters raised, caught and counted."""

    @property
    def dropped(self) -> int:
        """Events that exporters lost: their queues were full, or they could not deliver them."""
        return self._closed_dropped + sum(each.dropped for each in self._queues)

    def emit(self, event: Event) -> None:
        """Hand over an event; never raises, never waits for an exporter."""
        self._tell(event)
        for each in self._queues:
            each.put(event)

    def subscribe(self, subscriber: Subscriber) -> Callable[[], None]:
        """Call the function with every event from now on; returns a function that ends it."""
        if not callable(subscriber):  # or each event would fail, and nobody be told
            reason = f"a subscriber must be a function, got {got(subscriber)}"
            raise InvalidArgument("subscriber", reason)
        self._subscribers.append(subscriber)

        def end() -> None:
            if subscriber in self._subscribers:
                self._subscribers.remove(subscriber)

        return end

    @taking(Pace)
    def export_to(self, exporter: Exporter, **pace: Unpack[Pace]) -> None:
        """Send every event from now on to the exporter, from a thread of its own. What it has not
        sent when the program ends, it sends then, for at most `CLOSE_SECONDS`.
        """
        known_options(pace, Pace)
        each = ExporterQueue(
            exporter,
            prepare=self._outgoing,
            failed=self._count_failure,
            size=pace.get("queue_size", QUEUE_SIZE),
            linger=pace.get("linger", 0.0),
            heartbeat=pace.get("heartbeat"),
        )
        self._queues.append(each)
        _with_exporters.add(self)

    def close(self) -> None:
        """Let exporters empty their queues, for at most `CLOSE_SECONDS` together, and close them.
        Subscribers are told what was lost and not yet told of.
        """
        queues, self._queues = self._queues, []
        _finish(queues)
        for each in queues:
            self._closed_dropped += each.dropped
            if each.untold:
                self._tell(EventsDropped(exporter=each.name, count=each.dropped))

    def _tell(self, event: Event) -> None:
        for subscriber in tuple(self._subscribers):
            try:
                subscriber(event)
            except Exception:  # noqa: BLE001 - somebody else's code
                self._count_failure()

    def _outgoing(self, event: Event) -> Event:
        """What an exporter is told of an event."""
        told = event if self._content else without_content(event)
        return redacted(told, self._redactor) if self._redact else told

    def _count_failure(self) -> None:
        self.failures += 1


_with_exporters: WeakSet[EventBus] = WeakSet()


def _finish(queues: Iterable[ExporterQueue]) -> None:
    """End the queues, all within the same seconds."""
    until = time.monotonic() + CLOSE_SECONDS
    ending = [each for each in queues if each.end()]
    for each in ending:
        each.join(until)


@atexit.register
def _close_all() -> None:
    _finish([each for bus in _with_exporters for each in bus._queues])
