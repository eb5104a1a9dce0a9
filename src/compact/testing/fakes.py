"""What stands in for the outside world in tests."""

from __future__ import annotations

import asyncio

from compact.core.checkpoints import Summary, SummaryRequest


class ScriptedSummarizer:
    """Writes the given texts in turn, the last one again and again; waits once for the loop, as a
    model would. A text may be an exception, which is raised.
    """

    name = "scripted"
    waits = True

    def __init__(self, *texts: str | Exception) -> None:
        self._texts = list(texts)
        self.requests: list[SummaryRequest] = []
        """What was asked for, in order."""

    async def summarize(self, request: SummaryRequest) -> Summary:
        """The next text of the script."""
        self.requests.append(request)
        await asyncio.sleep(0)
        text = self._texts.pop(0) if len(self._texts) > 1 else self._texts[0]
        if isinstance(text, Exception):
            raise text
        return Summary(text=text, made_by=self.name)
