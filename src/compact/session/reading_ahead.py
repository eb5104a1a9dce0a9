"""Reads ahead: takes notes of new messages between turns, in a thread, so that a turn that
compresses has little left to read. The notes do not depend on when the messages are read. The
thread also loads the engine.
"""

from __future__ import annotations

import atexit
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Thread
from weakref import WeakSet

from compact import forks
from compact.engine.history import FEW_MESSAGES, History


class ReadingAhead:
    """Reads a history in a thread, while its session waits for an answer."""

    def __init__(self) -> None:
        self._thread: Thread | None = None
        self._stops = False
        self._compressing = 0
        self.beginning = forks.Lock()
        """Held while a reading or a compression begins, so that each knows of the other."""

    def begin(self, history: History, since: int) -> None:
        """Start to read the history up to now, unless a reading runs, and to make the short forms
        of the messages from `since` on. The caller holds the session's lock.

        The first reading of a long history is left to the compression, which knows which record to
        begin with.
        """
        with self.beginning:
            if self._compressing or (self._thread is not None and self._thread.is_alive()):
                return
            if history.notes is not None or len(history) <= FEW_MESSAGES:
                self._stops = False
                read = history, since, len(history)
                name = "compact-reading"
                self._thread = Thread(target=self._read, args=read, name=name, daemon=True)
                _READERS.add(self)
                self._thread.start()

    @contextmanager
    def finished(self) -> Iterator[None]:
        """Wait for a running reading, and start none meanwhile: notes have only one reader."""
        with self.beginning:
            self._compressing += 1
        try:
            self._finish()
            yield
        finally:
            with self.beginning:
                self._compressing -= 1

    def stop(self) -> None:
        """Stop reading, and wait until no reading runs. The rest is read when it is needed."""
        self._stops = True
        self._finish()

    def _finish(self) -> None:
        with self.beginning:
            thread = self._thread
        if thread is not None:
            thread.join()

    def _read(self, history: History, since: int, until: int) -> None:
        read = 0
        # Errors are ignored: the compression reads again and reports them, while Python would print
        # the texts in them.
        with suppress(BaseException):
            from compact.engine.chronology.notes import notes_of
            from compact.engine.forms import forms_of

            while read < until and not self._stops:  # checked after every 32 messages
                read = notes_of(history, until=min(read + 32, until)).position
            for _ in forms_of(history).ahead(since, read) if history.counter.is_pure else ():
                if self._stops:
                    break


_READERS: WeakSet[ReadingAhead] = WeakSet()


@atexit.register
def _stop_all() -> None:
    """Stop readings before the interpreter ends: a thread ended in native code can abort."""
    for reader in list(_READERS):
        if not reader.beginning.is_inherited:
            reader.stop()
