"""Whoever waits can leave at any moment: the session is whole, and the next call is served (FR-6,
NFR-2).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from compact import ContextManager
from compact.messages import clock_and_ids
from compact.messages.asking import ASK, Abilities, Ask, Limits
from compact.messages.checkpoints import Summary, SummaryRequest
from compact.messages.context import ActiveContext
from compact.messages.messages import Message
from compact.messages.protocols import SessionStore
from compact.messages.replies import Delta, Reply, Usage
from tests import checker
from tests.session.asking import STORES, opened, session
from tests.session.faults import (
    ANSWER,
    GOALS,
    SUMMARY,
    USABLE,
    answered,
    asked,
)

WAITS = 4
"""Times that a model lets the loop go on before it answers."""
PATIENCE = 30
"""Seconds after which a call hangs, on a machine that is busy with others."""
LONGEST = 10_000_000
"""Steps of the loop after which every call has come to its end."""


async def waiting() -> None:
    for _ in range(WAITS):
        await asyncio.sleep(0)


class Writer:
    """A summarizer that takes its time."""

    name = "writer"
    waits = True

    async def summarize(self, request: SummaryRequest) -> Summary:
        await waiting()
        return Summary(text=SUMMARY, made_by=self.name)


class Model:
    """A chat model that takes its time, also to say what its limits are."""

    name = "model"
    abilities = Abilities()

    async def complete(self, context: ActiveContext, ask: Ask = ASK) -> Reply:
        await waiting()
        said = Message(role="assistant", content=ANSWER)
        return Reply(message=said, usage=Usage(prompt_tokens=context.tokens))

    async def stream(self, context: ActiveContext, ask: Ask = ASK) -> AsyncIterator[Delta]:
        reply = await self.complete(context, ask)
        for word in ANSWER.split(" "):
            await asyncio.sleep(0)
            yield Delta(text=f"{word} ")
        yield Delta(reply=reply)

    async def count(self, context: ActiveContext) -> int | None:
        return None

    async def limits(self) -> Limits:
        await waiting()
        return Limits()


async def sends(ctx: ContextManager) -> None:
    await ctx.asend(Model())


async def takes(ctx: ContextManager) -> None:
    await ctx.aget_context_for_model()


async def compresses(ctx: ContextManager) -> None:
    await ctx.acompress_conversation(0.5)


async def reads(ctx: ContextManager) -> None:
    async for _ in ctx.astream(Model()):
        pass


def filled(store: SessionStore) -> ContextManager:
    """A session whose next prompt has to be compressed."""
    ctx = session(store, summarizer=Writer(), session_id=clock_and_ids.new_id())
    ctx.goals.set(GOALS)
    number = 0
    while ctx.budget.used_tokens <= ctx.window.trigger:
        ctx.add_message(role="user", content=asked(number))
        ctx.add_message(role="assistant", content=answered(number))
        number += 1
    ctx.add_message(role="user", content=asked(number))
    return ctx


def is_whole(ctx: ContextManager, said: list[str], *, may_have_answered: bool) -> None:
    """Nothing of a call that was left is there: no lock, no draft, no task, no message."""
    now = [message.text for message in ctx.history]
    assert now == said or (may_have_answered and now == [*said, ANSWER])
    assert not ctx._session.view._alone._mutex.locked()
    assert not [name for name in ctx.store.notes(ctx.id) if name.startswith("draft:")]
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def cancelled_after(
    steps: int, ctx: ContextManager, work: Callable[[ContextManager], Awaitable[None]]
) -> bool:
    """Whether the work was still under way after so many steps, and was cancelled then."""
    task = asyncio.ensure_future(work(ctx))
    for _ in range(steps):
        await asyncio.sleep(0)
    if task.done():
        await task
        return False
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    return True


@pytest.mark.slow
@pytest.mark.parametrize("kind", STORES)
@pytest.mark.parametrize("work", [sends, reads, takes, compresses])
def test_a_call_can_be_left_at_every_await(
    work: Callable[[ContextManager], Awaitable[None]], kind: str, tmp_path: Path
) -> None:
    """Cancelled after one step of the loop, after two, after three, then ever later, until it
    completes (NFR-2).
    """

    async def leave_at_each(store: SessionStore) -> int:
        steps = 0
        while steps < LONGEST:
            steps += max(1, steps // 3)
            ctx = filled(store)
            said = [message.text for message in ctx.history]
            left = await cancelled_after(steps, ctx, work)
            answers = work in (sends, reads)
            is_whole(ctx, said, may_have_answered=answers and not left)
            before = len(ctx.history)
            await asyncio.wait_for(ctx.asend(Model()), PATIENCE)
            assert len(ctx.history) == before + 1
            assert ctx.checkpoints
            prompt = await asyncio.wait_for(ctx.aget_context_for_model(), PATIENCE)
            assert checker.prompt_tokens(prompt) <= USABLE
            assert checker.broken_rules(prompt, "chat_completions") == []
            assert asyncio.all_tasks() == {asyncio.current_task()}
            ctx.close()
            if not left:
                return steps
        raise AssertionError("it never completed")

    with opened(kind, tmp_path) as store:
        steps = asyncio.run(leave_at_each(store))
    assert steps > WAITS, "it has to wait somewhere"
