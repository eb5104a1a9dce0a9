"""Forks: a session or a store is used by the process that opened it, and by no forked child.

A child has one thread. A lock that another thread held at the fork is never given back there, what
it guards may be half changed, and SQLite's locks stay with the parent. So a child is refused, at
once and by name, and opens its own.
"""

from __future__ import annotations

import os
from threading import RLock

from compact.errors import StoreFailed


def refuse_child(process: int) -> None:
    """Refuse a process that is not the one with this id.

    Raises:
        StoreFailed: it was forked from that one.
    """
    if os.getpid() != process:
        raise StoreFailed(
            "this was opened before the process forked. Open the session or the store in each "
            "process, after the fork"
        )


class Lock:
    """A lock that the thread which holds it may take again.

    Raises:
        StoreFailed: it was made before this process was forked.
    """

    def __init__(self) -> None:
        self._lock, self._process = RLock(), os.getpid()

    @property
    def is_inherited(self) -> bool:
        """Whether this process is a child of the one that made it: closing does nothing there."""
        return os.getpid() != self._process

    def __enter__(self) -> None:
        refuse_child(self._process)
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()
