"""Sends spans to OpenTelemetry over OTLP/HTTP. This needs the extra `otlp`.

OpenTelemetry's environment variables set addresses, headers, compression, time-outs, sampling,
limits and the resource (`OTEL_SERVICE_NAME`). Attribute names follow OpenTelemetry's conventions
for generative AI. Other attributes are named `compact.…`. A collector can make metrics from the
spans, for example with its span metrics connector.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from compact.errors import InvalidArgument
from compact.messages.events import Event
from compact.messages.kit_names import is_address
from compact.telemetry.spans import EndedSpan, Spans

try:
    from opentelemetry import context, trace
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import SERVICE_NAME, Resource
    from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
    from opentelemetry.sdk.trace.export import SpanExportResult
    from opentelemetry.sdk.trace.id_generator import IdGenerator
    from opentelemetry.sdk.trace.sampling import Decision
except ImportError as error:
    raise ImportError(
        "OTLP needs the SDK of OpenTelemetry: pip install opentelemetry-exporter-otlp-proto-http, "
        "or, in a clone of compact, pip install '.[otlp]'"
    ) from error

REQUEST_SECONDS = 2.0
"""The longest time of one request and its retries, in seconds, if OpenTelemetry's variables set
none."""
_TIMEOUTS = ("OTEL_EXPORTER_OTLP_TIMEOUT", "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT")
_SUPPRESSED = getattr(context, "_SUPPRESS_INSTRUMENTATION_KEY", "suppress_instrumentation")
"""The key that tells HTTP tracers not to trace an exporter's own requests."""
_EPOCH = datetime.fromisoformat("1970-01-01T00:00:00+00:00")
_CONVENTIONS = {
    "model": "gen_ai.request.model",
    "reported": "gen_ai.usage.input_tokens",
    "error": "error.type",
}
"""Field of an event → the name of the attribute in OpenTelemetry's conventions."""


class OtlpExporter:
    """Sends spans to a collector, such as `http://127.0.0.1:4318`.

    Without `endpoint`, the collector is the one in `OTEL_EXPORTER_OTLP_ENDPOINT`.
    """

    def __init__(self, endpoint: str | None = None) -> None:
        if endpoint is not None and not is_address(endpoint):
            reason = "endpoint must be an address such as http://127.0.0.1:4318"
            raise InvalidArgument("endpoint", reason)
        self._endpoint = None if endpoint is None else endpoint.rstrip("/")
        self._spans = Spans()
        self._pipeline: _Pipeline | None = None

    def export(self, events: Sequence[Event]) -> int:
        """Send the spans that end with these events. Return how many events were lost."""
        if self._pipeline is None or self._pipeline.process != os.getpid():
            self._pipeline = _Pipeline(self._endpoint)
        return self._pipeline.send(self._spans.of(events))

    def close(self) -> None:
        """Send the spans that are still open."""
        if self._pipeline is not None and self._pipeline.process == os.getpid():
            self._pipeline.send(self._spans.close())
            self._pipeline.close()
            self._pipeline = None


class _Pipeline:
    """Holds the objects of OpenTelemetry's SDK for one process.

    Spans are sent in the calling thread, so that losses are known.
    """

    def __init__(self, endpoint: str | None) -> None:
        self.process = os.getpid()
        resource = Resource.create()
        if str(resource.attributes[SERVICE_NAME]).startswith("unknown_service"):
            resource = resource.merge(Resource({SERVICE_NAME: "compact"}))
        self._ids = _Ids()
        self._ended = _Ended()
        self._provider = TracerProvider(
            resource=resource, shutdown_on_exit=False, id_generator=self._ids
        )
        self._provider.add_span_processor(self._ended)
        self._tracer = self._provider.get_tracer("compact")
        is_set = any(map(os.environ.get, _TIMEOUTS))
        self._exporter = OTLPSpanExporter(
            endpoint=endpoint and f"{endpoint}/v1/traces",
            timeout=None if is_set else REQUEST_SECONDS,
        )

    def send(self, spans: Sequence[EndedSpan]) -> int:
        """Send spans. Return how many events were lost."""
        for span in spans:
            self._record(span)
        ended = self._ended.take()
        if not ended or os.environ.get("OTEL_TRACES_EXPORTER") == "none":
            return 0
        token = context.attach(context.set_value(_SUPPRESSED, True))
        try:
            result = self._exporter.export(ended)
        finally:
            context.detach(token)
        is_sent = result is SpanExportResult.SUCCESS
        return 0 if is_sent else sum(span.events for span in spans)

    def close(self) -> None:
        self._exporter.shutdown()  # type: ignore[no-untyped-call]

    def _record(self, span: EndedSpan) -> None:
        self._ids.trace, self._ids.span = _trace_id(span.trace.id), int(span.id, 16)
        recorded = self._tracer.start_span(
            span.name,
            context=self._context_of(span),
            attributes=dict(_attributes(span)),
            start_time=_nanoseconds(span.start),
        )
        if span.error:
            words = span.data.get("message") or span.error
            recorded.set_status(trace.StatusCode.ERROR, str(words))
        recorded.end(_nanoseconds(span.end))

    def _context_of(self, span: EndedSpan) -> context.Context:
        """Return an OpenTelemetry context that holds the span's parent. The parent is not recorded
        yet, but its trace id already decides whether it will be sampled.
        """
        if span.parent is None:
            return context.Context()
        sampled = self._provider.sampler.should_sample(None, self._ids.trace, span.name)
        flags = trace.TraceFlags(sampled.decision is Decision.RECORD_AND_SAMPLE)
        ids = trace.SpanContext(
            self._ids.trace, int(span.parent, 16), is_remote=False, trace_flags=flags
        )
        return trace.set_span_in_context(trace.NonRecordingSpan(ids), context.Context())


class _Ids(IdGenerator):
    """Gives the next span the ids that are set on this object."""

    trace = span = 0

    def generate_trace_id(self) -> int:
        return self.trace

    def generate_span_id(self) -> int:
        return self.span


class _Ended(SpanProcessor):
    """Collects sampled spans that have ended, until `take` returns them."""

    def __init__(self) -> None:
        self._spans: list[ReadableSpan] = []

    def on_end(self, span: ReadableSpan) -> None:
        if span.context is not None and span.context.trace_flags.sampled:
            self._spans.append(span)

    def take(self) -> list[ReadableSpan]:
        spans, self._spans = self._spans, []
        return spans


def _trace_id(name: str) -> int:
    # The id is a hash, so that a session has the same trace in every process.
    digest = hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=16).digest()
    return int.from_bytes(digest, "big")


def _nanoseconds(at: datetime) -> int:
    return (at - _EPOCH) // timedelta(microseconds=1) * 1_000


def _attributes(span: EndedSpan) -> Iterator[tuple[str, Any]]:
    if span.trace.session_id:
        yield "gen_ai.conversation.id", _text(span.trace.session_id)
    if span.name == "compact.story_asked":
        yield "gen_ai.operation.name", "chat"
    if span.error:
        yield "error.type", _text(span.error)
    for name, value in _flat(span.data):
        yield _CONVENTIONS.get(name, f"compact.{name}"), value


def _flat(data: Mapping[str, Any], within: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the names and values of attributes. The names of nested values are joined by dots."""
    for name, value in data.items():
        match value:
            case None:
                continue
            case Mapping():
                yield from _flat(value, f"{within}{name}.")
            case bool() | int() | float():
                yield within + name, value
            case list() | tuple():
                yield within + name, [_text(str(item)) for item in value]
            case _:
                yield within + name, _text(str(value))


def _text(text: str) -> str:
    # UTF-8 cannot encode half a surrogate pair.
    return text.encode("utf-8", "replace").decode("utf-8")
