"""OpenTelemetry's collectors get every event as a span (K-8)."""

import subprocess
import sys
import time
from collections import Counter
from typing import Any

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Status

from compact import CompactConfig, CompactManager, EventBus, InvalidArgument
from compact.errors import InvalidConfig
from compact.messages.events import (
    Committed,
    ErrorRaised,
    RatioLearned,
    StoryAsked,
    SummaryCreated,
    TriggerDecision,
)
from compact.messages.policy import CompactPolicy
from compact.telemetry.otlp import OtlpExporter
from compact.testing import check_exporter
from tests.telemetry.collector import Collector, values
from tests.telemetry.talking import WORD, talked
from tests.telemetry.test_bus import EVENT, PATIENCE


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch):
    import os

    for name in list(os.environ):
        if name.startswith("OTEL_"):
            monkeypatch.delenv(name)


@pytest.fixture
def collector():
    made = Collector()
    yield made
    made.close()


def test_every_event_of_a_session_is_a_span(collector):
    """K-8: "OTLP arrives complete": a trace, the compression, its stages, the events."""
    heard = talked(otlp_endpoint=collector.url)
    spans = {span.span_id: span for span in collector.spans}
    assert len(spans) == len(collector.spans), "each once"
    assert len({span.trace_id for span in spans.values()}) == 1
    names = Counter(span.name for span in spans.values())
    events = Counter(event.name for event in heard)
    stages = {name: n for name, n in names.items() if name.startswith("compact.stage.")}
    assert sum(stages.values()) == events.pop("compact.stage_started")
    assert {n: k for n, k in names.items() if n not in stages} == events | {
        "compact.compression": 1
    }
    (whole,) = (span for span in spans.values() if span.name == "compact.compression")
    assert not whole.parent_span_id
    within = [span for span in spans.values() if span.parent_span_id == whole.span_id]
    assert {*stages} <= {span.name for span in within}
    for span in within:
        assert whole.start_time_unix_nano <= span.start_time_unix_nano
        assert span.start_time_unix_nano <= span.end_time_unix_nano <= whole.end_time_unix_nano
    said = values(whole.attributes)
    assert said["compact.outcome"] == "committed"
    assert said["gen_ai.conversation.id"] == "s-1"
    assert collector.resources[0]["service.name"] == "compact"
    assert not [body for body in collector.bytes if WORD.encode() in body]


def test_texts_are_sent_where_that_is_asked_for(collector):
    heard = talked(otlp_endpoint=collector.url, telemetry_content=True)
    found = [s for s in collector.spans if s.name == "compact.summary_created"]
    said = [e.summary for e in heard if isinstance(e, SummaryCreated)]
    assert [values(s.attributes)["compact.summary"] for s in found] == said


def test_names_follow_the_conventions_where_they_have_one(collector):
    """K-8: and an error is the span's status."""
    bus = EventBus(content=True)
    bus.export_to(OtlpExporter(collector.url))
    for event in (
        StoryAsked(model="m", part=1, parts=1, elapsed=0.0, limit=None),
        ErrorRaised(stage="sync", error="StoreFailed", message="full"),
        RatioLearned(counted=10, reported=11, ratio=1.1),
    ):
        bus.emit(event)
    bus.close()
    said = {span.name: values(span.attributes) for span in collector.spans}
    assert said["compact.story_asked"]["gen_ai.request.model"] == "m"
    assert said["compact.story_asked"]["gen_ai.operation.name"] == "chat"
    assert said["compact.ratio_learned"]["gen_ai.usage.input_tokens"] == 11
    assert said["compact.error"]["error.type"] == "StoreFailed"
    (failed,) = (span for span in collector.spans if span.name == "compact.error")
    assert (failed.status.code, failed.status.message) == (Status.STATUS_CODE_ERROR, "full")
    assert abs(failed.start_time_unix_nano / 1e9 - time.time()) < PATIENCE


def test_the_policy_is_told_with_dots(collector):
    exporter = OtlpExporter(collector.url)
    decision = TriggerDecision(
        triggered=False,
        tokens=1,
        trigger=2,
        reason="\ud800",
        policy=CompactPolicy(guidance="keep it quiet"),
    )
    assert exporter.export([decision]) == 0
    said = values(collector.spans[0].attributes)
    assert said["compact.policy.trigger_ratio"] == 0.7
    assert said["compact.policy.roles_never_pruned"] == ["system", "developer"]
    assert "quiet" not in str(said)
    exporter.close()


def test_opentelemetrys_own_variables_hold(collector, monkeypatch):
    """K-8: "Standard OTEL_* environment variables keep working"."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-team=blue")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
    monkeypatch.setenv("OTEL_SERVICE_NAME", "shop")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
    talked(otlp_endpoint="environment")
    assert collector.spans
    headers = collector.headers[0]
    assert (headers["x-team"], headers["content-encoding"]) == ("blue", "gzip")
    resource = collector.resources[0]
    assert (resource["service.name"], resource["deployment.environment.name"]) == ("shop", "test")


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("OTEL_SDK_DISABLED", "true"),
        ("OTEL_TRACES_EXPORTER", "none"),
        ("OTEL_TRACES_SAMPLER", "always_off"),
        ("OTEL_TRACES_SAMPLER", "parentbased_always_off"),
    ],
)
def test_what_is_switched_off_sends_no_spans(collector, monkeypatch, variable, value):
    monkeypatch.setenv(variable, value)
    talked(otlp_endpoint=collector.url)
    assert not collector.spans


def test_a_sample_is_of_whole_traces(collector, monkeypatch):
    """A session's spans are all kept or none."""
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "traceidratio")
    monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", "0.5")
    exporter = OtlpExporter(collector.url)
    for i in range(40):
        given: dict[str, Any] = {"session_id": f"s-{i}"}
        exporter.export(
            [
                TriggerDecision(triggered=True, tokens=1, trigger=1, reason="", **given),
                Committed(move=1, window=1, checkpoints=1, **given),
            ]
        )
    exporter.close()
    kept = Counter(span.trace_id for span in collector.spans)
    assert 5 < len(kept) < 35
    assert {*kept.values()} == {3}


@pytest.mark.parametrize("answer", [400, 413, 503])
def test_what_a_collector_refuses_is_counted(collector, answer, caplog):
    collector.answer = answer
    exporter = OtlpExporter(collector.url)
    assert exporter.export([EVENT, EVENT]) == 2
    collector.answer = 200
    assert exporter.export([EVENT]) == 0
    assert len(collector.spans) == 1
    exporter.close()


def test_it_is_an_exporter(collector):
    check_exporter(OtlpExporter(collector.url))
    assert len(collector.spans) == 3


def test_an_address_is_needed():
    with pytest.raises(InvalidArgument, match="endpoint"):
        OtlpExporter("localhost:4318")
    with pytest.raises(InvalidConfig, match="otlp_endpoint"):
        CompactConfig(otlp_endpoint="localhost:4318")


def test_without_the_extra_the_error_names_it(monkeypatch):
    """The setting, and how to install what it needs."""
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    monkeypatch.delitem(sys.modules, "compact.telemetry.otlp")
    monkeypatch.delattr("compact.telemetry.otlp")
    with pytest.raises(InvalidConfig, match=r"otlp_endpoint: .*pip install '\.\[otlp\]'"):
        CompactManager(CompactConfig(otlp_endpoint="environment"))


def test_it_costs_nothing_where_it_is_not_asked_for():
    script = "import sys, compact; compact.CompactManager(); print('opentelemetry' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "False"
