"""A server that takes and refuses what Ariadne's takes and refuses: its table of statuses, found by
asking the real one, is in `test_ariadne.py`.
"""

import json
import re
import ssl
import threading
from collections.abc import Mapping
from typing import Any

from tests.telemetry.local_server import LocalServer

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


class AriadneServer(LocalServer):
    """What it took is in `events`, every request's body in `bodies`; `answer` makes it answer
    something else than it should.
    """

    body = b"{}"

    def __init__(self, secured: ssl.SSLContext | None = None) -> None:
        self.events: list[dict[str, Any]] = []
        self.bodies: list[bytes] = []
        self.statuses: list[int] = []
        self.asked_health = 0
        self.answer: int | None = None
        """A status for everything that is sent, whatever it is."""
        self.is_well = True
        self._lock = threading.Lock()
        super().__init__(secured)

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

    def got(self, path: str, headers: Mapping[str, str], body: bytes | None) -> int:
        if body is None:
            self.asked_health += 1
            return 200 if path == "/healthz" and self.is_well else 503
        is_json = headers.get("content-type") == "application/json"
        with self._lock:
            status = self.take(body) if is_json and path == "/ingest" else 404
            self.statuses.append(status)
        return status


def _no_json(text: str) -> None:
    raise ValueError(text)
