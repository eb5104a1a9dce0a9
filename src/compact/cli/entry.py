"""The console entry, and Ctrl-C: what must hold before anything else is imported."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

INTERRUPTED = 130
"""The exit code."""
TRACEBACK = "COMPACT_TRACEBACK"
"""The variable that asks for tracebacks."""


@contextmanager
def ending_at_once() -> Iterator[None]:
    """Ctrl-C ends the process there and then: Python may lose an exception within an import."""
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
    """Whether an error is Ctrl-C, or what a library made of it."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, KeyboardInterrupt):
            return True
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return False


def run() -> None:
    """Run the command line, and end the process with its exit code."""
    with ending_at_once():
        from compact.cli.main import main
    sys.exit(main())
