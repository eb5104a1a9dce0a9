"""The console entry: what must hold before anything else is imported, which takes a moment.

Ctrl-C while modules are imported ends as quietly as later; a reader who left is no mistake.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

INTERRUPTED = 130
"""The exit code, as `ending` has it, which cannot be imported yet."""


def run() -> None:
    """Run the command line, and end the process with its exit code."""
    try:
        with _leaving_at_once():
            from compact.apps.cli.main import main

        code = main()
    except BaseException as error:
        if os.environ.get("COMPACT_TRACEBACK") or not _is_interrupt(error):
            raise
        code = INTERRUPTED
    sys.exit(code)


@contextmanager
def _leaving_at_once() -> Iterator[None]:
    """Ctrl-C ends the process there and then: Python may lose an exception within an import."""
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.default_int_handler or os.environ.get("COMPACT_TRACEBACK"):
        yield
        return
    signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _is_interrupt(error: BaseException | None) -> bool:
    """Whether it is Ctrl-C, or what a library that was being imported made of it."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None
