"""Time limits for summarizers: one that hangs must not hold a session up."""

from __future__ import annotations

from compact.errors import ModelUnavailable
from compact.messages.checkpoints import Summary, SummaryRequest
from compact.messages.protocols import Summarizer
from compact.session.running.off_loop import on_loop


class TimeoutSummarizer:
    """A summarizer that is cut off when it takes too long."""

    waits = True

    def __init__(self, summarizer: Summarizer, seconds: float) -> None:
        self.name = name_of(summarizer)
        self._summarizer = summarizer
        self._seconds = seconds

    async def summarize(self, request: SummaryRequest) -> Summary:
        """What the summarizer writes.

        Raises:
            ModelUnavailable: it took longer than it may.
        """
        return await on_loop(lambda: self._in_time(request))

    async def _in_time(self, request: SummaryRequest) -> Summary:
        import asyncio

        try:
            async with asyncio.timeout(self._seconds):
                return await self._summarizer.summarize(request)
        except TimeoutError:
            raise ModelUnavailable(
                f"{self.name} did not summarize within {self._seconds:g} seconds (summary_seconds)",
                model=self.name,
                waited=self._seconds,
            ) from None


def name_of(summarizer: Summarizer) -> str:
    """Its name; the name of its class where it has none."""
    name = getattr(summarizer, "name", None)
    return name if isinstance(name, str) and name else type(summarizer).__name__
