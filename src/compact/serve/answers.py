"""Reads an answer beside its way to the client. The bytes are never changed or held up here."""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson

from compact import wiring

if TYPE_CHECKING:
    from compact.models.providers.answers import Answer

_ENDS = frozenset(("message_stop", "response.completed", "response.incomplete", "response.failed"))
"""Types of events that end a stream."""


class AnswerReader:
    """Collects an answer of a wire format from its bytes: events of a stream, or one JSON."""

    def __init__(self, format: str, *, is_stream: bool) -> None:
        self._format, self.is_stream = format, is_stream
        self._pieces = wiring.pieces_of(format)
        self._rest = b""
        self._is_broken = False
        self.has_ended = False
        """Whether the last event of the stream was read."""

    def feed(self, chunk: bytes) -> None:
        """Read the next bytes. Bytes that are no answer are ignored, with all behind them."""
        if not self.is_stream:
            self._rest += chunk
            return
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        try:
            for line in lines:
                self._take(line.strip().removeprefix(b"data:").strip())
        except Exception:  # noqa: BLE001 - a server may send anything
            self._is_broken = True

    def _take(self, line: bytes) -> None:
        if line == b"[DONE]":
            self.has_ended = True
        if self._is_broken or not line.startswith(b"{"):
            return  # the name of an event, a comment, or nothing
        event = orjson.loads(line)
        self._pieces.take(event)
        if event.get("type") in _ENDS or event.get("done") is True:
            self.has_ended = True

    @property
    def answer(self) -> Answer | None:
        """The whole answer; None if it broke off or cannot be read."""
        if self.is_stream:
            self.feed(b"\n")  # the last line may have no end
        try:
            whole = self._pieces.whole if self.is_stream else orjson.loads(self._rest)
            if whole is None or self._is_broken:
                return None
            return wiring.answer_in(self._format, whole)
        except Exception:  # noqa: BLE001 - as above
            return None
