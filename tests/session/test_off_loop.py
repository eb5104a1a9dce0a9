"""Async calls compute off the event loop; models are asked and events delivered on it (NFR-1)."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from typing import Any

import pytest

from compact import ContextManager, acompress
from compact.messages.checkpoints import Summary, SummaryRequest
from compact.messages.events import Event
from compact.session.running import off_loop

LINES = "The harbour opens at nine and closes at five, said the keeper.\n" * 40


class Noting:
    """A tokenizer that notes in which threads it counts."""

    name = "noting"
    exact = True
    margin = 0.0

    def __init__(self) -> None:
        self.threads: set[int] = set()

    def count(self, text: str) -> int:
        self.threads.add(threading.get_ident())
        return len(text.split())


class Writer:
    """A summarizer that waits, and notes in which thread it is asked."""

    name = "writer"
    waits = True

    def __init__(self) -> None:
        self.threads: set[int] = set()

    async def summarize(self, request: SummaryRequest) -> Summary:
        self.threads.add(threading.get_ident())
        await asyncio.sleep(0)
        return Summary(text="## Goal\nThe harbour opens at nine.", made_by=self.name)


def said(count: int) -> list[dict[str, Any]]:
    return [{"role": ("user", "assistant")[i % 2], "content": f"{i} {LINES}"} for i in range(count)]


@pytest.mark.parametrize("summarizer", [None, Writer()], ids=["extractive", "waits"])
def test_a_session_computes_off_the_loop(summarizer: Writer | None) -> None:
    """Only the summarizer and the listener run on it."""
    tokenizer, heard = Noting(), list[tuple[type[Event], int]]()

    async def work() -> int:
        options: dict[str, Any] = {"summarizer": summarizer} if summarizer else {}
        ctx = ContextManager(
            window=4_096,
            tokenizer=tokenizer,
            on_event=lambda event: heard.append((type(event), threading.get_ident())),
            **options,
        )
        tokenizer.threads.clear()
        await ctx.aadd_messages(said(30))
        await ctx.aadd_message(role="user", content="and then?")
        await ctx.aget_context_for_model()
        await ctx.acompress_conversation(0.3)
        await ctx.a_sync([m.wire or {} for m in ctx.history])
        assert ctx.checkpoints
        return threading.get_ident()

    here = asyncio.run(work())
    assert tokenizer.threads
    assert here not in tokenizer.threads
    assert heard
    assert {thread for _, thread in heard} == {here}
    if summarizer:
        assert summarizer.threads == {here}


def test_one_call_computes_off_the_loop() -> None:
    """`acompress` as well."""
    tokenizer = Noting()
    asyncio.run(acompress(said(30), max_tokens=2_000, tokenizer=tokenizer))
    assert tokenizer.threads
    assert threading.get_ident() not in tokenizer.threads


def test_a_blocking_call_in_a_loop_computes_where_it_is_called() -> None:
    """In a notebook, say: nobody awaits it."""
    tokenizer = Noting()

    async def work() -> None:
        ctx = ContextManager(window=4_096, tokenizer=tokenizer)
        ctx.add_messages(said(30))
        ctx.get_context_for_model()

    asyncio.run(work())
    assert tokenizer.threads == {threading.get_ident()}


def test_what_is_raised_in_the_thread_is_raised_where_it_is_awaited() -> None:
    """Errors of every kind, and the loop goes on."""

    async def fails() -> None:
        raise KeyError("gone")

    with pytest.raises(KeyError, match="gone"):
        asyncio.run(off_loop(fails()))


def test_whoever_is_cancelled_leaves_when_the_thread_has_ended() -> None:
    """It may hold locks; nothing goes on behind one's back."""
    begun, goes_on, ended = threading.Event(), threading.Event(), list[bool]()

    async def computes() -> None:
        begun.set()
        goes_on.wait()
        ended.append(True)

    async def work() -> None:
        task = asyncio.create_task(off_loop(computes()))
        await asyncio.to_thread(begun.wait)
        for _ in range(3):
            task.cancel()
            await asyncio.sleep(0)
            assert not task.done()
        goes_on.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert ended == [True]

    asyncio.run(work())


class Slow:
    """A summarizer that writes when it is let."""

    name = "slow"
    waits = True

    def __init__(self) -> None:
        self.begun, self.goes_on = asyncio.Event(), asyncio.Event()

    async def summarize(self, request: SummaryRequest) -> Summary:
        self.begun.set()
        await self.goes_on.wait()
        return Summary(text="## Goal\nThe harbour opens at nine.", made_by=self.name)


def test_who_waits_for_the_summary_of_another_can_leave() -> None:
    """Cancelled, it ends at once; the other one's summary is put in force (FR-6)."""

    async def work() -> None:
        slow = Slow()
        async with ContextManager(window=4_096, summarizer=slow) as ctx:
            ctx.add_messages(said(30))
            first = asyncio.create_task(ctx.aget_context_for_model())
            await slow.begun.wait()
            second = asyncio.create_task(ctx.aget_context_for_model())
            await asyncio.sleep(0)
            second.cancel()
            with pytest.raises(asyncio.CancelledError):
                await second
            assert not first.done()
            slow.goes_on.set()
            await first
            assert ctx.checkpoints

    asyncio.run(work())


def test_a_loop_that_is_closed_holds_nothing_up() -> None:
    """Whoever leaves a loop in the middle of a summary can go on with the session (FR-6)."""
    slow = Slow()
    ctx = ContextManager(window=4_096, summarizer=slow)
    ctx.add_messages(said(30))
    loop = asyncio.new_event_loop()

    async def leaves() -> None:
        task = asyncio.ensure_future(ctx.aget_context_for_model())
        await slow.begun.wait()
        assert not task.done()

    loop.run_until_complete(leaves())
    loop.close()
    slow.goes_on = asyncio.Event()
    slow.goes_on.set()
    assert ctx.get_context_for_model()
    ctx.close()


ENDS = """
    import asyncio, threading
    from compact import ContextManager
    counted = threading.Event()

    class Words:
        name, exact, margin = "words", True, 0.0
        def count(self, text):
            if threading.current_thread().name == "compact-work":
                counted.set()
            return len(text.split())

    ctx = ContextManager(window=4_000, tokenizer=Words())
    text = "word_{i} file_{i}.py must always do {i}. " * 30
    for i in range(900):
        ctx.add_message(role=("user", "assistant")[i % 2], content=text.format(i=i))
    work = lambda: asyncio.run(ctx.aget_context_for_model())
    threading.Thread(target=work, daemon=True).start()
    counted.wait()
"""


def test_a_process_may_end_while_a_thread_computes() -> None:
    """It waits a little for the thread, and does not abort (NFR-2)."""
    root = Path(__file__).resolve().parents[2]
    for _ in range(3):
        ended = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(ENDS)],
            env={"PYTHONPATH": str(root / "src"), "PATH": ""},
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert ended.returncode == 0, ended.stderr
