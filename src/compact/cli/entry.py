"""The console entry. It handles Ctrl-C before the imports begin, because they take a moment."""

from __future__ import annotations

import sys

from compact.cli.interrupts import ending_at_once


def run() -> None:
    """Run the command line and end the process with its exit code."""
    with ending_at_once():
        from compact.cli.main import main
    sys.exit(main())
