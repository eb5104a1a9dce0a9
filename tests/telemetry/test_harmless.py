"""Telemetry hurts nobody: whatever exporters do, their caller goes on, and every event is either
delivered or counted (K-8).
"""

import socket
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

import pytest

from compact import CompactManager, EventBus
from compact.messages.events import Event, EventsDropped
from compact.messages.protocols import Exporter
from compact.telemetry import bus as bus_module
from compact.telemetry.ariadne import AriadneExporter
from compact.telemetry.otlp import OtlpExporter
from tests.telemetry.ariadne_server import AriadneServer
from tests.telemetry.collector import Collector
from tests.telemetry.test_bus import EVENT, PATIENCE

EVENTS = 1_000
TURNS = 200
MOST_DELAY = 0.005
"""Seconds at the 99th percentile."""


class Raising:
    def export(self, events: Sequence[Event]) -> None:
        raise RuntimeError(len(events))

    def close(self) -> None:
        raise RuntimeError


class Slow:
    """Works in Python all the time, so that it takes the interpreter from everybody else."""

    def export(self, events: Sequence[Event]) -> None:
        until = time.monotonic() + 0.05
        while time.monotonic() < until:
            pass

    def close(self) -> None:
        """Nothing is held."""


Fault = Callable[[], Iterator[Exporter]]


def hanging() -> Iterator[Exporter]:
    with closing(AriadneServer()) as server:
        server.gate = threading.Event()
        yield AriadneExporter(server.url)


def refusing() -> Iterator[Exporter]:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        yield AriadneExporter(f"http://127.0.0.1:{nobody.getsockname()[1]}")


def answering(status: int) -> Fault:
    def fault() -> Iterator[Exporter]:
        with closing(AriadneServer()) as server:
            server.answer = status
            yield AriadneExporter(server.url)

    return fault


def dripping() -> Iterator[Exporter]:
    with closing(AriadneServer()) as server:
        server.drips = 0.5
        yield AriadneExporter(server.url)


def collector(status: int, *, hangs: bool = False) -> Fault:
    def fault() -> Iterator[Exporter]:
        with closing(Collector()) as made:
            made.answer = status
            made.gate = threading.Event() if hangs else None
            yield OtlpExporter(made.url)

    return fault


def of(exporter: Callable[[], Exporter]) -> Fault:
    def fault() -> Iterator[Exporter]:
        yield exporter()

    return fault


FAULTS: dict[str, Fault] = {
    "Ariadne hangs": hanging,
    "Ariadne drips": dripping,
    "nobody is there": refusing,
    "Ariadne answers 400": answering(400),
    "Ariadne answers 413": answering(413),
    "Ariadne answers 500": answering(500),
    "the collector hangs": collector(200, hangs=True),
    "the collector answers 400": collector(400),
    "the collector answers 413": collector(413),
    "the collector answers 503": collector(503),
    "an exporter raises": of(Raising),
    "an exporter computes": of(Slow),
    "its queue is full": hanging,
}
QUEUES = {"its queue is full": 20}
"""Events that may wait where that is not the usual number."""
EVERY: dict[str, Fault] = {
    "Ariadne takes them": answering(200),
    "the collector takes them": collector(200),
    **FAULTS,
}


@contextmanager
def bus_with(fault: Fault, **pace: Any) -> Iterator[EventBus]:
    """A bus whose exporter has that fault."""
    bus, made = EventBus(), contextmanager(fault)
    with made() as exporter:
        bus.export_to(exporter, **{"linger": 0.05, "queue_size": 200, **pace})
        try:
            yield bus
        finally:
            bus.close()


@pytest.mark.parametrize("name", FAULTS)
def test_every_event_is_delivered_or_counted(name, monkeypatch):
    """K-8: "drops are counted and reported"; closing takes no longer than it may."""
    monkeypatch.setattr(bus_module, "CLOSE_SECONDS", 0.3)
    heard: list[Event] = []
    with bus_with(FAULTS[name], queue_size=20) as bus:
        bus.subscribe(heard.append)
        for _ in range(200):
            bus.emit(EVENT)
        start = time.monotonic()
        bus.close()
        assert time.monotonic() - start < PATIENCE / 4
    told = [event for event in heard if isinstance(event, EventsDropped)]
    assert len(heard) == 200 + len(told), "listeners in the process get everything"
    if name == "an exporter computes":
        assert bus.dropped >= 100
    else:
        assert bus.dropped == 200
        assert [event.count for event in told] == [200]


def test_a_full_queue_is_reported_when_there_is_room_again():
    """K-8: by the next batch that arrives; the numbers add up."""
    with closing(AriadneServer()) as server:
        server.gate = threading.Event()
        bus = EventBus()
        bus.export_to(AriadneExporter(server.url), queue_size=50)
        for _ in range(500):
            bus.emit(EVENT)
        server.gate.set()
        bus.close()
        spans = server.spans()
    arrived = sum(span["name"] == EVENT.name for span in spans)
    dropped = [span["data"]["count"] for span in spans if span["name"] == EventsDropped.name]
    assert dropped
    assert dropped[-1] == bus.dropped
    assert arrived + bus.dropped == 500


# --- in seconds -----------------------------------------------------------------------------------


def late(bus: EventBus) -> float:
    """Seconds that the events of a turn take their caller, at the 99th percentile."""
    messages: list[dict[str, str]] = []
    within: list[float] = []

    def emit(event: Event) -> None:
        start = time.perf_counter()
        bus.emit(event)
        within[-1] += time.perf_counter() - start

    with CompactManager(on_event=emit) as manager:
        for number in range(TURNS):
            within.append(0.0)
            messages.append({"role": "user", "content": f"Paint gate {number} blue, please."})
            messages.append({"role": "assistant", "content": f"Gate {number} is blue."})
            manager.preflight("s", messages)
    return statistics.quantiles(within, n=100)[98]


@pytest.mark.timing
@pytest.mark.parametrize("name", EVERY)
def test_nobody_waits_for_an_exporter(name):
    """K-8: "a model call is delayed by less than 5 ms at p99"."""
    late(EventBus())
    size = QUEUES.get(name, EVENTS)
    for _ in range(5):  # others use this machine too
        with bus_with(EVERY[name], linger=1.0, queue_size=size) as bus:
            cost = late(bus)
        if cost < MOST_DELAY:
            return
    raise AssertionError(cost)
