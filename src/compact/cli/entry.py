"""The console entry. It sets Ctrl-C up before anything else is imported: that takes a moment."""

from __future__ import annotations

import sys

from compact.cli.interrupts import ending_at_once


def run() -> None:
    """Run the command line and end the process with its exit code."""
    with ending_at_once():
        from compact.cli.main import main
    sys.exit(main())
