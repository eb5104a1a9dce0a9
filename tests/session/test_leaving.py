"""No cancellation is lost between a session and the servers of its models (K-5, NFR-2).

On Python 3.11 `asyncio.wait_for` swallows a cancellation that meets a result. So calls over HTTP
are left at every step of the event loop, from the first to the last: whoever was cancelled has to
end cancelled, and leaves the session and its store whole.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from compact import ContextManager
from compact.store.sqlite.store import SQLiteManager
from tests.session.faults import ANSWER, KEYS, Harbour, harbour

ROUNDS = 3
"""Times that a call is left at each of its steps: how many it takes is never quite the same."""
Work = Callable[[ContextManager], Awaitable[None]]


async def sends(ctx: ContextManager) -> None:
    await ctx.asend()


async def reads(ctx: ContextManager) -> None:
    async for _ in ctx.astream():
        pass


async def is_left(steps: int, it: Harbour, work: Work) -> bool:
    """Whether a call was under way after so many steps; it ends cancelled then."""
    task = asyncio.ensure_future(work(it.ctx))
    for _ in range(steps):
        await asyncio.sleep(0)
    is_under_way = task.cancel()
    [ended] = await asyncio.gather(task, return_exceptions=True)
    how = asyncio.CancelledError if is_under_way else type(None)
    assert isinstance(ended, how), f"cancelled after {steps} steps, and it ended with {ended!r}"
    return is_under_way


async def has_ended() -> None:
    """Nothing works on, but for the loop, which closes what generators of their own the clients'
    packages dropped.
    """
    closing = asyncio.all_tasks() - {asyncio.current_task()}
    assert all("athrow" in repr(task) for task in closing), closing
    await asyncio.wait_for(asyncio.gather(*closing), 60)


async def left_at_each(it: Harbour, work: Work) -> int:
    """How many calls were left until one came to its end before it could be."""
    steps, is_under_way = 0, True
    while is_under_way:
        is_under_way = await is_left(steps, it, work)
        steps += 1
        now = [(message.role, message.text) for message in it.ctx.history]
        if now[len(it.said) :] == [("assistant", ANSWER)]:
            assert not is_under_way or work is reads, "an answer that nobody has got"
            it.said.append(("assistant", ANSWER))
        assert now == it.said
        assert not it.ctx._session.view._alone._mutex.locked()
        await has_ended()
    return steps


@pytest.mark.sampled(8)
@pytest.mark.parametrize("work", [sends, reads])
@pytest.mark.parametrize("face", KEYS)
def test_no_cancellation_is_lost_to_an_answer_that_comes_with_it(
    face: str, work: Work, tmp_path: Path
) -> None:
    """(K-5, NFR-2) Through the adapter, `FallbackModel` and the session, in memory and on disk."""
    with (
        SQLiteManager(tmp_path / "sessions.db", durability="normal") as store,
        harbour(face, store=store) as it,
    ):
        for _ in range(ROUNDS):
            it.asks()
            assert asyncio.run(left_at_each(it, work)) > 5, "it has to wait somewhere"
        it.is_well()
        with ContextManager(session_id=it.ctx.id, store=store, window=4_096) as other:
            assert [(message.role, message.text) for message in other.history] == it.said
