"""One compression of a view at a time among the threads of a process. Between processes the store
decides: a commit that builds on an old move is `Superseded`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock, get_ident

from compact.session.running.off_loop import POLL_SECONDS, end_if_left


class Exclusive:
    """Lets one caller compress; the others wait."""

    def __init__(self) -> None:
        self._mutex = Lock()
        self._owner: int | None = None
        """The thread that compresses."""

    @contextmanager
    def turn(self) -> Iterator[None]:
        """The caller's turn; others wait for it in their threads.

        Raises:
            RuntimeError: an event's handler asks for a prompt in the thread that makes one.
            CancelledError: nobody waits for this caller any more.
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
