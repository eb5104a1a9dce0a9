"""Writing: one summary by a model, in one request or, where the span is larger than the model's
window, in parts that are summarized one by one and then put together.

No request ever exceeds the window less the room for its answer. What a server refuses as too large
nevertheless is asked again in halves.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from compact.compression.abstraction import briefing, sections
from compact.compression.abstraction.briefing import Briefing
from compact.compression.fencing import BLANK, PART, Block, chunked, marker_of
from compact.core.asking import Ask
from compact.core.checkpoints import REFERENCE_LINE, SummaryRequest
from compact.core.context import ActiveContext
from compact.core.formats.known import format_of
from compact.core.messages import Message
from compact.core.protocols import ChatModel
from compact.core.replies import Finish, Reply
from compact.core.tokens import TokenCounter
from compact.errors import ContextOverflow, SummaryRejected

TEMPERATURE = 0.2
MARGIN = 0.10
"""Share of the window that is left free where tokens are only estimated."""
ANSWER_SLACK, SCHEMA_SLACK, ANSWER_MORE = 1.25, 1.6, 16
"""Tokens of an answer for each of the cap, as text and as JSON, and on top: the cap is counted by
another tokenizer. The gate judges the cap."""
ANSWER_SHARE = 3
"""An answer takes at most the third part of the window."""
RULES_SHARE = 4
"""Rules that take more than the fourth part of it are said in a shorter form, where there is
one."""
PART_SHARE = 4
"""A part's summary takes at most the fourth part of the room for data, so that four are put
together at once."""
LEAST_PART = 48
LEAST_ROOM = 96
"""Tokens of data below which there is nothing to summarize in a request."""
TRIES = 4
"""How often a span is cut anew because its parts were too large for the server."""
FITTINGS = 4
"""How often it is, because texts take more tokens together than one by one."""


@dataclass(frozen=True, slots=True)
class Desk:
    """The model that writes, and its limits in tokens of its own counter."""

    model: ChatModel
    counter: TokenCounter
    window: int
    reserve: int
    """Tokens that it may think before it answers."""
    most_requests: int

    @property
    def usable(self) -> int:
        """Of the window, what prompt and answer may take together."""
        exact = self.window if self.counter.exact else int(self.window * (1 - MARGIN))
        return exact - self.reserve

    def size(self, marker: str) -> Callable[[Block], int]:
        """What counts a block below its line."""
        return lambda block: self.counter.text(block.under(marker)) + 1


@dataclass(frozen=True, slots=True)
class Written:
    """What the model wrote, and who and why it ended."""

    text: str
    finish: Finish
    made_by: str


@dataclass(slots=True)
class Writing:
    """One request's summary while it is written."""

    desk: Desk
    request: SummaryRequest
    told: dict[str, None] = field(default_factory=dict)
    """All that the model was told beside the data, each once."""
    sent: int = 0
    """Requests that were sent."""
    _data: int = 0
    """Tokens of the data of the request that was sent last."""

    @property
    def structured(self) -> bool:
        """Whether the server is to hold the answer to sections."""
        return self.desk.model.abilities.schemas and self.request.strategy == "task_state"

    @property
    def answer(self) -> int:
        """Tokens that the whole summary may take."""
        wanted = math.ceil(self.request.max_tokens * self._slack) + ANSWER_MORE
        return max(1, min(wanted, self.desk.usable // ANSWER_SHARE))

    @property
    def _slack(self) -> float:
        return SCHEMA_SLACK if self.structured else ANSWER_SLACK

    @property
    def cap(self) -> int:
        """Tokens that the model is told."""
        return min(self.request.max_tokens, self.answer)

    @property
    def rules(self) -> str:
        """What every request of it begins with."""
        for form in briefing.FORMS:
            rules = briefing.rules_of(self.request, form)
            if self.desk.counter.text(rules) <= self.desk.usable // RULES_SHARE:
                break
        return rules

    async def write(self, blocks: Sequence[Block]) -> Written:
        """The summary of the blocks.

        Raises:
            SummaryRejected: the window has no room for it; nothing was sent, or what came back
                did not become smaller.
            ContextOverflow: the server refuses even the smallest part.
            ModelFailed: as the model says.
        """
        rules = self.rules
        room = self._room(briefing.reduction(rules, self.cap, self.desk.most_requests))
        for _ in range(TRIES):
            try:
                return await self._within(blocks, rules, room)
            except ContextOverflow as error:
                refused, room = error, min(room, self._data) // 2
                if room < LEAST_ROOM:
                    break
        raise refused

    def _room(self, told: Briefing) -> int:
        """Tokens that one request has for data.

        Raises:
            SummaryRejected: too few.
        """
        most = self.desk.usable - self.answer
        rules = told.context((), BLANK, self.desk.counter).tokens + ANSWER_MORE
        if most - rules < LEAST_ROOM:
            raise SummaryRejected(
                f"the window of {self.desk.model.name} has {self.desk.window:,} tokens, "
                f"{self.desk.usable:,} of them usable: the rules take {rules:,} and the answer "
                f"{self.answer:,}, which leaves fewer than {LEAST_ROOM} for what is to be "
                "summarized"
            )
        return most - rules

    async def _within(self, blocks: Sequence[Block], rules: str, room: int) -> Written:
        """The summary, no request having more than `room` tokens of data."""
        chunks, marker = self._cut(blocks, room)
        if len(chunks) <= 1:
            told = briefing.whole(rules, self.cap)
            return await self._asked(told, chunks[0] if chunks else [], marker, self.answer)
        cap = max(LEAST_PART, min(self.cap, room // PART_SHARE))
        tokens = min(self.answer, math.ceil(cap * self._slack))
        level = 0
        while len(chunks) > 1:
            self._check(len(chunks))
            parts: list[Block] = []
            for number, chunk in enumerate(chunks, 1):
                told = briefing.part(rules, cap, number, len(chunks))
                if level:
                    told = briefing.reduction(rules, cap, len(chunk))
                written = await self._asked(told, chunk, marker, tokens)
                if written.finish == "refusal":
                    return written
                if text := self._finished(written):
                    parts.append(Block(f"{PART} {number}", text, number))
            before, level = len(chunks), level + 1
            chunks, marker = self._cut(parts, room)
            if len(chunks) >= before:
                raise SummaryRejected(
                    f"the summaries of {before:,} parts by {self.desk.model.name} are together no "
                    f"smaller: they fill {len(chunks):,} requests"
                )
        told = briefing.reduction(rules, self.cap, len(chunks[0]) if chunks else 0)
        return await self._asked(told, chunks[0] if chunks else [], marker, self.answer)

    def _finished(self, written: Written) -> str:
        """A part's summary in its sections, without the line it broke off in."""
        text = written.text
        if written.finish == "length" and "\n" in text:
            text = text.rpartition("\n")[0]
        return sections.canonical(text, self.request.strategy).removeprefix(REFERENCE_LINE).strip()

    def _check(self, more: int) -> None:
        if self.sent + more + 1 > self.desk.most_requests:
            raise SummaryRejected(
                f"the span takes {self.sent + more + 1:,} requests to {self.desk.model.name} with "
                f"its window of {self.desk.window:,} tokens; at most "
                f"{self.desk.most_requests:,} are sent"
            )

    def _cut(self, blocks: Sequence[Block], room: int) -> tuple[list[list[Block]], str]:
        """The blocks in chunks whose data are within the room, and their marker."""
        marker, within = marker_of(blocks), room
        told = Briefing("", "")
        nothing = told.context((), marker, self.desk.counter).tokens
        for _ in range(FITTINGS):
            chunks = chunked(blocks, within, self.desk.size(marker))
            sizes = (told.context(chunk, marker, self.desk.counter).tokens for chunk in chunks)
            excess = max(sizes, default=0) - nothing - room
            if excess <= 0:
                return chunks, marker
            within -= excess + ANSWER_MORE
            if within < LEAST_ROOM // 2:
                break
        raise SummaryRejected(f"no part of the span is small enough for {room:,} tokens")

    async def _asked(
        self, told: Briefing, blocks: Iterable[Block], marker: str, tokens: int
    ) -> Written:
        """The model's answer of at most so many tokens."""
        schema = sections.schema() if self.structured else None
        return await self.ask(told, told.context(blocks, marker, self.desk.counter), tokens, schema)

    async def ask(
        self,
        told: Briefing,
        context: ActiveContext,
        tokens: int,
        schema: dict[str, object] | None = None,
    ) -> Written:
        """The model's answer to a prompt, without reasoning and greetings."""
        desk = self.desk
        nothing = told.context((), BLANK, desk.counter).tokens
        self._data, self.sent = max(0, context.tokens - nothing), self.sent + 1
        self.told |= dict.fromkeys((told.rules, told.ask))
        ask = Ask(
            max_tokens=tokens + desk.reserve,
            temperature=TEMPERATURE,
            answer_schema=schema,
            window=desk.window,
        )
        reply = await desk.model.complete(context, ask)
        text = sections.undressed(text_of(reply))
        return Written(text, reply.finish, reply.model or desk.model.name)


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
        asked.update(f"\0{block.message}\0{block.voice}\0{block.text}".encode())
    return asked.hexdigest()
