"""Words for people, free of what would steer a terminal. Needs nothing but Python."""

from __future__ import annotations

from collections.abc import Sequence

LONGEST_LINE = 400
"""Characters of what is said of a file; the end of what is longer is left out."""
MOST_SPANS = 12
"""Runs of messages that are named."""


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


def without_middle(text: str, limit: int) -> str:
    """The text; of one that is longer, as much of its beginning and its end."""
    if len(text) <= limit:
        return text
    head = (limit - 1) // 2
    return f"{text[:head]}…{text[len(text) - (limit - 1 - head) :]}"


def counted(count: int, one: str, many: str = "") -> str:
    """A number with its noun: `1 message`, `2,000 messages`."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def spans(positions: Sequence[int]) -> str:
    """Positions as the numbers of messages, neighbours together; the first of many."""
    spans: list[list[int]] = []
    for position in positions:
        if spans and spans[-1][1] == position - 1:
            spans[-1][1] = position
        else:
            spans.append([position, position])
    texts = [f"{a:,}" if a == b else f"{a:,}-{b:,}" for a, b in spans[:MOST_SPANS]]
    return ", ".join(texts) + (" …" if len(spans) > MOST_SPANS else "")
