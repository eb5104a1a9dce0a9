"""The console exporter: every event as one JSON line on stderr. Off unless asked for."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import TextIO

from compact.messages.events import Event


class ConsoleExporter:
    """Writes events as JSON lines, to stderr unless another stream is given."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream

    def export(self, events: Sequence[Event]) -> None:
        """Write a line for each event."""
        stream = sys.stderr if self._stream is None else self._stream
        for event in events:
            stream.write(json.dumps(event.as_dict(), ensure_ascii=False, default=str) + "\n")
        stream.flush()

    def close(self) -> None:
        """Do nothing: no resource is held."""
