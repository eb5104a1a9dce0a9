"""The extractive summarizer: a chronology, written without a model.

The same messages give the same text. Every session has one, so the code that writes is loaded on
first use.
"""

from __future__ import annotations

from compact.messages.checkpoints import Summary, SummaryRequest
from compact.messages.protocols import TokenEstimator
from compact.messages.tokens import TokenCounter
from compact.text.modes import weights_of


class ExtractiveSummarizer:
    """Summarizes messages in their own words; deterministic and offline. `counter` may be a
    `TokenEstimator` like `NoopEstimator()`.
    """

    name = "extractive"
    waits = False

    def __init__(self, counter: TokenCounter | TokenEstimator) -> None:
        self._counter = counter if isinstance(counter, TokenCounter) else TokenCounter(counter)

    async def summarize(self, request: SummaryRequest) -> Summary:
        """Summarize the messages within the request's token cap."""
        return self.extracted(request)

    def extracted(self, request: SummaryRequest) -> Summary:
        """Do the same without waiting."""
        from compact.engine.chronology.composing import Chronology
        from compact.engine.chronology.notes import Notes
        from compact.engine.visible import MessagesInView, VisiblePart, VisibleText

        notes = request.notes
        if notes is None:
            notes = Notes().read(request.messages)
        kept = request.kept
        beside = (
            kept.seen if isinstance(kept, MessagesInView) else VisibleText([VisiblePart.of(kept)])
        )
        chronology = Chronology(
            notes,
            self._counter,
            *request.reach,
            seen=VisibleText([request.record], beside),
            weights=weights_of(request.mode, request.strategy),
            level=request.level,
        )
        return Summary(text=chronology.told(request.max_tokens), made_by=self.name)
