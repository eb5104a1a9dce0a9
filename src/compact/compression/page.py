"""A page: lines by section, in a fixed room of tokens."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from compact.core.outline import TITLES
from compact.core.tokens import TokenCounter

HEADING_TOKENS = 5
"""Tokens of a section's heading and the blank line before it, at most."""
LINE_TOKENS = 2
"""Tokens that a line takes besides its words, at most."""


@dataclass(frozen=True, slots=True)
class Row:
    """A line that a section may hold, and where it stands there."""

    text: str
    order: float = 0


@dataclass(slots=True)
class Page:
    """A text in sections while it grows, and the tokens left."""

    counter: TokenCounter
    left: int
    sections: dict[str, list[Row]] = field(default_factory=dict)

    def add(self, title: str, row: Row, room: int | None = None) -> int:
        """Put a line into a section if it fits; the tokens it took, 0 if it did not fit."""
        cost = self.counter.text(row.text) + LINE_TOKENS
        cost += HEADING_TOKENS if title not in self.sections else 0
        if cost > (self.left if room is None else min(room, self.left)):
            return 0
        self.sections.setdefault(title, []).append(row)
        self.left -= cost
        return cost

    def fill(self, title: str, rows: Iterable[Row], room: int) -> list[Row]:
        """Put the first of these lines into a section, within so much room; those left over."""
        over: list[Row] = []
        for row in rows:
            taken = self.add(title, row, room)
            room -= taken
            if not taken:
                over.append(row)
        return over

    def text(self, titles: Collection[str] = TITLES) -> str:
        """The sections of these titles, in the order of the outline, lines in their order."""
        sections: list[str] = []
        for title in TITLES:
            if title in titles and title in self.sections:
                rows = sorted(self.sections[title], key=lambda row: row.order)
                sections.append("\n".join((f"## {title}", *(row.text for row in rows))))
        return "\n\n".join(sections)
