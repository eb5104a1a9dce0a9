"""Forks: a session or a store belongs to the process that opened it, not to a forked child.

A child has one thread. A lock that another thread held at the fork is never released there, the
data may be half changed, and SQLite's locks stay with the parent. So a child is refused at once and
must open its own.
"""

from __future__ import annotations

import os
from threading import RLock

from compact.errors import StoreFailed


def refuse_child(process: int) -> None:
    """Check that this is the process with the given id.

    Raises:
        StoreFailed: this is a child process, forked from the one with that id.
    """
    if os.getpid() != process:
        raise StoreFailed(
            "this was opened before the process forked. Open the session or the store in each "
            "process, after the fork"
        )


class Lock:
    """A reentrant lock.

    Raises:
        StoreFailed: this process was forked after the lock was made.
    """

    def __init__(self) -> None:
        self._lock, self._process = RLock(), os.getpid()

    @property
    def is_inherited(self) -> bool:
        """Whether this process was forked after the lock was made. Closing does nothing in it."""
        return os.getpid() != self._process

    def __enter__(self) -> None:
        refuse_child(self._process)
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()
