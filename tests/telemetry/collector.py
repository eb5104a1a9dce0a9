"""A collector of OTLP over HTTP: parses the protobuf messages that it gets, keeps what they say."""

import gzip
from collections.abc import Iterator, Mapping
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.telemetry.local_server import LocalServer


class Collector(LocalServer):
    """What it took is in `spans`; `answer` is the status of every answer."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.resources: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.bytes: list[bytes] = []
        self.answer = 200
        super().__init__()

    def take(self, path: str, body: bytes) -> bool:
        """Read a message; False where there is no such address."""
        self.bytes.append(body)
        if path != "/v1/traces":
            return False
        for each in ExportTraceServiceRequest.FromString(body).resource_spans:
            self.resources.append(values(each.resource.attributes))
            self.spans += [span for scope in each.scope_spans for span in scope.spans]
        return True

    def got(self, path: str, headers: Mapping[str, str], body: bytes | None) -> int:
        self.headers.append(dict(headers))
        if self.answer != 200:
            return self.answer
        content = body or b""
        if headers.get("content-encoding") == "gzip":
            content = gzip.decompress(content)
        return 200 if self.take(path, content) else 404


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
