"""Ctrl-C must end the process quietly at any moment, also while modules are imported."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

INTERRUPTED = 130
"""The exit code after Ctrl-C: 128 plus the number of SIGINT."""
TRACEBACK = "COMPACT_TRACEBACK"
"""The environment variable that turns tracebacks on."""


@contextmanager
def ending_at_once() -> Iterator[None]:
    """Let Ctrl-C end the process at once, because Python may lose an exception inside an import."""
    before = signal.getsignal(signal.SIGINT)
    is_main = threading.current_thread() is threading.main_thread()
    if before is not signal.default_int_handler or os.environ.get(TRACEBACK) or not is_main:
        yield
        return
    signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def is_interrupt(error: BaseException | None) -> bool:
    """Return whether an error is a `KeyboardInterrupt`, or was raised because of one."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, KeyboardInterrupt):
            return True
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return False
