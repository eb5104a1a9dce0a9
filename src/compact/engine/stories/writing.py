"""Writing: one story by a model, in one request or, where the span is larger than the model's
window, in parts that are told one by one and then put together.

No request ever exceeds the window less the room for its answer. What a server refuses as too large
nevertheless is asked again in halves. What it does not answer in time is given up: a server that is
slow looks like one that hangs, and somebody waits. The next story is asked for in halves.
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
"""The sampling temperature: with a higher one two summaries of the same differ more."""
MARGIN = 0.10
"""Share of the window that is left free where tokens are only estimated."""
ANSWER_SLACK, SCHEMA_SLACK, ANSWER_MORE = 1.25, 1.6, 16
"""Tokens of an answer for each of the cap, as text and as JSON, and on top: the cap is counted by
another tokenizer. The gate judges the cap."""
ANSWER_SHARE = 3
"""An answer takes at most the third part of the window."""
RULES_SHARE = 10
"""What is said to the model takes at most the tenth part of it, where there is so short a form."""
BESIDE_SHARE, CHARACTERS = 8, 3
"""The record, and what stays in view, are shown up to the eighth part of it each, at so many
characters a token."""
COUNTED_MORE = 1.05
"""A prompt that the server has counted may count so much more beside other data."""
PART_SHARE = 4
"""A part's summary takes at most this part of the room for data: four are put together."""
LEAST_PART = 48
"""Tokens that a part's summary may take however small that fourth is: with fewer it says little."""
LEAST_ROOM = 96
"""Tokens of data below which there is nothing to summarize in a request."""
LEAST_STRUCTURED = 1_500
"""Tokens of a window from which there is room to describe an answer in JSON."""
TRIES = 4
"""How often a span is cut anew because its parts were too large for the server."""
SLOWEST_SHARE = 8
"""A model that was too slow is shown this part of its room at least."""
FITTINGS = 4
"""How often it is, because texts take more tokens together than one by one."""


_END = regex(r"[.!?](?=\s)|[。！？]|(?=\n)")


@dataclass(frozen=True, slots=True)
class Writer:
    """The model that writes, and its limits in tokens of its own counter."""

    model: ChatModel
    counter: TokenCounter
    window: int
    reserve: int
    """Tokens that it may think before it answers."""
    most_requests: int
    is_small: bool = False
    """Whether it is too small for long rules, an example and a schema."""
    ratio: float | None = None
    """Tokens that its server counts for each of `counter`; None where it has not been asked."""
    most_data: int | None = None
    """Tokens of data that a request may have, since it was too slow for more; None where it never
    was."""

    @property
    def usable(self) -> int:
        """Of the window, what prompt and answer may take together, by `counter`."""
        if self.counter.exact:
            return self.window - self.reserve
        if self.ratio is not None:
            return int(self.window / (self.ratio * COUNTED_MORE)) - self.reserve
        return int(self.window * (1 - MARGIN)) - self.reserve

    def size(self, block: Block) -> int:
        """Tokens of a block."""
        return self.counter.text(block.shown) + 1


@dataclass(frozen=True, slots=True)
class ModelAnswer:
    """What the model wrote, and who and why it ended."""

    text: str
    finish: Finish
    made_by: str


PartListener = Callable[[int, int], None]
"""Is told which part is asked for next, counted from 1, and how many there are."""


Wording = Callable[[int], Briefing]
"""How a story of so many tokens is asked for."""


@dataclass(frozen=True, slots=True)
class Sent:
    """A request as it was sent."""

    told: Briefing
    blocks: Sequence[Block]
    marker: str
    tokens: int


@dataclass(slots=True)
class StoryInProgress:
    """One request's story while it is written."""

    writer: Writer
    request: SummaryRequest
    progress: PartListener
    told: dict[str, None] = field(default_factory=dict)
    """All that the model was told beside the data, each once."""
    sent: int = 0
    """Requests that were sent."""
    _last: Sent | None = None
    _wording: Wording | None = None
    """How the whole story was asked for."""
    _data: int = 0
    """Tokens of the data of the request that was sent last."""

    @property
    def structured(self) -> bool:
        """Whether the server is to hold the answer to JSON."""
        writer = self.writer
        is_roomy = writer.usable >= LEAST_STRUCTURED and not writer.is_small
        return is_roomy and writer.model.abilities.schemas

    @property
    def answer(self) -> int:
        """Tokens that the whole summary may take."""
        wanted = math.ceil(self.request.max_tokens * self._slack) + ANSWER_MORE
        return max(1, min(wanted, self.writer.usable // ANSWER_SHARE))

    @property
    def _slack(self) -> float:
        return SCHEMA_SLACK if self.structured else ANSWER_SLACK

    @property
    def cap(self) -> int:
        """Tokens that the model is told."""
        return min(self.request.max_tokens, self.answer)

    @property
    def words(self) -> Words:
        """The words in which it is asked for: the longest form that is no more than its share."""
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
        """The story of the blocks.

        Raises:
            SummaryRejected: the window has no room for it; nothing was sent, or what came back
                did not become smaller.
            ContextOverflow: the server refuses even the smallest part.
            ModelFailed: as the model says; ModelUnavailable also where it is too slow.
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
        """The story of so many tokens asked for once more, with what was wrong about it, and with
        fewer words by as much as it was too long; None where the window has no room for the
        question.
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
        """Ask the server how many tokens it counts, where ours are an estimate."""
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
        """Tokens that one request has for data.

        Raises:
            SummaryRejected: too few.
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
        """The story, no request having more than `room` tokens of data."""
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
        """The blocks in chunks whose data are within the room, and their marker."""
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
        """The model's story of at most so many tokens."""
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
    """A part's story without the sentence it broke off in."""
    ends = [found.end() for found in _END.finditer(written.text)]
    return written.text[: ends[-1]] if written.finish == "length" and ends else written.text


def text_of(reply: Reply) -> str:
    """The words of a reply."""
    said = reply.message
    if not isinstance(said, Message):
        said = format_of([said]).parse(said, 0)
    return said.text


def fingerprint(request: SummaryRequest, blocks: Iterable[Block]) -> str:
    """What was asked for, as a hash: the same is not asked twice."""
    wishes = request.model_dump(exclude={"messages", "kept", "shortened", "answers", "previous"})
    asked = hashlib.sha256(repr(sorted(wishes.items())).encode("utf-8", "replace"))
    for block in blocks:
        asked.update(f"\0{block.message}\0{block.speaker}\0{block.text}".encode())
    return asked.hexdigest()
