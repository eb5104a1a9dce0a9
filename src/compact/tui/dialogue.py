"""One conversation of the chat: what is said is kept before it is answered, and what comes of an
answer is kept however it ends.

The store has each message of a person before a model is asked. Of an answer that is being written,
a note holds what has come so far: after a crash it is found there, and kept as an answer that was
cut off.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing

from compact.messages.events import Event
from compact.messages.messages import Message, MessageMetadata
from compact.session.context_manager import ContextManager
from compact.session.views.review import CompressionProposal
from compact.telemetry import plain_words
from compact.text.speakers import speaker_of
from compact.tui.following import Following, covered_by
from compact.tui.looks import CUT_OFF, REMEMBERED
from compact.tui.opening import ChatSetup, opened

PARTIAL = "chat:partial"
"""The name of the note with what has come of an answer."""
EVERY = 1.0
"""Seconds after which what has come of an answer is noted again."""


class Dialogue:
    """A session that is talked to."""

    def __init__(self, setup: ChatSetup, ctx: ContextManager, model: str) -> None:
        self.setup, self.ctx, self.model = setup, ctx, model
        self.following = Following(setup.settings.redactor())
        self.had_messages = len(ctx.history)
        """Messages that it had when it was opened."""

    @property
    def is_unanswered(self) -> bool:
        """Whether the newest message is a person's, notes aside: its answer never came."""
        newest = self._newest()
        return newest is not None and speaker_of(self.ctx.history[newest]) == "person"

    @property
    def cut_off(self) -> int | None:
        """Where the newest message stands, if that is an answer that was cut off."""
        newest = self._newest()
        is_whole = newest is None or CUT_OFF not in self.ctx.history[newest].metadata.tags
        return None if is_whole else newest

    def _newest(self) -> int | None:
        """Where the newest message stands that is no note to be remembered."""
        history = self.ctx.history
        places = reversed(range(len(history)))
        return next((i for i in places if REMEMBERED not in history[i].metadata.tags), None)

    async def say(self, text: str) -> Message:
        """Keep a person's message; it is durable when this returns."""
        return await self.ctx.aadd_message(role="user", content=text)

    async def remember(self, text: str) -> None:
        """Keep a note, word for word in every prompt."""
        metadata = MessageMetadata(tags=(REMEMBERED,))
        note = Message(role="user", content=text, metadata=metadata)
        added = await self.ctx.aadd_message(note)
        await asyncio.to_thread(self.ctx.pin, added)

    async def leave_out(self, position: int) -> None:
        """Go on from before an answer that was cut off. It stays on the branch that it is on; what
        was set since, and notes, go along.
        """
        ctx = self.ctx
        notes = [message.text for message in ctx.history[position + 1 :]]
        await asyncio.to_thread(self._branch_at, position)
        for text in notes:
            await self.remember(text)

    def _branch_at(self, position: int) -> None:
        ctx = self.ctx
        goals, mode = ctx.goals, ctx.mode
        pinned = {place for place in ctx.history.fixed if place < position}
        ctx.branch(at=position)
        if ctx.goals != goals:
            ctx.set_goals(goals)
        if ctx.mode != mode:
            ctx.set_mode(mode)
        now = set(ctx.history.fixed)
        for place in pinned - now:
            ctx.pin(ctx.history[place])
        for place in now - pinned:
            ctx.unpin(place)

    async def answer(self) -> AsyncIterator[str]:
        """The model's answer, piece by piece. One that is left, or breaks off, is kept as far as it
        came, and marked.

        Raises:
            CompactError: as `ContextManager.astream`.
        """
        await asyncio.to_thread(self.following.begin, self.ctx)
        clock, written = asyncio.get_running_loop().time, list[str]()
        noted, is_whole = clock(), False
        try:
            async with aclosing(self.ctx.astream()) as pieces:  # type: ignore[type-var]  # it is one
                async for piece in pieces:
                    is_whole = piece.reply is not None
                    if piece.text:
                        written.append(piece.text)
                        yield piece.text
                    if clock() - noted >= EVERY:
                        await self._note("".join(written))
                        noted = clock()
        finally:
            if not is_whole:
                await self._keep("".join(written))
            await self._note("")

    async def compress(self, guidance: str) -> str:
        """Compress now; what came of it, in words.

        Raises:
            CompactError: as `ContextManager.compress_conversation`.
        """
        await asyncio.to_thread(self.following.begin, self.ctx)
        plan = await self.ctx.acompress_conversation(guidance=guidance)
        words = await asyncio.to_thread(self.following.end, self.ctx)
        return words or f"Nothing was compressed: {plan.why or 'everything fits'}."

    async def propose(self, guidance: str) -> CompressionProposal:
        """What a compression would do now; nothing of it counts.

        Raises:
            CompactError: as `ContextManager.propose_compression`.
        """
        await asyncio.to_thread(self.following.begin, self.ctx)
        try:
            return await self.ctx.apropose_compression(guidance=guidance)
        finally:
            await asyncio.to_thread(self.following.end, self.ctx)

    async def accept(self, proposal: CompressionProposal, texts: Mapping[str, str]) -> str:
        """Put a proposal in force, with a person's texts; what came of it, in words.

        Raises:
            CompactError: as `ContextManager.accept`; SummaryRejected where a text is not taken.
        """
        before, covered = await self._used(), covered_by(self.ctx)
        await self.ctx.aaccept(proposal, summaries=texts)
        freed = before - await self._used()
        return plain_words.compressed(covered_by(self.ctx) - covered, freed)

    async def recovered(self) -> bool:
        """Keep what had come of an answer in which the program was ended; whether there was any."""
        notes = await asyncio.to_thread(self.ctx.store.notes, self.ctx.id)
        text = str(notes.get(PARTIAL, {}).get("text", ""))
        if not text:
            return False
        kept = await self._keep(text)
        await self._note("")
        return kept

    async def close(self) -> None:
        """Let go of the session; one that was begun here and has nothing in it is removed."""
        ctx = self.ctx
        is_empty = not len(ctx.history) and not self.had_messages and not ctx.goals
        await ctx.aclose()
        if is_empty:
            await asyncio.to_thread(ctx.store.delete_session, ctx.id)

    async def _used(self) -> int:
        return await asyncio.to_thread(lambda: self.ctx.window_use.used)

    async def _keep(self, text: str) -> bool:
        if not text.strip() or not self.is_unanswered:
            return False
        metadata = MessageMetadata(tags=(CUT_OFF,))
        await self.ctx.aadd_message(Message(role="assistant", content=text, metadata=metadata))
        return True

    async def _note(self, text: str) -> None:
        value = {"text": text} if text else None
        await asyncio.to_thread(self.ctx.store.note, self.ctx.id, PARTIAL, value)


async def open_dialogue(
    setup: ChatSetup, model: str, on_event: Callable[[Event], None]
) -> Dialogue:
    """The conversation that a setup means, with that model.

    Raises:
        CompactError, ImportError: as `opened`.
    """
    return Dialogue(setup, await opened(setup, model, on_event), model)
