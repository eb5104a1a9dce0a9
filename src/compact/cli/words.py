"""Formats text for people: one line, counted nouns, colours. Imports only the standard library."""

from __future__ import annotations

import os
from contextvars import ContextVar
from typing import Literal, TextIO

LONGEST_LINE = 400
"""Most characters of the line with the notes on a file that was read. A longer line is cut."""


def one_line(text: str, limit: int = 80) -> str:
    """Return the beginning of a text on one line, without control characters."""
    words = " ".join(text[: limit * 8].split())
    clean = visible(words)
    return clean if len(clean) <= limit else clean[: limit - 1].rstrip() + "…"


def whole(key: str) -> str:
    """Return an id or name on one line. It is never cut."""
    return one_line(key, max(len(key), 1))


def visible(text: str) -> str:
    """Return the text without control characters. Line breaks and tabs stay."""
    return "".join(c if c.isprintable() or c in "\n\t" else "\ufffd" for c in text)


def counted(count: int, one: str, many: str = "") -> str:
    """Return a number with its noun, such as `1 message` or `2,000 messages`."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


When = Literal["auto", "always", "never"]
COLOUR: ContextVar[When] = ContextVar("compact_cli_color", default="auto")
"""The value of the option `--color`."""

HEADING, NAME, WRONG = "1;32", "36", "1;31"
"""Terminal codes for headings in help, for text to type, and for errors."""


def wants_colour(stream: TextIO | None) -> bool:
    """Return whether to colour output to a stream. `--color` decides, else NO_COLOR, else
    FORCE_COLOR and CLICOLOR_FORCE, else whether the stream is a terminal.
    """
    chosen = COLOUR.get()
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
    """Return the text in a colour."""
    return f"\x1b[{code}m{text}\x1b[0m" if text else ""
