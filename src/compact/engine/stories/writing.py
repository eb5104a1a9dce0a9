"""Writing: have a model write one summary (story), in one request or in parts that are joined.

A prompt never exceeds the window less the answer. If the server still refuses data as too large, it
is sent again in halves. A request that is not answered in time is not repeated, because a slow
server looks like one that hangs. The next summary is then requested in halves.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from compact.engine.fencing import BLANK, PART, Block, chunked, marker_of
from compact.engine.stories import briefing, reading
from compact.engine.stories.briefing import Briefing, Words
from compact.errors import ContextOverflow, ModelFailed, ModelUnavailable, SummaryRejected
from compact.messages.asking import Ask
from compact.messages.checkpoints import SummaryRequest
from compact.messages.formats.known import format_of
from compact.messages.messages import Message
from compact.messages.protocols import ChatModel
from compact.messages.replies import Finish, Reply
from compact.messages.tokens import TokenCounter
from compact.patterns import regex

TEMPERATURE = 0.2
"""Sampling temperature. A higher one makes two summaries of the same text differ more."""
MARGIN = 0.10
"""Share of the window left free if tokens are only estimated."""
ANSWER_SLACK, SCHEMA_SLACK, ANSWER_MORE = 1.25, 1.6, 16
"""Tokens of the answer per token of the cap, as text and as JSON; extra tokens. The slack is needed
because another tokenizer counts the cap. The gate enforces the cap."""
ANSWER_SHARE = 3
"""An answer takes at most one part in this many of the window."""
RULES_SHARE = 10
"""The rules take at most one part in this many of the window, if a short enough form exists."""
BESIDE_SHARE, CHARACTERS = 8, 3
"""The record and the messages that stay each get one part in `BESIDE_SHARE` of the window, at
`CHARACTERS` per token."""
COUNTED_MORE = 1.05
"""For other data, a server may count up to this factor more than the measured ratio says."""
PART_SHARE = 4
"""The summary of a part takes at most one part in this many of the room: four can be joined."""
LEAST_PART = 48
"""Fewest tokens for the summary of a part. With fewer it says little."""
LEAST_ROOM = 96
"""Fewest tokens of data worth summarizing."""
LEAST_STRUCTURED = 1_500
"""Smallest window, in tokens, that has room to describe an answer in JSON."""
TRIES = 4
"""How often the data is cut smaller because the server refused a part."""
SLOWEST_SHARE = 8
"""A slow model still gets at least one part in this many of its room per request."""
FITTINGS = 4
"""How often the data is cut again because joined texts take more tokens."""


_END = regex(r"[.!?](?=\s)|[。！？]|(?=\n)")


@dataclass(frozen=True, slots=True)
class Writer:
    """The model that writes, and its limits in tokens of its own counter."""

    model: ChatModel
    counter: TokenCounter
    window: int
    reserve: int
    """Tokens for the model's reasoning."""
    most_requests: int
    is_small: bool = False
    """Whether the model is too small for long rules, an example and a JSON schema."""
    ratio: float | None = None
    """Tokens that the server counts per token of `counter`. None if it was not measured."""
    most_data: int | None = None
    """Most tokens of data in a request, set once the model was too slow for more."""

    @property
    def usable(self) -> int:
        """Tokens for prompt and answer together, by `counter`."""
        if self.counter.exact:
            return self.window - self.reserve
        if self.ratio is not None:
            return int(self.window / (self.ratio * COUNTED_MORE)) - self.reserve
        return int(self.window * (1 - MARGIN)) - self.reserve

    def size(self, block: Block) -> int:
        """Count a block's tokens."""
        return self.counter.text(block.shown) + 1


@dataclass(frozen=True, slots=True)
class ModelAnswer:
    """The model's text, why it ended, and the model's name."""

    text: str
    finish: Finish
    made_by: str


PartListener = Callable[[int, int], None]
"""Called with the number of the next part, from 1, and the number of parts."""


Wording = Callable[[int], Briefing]
"""Returns the briefing for a summary of this many tokens."""


@dataclass(frozen=True, slots=True)
class Sent:
    """A request as it was sent."""

    told: Briefing
    blocks: Sequence[Block]
    marker: str
    tokens: int


@dataclass(slots=True)
class StoryInProgress:
    """The summary for one request while it is written."""

    writer: Writer
    request: SummaryRequest
    progress: PartListener
    told: dict[str, None] = field(default_factory=dict)
    """The texts around the data, of all prompts that were sent."""
    sent: int = 0
    """How many requests were sent."""
    _last: Sent | None = None
    _wording: Wording | None = None
    """Builds the briefing for the whole summary."""
    _data: int = 0
    """Tokens of the data in the last request."""

    @property
    def structured(self) -> bool:
        """Whether the answer must be JSON."""
        writer = self.writer
        is_roomy = writer.usable >= LEAST_STRUCTURED and not writer.is_small
        return is_roomy and writer.model.abilities.schemas

    @property
    def answer(self) -> int:
        """Most tokens for the answer that holds the whole summary."""
        wanted = math.ceil(self.request.max_tokens * self._slack) + ANSWER_MORE
        return max(1, min(wanted, self.writer.usable // ANSWER_SHARE))

    @property
    def _slack(self) -> float:
        return SCHEMA_SLACK if self.structured else ANSWER_SLACK

    @property
    def cap(self) -> int:
        """Most tokens of the summary, as the model is told."""
        return min(self.request.max_tokens, self.answer)

    @property
    def words(self) -> Words:
        """The texts in the longest form that fits its share of the window."""
        most = self.writer.usable // RULES_SHARE
        room, is_small = self.writer.usable // BESIDE_SHARE * CHARACTERS, self.writer.is_small
        beside = briefing.beside(self.request, room, in_view=not is_small)
        for form in briefing.SMALL_FORMS if is_small else briefing.FORMS:
            words = briefing.words_of(self.request, form, structured=self.structured, beside=beside)
            longest = words.reduction(self.cap, self.writer.most_requests)
            said = self.writer.counter.text(f"{longest.rules}\n{longest.ask}")
            if said <= most:
                break
        return words

    async def write(self, blocks: Sequence[Block]) -> ModelAnswer:
        """Return the summary of the blocks.

        Raises:
            SummaryRejected: the window has no room, or the summaries of parts got no smaller.
            ContextOverflow: the server refuses even the smallest part.
            ModelFailed: the model raised it; ModelUnavailable also if it is too slow.
        """
        await self._measure(blocks)
        words = self.words
        most = room = self._room(words.reduction(self.cap, self.writer.most_requests))
        room = min(room, self.writer.most_data or room)
        refused: ContextOverflow
        for _ in range(TRIES):
            try:
                return await self._within(blocks, words, room)
            except ContextOverflow as error:
                refused = error
            except ModelUnavailable as error:
                if error.waited is not None:
                    half = max(most // SLOWEST_SHARE, min(room, self._data) // 2)
                    self.writer = replace(self.writer, most_data=max(LEAST_ROOM, half))
                raise
            room = min(room, self._data) // 2
            if room < LEAST_ROOM:
                break
        raise refused

    async def again(self, wishes: Sequence[str], tokens: int) -> ModelAnswer | None:
        """Ask once more for a summary that had this many tokens, and say what was wrong with it.
        Ask for fewer words if it was too long. Return None if the window has no room for this.
        """
        last, writer = self._last, self.writer
        if last is None or self._wording is None:
            return None
        fewer = self.cap * min(1.0, self.cap / max(1, tokens))
        told = briefing.again(self._wording(int(fewer)), wishes)
        context = told.context(last.blocks, last.marker, writer.counter)
        if context.tokens + last.tokens > writer.usable:
            return None
        return await self._asked(told, last.blocks, last.marker, last.tokens)

    async def _measure(self, blocks: Sequence[Block]) -> None:
        """Let the server count a prompt, if our own count is an estimate."""
        writer = self.writer
        if writer.counter.exact or writer.ratio is not None or not writer.model.abilities.counts:
            return
        marker, told = marker_of(blocks), Briefing("", "")
        first = next(iter(chunked(blocks, writer.usable // 2, writer.size)), [])
        context = told.context(first, marker, writer.counter)
        try:
            counted = await writer.model.count(context)
        except (ContextOverflow, ModelFailed):
            return
        if counted:
            self.writer = replace(writer, ratio=counted / context.tokens)

    def _room(self, told: Briefing) -> int:
        """Return how many tokens of data fit in one request.

        Raises:
            SummaryRejected: there are too few.
        """
        most = self.writer.usable - self.answer
        rules = told.context((), BLANK, self.writer.counter).tokens + ANSWER_MORE
        if most - rules < LEAST_ROOM:
            raise SummaryRejected(
                f"the window of {self.writer.model.name} has {self.writer.window:,} tokens, "
                f"{self.writer.usable:,} of them usable: the rules take {rules:,} and the answer "
                f"{self.answer:,}, which leaves fewer than {LEAST_ROOM} for what is to be "
                "summarized"
            )
        return most - rules

    async def _within(self, blocks: Sequence[Block], words: Words, room: int) -> ModelAnswer:
        """Write the summary with at most `room` tokens of data per request."""
        chunks, marker = self._cut(blocks, room, words)
        self._wording = words.whole
        if len(chunks) <= 1:
            self.progress(1, 1)
        cap = max(LEAST_PART, min(self.cap, room // PART_SHARE))
        tokens = min(self.answer, math.ceil(cap * self._slack))
        level = 0
        while len(chunks) > 1:
            self._check(len(chunks))
            parts: list[Block] = []
            for number, chunk in enumerate(chunks, 1):
                told = words.part(cap, number, len(chunks))
                if level:
                    told = words.reduction(cap, len(chunk))
                self.progress(number, len(chunks) + 1)
                written = await self._asked(told, chunk, marker, tokens)
                if written.finish == "refusal":
                    return written
                if text := _ended(written):
                    parts.append(Block(f"{PART} {number}", text, number))
            before, level = len(chunks), level + 1
            chunks, marker = self._cut(parts, room, words)
            if len(chunks) >= before:
                raise SummaryRejected(
                    f"the stories of {before:,} parts by {self.writer.model.name} are together no "
                    f"smaller: they fill {len(chunks):,} requests"
                )
            self._wording = partial(words.reduction, total=len(chunks[0]) if chunks else 0)
            self.progress(before + 1, before + 1)
        blocks = chunks[0] if chunks else []
        return await self._asked(self._wording(self.cap), blocks, marker, self.answer)

    def _check(self, more: int) -> None:
        if self.sent + more + 1 > self.writer.most_requests:
            raise SummaryRejected(
                f"the span takes {self.sent + more + 1:,} requests to {self.writer.model.name} "
                f"with its window of {self.writer.window:,} tokens; at most "
                f"{self.writer.most_requests:,} are sent"
            )

    def _cut(
        self, blocks: Sequence[Block], room: int, words: Words
    ) -> tuple[list[list[Block]], str]:
        marker, within = marker_of([*words.beside, *blocks]), room
        told = Briefing("", "")
        nothing = told.context((), marker, self.writer.counter).tokens
        for _ in range(FITTINGS):
            chunks = chunked(blocks, within, self.writer.size)
            sizes = (told.context(chunk, marker, self.writer.counter).tokens for chunk in chunks)
            excess = max(sizes, default=0) - nothing - room
            if excess <= 0:
                return chunks, marker
            within -= excess + ANSWER_MORE
            if within < LEAST_ROOM // 2:
                break
        raise SummaryRejected(f"no part of the span is small enough for {room:,} tokens")

    async def _asked(
        self, told: Briefing, blocks: Sequence[Block], marker: str, tokens: int
    ) -> ModelAnswer:
        writer = self.writer
        context = told.context(blocks, marker, writer.counter)
        nothing = told.context((), BLANK, writer.counter).tokens
        self._data, self.sent = max(0, context.tokens - nothing), self.sent + 1
        self._last = Sent(told, blocks, marker, tokens)
        self.told |= dict.fromkeys((told.rules, told.ask))
        ask = Ask(
            max_tokens=tokens + writer.reserve,
            temperature=TEMPERATURE,
            answer_schema=reading.schema(tokens) if self.structured else None,
            window=writer.window,
        )
        reply = await writer.model.complete(context, ask)
        text = reading.story_of(text_of(reply))
        return ModelAnswer(text, reply.finish, reply.model or writer.model.name)


def _ended(written: ModelAnswer) -> str:
    """Return the summary of a part, with an unfinished last sentence removed."""
    ends = [found.end() for found in _END.finditer(written.text)]
    return written.text[: ends[-1]] if written.finish == "length" and ends else written.text


def text_of(reply: Reply) -> str:
    """Return the words of a reply."""
    said = reply.message
    if not isinstance(said, Message):
        said = format_of([said]).parse(said, 0)
    return said.text


def fingerprint(request: SummaryRequest, blocks: Iterable[Block]) -> str:
    """Return a hash of the request. Equal requests have the same."""
    wishes = request.model_dump(exclude={"messages", "kept", "answers", "previous"})
    asked = hashlib.sha256(repr(sorted(wishes.items())).encode("utf-8", "replace"))
    for block in blocks:
        asked.update(f"\0{block.message}\0{block.speaker}\0{block.text}".encode())
    return asked.hexdigest()
