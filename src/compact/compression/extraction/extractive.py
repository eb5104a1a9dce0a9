"""The extractive summarizer: a story told from notes, without any model.

The same messages give the same story. What code knows beside it (rules, state, files) is composed
in `compression.composition`.
"""

from __future__ import annotations

from compact.compression.extraction.notes import Notes, weights_of
from compact.compression.extraction.outlined import outlined
from compact.compression.extraction.story import FADE_TURNS, TOLD, Teller
from compact.compression.seen import InView, Seen, Visible
from compact.core.calls import checked_methods
from compact.core.checkpoints import Summary, SummaryRequest
from compact.core.modes import emphasis_of
from compact.core.protocols import TokenEstimator
from compact.core.tokens import TokenCounter


@checked_methods
class ExtractiveSummarizer:
    """Writes stories by extraction; deterministic, offline. Tokens are counted by `counter`, which
    may be a `TokenEstimator` like `NoopEstimator()`.
    """

    name = "extractive"
    waits = False

    def __init__(self, counter: TokenCounter | TokenEstimator) -> None:
        self._counter = counter if isinstance(counter, TokenCounter) else TokenCounter(counter)

    async def summarize(self, request: SummaryRequest) -> Summary:
        """Tell the request's messages within its token cap."""
        return self.extracted(request)

    def extracted(self, request: SummaryRequest) -> Summary:
        """The same for those who cannot wait."""
        notes = request.notes
        if not isinstance(notes, Notes):
            notes = Notes().read(request.messages)
        kept = request.kept
        beside = kept.seen if isinstance(kept, InView) else Seen([Visible.of(kept)])
        emphasis = emphasis_of(request.mode, request.strategy)
        teller = Teller(
            notes,
            self._counter,
            *request.reach,
            seen=Seen([request.record], beside),
            weights=weights_of(notes.ranked(), emphasis.anchors),
            fade=FADE_TURNS[request.level],
            emphasis=emphasis,
        )
        story = teller.tell(request.max_tokens)
        if not any(line.startswith(TOLD) for line in story.splitlines()):
            done = outlined(request.messages, request.max_tokens, self._counter)
            left = request.max_tokens - self._counter.text(done) - 1
            story = "\n".join(filter(None, (done and teller.tell(max(0, left)), done))) or story
        return Summary(text=story, made_by=self.name)
