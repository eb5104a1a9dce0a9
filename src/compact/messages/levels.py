"""The levels of a checkpoint as it ages, and the most tokens that each may have (FR-4).

They are detailed → moderate → compact → merged: by schedule, or earlier to save tokens. Each level
has a cap, and so have all checkpoints together, so a prompt stays bounded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from compact.messages.checkpoints import Checkpoint, Level

LEVELS: Sequence[Level] = ("detailed", "moderate", "compact", "merged")
SCHEDULE: Mapping[Level, int] = {"detailed": 0, "moderate": 3, "compact": 6, "merged": 10}
"""After how many further compressions a checkpoint gets the level."""
SHARES: Mapping[Level, float] = {
    "detailed": 0.04,
    "moderate": 0.02,
    "compact": 0.01,
    "merged": 0.03,
}
"""Share of the usable window for one checkpoint. A new one may also use what others leave."""
LEAST: Mapping[Level, int] = {"detailed": 400, "moderate": 240, "compact": 160, "merged": 400}
"""Tokens that a level may take even in a small window: fewer hold little but the heading."""
ALL_SHARE = 0.20
"""Largest share of the usable window for all checkpoints together."""
RECORD_SHARE = 0.12
"""Share of the usable window for the record that code writes. Spare room may go to it, too."""


@dataclass(frozen=True, slots=True)
class Caps:
    """Computes caps in tokens from the usable window."""

    usable: int

    def of(self, level: Level) -> int:
        """Return the cap of one checkpoint of that level, heading included."""
        return min(max(int(SHARES[level] * self.usable), LEAST[level]), self.together // 2)

    @property
    def record(self) -> int:
        """Tokens reserved for the record that code writes."""
        return int(RECORD_SHARE * self.usable)

    @property
    def together(self) -> int:
        """Cap of all checkpoints together."""
        return int(ALL_SHARE * self.usable)


def level_at(age: int) -> Level:
    """Return the scheduled level at that age, which is counted in compressions."""
    return next(level for level in reversed(LEVELS) if age >= SCHEDULE[level])


def aged(checkpoint: Checkpoint, number: int) -> Checkpoint:
    """Return the checkpoint at its scheduled level at the session's compression `number`.

    The level follows from stored numbers, so it is the same after the session is opened again.
    """
    level = level_at(max(0, number - checkpoint.number))
    return at_level(checkpoint, older(checkpoint.level, level))


def at_level(checkpoint: Checkpoint, level: Level) -> Checkpoint:
    """Return the same checkpoint with another level."""
    if level == checkpoint.level:
        return checkpoint
    return checkpoint.model_copy(update={"level": level})


def older(one: Level, other: Level) -> Level:
    """Return the later of two levels."""
    return max(one, other, key=LEVELS.index)
