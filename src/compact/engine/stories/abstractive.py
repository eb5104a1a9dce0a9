"""The abstractive summarizer: a model writes the summary (story).

The gate judges each summary first. If what it refuses can be improved (too long, cut off, too
thin), the model is asked once more and told why. Accepted summaries are cached, so the same request
is not sent twice. Errors of the model are raised; the caller then uses an extracted summary.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace

from compact.engine.chronology.extractive import ExtractiveSummarizer
from compact.engine.fencing import KNOWN, Block, blocks_of
from compact.engine.gate.rules import Judged, judge
from compact.engine.stories.writing import ModelAnswer, StoryInProgress, Writer, fingerprint
from compact.errors import ContextOverflow, ModelFailed
from compact.messages.checkpoints import Summary, SummaryRequest
from compact.messages.events import StoryAsked
from compact.messages.messages import Message, MessageMetadata
from compact.messages.protocols import ChatModel, Emit
from compact.messages.tokens import TokenCounter

UNSAID_WINDOW = 4_096
"""Assumed window, in tokens, if neither profile nor server says its size."""
REMEMBERED = 64
"""How many summaries are cached."""
MOST_REQUESTS = 128
"""Most requests that one summary may take."""
RESULT_SHARE, CHARACTERS, SHORTEST, LONGEST = 8, 4, 400, 1_000
"""Tool output is cut to `CHARACTERS` / `RESULT_SHARE` characters per token of the window, but not
below `SHORTEST` or above `LONGEST`."""


@dataclass(frozen=True, slots=True)
class Manner:
    """How a model is asked for summaries."""

    is_small: bool = False
    """Whether the model has fewer parameters than `messages.reliability.SMALL`."""
    unsaid: int = UNSAID_WINDOW
    """The model's window in tokens if neither its profile nor its server says it."""
    most_requests: int = MOST_REQUESTS
    """Most requests for one summary. A summary that would take more is not begun."""
    emit: Emit | None = None
    clock: Callable[[], float] = float
    """Returns the time in seconds."""
    limit: float | None = None
    """How many seconds the caller waits for one summary."""


class ModelSummarizer:
    """Has a model write summaries. `window` is its window in tokens; None means what its server
    says, or else `UNSAID_WINDOW`. `counter` counts for the model. `reserve` is how many tokens of
    the window its reasoning may take.
    """

    waits = True

    def __init__(
        self,
        model: ChatModel,
        counter: TokenCounter,
        *,
        window: int | None,
        reserve: int = 0,
        manner: Manner | None = None,
    ) -> None:
        self._manner = manner or Manner()
        self._writer = Writer(
            model,
            counter,
            window or self._manner.unsaid,
            reserve,
            self._manner.most_requests,
            is_small=self._manner.is_small,
        )
        self._is_sized = window is not None
        self._remembered: OrderedDict[str, Summary] = OrderedDict()

    @property
    def name(self) -> str:
        """The model's key."""
        return self._writer.model.name

    async def summarize(self, request: SummaryRequest) -> Summary:
        """Summarize the messages within the request's token cap.

        Raises:
            SummaryRejected: the model's window has no room for the request.
            ContextOverflow, ModelFailed: the model raised it.
        """
        if not self._is_sized:
            await self._take_size()
        longest = self._writer.window * CHARACTERS // RESULT_SHARE
        blocks = shown(request, longest=max(SHORTEST, min(longest, LONGEST)))
        key = fingerprint(request, blocks)
        if key in self._remembered:
            self._remembered.move_to_end(key)
            return self._remembered[key]
        clock = self._manner.clock
        start = clock()
        writing = StoryInProgress(self._writer, request, self._progress())
        try:
            written = await writing.write(blocks)
        finally:
            self._writer = writing.writer
        judged = self._judged(written, writing)
        if judged.wishes and judged.summary.finish != "refusal":
            judged = await self._mended(judged, writing)
        summary = judged.summary.model_copy(update={"seconds": clock() - start})
        if judged.accepted:
            self._remembered[key] = summary
            if len(self._remembered) > REMEMBERED:
                self._remembered.popitem(last=False)
        return summary

    async def _mended(self, judged: Judged, writing: StoryInProgress) -> Judged:
        """Ask once more, and say what was wrong. Return the better of both summaries."""
        try:
            tokens = self._writer.counter.text(judged.summary.text)
            written = await writing.again(judged.wishes, tokens)
        except (ModelFailed, ContextOverflow):
            return judged
        if not written:
            return judged
        again = self._judged(written, writing)
        if again.accepted:
            return again
        if judged.accepted:
            return judged
        told = judged.summary.model_copy(update={"asked_again": again.reason})
        return replace(judged, summary=told)

    def _judged(self, written: ModelAnswer, writing: StoryInProgress) -> Judged:
        counter, request = self._writer.counter, writing.request
        summary = Summary(
            text=written.text,
            made_by=written.made_by,
            finish=written.finish,
            prompt="\n\n".join(writing.told),
        )
        source = sum(map(counter.message, request.messages))
        extracted = ExtractiveSummarizer(counter).extracted(request)
        return judge(summary, request, counter, extracted=extracted, source_tokens=source)

    async def _take_size(self) -> None:
        """Set the window to what the server says. If it says none, ask again next time."""
        try:
            limits = await self._writer.model.limits()
        except ModelFailed:
            return
        sizes = [size for size in (limits.window, limits.trained) if size is not None]
        if sizes:
            self._writer = replace(self._writer, window=min(sizes))
        self._is_sized = True

    def _progress(self) -> Callable[[int, int], None]:
        """Return a listener that reports each request and the time since this call."""
        manner, start = self._manner, self._manner.clock()

        def tell(part: int, parts: int) -> None:
            if manner.emit is not None:
                elapsed = manner.clock() - start
                manner.emit(
                    StoryAsked(
                        model=self.name, part=part, parts=parts, elapsed=elapsed, limit=manner.limit
                    )
                )

        return tell


def shown(request: SummaryRequest, *, longest: int) -> list[Block]:
    """Return the blocks of a request: the summary so far, then the messages."""
    if request.previous is None or not request.previous.text.strip():
        return blocks_of(request.messages, request.answers, longest=longest)
    source = MessageMetadata(source="checkpoint")
    known = Message(role="user", content=request.previous.text, metadata=source, id="known")
    blocks = blocks_of([known, *request.messages], request.answers, longest=longest)
    return [replace(b, speaker=KNOWN) if b.message == 0 else b for b in blocks]
