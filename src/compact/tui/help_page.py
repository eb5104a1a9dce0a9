"""The page of keys and commands."""

from __future__ import annotations

from collections.abc import Sequence

from compact.tui.looks import ReadingPage
from compact.tui.slash import COMMANDS

KEYS = (
    ("Enter", "send"),
    ("Ctrl+J", "new line"),
    ("Esc", "stop an answer or a compression"),
    ("Tab", "complete a command"),
    ("Page up, Page down", "read what was said"),
    ("Ctrl+T", "light or dark"),
    ("F1", "this page"),
    ("Ctrl+Q", "quit; everything is kept"),
)
"""Keys, and what they do."""


def _lines(rows: Sequence[tuple[str, str]]) -> str:
    """Rows in two columns."""
    width = max(len(left) for left, _ in rows)
    return "\n".join(f"{left.ljust(width)}  {right}" for left, right in rows)


HELP = ReadingPage(
    "Help",
    (
        ("Keys", _lines(KEYS)),
        ("Commands", _lines([(c.usage, c.help) for c in COMMANDS])),
        ("Numbers", "N is the number after a #, or that of a row in a list."),
        ("Slashes", "A message that begins with a slash is written with two: //usr is a folder."),
    ),
)
"""It."""
