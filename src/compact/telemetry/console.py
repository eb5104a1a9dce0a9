"""The console exporter writes every event as one line of JSON to stderr. It is off by default."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import TextIO

from compact.messages.events import Event


class ConsoleExporter:
    """Writes events as lines of JSON to `stream`, or to stderr."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream

    def export(self, events: Sequence[Event]) -> None:
        """Write a line for each event."""
        stream = sys.stderr if self._stream is None else self._stream
        for event in events:
            stream.write(json.dumps(event.as_dict(), ensure_ascii=False, default=str) + "\n")
        stream.flush()

    def close(self) -> None:
        """Do nothing, since the exporter holds no resource."""
