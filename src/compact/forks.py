"""Forks: a session or a store belongs to the process that opened it, not to a forked child.

A child has one thread. A lock that another thread held at the fork is never released there, the
data may be half changed, and SQLite's locks stay with the parent. So a child is refused at once and
must open its own.
"""

from __future__ import annotations

import os
from threading import RLock

from compact.errors import StoreFailed

_here = os.getpid()
"""This process. A forked child sets it anew: asking the system at each lock takes longer."""


def _begin_child() -> None:
    global _here
    _here = os.getpid()


if hasattr(os, "register_at_fork"):  # Windows has no forks
    os.register_at_fork(after_in_child=_begin_child)


def refuse_child(process: int) -> None:
    """Check that this is the process with the given id.

    Raises:
        StoreFailed: this is a child process, forked from the one with that id.
    """
    if _here != process:
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
        self._lock, self._process = RLock(), _here

    @property
    def is_inherited(self) -> bool:
        """Whether this process was forked after the lock was made. Closing does nothing in it."""
        return _here != self._process

    def __enter__(self) -> None:
        if _here != self._process:
            refuse_child(self._process)
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()
