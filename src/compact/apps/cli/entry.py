"""The console entry: what must hold before anything else is imported, which takes a moment."""

from __future__ import annotations

import sys

from compact.apps import cli


def run() -> None:
    """Run the command line, and end the process with its exit code."""
    sys.exit(cli.main.main())
