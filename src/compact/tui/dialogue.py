"""One conversation of the chat. A message is stored before the model is asked. An answer is stored
even if it is stopped or fails.

While an answer arrives, a note in the store holds its beginning. After a crash this beginning
becomes an answer that is marked as cut off.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing

from compact.messages.messages import Message, MessageMetadata
from compact.session.context_manager import ContextManager
from compact.session.views.review import CompressionProposal
from compact.telemetry import plain_words
from compact.text.speakers import speaker_of
from compact.tui.following import Following, covered_by
from compact.tui.looks import CUT_OFF, REMEMBERED
from compact.tui.opening import ChatSetup

PARTIAL = "chat:partial"
"""The name of the note that holds the beginning of an answer."""
EVERY = 1.0
"""Seconds between two updates of this note: a crash loses at most this much of an answer."""


class Dialogue:
    """A session with a model."""

    def __init__(self, setup: ChatSetup, ctx: ContextManager, model: str) -> None:
        self.setup, self.ctx, self.model = setup, ctx, model
        self.following = Following(setup.settings.redactor())
        self.had_messages = len(ctx.history)
        """How many messages the session had when it was opened."""

    @property
    def is_unanswered(self) -> bool:
        """Whether the newest message is the user's. Notes do not count."""
        newest = self._newest()
        return newest is not None and speaker_of(self.ctx.history[newest]) == "person"

    @property
    def cut_off(self) -> int | None:
        """The position of the newest message, if it is a cut-off answer. Otherwise None."""
        newest = self._newest()
        is_whole = newest is None or CUT_OFF not in self.ctx.history[newest].metadata.tags
        return None if is_whole else newest

    def _newest(self) -> int | None:
        history = self.ctx.history
        places = reversed(range(len(history)))
        return next((i for i in places if REMEMBERED not in history[i].metadata.tags), None)

    async def say(self, text: str) -> Message:
        """Store a message of the user. It is durable when this returns."""
        return await self.ctx.aadd_message(role="user", content=text)

    async def remember(self, text: str) -> None:
        """Add a note that every prompt contains."""
        metadata = MessageMetadata(tags=(REMEMBERED,))
        note = Message(role="user", content=text, metadata=metadata)
        added = await self.ctx.aadd_message(note)
        await asyncio.to_thread(self.ctx.pin, added)

    async def leave_out(self, position: int) -> None:
        """Branch before an answer that was cut off. The answer stays on the old branch. Later
        settings and notes are copied to the new branch.
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
        ctx.time.branch(at=position)
        if ctx.goals != goals:
            ctx.goals.set(goals)
        if ctx.mode != mode:
            ctx.set_mode(mode)
        now = set(ctx.history.fixed)
        for place in pinned - now:
            ctx.pin(ctx.history[place])
        for place in now - pinned:
            ctx.unpin(place)

    async def answer(self) -> AsyncIterator[str]:
        """Yield the model's answer in pieces. An answer that ends early is stored and marked."""
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
        """Compress now. Return the result as text."""
        await asyncio.to_thread(self.following.begin, self.ctx)
        plan = await self.ctx.acompress_conversation(guidance=guidance)
        words = await asyncio.to_thread(self.following.end, self.ctx)
        return words or f"Nothing was compressed: {plan.why or 'everything fits'}."

    async def propose(self, guidance: str) -> CompressionProposal:
        """Propose a compression without applying it."""
        await asyncio.to_thread(self.following.begin, self.ctx)
        try:
            return await self.ctx.review.apropose(guidance=guidance)
        finally:
            await asyncio.to_thread(self.following.end, self.ctx)

    async def accept(self, proposal: CompressionProposal, texts: Mapping[str, str]) -> str:
        """Apply a proposal with edited summaries. Return the result as text."""
        before, covered = await self._used(), covered_by(self.ctx)
        await self.ctx.review.aaccept(proposal, summaries=texts)
        freed = before - await self._used()
        return plain_words.compressed(covered_by(self.ctx) - covered, freed)

    async def recovered(self) -> bool:
        """Store the beginning of an answer that a crash cut off. Return whether there was one."""
        notes = await asyncio.to_thread(self.ctx.store.notes, self.ctx.id)
        text = str(notes.get(PARTIAL, {}).get("text", ""))
        if not text:
            return False
        kept = await self._keep(text)
        await self._note("")
        return kept

    async def close(self) -> None:
        """Close the session. A new session without content is deleted."""
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
