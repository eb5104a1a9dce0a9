"""Forks: what threads share comes whole to a child, and no lock is held there for ever.

A forked child has one thread. A lock that another one held would never be given back there, and
what it guards may be half changed. So a fork waits until nobody holds any of them, in the order in
which threads take them; what is held for longer is lost to the child, which is told so.
"""

from __future__ import annotations

import os
import time
from threading import Lock as PlainLock
from threading import RLock
from typing import Protocol
from weakref import WeakSet

from compact.errors import StoreFailed

WAITS = 10.0
"""Seconds that a fork waits for other threads."""
MANAGER, TURN, SESSION, HISTORY, STORE = range(5)
"""Ranks of what is shared: a thread that holds one takes only those of higher ranks."""


class Shared(Protocol):
    """What several threads use, and what becomes of it at a fork."""

    @property
    def rank(self) -> int:
        """When it is taken: the lowest first."""
        ...

    def before_fork(self, until: float) -> None:
        """Wait until no other thread uses it, up to this time by the monotonic clock; from then on
        none does.
        """
        ...

    def after_fork(self, *, in_child: bool) -> None:
        """Let others use it again; in the child there are none."""
        ...


class Lock:
    """A lock that the thread which holds it may take again.

    Raises:
        StoreFailed: a thread held it for too long when this process was forked.
    """

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self._lock = RLock()
        self._is_held = False
        self._is_lost = False
        share(self)

    def __enter__(self) -> None:
        self._lock.acquire()
        if self._is_lost:
            self._lock.release()
            raise StoreFailed(
                "another thread was changing this session when the process forked, so that what "
                "came along may be half of it. Open the session again in this process"
            )

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def before_fork(self, until: float) -> None:
        """Wait until no other thread holds it, and hold it."""
        self._is_held = self._lock.acquire(timeout=max(0.0, until - time.monotonic()))

    def after_fork(self, *, in_child: bool) -> None:
        """Let it go; in the child, what another thread holds is lost."""
        if self._is_held:
            self._lock.release()
        elif in_child:
            self._lock, self._is_lost = RLock(), True


_shared: WeakSet[Shared] = WeakSet()
_forking: dict[Shared, None] = {}
"""What the fork that is going on has waited for, in order."""
_sharing, _one_fork = PlainLock(), PlainLock()


def share(each: Shared) -> None:
    """Have forks wait for it."""
    with _sharing:
        _shared.add(each)


def _before_fork() -> None:
    _one_fork.acquire()
    until = time.monotonic() + WAITS
    while True:
        _sharing.acquire()
        new = [each for each in _shared if each not in _forking]
        if not new:
            return  # and until the fork is over, nothing more is shared
        _sharing.release()  # a thread that is waited for may have to share what it makes
        for each in sorted(new, key=lambda shared: shared.rank):
            each.before_fork(until)
            _forking[each] = None


def _after_fork(*, in_child: bool) -> None:
    while _forking:
        _forking.popitem()[0].after_fork(in_child=in_child)
    _sharing.release()
    _one_fork.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=lambda: _after_fork(in_child=False),
        after_in_child=lambda: _after_fork(in_child=True),
    )
