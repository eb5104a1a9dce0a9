"""The levels a checkpoint passes as it ages, and how many tokens each may have (FR-4).

detailed → moderate → compact → merged, by schedule or earlier under pressure. Every level has a
hard cap and all checkpoints together have one, so that the active context is bounded for ever.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from compact.messages.checkpoints import Checkpoint, Level

LEVELS: Sequence[Level] = ("detailed", "moderate", "compact", "merged")
SCHEDULE: Mapping[Level, int] = {"detailed": 0, "moderate": 3, "compact": 6, "merged": 10}
"""Compressions since a checkpoint was made from which on it has that level."""
SHARES: Mapping[Level, float] = {
    "detailed": 0.04,
    "moderate": 0.02,
    "compact": 0.01,
    "merged": 0.03,
}
"""Share of the usable window for one checkpoint; a new one takes more where others leave it."""
LEAST: Mapping[Level, int] = {"detailed": 400, "moderate": 240, "compact": 160, "merged": 400}
"""Tokens a level may take even of a small window: below that, little but the heading is left."""
ALL_SHARE = 0.20
"""Largest share of the usable window that all checkpoints together may take."""
RECORD_SHARE = 0.12
"""Share of the usable window for the standing record, and more where the target leaves it."""


@dataclass(frozen=True, slots=True)
class Caps:
    """The caps that follow from a usable window, in tokens."""

    usable: int

    def of(self, level: Level) -> int:
        """The cap of one checkpoint of the level, its heading included."""
        return min(max(int(SHARES[level] * self.usable), LEAST[level]), self.together // 2)

    @property
    def record(self) -> int:
        """Tokens that are set aside for the standing record."""
        return int(RECORD_SHARE * self.usable)

    @property
    def together(self) -> int:
        """The cap of all checkpoints together."""
        return int(ALL_SHARE * self.usable)


def level_at(age: int) -> Level:
    """The level that the schedule gives a checkpoint after so many compressions."""
    return next(level for level in reversed(LEVELS) if age >= SCHEDULE[level])


def aged(checkpoint: Checkpoint, number: int) -> Checkpoint:
    """The checkpoint at the level that the schedule gives it at the session's compression `number`;
    its words stay.

    So the level follows from what is stored, and is the same after the session was opened again.
    """
    level = level_at(max(0, number - checkpoint.number))
    return at_level(checkpoint, older(checkpoint.level, level))


def at_level(checkpoint: Checkpoint, level: Level) -> Checkpoint:
    """The same checkpoint, said to be of another level."""
    if level == checkpoint.level:
        return checkpoint
    return checkpoint.model_copy(update={"level": level})


def older(one: Level, other: Level) -> Level:
    """The later of two levels."""
    return max(one, other, key=LEVELS.index)
