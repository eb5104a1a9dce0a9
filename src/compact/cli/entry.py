"""The entry point of the console script.

Ctrl-C is handled before the imports begin, because they take a moment. Hooks run without the
command line's own imports, because the coding agent waits for them.
"""

from __future__ import annotations

import sys

from compact.cli.interrupts import ending_at_once


def run() -> None:
    """Run the command line and end the process with its exit code."""
    match sys.argv[1:]:
        case ["hook", event] if not event.startswith("-"):
            from compact.cli.commands.hook import hook

            hook(event)
            return
    with ending_at_once():
        from compact.cli.main import main
    sys.exit(main())
