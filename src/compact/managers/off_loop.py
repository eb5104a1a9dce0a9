"""Work off the event loop: what an async call computes runs in a thread, so that the loop goes on
with everything else. Models are asked on the caller's loop, where their clients belong, and events
are delivered there.
"""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, TypeVar

from compact.core.events import Event
from compact.core.protocols import Emit

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from concurrent.futures import Future

T = TypeVar("T")


class _Caller:
    """The loop on which somebody waits for a thread's work."""

    def __init__(self, loop: AbstractEventLoop) -> None:
        self.loop = loop
        self._asked: Future[Any] | None = None
        self.has_left = False

    def ask(self, work: Callable[[], Awaitable[T]]) -> T:
        """What comes of work on the loop; the thread waits for it.

        Raises:
            CancelledError: the caller has left.
        """
        import asyncio
        from concurrent.futures import CancelledError

        async def asked() -> T:
            return await work()

        self._asked = asyncio.run_coroutine_threadsafe(asked(), self.loop)
        if self.has_left:
            self._asked.cancel()
        try:
            result: T = self._asked.result()
            return result
        except CancelledError:
            raise asyncio.CancelledError from None

    def leave(self) -> None:
        """Ask for nothing more."""
        self.has_left = True
        if self._asked is not None:
            self._asked.cancel()


class _Here(threading.local):
    """What this thread is at."""

    caller: _Caller | None = None
    """For whom it works."""
    never_waits = False
    """Whether it drives a coroutine to its end at once."""


_here = _Here()


def straight_through(work: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that never waits."""
    before, _here.never_waits = _here.never_waits, True
    try:
        work.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    finally:
        _here.never_waits = before
    work.close()
    raise RuntimeError("a summarizer that says it never waits has waited: set its `waits` to True")


async def off_loop(work: Coroutine[Any, Any, T]) -> T:
    """The coroutine's result, computed in a thread; what it asks with `on_loop` is asked on this
    loop. Whoever is cancelled meanwhile leaves when the thread has come to its end: it may hold
    locks.
    """
    if _here.never_waits:
        return await work
    import asyncio

    loop = asyncio.get_running_loop()
    caller, done = _Caller(loop), loop.create_future()
    context = copy_context()

    def end(result: T | None, error: BaseException | None) -> None:
        if error is None:
            done.set_result(result)
        else:
            done.set_exception(error)

    def compute() -> None:
        result, error, _here.caller = None, None, caller
        try:
            result = context.run(straight_through, work)
        except BaseException as raised:  # noqa: BLE001 - it is raised where it is waited for
            error = raised
        with suppress(RuntimeError):  # the loop is closed: nobody waits
            loop.call_soon_threadsafe(end, result, error)

    threading.Thread(target=compute, name="compact-work", daemon=True).start()
    try:
        return await asyncio.shield(done)
    except asyncio.CancelledError:
        caller.leave()
        while not done.done():  # cancelled again, it waits on
            with suppress(BaseException):
                await asyncio.shield(done)
        raise


def end_if_left() -> None:
    """End this thread's work if its caller has left.

    Raises:
        CancelledError: the caller has left.
    """
    if _here.caller is not None and _here.caller.has_left:
        import asyncio

        raise asyncio.CancelledError


async def on_loop(work: Callable[[], Awaitable[T]]) -> T:
    """What comes of work that belongs on the caller's loop."""
    caller = _here.caller
    return await work() if caller is None else caller.ask(work)


def delivered_on_loop(emit: Emit) -> Emit:
    """What hands events over on the caller's loop, in their order; at once where there is none."""

    def deliver(event: Event) -> None:
        caller = _here.caller
        if caller is None:
            emit(event)
            return
        with suppress(RuntimeError):  # the loop is closed: nobody listens
            caller.loop.call_soon_threadsafe(emit, event)

    return deliver
