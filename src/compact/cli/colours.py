"""Whether what is printed is coloured, and the few colours that are no table's or bar's. Needs
nothing but Python.

What `--color` says counts first, then NO_COLOR, then FORCE_COLOR and CLICOLOR_FORCE; else a
terminal gets colours, and a file or a pipe none.
"""

from __future__ import annotations

import os
from contextvars import ContextVar
from typing import Literal, TextIO

When = Literal["auto", "always", "never"]
CHOSEN: ContextVar[When] = ContextVar("compact_cli_color", default="auto")
"""What `--color` says."""

HEADING, NAME, WRONG = "1;32", "36", "1;31"
"""Of a part of help, of what is typed, and of what went wrong: codes of terminals."""


def are_wanted(stream: TextIO | None) -> bool:
    """Whether what goes to a stream is coloured."""
    chosen = CHOSEN.get()
    if chosen != "auto" or stream is None:
        return chosen == "always" and stream is not None
    if os.environ.get("NO_COLOR"):
        return False
    if any(
        os.environ.get(name, "0") not in ("", "0") for name in ("FORCE_COLOR", "CLICOLOR_FORCE")
    ):
        return True
    is_dumb = os.environ.get("TERM") == "dumb" or os.environ.get("CLICOLOR") == "0"
    return stream.isatty() and not is_dumb


def painted(text: str, code: str) -> str:
    """The text in a colour."""
    return f"\x1b[{code}m{text}\x1b[0m" if text else ""
