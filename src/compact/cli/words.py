"""Words for people, free of what would steer a terminal. Needs nothing but Python."""

from __future__ import annotations

LONGEST_LINE = 400
"""Characters of what is said of a file; the end of what is longer is left out."""


def one_line(text: str, limit: int = 80) -> str:
    """The text's first words on one line, free of what would steer a terminal."""
    words = " ".join(text[: limit * 8].split())
    clean = visible(words)
    return clean if len(clean) <= limit else clean[: limit - 1].rstrip() + "…"


def whole(key: str) -> str:
    """What somebody came for, an id or a name, on one line and never cut."""
    return one_line(key, max(len(key), 1))


def visible(text: str) -> str:
    """The text without control characters; line ends and tabs stay."""
    return "".join(c if c.isprintable() or c in "\n\t" else "\ufffd" for c in text)


def counted(count: int, one: str, many: str = "") -> str:
    """A number with its noun: `1 message`, `2,000 messages`."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"
