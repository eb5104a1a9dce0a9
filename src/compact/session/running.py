"""Runs work in threads, off the event loop, on one background loop, or within a time limit.

An async call computes in a thread, so that the event loop can do other work. Models are asked on
the caller's loop, where their clients belong, and events are delivered there.

A blocking call runs its coroutine straight to the end if nothing in it waits. That works even
inside a running event loop, such as a notebook's. If the coroutine may wait, it runs on a
background loop. Inside a running loop such a call is refused, and the error names the async form.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from contextvars import copy_context
from threading import Lock, get_ident
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast
from weakref import WeakKeyDictionary

from compact.errors import BlockingCallInLoop, ModelUnavailable
from compact.messages.checkpoints import Summary, SummaryRequest
from compact.messages.events import Event
from compact.messages.protocols import Emit, Summarizer

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Task
    from concurrent.futures import Future

T = TypeVar("T")
POLL_SECONDS = 0.05
"""How often a waiting thread checks that its caller still waits, in seconds. A shorter time costs
more. With a longer one, a cancelled call takes longer to end."""


class _Caller:
    """The loop of the caller that waits for a thread's work."""

    def __init__(self, loop: AbstractEventLoop) -> None:
        self.loop = loop
        self._asked: Future[Any] | None = None
        self.has_left = False

    def ask(self, work: Callable[[], Awaitable[T]]) -> T:
        """Run work on the caller's loop, wait in this thread, and return the result.

        Raises:
            CancelledError: the caller has left.
        """
        import asyncio
        from concurrent.futures import CancelledError

        async def asked() -> T | None:
            try:
                return await work()
            except Exception:
                if self.has_left:  # nobody waits for it, and asyncio would log the text
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
                if self._asked.done():  # raised by the work itself
                    raise
                if self.loop.is_closed():  # nobody can answer any more
                    self.leave()

    def leave(self) -> None:
        """Record that the caller no longer waits, and cancel what runs on its loop."""
        self.has_left = True
        if self._asked is not None:
            self._asked.cancel()


class _Here(threading.local):
    caller: _Caller | None = None
    """The caller that this thread works for."""
    never_waits = False
    """Whether this thread runs a coroutine straight to its end."""


_here = _Here()
_working: WeakKeyDictionary[_Caller, threading.Thread] = WeakKeyDictionary()


@atexit.register
def _end_all() -> None:
    """Give each thread five seconds to end before the interpreter does. A thread that is ended in
    native code can abort the process.
    """
    for caller, thread in list(_working.items()):
        caller.leave()
        thread.join(5.0)


def straight_through(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never waits, and return its result."""
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
    """Wrap the coroutine so that it runs in a thread, unless this thread runs it straight to its
    end anyway. The result must be awaited at once.
    """
    return work if _here.never_waits else in_thread(work)


def threaded(function: Callable[[], T]) -> Coroutine[Any, Any, T]:
    """Wrap a function that awaits nothing, like `off_loop` wraps a coroutine."""

    async def called() -> T:
        return function()

    return off_loop(called())


async def in_thread(work: Coroutine[Any, Any, T]) -> T:
    """Run the coroutine in a thread, and return its result. Its calls of `on_loop` run on this
    loop. A cancelled caller waits until the thread has ended, because the thread may hold locks.
    """
    import asyncio

    loop = asyncio.get_running_loop()
    caller, context = _Caller(loop), copy_context()
    # The error is passed as a result. asyncio would log the text of an exception that nobody
    # awaits.
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
        while not done.done():  # waits on, even if cancelled again
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
    """Run work on the caller's loop, and return the result."""
    caller = _here.caller
    return await work() if caller is None else caller.ask(work)


def delivered_on_loop(emit: Emit) -> Emit:
    """Return an emitter that delivers events in order on the caller's loop; at once without one."""

    def deliver(event: Event) -> None:
        caller = _here.caller
        if caller is None:
            emit(event)
            return
        with suppress(RuntimeError):  # the loop is closed: nobody listens
            caller.loop.call_soon_threadsafe(emit, event)

    return deliver


# --- blocking calls ------------------------------------------------------------------------------


class _Running(NamedTuple):
    loop: AbstractEventLoop
    thread: threading.Thread


_locks: dict[int, threading.Lock] = {}
"""Process id → its lock. A forked child may inherit a lock that is held."""
_loops: dict[int, _Running] = {}
"""Process id → its background loop. A forked child has its parent's besides its own."""
_ending = threading.Event()
"""Set when the interpreter ends. Then no background work is started."""


def run(work: Coroutine[Any, Any, T], *, waits: bool, instead: str) -> T:
    """Run the coroutine, and return its result. `waits` says whether it may wait for a model or
    another service. `instead` is the async call that an error suggests.

    Raises:
        BlockingCallInLoop: the work may wait, and this thread runs an event loop.
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
    """Return whether this thread runs an event loop that a blocking call would block."""
    import asyncio

    try:
        here = asyncio.get_running_loop()
    except RuntimeError:
        return False
    background = _loops.get(os.getpid())
    return background is None or here is not background.loop


def each(pieces: AsyncIterator[T], *, instead: str) -> Iterator[T]:
    """Yield the items of an async iterator, for callers without an event loop.

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
    """Work on the background loop. The work itself handles its result."""

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
        """Read the task's exception. Otherwise asyncio would log it with its text."""
        if not task.cancelled():
            task.exception()
        self._ended.set()

    @property
    def is_done(self) -> bool:
        """Whether the work has ended."""
        return self._ended.is_set()

    def wait(self, seconds: float) -> None:
        """Wait at most `seconds` until the work has ended."""
        self._ended.wait(seconds)

    def stop(self, seconds: float) -> None:
        """Cancel the work, and wait at most `seconds` until it has ended."""
        if self._ended.is_set():
            return

        def cancel() -> None:
            if self._task is not None:
                self._task.cancel()

        self._loop.call_soon_threadsafe(cancel)
        self.wait(seconds)


def _waited_for(work: Coroutine[Any, Any, T]) -> T:
    """Run work on the background loop, and return the result. If the caller is interrupted, even
    before the work has started, the work is cancelled.
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
    """Return the process's loop for blocking callers, which runs in a daemon thread. It starts at
    its first use. A forked child starts its own.
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
    """Give work on the background loop five seconds to end before the interpreter does. A thread
    that is ended in native code can abort the process. Later callers get a new loop.
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


# --- one compression at a time -------------------------------------------------------------------


class Exclusive:
    """Lets one caller at a time compress a view, among the threads of a process. Between processes
    the store decides: a commit that is based on an old move raises `Superseded`.
    """

    def __init__(self) -> None:
        self._mutex = Lock()
        self._owner: int | None = None
        """The thread that compresses."""

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Wait for the caller's turn, and hold it. Other callers wait in their threads.

        Raises:
            RuntimeError: an event's handler asks for a prompt in the thread that makes one.
            CancelledError: the caller was cancelled while it waited.
        """
        if self._owner == get_ident():
            raise RuntimeError("an event's handler asked for a prompt while one is being made")
        while not self._mutex.acquire(timeout=POLL_SECONDS):
            end_if_left()
        self._owner = get_ident()
        try:
            yield
        finally:
            self._owner = None
            self._mutex.release()


# --- time limits ---------------------------------------------------------------------------------


class TimeoutSummarizer:
    """A summarizer with a time limit, so that one that hangs does not stop a session."""

    waits = True

    def __init__(self, summarizer: Summarizer, seconds: float) -> None:
        self.name = name_of(summarizer)
        self._summarizer = summarizer
        self._seconds = seconds

    async def summarize(self, request: SummaryRequest) -> Summary:
        """Return what the summarizer writes.

        Raises:
            ModelUnavailable: the summarizer took longer than the limit.
        """
        return await on_loop(lambda: self._in_time(request))

    async def _in_time(self, request: SummaryRequest) -> Summary:
        import asyncio

        try:
            async with asyncio.timeout(self._seconds):
                return await self._summarizer.summarize(request)
        except TimeoutError:
            raise ModelUnavailable(
                f"{self.name} did not summarize within {self._seconds:g} seconds (summary_seconds)",
                model=self.name,
                waited=self._seconds,
            ) from None


def name_of(summarizer: Summarizer) -> str:
    """Return the summarizer's name, or the name of its class."""
    name = getattr(summarizer, "name", None)
    return name if isinstance(name, str) and name else type(summarizer).__name__
