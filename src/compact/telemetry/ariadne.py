"""Sends spans as JSON over HTTP to Ariadne, a local trace viewer.

Ariadne's rules: `POST /ingest` takes `{"batch": [...]}` of at most 256 KiB. Times end in `Z`. No
field is null. The values in a trace's metadata are strings. Each span is sent once. If one item is
bad, Ariadne refuses the whole batch. `GET /healthz` tells whether the server is up.
"""

from __future__ import annotations

import json
import math
import socket
import ssl
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import SplitResult, urlsplit

from compact.errors import InvalidArgument
from compact.messages.events import Event
from compact.messages.kit_names import ARIADNE, is_address
from compact.telemetry.spans import MOST_OPEN, EndedSpan, Spans

REQUEST_SECONDS = 2.0
"""Longest time of one request, in seconds, from connecting to the answer."""
CHUNK_BYTES = 250_000
"""The largest request body or answer, in bytes. Ariadne refuses bodies of more than 262,144."""
FIRST_WAIT, LONGEST_WAIT = 1.0, 60.0
"""The first and the longest wait before a server that was down is asked again, in seconds. Each
wait is twice as long as the one before."""
HEARTBEAT = 30.0
"""After this many seconds without an event, a `Heartbeat` event is sent."""
_HEAD, _BETWEEN, _FOOT = b'{"batch":[', b",", b"]}"
_SHORTENED = "… [truncated]"


class AriadneExporter:
    """Sends events to an Ariadne server, such as `http://127.0.0.1:5175`.

    While the server is down, events are lost and counted. The exporter asks the server again after
    a wait, which grows each time.
    """

    def __init__(self, url: str = ARIADNE) -> None:
        self._place = _place(url)
        self._spans = Spans()
        self._named: dict[str, None] = {}  # ids of traces that the server knows, oldest first
        self._is_up = False
        self._wait = 0.0
        self._next_try = 0.0  # seconds of the monotonic clock

    def export(self, events: Sequence[Event]) -> int:
        """Send the spans that end with these events. Return how many events were lost."""
        return self._send(self._spans.of(events))

    def close(self) -> None:
        """Send the spans that are still open."""
        self._send(self._spans.close())

    def _send(self, spans: Sequence[EndedSpan]) -> int:
        lost = 0
        for chunk in self._chunks(spans):
            if not (self._is_there() and self._post(chunk)):
                lost += sum(span.events for span in chunk.spans)
        return lost

    def _chunks(self, spans: Sequence[EndedSpan]) -> Iterator[_Chunk]:
        """Yield request bodies within the size limit. A trace's item precedes its first span."""
        chunk = _Chunk()
        for span in spans:
            item = _span_item(span)
            while not chunk.takes(span, item, is_named=span.trace.id in self._named):
                yield chunk
                chunk = _Chunk()
        if chunk.spans:
            yield chunk

    def _post(self, chunk: _Chunk) -> bool:
        status = self._ask("POST", "/ingest", chunk.body())
        if not status or status >= 500:
            self._is_down()
        if not 200 <= status < 300:
            return False
        for trace in chunk.traces:
            self._named[trace] = None
        while len(self._named) > MOST_OPEN:
            del self._named[next(iter(self._named))]
        return True

    # --- whether the server is up -----------------------------------------------------------------

    def _is_there(self) -> bool:
        if not self._is_up and time.monotonic() >= self._next_try:
            if self._ask("GET", "/healthz") == 200:
                self._is_up, self._wait = True, 0.0
            else:
                self._is_down()
        return self._is_up

    def _is_down(self) -> None:
        self._is_up = False
        self._wait = min(max(FIRST_WAIT, 2 * self._wait), LONGEST_WAIT)
        self._next_try = time.monotonic() + self._wait

    def _ask(self, method: str, path: str, body: bytes = b"") -> int:
        """Return the status code of the answer, or 0 if no answer came in time."""
        # This uses sockets, because `http.client` applies its time-out to each read separately. A
        # server that sends single bytes slowly would block it for ever.
        until = time.monotonic() + REQUEST_SECONDS
        place = self._place
        lines = (
            f"{method} {place.path}{path} HTTP/1.1",
            f"Host: {place.netloc.rpartition('@')[2]}",
            "Connection: close",
            "Content-Type: application/json",
            f"Content-Length: {len(body)}",
        )
        head = "\r\n".join((*lines, "", "")).encode()
        try:
            with _connected(place, until) as connection:
                connection.sendall(head + body)
                return _status_of(connection, until)
        except (OSError, ValueError):
            return 0


class _Chunk:
    """Collects the items of one request, together with their spans and traces."""

    def __init__(self) -> None:
        self.spans: list[EndedSpan] = []
        self.traces: set[str] = set()
        self._items: list[bytes] = []
        self._size = len(_HEAD) + len(_FOOT)

    def takes(self, span: EndedSpan, item: bytes, *, is_named: bool) -> bool:
        """Add a span's item, and an item for its trace if that is new. Return False if there is no
        room.

        """
        new = not is_named and span.trace.id not in self.traces
        items = [_json(_trace_item(span)), item] if new else [item]
        size = self._size + sum(len(part) + len(_BETWEEN) for part in items)
        if self.spans and size > CHUNK_BYTES:
            return False
        self.spans.append(span)
        self.traces.add(span.trace.id)
        self._items += items
        self._size = size
        return True

    def body(self) -> bytes:
        return _HEAD + _BETWEEN.join(self._items) + _FOOT


# --- what is sent ---------------------------------------------------------------------------------


def _trace_item(span: EndedSpan) -> dict[str, Any]:
    return {
        "type": "trace",
        "trace_id": span.trace.id,
        "name": span.trace.name,
        "started_at": _time(span.start),
        "metadata": {"agent": "compact"},
    }


def _span_item(span: EndedSpan) -> bytes:
    """Return the item for a span. If it is too large, its longest text is halved until it fits."""
    item: dict[str, Any] = {
        "type": "span",
        "trace_id": span.trace.id,
        "span_id": span.id,
        "kind": span.kind,
        "name": span.name,
        "started_at": _time(span.start),
        "ended_at": _time(span.end),
        # The viewer shows the field `output` first.
        "data": {
            "output" if name == "summary" else name: _value(value)
            for name, value in span.data.items()
        },
        "status": "error" if span.error else "ok",
    }
    if span.parent is not None:
        item["parent_id"] = span.parent
    body = _json(item)
    while len(body) > CHUNK_BYTES // 2:
        data = item["data"]
        longest = max(data, key=lambda name: len(str(data[name])))
        text = str(data[longest]).removesuffix(_SHORTENED)
        data[longest] = text[: len(text) // 2] + _SHORTENED
        body = _json(item)
    return body


def _value(value: object) -> object:
    """Return the value as JSON types. Infinity and NaN become texts. None entries are dropped."""
    match value:
        case float() if not math.isfinite(value):
            return str(value)
        case Mapping():
            return {str(name): _value(item) for name, item in value.items() if item is not None}
        case list() | tuple():
            return [_value(item) for item in value]
        case _:
            return value


def _time(at: datetime) -> str:
    return at.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def _json(item: object) -> bytes:
    # The JSON is ASCII, because UTF-8 cannot encode half a surrogate pair.
    return json.dumps(item, separators=(",", ":"), default=str).encode("ascii")


# --- one request ----------------------------------------------------------------------------------


def _place(url: str) -> SplitResult:
    """Return the server's address without the path `/ingest`.

    Raises:
        InvalidArgument: `url` is not the address of a server.
    """
    if not is_address(url):
        raise InvalidArgument("url", "url must be an address such as http://127.0.0.1:5175")
    return urlsplit(url.rstrip("/").removesuffix("/ingest").rstrip("/"))


def _connected(place: SplitResult, until: float) -> socket.socket:
    port = place.port or (443 if place.scheme == "https" else 80)
    connection = socket.create_connection(
        (place.hostname or "", port), timeout=_seconds_left(until)
    )
    if place.scheme == "http":
        return connection
    try:
        context = ssl.create_default_context()
        connection.settimeout(_seconds_left(until))
        return context.wrap_socket(connection, server_hostname=place.hostname)
    except BaseException:
        connection.close()
        raise


def _status_of(connection: socket.socket, until: float) -> int:
    """Return the status code in the first line of the answer.

    Raises:
        OSError, ValueError: no status code came in time.
    """
    head = b""
    while b"\n" not in head and len(head) < CHUNK_BYTES:
        connection.settimeout(_seconds_left(until))
        received = connection.recv(CHUNK_BYTES)
        if not received:
            break
        head += received
    protocol, status, *_ = head.split(maxsplit=2)
    if not protocol.startswith(b"HTTP/"):
        raise ValueError(protocol)
    return int(status)


def _seconds_left(until: float) -> float:
    """Return how many seconds are left until the time `until`.

    Raises:
        TimeoutError: no time is left.
    """
    left = until - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left
