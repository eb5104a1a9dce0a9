"""The console entry: what must hold before anything else is imported, which takes a moment."""

from __future__ import annotations

import os
import sys

from compact.apps import cli
from compact.apps.cli.interrupts import INTERRUPTED, TRACEBACK, is_interrupt


def run() -> None:
    """Run the command line, and end the process with its exit code."""
    try:
        code = cli.main.main()
    except BaseException as error:
        if os.environ.get(TRACEBACK) or not is_interrupt(error):
            raise
        code = INTERRUPTED
    sys.exit(code)
