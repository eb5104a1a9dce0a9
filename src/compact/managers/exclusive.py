"""One compression of a view at a time."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from threading import Lock, get_ident

POLL_SECONDS = 0.005
"""How often a caller looks whether another one's compression has ended."""


class Exclusive:
    """Lets one caller compress; the others wait."""

    def __init__(self) -> None:
        self._mutex, self._process = Lock(), os.getpid()
        self._owner: int | None = None
        """The thread that compresses."""

    @asynccontextmanager
    async def turn(self, *, waits: bool) -> AsyncIterator[None]:
        """The caller's turn. Where the summarizer `waits`, others wait for it without blocking
        their loop; else they wait in their threads.

        Raises:
            RuntimeError: an event's handler asks for a prompt while one is being made.
        """
        if not waits and self._owner == get_ident():
            raise RuntimeError("an event's handler asked for a prompt while one is being made")
        if self._process != os.getpid():  # whoever compressed when it forked does so over there
            self._mutex, self._process = Lock(), os.getpid()
        while not self._mutex.acquire(blocking=not waits):
            import asyncio

            await asyncio.sleep(POLL_SECONDS)
        self._owner = get_ident()
        try:
            yield
        finally:
            self._owner = None
            self._mutex.release()
