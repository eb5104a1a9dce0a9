"""Work off the event loop: what an async call computes runs in a thread, so that the loop goes on
with everything else. Models are asked on the caller's loop, where their clients belong, and events
are delivered there.
"""

from __future__ import annotations

import atexit
import threading
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, TypeVar, cast
from weakref import WeakKeyDictionary

from compact.messages.events import Event
from compact.messages.protocols import Emit

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from concurrent.futures import Future

T = TypeVar("T")
POLL_SECONDS = 0.05
"""How often a thread that waits looks whether anybody still waits for it: shorter costs more,
longer lets a cancelled call stay that long."""


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

        async def asked() -> T | None:
            try:
                return await work()
            except Exception:
                if self.has_left:  # nobody hears it, and asyncio would log all that it says
                    return None
                raise

        self._asked = asyncio.run_coroutine_threadsafe(asked(), self.loop)
        if self.has_left:
            self._asked.cancel()
        while True:
            try:
                result: T = self._asked.result(timeout=POLL_SECONDS)
                return result
            except CancelledError:
                raise asyncio.CancelledError from None
            except TimeoutError:
                if self._asked.done():  # the work's own
                    raise
                if self.loop.is_closed():  # nobody will ever answer
                    self.leave()

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
_working: WeakKeyDictionary[_Caller, threading.Thread] = WeakKeyDictionary()


@atexit.register
def _end_all() -> None:
    """Give threads five seconds each to end before the interpreter does: one that it ends within a
    search aborts the process.
    """
    for caller, thread in list(_working.items()):
        caller.leave()
        thread.join(5.0)


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


def off_loop(work: Coroutine[Any, Any, T]) -> Coroutine[Any, Any, T]:
    """The coroutine, as whoever calls this is to await it at once: in a thread, unless this one
    drives a coroutine to its end anyway.
    """
    return work if _here.never_waits else in_thread(work)


async def in_thread(work: Coroutine[Any, Any, T]) -> T:
    """The coroutine's result, computed in a thread; what it asks with `on_loop` is asked on this
    loop. Whoever is cancelled meanwhile leaves when the thread has come to its end: it may hold
    locks.
    """
    import asyncio

    loop = asyncio.get_running_loop()
    caller, context = _Caller(loop), copy_context()
    # The error is a result: of one that nobody waits for any more asyncio would log all it says.
    done: asyncio.Future[tuple[T | None, BaseException | None]] = loop.create_future()

    def compute() -> None:
        result, error, _here.caller = None, None, caller
        try:
            result = context.run(straight_through, work)
        except BaseException as raised:  # noqa: BLE001 - it is raised where it is waited for
            error = raised
        with suppress(RuntimeError):  # the loop is closed: nobody waits
            loop.call_soon_threadsafe(done.set_result, (result, error))

    thread = threading.Thread(target=compute, name="compact-work", daemon=True)
    _working[caller] = thread
    thread.start()
    try:
        result, error = await asyncio.shield(done)
    except asyncio.CancelledError:
        caller.leave()
        while not done.done():  # cancelled again, it waits on
            with suppress(asyncio.CancelledError):
                await asyncio.shield(done)
        raise
    if error is not None:
        raise error
    return cast("T", result)


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
