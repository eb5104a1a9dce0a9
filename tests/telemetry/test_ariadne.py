"""Ariadne gets every event as a span that it takes, each once (K-8, K-15)."""

import http.client
import json
import ssl
import threading
import time
from collections import Counter
from contextlib import closing
from datetime import UTC, datetime, timedelta, timezone
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from compact import EventBus, InvalidArgument
from compact.messages.events import (
    ErrorRaised,
    EventsDropped,
    Heartbeat,
    StoryAsked,
    SummaryCreated,
    TriggerDecision,
)
from compact.messages.policy import CompactPolicy
from compact.telemetry import ariadne
from compact.telemetry.ariadne import AriadneExporter
from compact.testing import check_exporter
from tests.telemetry.ariadne_server import AriadneServer, refused
from tests.telemetry.talking import WORD, talked
from tests.telemetry.test_bus import EVENT, PATIENCE

SPAN = {"type": "span", "trace_id": "t", "span_id": "s"}
TRACE = {"type": "trace", "trace_id": "t"}
Z, LATER = "2025-10-19T12:34:56Z", "2025-10-19T12:34:57.5Z"
TABLE = [
    ({"batch": [TRACE, SPAN]}, 200),
    ({"batch": []}, 200),
    (SPAN, 200),
    ([SPAN], 400),
    ({"events": [SPAN]}, 400),
    (SPAN | {"started_at": Z, "ended_at": LATER}, 200),
    (SPAN | {"started_at": "2025-10-19T12:34:56+00:00"}, 400),
    (SPAN | {"started_at": "2025-10-19T12:34:56"}, 400),
    (SPAN | {"started_at": LATER, "ended_at": Z}, 400),
    (SPAN | {"parent_id": None}, 400),
    (SPAN | {"status": "warn"}, 400),
    (SPAN | {"status": "error", "data": {"n": 1, "none": None}}, 200),
    (TRACE | {"metadata": {"n": 1}}, 400),
    (TRACE | {"metadata": {"n": "1"}}, 200),
    ({"batch": [SPAN, SPAN | {"span_id": ""}]}, 400),
    (SPAN | {"timestamp": Z, "duration_ms": 1, "properties": {}, "payload": {}}, 200),
]
"""What the real server answers (seen by asking it)."""


@pytest.fixture
def server():
    made = AriadneServer()
    yield made
    made.close()


def posted(server, body, length=None):
    place = urlsplit(server.url)
    assert place.hostname
    connection = http.client.HTTPConnection(place.hostname, place.port, timeout=PATIENCE)
    headers = {"Content-Type": "application/json"}
    connection.request("POST", "/ingest", body, headers)
    status = connection.getresponse().status
    connection.close()
    return status


# --- the server of these tests answers as the real one --------------------------------------------


# --- what it is sent ------------------------------------------------------------------------------


def compressed(server, **settings):
    """Events of a session that was compressed, the server told of them."""
    return talked(ariadne_url=server.url, **settings)


def test_every_event_of_a_session_arrives_once_as_a_tree(server):
    """K-8, K-15: a trace for the session, a span for its compression, stages and events in it."""
    heard = compressed(server)
    assert set(server.statuses) == {200}
    assert [trace["trace_id"] for trace in server.traces()] == ["s-1"]
    spans = {span["span_id"]: span for span in server.spans()}
    assert len(spans) == len(server.spans()), "each once"
    kinds = Counter(span["kind"] for span in spans.values())
    assert kinds == {"compression": 1, "stage": 6, "event": len(heard) - 6}
    told = Counter(s["name"] for s in spans.values() if s["kind"] == "event")
    names = Counter(e.name for e in heard if e.name != "compact.stage_started")
    assert told == names
    assert names["compact.token_estimate"] == 1
    (whole,) = (s for s in spans.values() if s["kind"] == "compression")
    assert "parent_id" not in whole
    within = [s for s in spans.values() if s.get("parent_id") == whole["span_id"]]
    assert {s["kind"] for s in within} == {"stage", "event"}
    assert all(whole["started_at"] <= s["started_at"] <= whole["ended_at"] for s in within)
    assert whole["data"]["outcome"] == "committed"
    assert whole["data"]["tokens_before"] > whole["data"]["tokens_after"]
    decisions = [s for s in spans.values() if s["name"] == "compact.trigger_decision"]
    assert [s["data"]["triggered"] for s in decisions] == [True, False]
    assert [s in within for s in decisions] == [True, False]
    assert decisions[0]["data"]["policy"]["trigger_ratio"] == 0.7


def test_texts_of_the_conversation_are_sent_only_where_that_is_asked_for(server):
    """K-15: and then where the viewer shows them first, without secrets."""
    heard = compressed(server)
    said = [event.summary for event in heard if isinstance(event, SummaryCreated)]
    assert all(said), "listeners in the process get it"
    assert WORD in "".join(said)
    assert not [body for body in server.bodies if WORD.encode() in body]
    server.events.clear()
    compressed(server, telemetry_content=True)
    data = [s["data"] for s in server.spans() if s["name"] == "compact.summary_created"]
    assert [each.get("output") for each in data] == said
    assert not any("summary" in each for each in data)


def test_bodies_stay_below_what_the_server_takes(server):
    """K-8: many events, and single ones that are too large whatever they are written in."""
    large = [
        made("\U0001d518" * 300_000),
        made("\ud800" * 300_000),
        made('"' * 3_000_000),
        made("x" * 120_000),
    ]
    many = [EVENT.model_copy(update={"session_id": f"s-{i % 7}"}) for i in range(600)]
    assert AriadneExporter(server.url).export([*large, *many]) == 0
    assert set(server.statuses) == {200}
    assert max(map(len, server.bodies)) <= 250_000
    assert len(server.spans()) == 604
    assert len(server.traces()) == 8
    whole = server.spans()[3]["data"]["output"]
    assert whole == "x" * 120_000, "what fits is whole"


def made(summary):
    return SummaryCreated(
        checkpoint_id="c", messages=1, source_tokens=2, tokens=1, made_by="m", summary=summary
    )


ANYTHING = st.text(st.characters(exclude_categories=()))


@given(
    text=ANYTHING,
    session=ANYTHING,
    seconds=st.floats(),
    at=st.datetimes(
        timezones=st.integers(-1_439, 1_439).map(lambda m: timezone(timedelta(minutes=m))),
        min_value=datetime(1000, 1, 1),  # noqa: DTZ001 - hypothesis adds the zone
        max_value=datetime(9000, 1, 1),  # noqa: DTZ001
    ),
)
def test_whatever_an_event_holds_is_taken(text, session, seconds, at):
    """K-8: times, numbers and characters of every kind; an earlier end than start too."""
    server = Taking()
    exporter = AriadneExporter("http://localhost")
    exporter._is_up = True
    exporter._ask = server.ask  # type: ignore[method-assign]
    events = [
        TriggerDecision(
            triggered=True, tokens=1, trigger=0, reason=text, at=at, policy=CompactPolicy()
        ),
        StoryAsked(model=text, part=1, parts=1, elapsed=seconds, limit=None, at=at),
        made(text),
        ErrorRaised(stage=text, error=text, message=text, at=datetime(2020, 1, 1, tzinfo=UTC)),
    ]
    assert exporter.export([e.model_copy(update={"session_id": session}) for e in events]) == 0
    exporter.close()
    assert {status for _, status in server.answered} == {200}


class Taking:
    """The server's rules without the server."""

    def __init__(self):
        self.answered = []

    def ask(self, method, path, body=b""):
        batch = json.loads(body)["batch"]
        why = [refused(event) for event in batch]
        self.answered.append((why, 400 if any(why) else 200))
        return self.answered[-1][1]


# --- health ---------------------------------------------------------------------------------------


def test_while_the_server_is_down_events_are_lost_and_counted(server, monkeypatch):
    """K-8: it is asked whether it is well, after waits that grow; then told what was lost."""
    now = [0.0]
    monkeypatch.setattr("compact.telemetry.ariadne.time.monotonic", lambda: now[0])
    server.is_well = False
    exporter = AriadneExporter(server.url)
    tries = []
    for second in range(200):
        now[0] = float(second)
        before = server.asked_health
        assert exporter.export([EVENT]) == 1
        if server.asked_health > before:
            tries.append(second)
    assert tries == [0, 1, 3, 7, 15, 31, 63, 123, 183]
    assert not server.bodies
    server.is_well = True
    now[0] = 300.0
    assert exporter.export([EVENT, EventsDropped(exporter="AriadneExporter", count=200)]) == 0
    assert server.spans()[-1]["data"] == {"exporter": "AriadneExporter", "count": 200}


@pytest.mark.parametrize("status", [400, 413, 404, 500, 503, 302])
def test_what_the_server_refuses_is_counted(server, status):
    """K-8: and the next events are sent all the same, at once or when it is well again."""
    server.answer = status
    exporter = AriadneExporter(server.url)
    assert exporter.export([EVENT, EVENT]) == 2
    server.answer = None
    exporter._next_try = 0.0
    assert exporter.export([EVENT]) == 0
    assert [span["name"] for span in server.spans()] == [EVENT.name]
    assert len(server.traces()) == 1, "a refused batch named no trace"


def test_a_server_that_never_answers_or_drips_holds_a_request_for_a_moment(server, monkeypatch):
    """K-8: the limit holds for the whole request, not for each read."""
    monkeypatch.setattr(ariadne, "REQUEST_SECONDS", 0.2)
    server.drips = 0.1  # a byte before each read would time out
    start = time.monotonic()
    assert AriadneExporter(server.url).export([EVENT]) == 1
    server.drips, server.gate = None, threading.Event()
    assert AriadneExporter(server.url).export([EVENT]) == 1
    assert time.monotonic() - start < PATIENCE / 10


def test_a_sealed_connection_is_trusted_only_with_a_certificate(tmp_path, monkeypatch):
    """An address may be `https`; who answers there must prove who it is."""
    with closing(AriadneServer(_certified(tmp_path))) as server:
        assert AriadneExporter(server.url).export([EVENT]) == 1
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "certificate"))
        assert AriadneExporter(server.url).export([EVENT]) == 0
        assert len(server.spans()) == 1


def _certified(folder: Path) -> ssl.SSLContext:
    """A server's context, with a certificate of its own for this machine."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    here = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
    made = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    made = made.not_valid_before(now).not_valid_after(now + timedelta(hours=1))
    certificate = made.add_extension(here, critical=False).sign(key, hashes.SHA256())
    (folder / "certificate").write_bytes(certificate.public_bytes(Encoding.PEM))
    (folder / "key").write_bytes(
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "certificate", folder / "key")
    return context


def test_nobody_there(server):
    server.close()
    assert AriadneExporter(server.url).export([EVENT]) == 1
    server.close = lambda: None


def test_the_viewer_is_told_that_compact_is_alive(server):
    """K-8: "heartbeat"."""
    bus = EventBus()
    bus.export_to(AriadneExporter(server.url), heartbeat=0.01)
    bus.emit(EVENT)
    until = time.monotonic() + PATIENCE
    while not any(s["name"] == Heartbeat.name for s in server.spans()):
        assert time.monotonic() < until
        time.sleep(0.01)
    bus.close()
    beats = [s for s in server.spans() if s["name"] == Heartbeat.name]
    assert beats[0]["data"] == {"exporter": "AriadneExporter", "sent": 1, "dropped": 0}


def test_it_is_an_exporter(server):
    check_exporter(AriadneExporter(server.url + "/ingest"))
    assert len(server.spans()) == 3


@pytest.mark.parametrize("url", ["", "127.0.0.1:5175", "ftp://x", "http://", "http://a:b"])
def test_an_address_is_needed(url):
    with pytest.raises(InvalidArgument, match="url"):
        AriadneExporter(url)
