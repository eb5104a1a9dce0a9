"""The bus cannot hurt its caller: slow, raising, full and dead listeners (K-8)."""

import io
import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import closing

from compact import EventBus, plan
from compact.messages.events import STAGES, Event, EventsDropped, StageStarted, TokenEstimate
from compact.telemetry import bus as bus_module
from compact.telemetry.bus import ConsoleExporter
from tests.engine.test_edge_cases import long_loop
from tests.store.test_sqlite_processes import forking, in_a_fork
from tests.telemetry.ariadne_server import AriadneServer

EVENT = TokenEstimate(tokens=5, limit=10, messages=1, tokenizer="o200k", exact=True)
PATIENCE = 120.0


class Listener:
    """An exporter that keeps what it gets, and waits or raises if it is told to."""

    def __init__(
        self, *, gate: threading.Event | None = None, error: Exception | None = None
    ) -> None:
        self.got: list[Event] = []
        self.batches: list[Sequence[Event]] = []
        self.closed = threading.Event()
        self.entered = threading.Event()
        self._gate = gate
        self._error = error

    def export(self, events: Sequence[Event]) -> None:
        self.entered.set()
        if self._gate is not None:
            self._gate.wait(PATIENCE)
        if self._error is not None:
            raise self._error
        self.got += events
        self.batches.append(events)

    def close(self) -> None:
        self.closed.set()
        if self._error is not None:
            raise self._error


def test_exporters_get_every_event_in_order():
    """K-8: and are closed once their queue is empty."""
    bus, listener = EventBus(), Listener()
    bus.export_to(listener)
    sent = [StageStarted(stage=stage, done=0.0) for stage in STAGES]
    for event in sent:
        bus.emit(event)
    bus.close()
    assert listener.got == sent
    assert listener.closed.is_set()
    assert (bus.failures, bus.dropped) == (0, 0)


def test_a_slow_exporter_loses_events_and_delays_nobody():
    """K-8: what does not fit into its queue is counted; the others get everything."""
    gate = threading.Event()
    bus, slow, quick = EventBus(), Listener(gate=gate), Listener()
    bus.export_to(slow, queue_size=2)
    bus.export_to(quick)
    start = time.perf_counter()
    bus.emit(EVENT)
    assert slow.entered.wait(PATIENCE)
    for _ in range(9):
        bus.emit(EVENT)
    assert time.perf_counter() - start < PATIENCE / 2
    assert bus.dropped == 7
    gate.set()
    bus.close()
    assert [*map(type, slow.got)] == [TokenEstimate, TokenEstimate, TokenEstimate, EventsDropped]
    dropped = slow.got[-1]
    assert isinstance(dropped, EventsDropped)
    assert dropped.count == 7, "it is told, once there is room again"
    assert len(quick.got) == 10


def test_events_that_come_together_are_sent_together():
    """K-8: "batched"; closing waits for no further ones."""
    bus, listener = EventBus(), Listener()
    bus.export_to(listener, linger=PATIENCE)
    for _ in range(9):
        bus.emit(EVENT)
    start = time.perf_counter()
    bus.close()
    assert time.perf_counter() - start < PATIENCE / 2
    assert [len(batch) for batch in listener.batches] == [9]


def test_a_queue_that_fills_up_is_not_waited_for():
    """Else a burst of events would be lost for the sake of sending them together."""
    bus, listener = EventBus(), Listener()
    bus.export_to(listener, linger=PATIENCE, queue_size=10)
    for _ in range(7):
        bus.emit(EVENT)
    assert listener.entered.wait(PATIENCE / 2)
    bus.close()
    assert (len(listener.got), bus.dropped) == (7, 0)


def test_a_lost_heartbeat_is_no_lost_event():
    """K-8: the count is of what was to be told."""
    bus, bad = EventBus(), Listener(error=OSError("down"))
    bus.export_to(bad, heartbeat=0.01)
    assert bad.entered.wait(PATIENCE)
    bus.close()
    assert bus.dropped == 0


def test_what_was_not_sent_when_the_program_ends_is_sent_then():
    """K-8: nobody has to close a bus for its last events."""
    with closing(AriadneServer()) as server:
        script = """
import sys
from compact import CompactConfig, CompactManager
from compact.telemetry import bus
bus.CLOSE_SECONDS = 60.0
manager = CompactManager(CompactConfig(ariadne_url=sys.argv[1]))
manager.preflight("s", [{"role": "user", "content": "hello"}])
"""
        subprocess.run([sys.executable, "-c", script, server.url], check=True, timeout=PATIENCE)
        assert [span["name"] for span in server.spans()] == ["compact.trigger_decision"]


def test_a_raising_exporter_is_counted_and_goes_on():
    """K-8: neither its caller nor the next event notices."""
    bus, bad = EventBus(), Listener(error=OSError("no network"))
    bus.export_to(bad)
    bus.emit(EVENT)
    assert bad.entered.wait(PATIENCE)
    bus.emit(EVENT)
    bus.close()
    assert bus.failures == 3  # the two events and the closing
    assert bus.dropped == 2
    assert bad.closed.is_set()


def test_a_raising_subscriber_does_not_stop_the_others():
    """K-8: subscribers run at once, in the order they came."""
    bus = EventBus()
    got: list[str] = []

    def bad(event: Event) -> None:
        got.append("bad")
        raise ValueError(event.name)

    bus.subscribe(bad)
    end = bus.subscribe(lambda event: got.append(event.name))
    bus.emit(EVENT)
    end()
    end()
    bus.emit(EVENT)
    assert got == ["bad", "compact.token_estimate", "bad"]
    assert bus.failures == 2


def test_an_exporter_that_hangs_does_not_hold_the_end(monkeypatch):
    """K-8: closing waits for a moment only."""
    monkeypatch.setattr(bus_module, "CLOSE_SECONDS", 0.05)
    gate = threading.Event()
    bus, stuck = EventBus(), Listener(gate=gate)
    bus.export_to(stuck, queue_size=1)
    bus.emit(EVENT)
    assert stuck.entered.wait(PATIENCE)
    bus.emit(EVENT)
    start = time.perf_counter()
    bus.close()
    assert time.perf_counter() - start < PATIENCE / 2
    gate.set()


def test_the_console_writes_a_line_each():
    """K-8: JSON with name, time and counts."""
    stream = io.StringIO()
    exporter = ConsoleExporter(stream)
    exporter.export([EVENT, StageStarted(stage="identify", done=0.0)])
    first, second = map(json.loads, stream.getvalue().splitlines())
    assert (first["name"], first["tokens"], first["limit"]) == ("compact.token_estimate", 5, 10)
    assert first["at"].endswith("+00:00")
    assert second["stage"] == "identify"


def test_a_compression_goes_on_whatever_its_listeners_do():
    """K-8, FR-5: the six stages report, in order, and a raising listener changes nothing."""
    bus = EventBus()
    seen: list[Event] = []

    def bad(event: Event) -> None:
        seen.append(event)
        raise RuntimeError("listener")

    bus.subscribe(bad)
    messages = long_loop()
    done = plan(messages, max_tokens=8_000, tokenizer="o200k", on_event=bus.emit)
    assert (
        done.context.render_text()
        == plan(messages, max_tokens=8_000, tokenizer="o200k").context.render_text()
    )
    assert [e.stage for e in seen if isinstance(e, StageStarted)] == list(STAGES)
    assert bus.failures == len(seen)


@forking
def test_a_forked_child_exports_by_itself() -> None:
    """The exporter's thread stays with the parent, and so does what it had to do."""
    listener = Listener()
    bus = EventBus()
    bus.export_to(listener)

    def work() -> None:
        signal.alarm(30)
        bus.emit(EVENT)
        bus.close()
        assert listener.got == [EVENT]
        assert listener.closed.is_set()

    assert in_a_fork(work) == 0
    bus.emit(EVENT)
    bus.close()
    assert listener.got == [EVENT]
