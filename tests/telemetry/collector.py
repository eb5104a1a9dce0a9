"""A collector of OTLP over HTTP: parses the protobuf messages that it gets, keeps what they say."""

import gzip
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric
from opentelemetry.proto.trace.v1.trace_pb2 import Span


class Collector:
    """Runs on a free port of this machine."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.metrics: dict[str, Metric] = {}
        """The newest of each name."""
        self.resources: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.bytes: list[bytes] = []
        self.answer = 200
        self.gate: threading.Event | None = None
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def take(self, path: str, body: bytes) -> bool:
        """Read a message as its address says; False where there is no such address."""
        self.bytes.append(body)
        if path == "/v1/traces":
            traces = ExportTraceServiceRequest.FromString(body)
            for each in traces.resource_spans:
                self.resources.append(values(each.resource.attributes))
                self.spans += [span for scope in each.scope_spans for span in scope.spans]
        elif path == "/v1/metrics":
            measured = ExportMetricsServiceRequest.FromString(body)
            for given in measured.resource_metrics:
                found = [metric for scope in given.scope_metrics for metric in scope.metrics]
                self.metrics |= {metric.name: metric for metric in found}
        return path in ("/v1/traces", "/v1/metrics")

    def sums(self, name: str) -> dict[tuple[Any, ...], int]:
        """A counter's sums by the values of their attributes."""
        points = self.metrics[name].sum.data_points
        return {tuple(values(p.attributes).values()): p.as_int for p in points}

    def close(self) -> None:
        if self.gate is not None:
            self.gate.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers["Content-Encoding"] == "gzip":
                    body = gzip.decompress(body)
                if collector.gate is not None:
                    collector.gate.wait(60)
                collector.headers.append({k.lower(): v for k, v in self.headers.items()})
                status = collector.answer
                if status == 200 and not collector.take(self.path, body):
                    status = 404
                try:
                    self.send_response(status)
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                except OSError:
                    self.close_connection = True

            def log_message(self, *_: object) -> None:
                """Nothing."""

        return Handler


def values(attributes: Any) -> dict[str, Any]:
    """Attributes as plain values by name."""
    return dict(_pairs(attributes))


def _pairs(attributes: list[KeyValue]) -> Iterator[tuple[str, Any]]:
    for attribute in attributes:
        yield attribute.key, _plain(attribute.value)


def _plain(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_plain(each) for each in value.array_value.values]
    return None if kind is None else getattr(value, kind)
