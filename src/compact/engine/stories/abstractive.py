"""The abstractive summarizer: a model tells the story.

The gate judges each story first. If it refuses something that can be mended (too long, cut off, too
thin), the model is asked once more and told why. Accepted stories are remembered, so the same
request is not sent twice. Errors of the model are raised; the caller falls back.
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
"""Tokens of a window that neither profile nor server says."""
REMEMBERED = 64
"""Stories that are kept."""
MOST_REQUESTS = 128
"""Requests that one story may take."""
RESULT_SHARE, CHARACTERS, SHORTEST, LONGEST = 8, 4, 400, 2_000
"""Tool output is shown up to this part of the window, at so many characters a token, between these
bounds in characters."""


@dataclass(frozen=True, slots=True)
class Manner:
    """How a model is asked for stories."""

    is_small: bool = False
    """Whether it has fewer parameters than `parameters.SMALL`."""
    unsaid: int = UNSAID_WINDOW
    """Tokens of its window if neither its profile nor its server says them."""
    most_requests: int = MOST_REQUESTS
    """A story that would take more requests is not begun."""
    emit: Emit | None = None
    clock: Callable[[], float] = float
    """Returns seconds."""
    limit: float | None = None
    """Seconds that the caller waits for one story."""


class ModelSummarizer:
    """Has a model tell stories. `window` is its window in tokens; None takes what its server says,
    or else `UNSAID_WINDOW`. `counter` counts for the model. `reserve` are tokens of the window for
    its reasoning.
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
        """Tell the story of the messages within its token cap.

        Raises:
            SummaryRejected: the window of the model has no room for it.
            ContextOverflow, ModelFailed: as the model says.
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
        """Ask once more with the reasons; return the better of both stories."""
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
        """Take the window that the server says. If it says none, it is asked again next time."""
        try:
            limits = await self._writer.model.limits()
        except ModelFailed:
            return
        sizes = [size for size in (limits.window, limits.trained) if size is not None]
        if sizes:
            self._writer = replace(self._writer, window=min(sizes))
        self._is_sized = True

    def _progress(self) -> Callable[[int, int], None]:
        """Return a listener that reports each request and the time since now."""
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
    """Return the blocks of a request: what is known already, then the messages."""
    if request.previous is None or not request.previous.text.strip():
        return blocks_of(request.messages, request.answers, longest=longest)
    source = MessageMetadata(source="checkpoint")
    known = Message(role="user", content=request.previous.text, metadata=source, id="known")
    blocks = blocks_of([known, *request.messages], request.answers, longest=longest)
    return [replace(b, speaker=KNOWN) if b.message == 0 else b for b in blocks]
