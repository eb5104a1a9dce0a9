"""Blocking forms of async work: straight through, on a loop of their own, or refused by name
(FR-5)."""

import asyncio
import os
import signal
import threading

import pytest

from compact.errors import BlockingCallInLoop
from compact.managers.running import blocking


async def at_once() -> int:
    return 7


async def waits() -> str:
    await asyncio.sleep(0)
    return threading.current_thread().name


async def fails() -> None:
    raise LookupError("inside")


def test_what_does_not_wait_runs_in_this_thread():
    """FR-5: without any loop, and inside a running one too."""
    assert blocking.run(at_once(), waits=False, instead="x") == 7

    async def inside() -> int:
        return blocking.run(at_once(), waits=False, instead="x")

    assert asyncio.run(inside()) == 7


def test_what_waits_runs_on_the_one_background_loop():
    """FR-5: the same for every caller."""
    assert blocking.run(waits(), waits=True, instead="x") == "compact-loop"
    assert blocking.run(waits(), waits=True, instead="x") == "compact-loop"
    assert sum(t.name == "compact-loop" for t in threading.enumerate()) == 1


def test_inside_a_running_loop_the_async_form_is_named():
    """FR-5: rather than to block the loop."""

    async def inside() -> None:
        blocking.run(waits(), waits=True, instead="acompress(…)")

    with pytest.raises(BlockingCallInLoop, match=r"await acompress\(…\)"):
        asyncio.run(inside())


@pytest.mark.parametrize("waiting", [False, True])
def test_errors_come_through(waiting):
    """FR-6: as they were raised."""
    with pytest.raises(LookupError, match="inside"):
        blocking.run(fails(), waits=waiting, instead="x")


def test_a_summarizer_that_waits_unannounced_is_told():
    """FR-6: it must say so, or nobody could run it."""
    with pytest.raises(RuntimeError, match="never waits has waited"):
        blocking.run(waits(), waits=False, instead="x")


def test_an_interrupt_ends_the_work_too():
    """(FR-6) An answer that nobody waits for any more is not appended behind a person's back."""
    ended = threading.Event()
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # jobs may ignore it

    async def works_on() -> None:
        try:
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.Event().wait()
        finally:
            ended.set()

    try:
        with pytest.raises(KeyboardInterrupt):
            blocking.run(works_on(), waits=True, instead="x")
    finally:
        signal.signal(signal.SIGINT, before)
    assert ended.wait(60)
