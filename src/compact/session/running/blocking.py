"""Blocking forms of what is written async: run straight through where nothing waits, else on one
background loop.

A compression that calls no model never waits; its blocking form works everywhere, inside a running
event loop too (a notebook has one). Where the work may wait, the blocking form refuses inside a
running loop and names the async form.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from compact.errors import BlockingCallInLoop
from compact.session.running.off_loop import straight_through

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Task

T = TypeVar("T")


class _Running(NamedTuple):
    """A loop and the thread that runs it."""

    loop: AbstractEventLoop
    thread: threading.Thread


_locks: dict[int, threading.Lock] = {}
"""The lock of each process, by its id: a forked child may inherit one that is held."""
_loops: dict[int, _Running] = {}
"""The background loop of each process, by its id: a forked child has its parent's beside its own.
"""
_ending = threading.Event()
"""Whether the interpreter is ending: nothing is begun that nobody waits for."""


def run(work: Coroutine[Any, Any, T], *, waits: bool, instead: str) -> T:
    """The coroutine's result.

    `waits` says whether it may wait for something outside; `instead` is the async form to name in
    an error.

    Raises:
        BlockingCallInLoop: it may wait, and this thread runs an event loop.
    """
    if not waits:
        return straight_through(work)
    import asyncio

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return _waited_for(work)
    work.close()
    raise BlockingCallInLoop(
        f"this call waits for a model inside a running event loop; await {instead}"
    )


def is_in_loop() -> bool:
    """Whether this thread runs an event loop that a blocking call would hold up."""
    import asyncio

    try:
        here = asyncio.get_running_loop()
    except RuntimeError:
        return False
    background = _loops.get(os.getpid())
    return background is None or here is not background.loop


def each(pieces: AsyncIterator[T], *, instead: str) -> Iterator[T]:
    """What an async iterator yields, for blocking callers.

    Raises:
        BlockingCallInLoop: this thread runs an event loop.
    """

    async def following() -> T | None:
        return await anext(pieces, None)

    try:
        while (piece := run(following(), waits=True, instead=instead)) is not None:
            yield piece
    finally:
        if (close := getattr(pieces, "aclose", None)) is not None:
            run(close(), waits=True, instead=instead)


class BackgroundJob:
    """Work that the background loop does meanwhile; what becomes of it is the work's own affair."""

    def __init__(self, work: Coroutine[Any, Any, None]) -> None:
        self._ended = threading.Event()
        self._task: Task[None] | None = None
        if _ending.is_set():
            work.close()
            self._ended.set()
            return
        self._loop = _background_loop()
        self._loop.call_soon_threadsafe(self._begin, work)

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        self._task = self._loop.create_task(work)
        self._task.add_done_callback(self._end)

    def _end(self, task: Task[None]) -> None:
        """Look at how it ended, or else asyncio logs the error, with all that it says."""
        if not task.cancelled():
            task.exception()
        self._ended.set()

    @property
    def is_done(self) -> bool:
        """Whether it has ended."""
        return self._ended.is_set()

    def wait(self, seconds: float) -> None:
        """Wait until it has ended, for so many seconds at most."""
        self._ended.wait(seconds)

    def stop(self, seconds: float) -> None:
        """Cancel it, and wait until it has let go, for so many seconds at most."""
        if self._ended.is_set():
            return

        def cancel() -> None:
            if self._task is not None:
                self._task.cancel()

        self._loop.call_soon_threadsafe(cancel)
        self.wait(seconds)


def _waited_for(work: Coroutine[Any, Any, T]) -> T:
    """The result of what the background loop does; the work ends with whoever waits for it: an
    interrupt cancels it, however early it comes.
    """
    from concurrent.futures import Future

    loop, result = _background_loop(), Future[T]()
    begun: list[Task[T]] = []

    def begin() -> None:
        begun.append(loop.create_task(work))
        begun[0].add_done_callback(tell)

    def tell(task: Task[T]) -> None:
        if task.cancelled():
            result.cancel()
        elif (error := task.exception()) is not None:
            result.set_exception(error)
        else:
            result.set_result(task.result())

    def end() -> None:
        begun[0].cancel() if begun else work.close()

    try:
        loop.call_soon_threadsafe(begin)
        return result.result()
    finally:
        if not result.done():
            loop.call_soon_threadsafe(end)


def _background_loop() -> AbstractEventLoop:
    """The one loop of this process for blocking callers, in a daemon thread, started at first need;
    a forked child starts its own.
    """
    import asyncio

    with _locks.setdefault(os.getpid(), threading.Lock()):
        running = _loops.get(os.getpid())
        if running is None:
            loop = asyncio.new_event_loop()
            thread = threading.Thread(target=loop.run_forever, name="compact-loop", daemon=True)
            running = _loops[os.getpid()] = _Running(loop, thread)
            thread.start()
        return running.loop


@atexit.register
def _end() -> None:
    """Give what the background loop does five seconds to end before the interpreter does: a thread
    that it ends within a search aborts the process. Whoever calls later has a new loop.
    """
    _ending.set()
    with _locks.setdefault(os.getpid(), threading.Lock()):
        running = _loops.pop(os.getpid(), None)
    if running is None:
        return
    import asyncio

    loop, thread = running

    async def end() -> None:
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        loop.stop()

    loop.call_soon_threadsafe(lambda: loop.create_task(end()))
    thread.join(5.0)
