"""Blocking forms of async work: straight through, on a loop of their own, or refused by name
(FR-5)."""

import asyncio
import os
import signal
import subprocess
import sys
import threading

import pytest

from compact.session import running


async def waits() -> str:
    await asyncio.sleep(0)
    return threading.current_thread().name


def test_a_summarizer_that_waits_unannounced_is_told():
    """FR-6: it must say so, or nobody could run it."""
    with pytest.raises(RuntimeError, match="never waits has waited"):
        running.run(waits(), waits=False, instead="x")


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
            running.run(works_on(), waits=True, instead="x")
    finally:
        signal.signal(signal.SIGINT, before)
    assert ended.wait(60)


ENDS_EARLY = """
import atexit, time
atexit.register(time.sleep, 1.0)  # runs after those of compact: what is begun late is begun in it
import re2
from compact.session import running
from compact.session.running import in_thread

async def search():
    until = time.monotonic() + 3.0
    while time.monotonic() < until:
        re2.compile(rb"(?:[a-z] [a-z]|x)+[0-9]").search(b"a b c d e f g " * 2_000_000)

busy = {busy}
running._background_loop().call_soon_threadsafe(time.sleep, busy)
running.BackgroundJob(in_thread(search()))
time.sleep(0.3 - busy)
"""


@pytest.mark.slow
@pytest.mark.parametrize("busy", [0.0, 0.3], ids=["begun before the end", "begun at the end"])
def test_an_end_of_the_interpreter_ends_what_is_done_in_the_background(busy):
    """A thread that it ends within a search aborts the process: a program that had done all its
    work ended with code -6.
    """
    program = ENDS_EARLY.replace("{busy}", str(busy))
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
