"""The extractive summarizer: a chronology, without a model. The same messages give the same text.

Each session has one, so what writes it is loaded on first use.
"""

from __future__ import annotations

from compact.messages.checkpoints import Summary, SummaryRequest
from compact.messages.protocols import TokenEstimator
from compact.messages.tokens import TokenCounter
from compact.text.modes import weights_of


class ExtractiveSummarizer:
    """Tells what was said and done in its own words; deterministic and offline. `counter` may be a
    `TokenEstimator` like `NoopEstimator()`.
    """

    name = "extractive"
    waits = False

    def __init__(self, counter: TokenCounter | TokenEstimator) -> None:
        self._counter = counter if isinstance(counter, TokenCounter) else TokenCounter(counter)

    async def summarize(self, request: SummaryRequest) -> Summary:
        """Tell the messages within their token cap."""
        return self.extracted(request)

    def extracted(self, request: SummaryRequest) -> Summary:
        """The same without waiting."""
        from compact.engine.chronology.composing import Chronology
        from compact.engine.chronology.notes import Notes
        from compact.engine.visible import MessagesInView, VisiblePart, VisibleText

        notes = request.notes
        if not isinstance(notes, Notes):
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
