"""A server that takes and refuses what Ariadne's takes and refuses: its table of statuses, found by
asking the real one, is in `test_ariadne.py`.
"""

import json
import re
import ssl
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

LARGEST = 262_144
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
FIELDS = {
    "trace": {"type", "trace_id", "name", "group_id", "started_at", "ended_at", "metadata"},
    "span": {
        *("type", "trace_id", "span_id", "parent_id", "kind", "name"),
        *("started_at", "ended_at", "data", "status"),
    },
}


def refused(event: Any) -> str:
    """Why the real server's schema refuses an event; empty where it takes it."""
    if not isinstance(event, dict) or event.get("type") not in ("trace", "span"):
        return "type"
    needed = ["trace_id"] if event["type"] == "trace" else ["trace_id", "span_id"]
    for name in needed:
        if not isinstance(event.get(name), str) or not event[name]:
            return name
    known = FIELDS[event["type"]]
    for name, value in event.items():
        if name in known and not takes(name, value):
            return str(name)
    start, end = event.get("started_at"), event.get("ended_at")
    return "ended_at" if start and end and end < start else ""


def takes(name: str, value: Any) -> bool:
    """Whether a field may have that value; None never is one."""
    match name:
        case "started_at" | "ended_at":
            return isinstance(value, str) and TIME.fullmatch(value) is not None
        case "metadata":
            return isinstance(value, dict) and all(isinstance(x, str) for x in value.values())
        case "data":
            return isinstance(value, dict)
        case "status":
            return value in ("ok", "error")
        case _:
            return isinstance(value, str)


class AriadneServer:
    """Runs on a free port of this machine. What it took is in `events`, every request's body in
    `bodies`; `answer` makes it answer something else than it should.
    """

    def __init__(self, secured: ssl.SSLContext | None = None) -> None:
        self.events: list[dict[str, Any]] = []
        self.bodies: list[bytes] = []
        self.statuses: list[int] = []
        self.asked_health = 0
        self.answer: int | None = None
        """A status for everything that is sent, whatever it is."""
        self.is_well = True
        self.drips: float | None = None
        """Seconds between two bytes of its answers."""
        self.gate: threading.Event | None = None
        """What it waits for before it answers."""
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        if secured is not None:
            self._server.socket = secured.wrap_socket(self._server.socket, server_side=True)
        scheme = "http" if secured is None else "https"
        self.url = f"{scheme}://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def spans(self) -> list[dict[str, Any]]:
        return [event for event in self.events if event["type"] == "span"]

    def traces(self) -> list[dict[str, Any]]:
        return [event for event in self.events if event["type"] == "trace"]

    def take(self, body: bytes) -> int:
        """The status of the answer to what was sent."""
        self.bodies.append(body)
        if self.answer is not None:
            return self.answer
        if len(body) > LARGEST:
            return 413
        try:
            value = json.loads(body, parse_constant=_no_json)
        except ValueError:
            return 500
        batch = value["batch"] if isinstance(value, dict) and "batch" in value else [value]
        if not isinstance(batch, list) or any(refused(event) for event in batch):
            return 400
        self.events += [
            {name: x for name, x in event.items() if name in FIELDS[event["type"]]}
            for event in batch
        ]
        return 200

    def close(self) -> None:
        if self.gate is not None:
            self.gate.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.asked_health += 1
                well = self.path == "/healthz" and server.is_well
                self.reply(200 if well else 503)

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                is_json = self.headers["Content-Type"] == "application/json"
                with server._lock:
                    status = server.take(body) if is_json and self.path == "/ingest" else 404
                    server.statuses.append(status)
                self.reply(status)

            def reply(self, status: int) -> None:
                if server.gate is not None:
                    server.gate.wait(60)
                answer = f"HTTP/1.1 {status} X\r\nContent-Length: 2\r\n\r\n{{}}".encode()
                try:
                    for part in [answer] if server.drips is None else map(bytes, zip(answer)):
                        self.wfile.write(part)
                        self.wfile.flush()
                        time.sleep(server.drips or 0)
                except OSError:
                    self.close_connection = True

            def log_message(self, *_: object) -> None:
                """Nothing."""

        return Handler


def _no_json(text: str) -> None:
    raise ValueError(text)
