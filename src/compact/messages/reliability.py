"""How far the context of a session can be trusted after it was compressed, and how a model of some
size should write (FR-13).

Each compression leaves something out, and a small model leaves out more: the score is a factor of
the model's size, times 0.9 for each compression. Sizes are billions of parameters
(`messages.parameters`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

from compact.messages.checkpoints import Level
from compact.messages.policy import CompactPolicy

Grade = Literal["excellent", "good", "moderate", "low", "critical"]
Found = TypeVar("Found")

KEPT = 0.9
"""What is left of the score after one more compression."""
FACTORS: Sequence[tuple[float, float]] = ((70, 0.95), (30, 0.85), (13, 0.70), (7, 0.50), (0, 0.30))
"""Billions from which on a factor counts."""
GRADES: Sequence[tuple[float, Grade]] = (
    (0.85, "excellent"),
    (0.70, "good"),
    (0.50, "moderate"),
    (0.40, "low"),
    (0.0, "critical"),
)
"""Scores from which on a name counts."""
WARN_AFTER: Sequence[tuple[float, int]] = ((3, 3), (7, 5), (13, 7), (math.inf, 10))
"""Whole billions (a 3B has 3.2) up to which so many compressions are enough for a warning."""


@dataclass(frozen=True, slots=True)
class Reliability:
    """How far a session's context can be trusted."""

    score: float
    """From 0 to 1."""
    grade: Grade
    compressions: int
    warn_after: int
    """Compressions from which on a person is warned."""
    by_model: bool = True
    """Whether a model wrote what stands for the past; code only leaves out."""

    @property
    def meaning(self) -> str:
        """What the score says, and what it does not say."""
        if not self.by_model:
            return (
                "an estimate for summaries that a model writes. Here code wrote them, in the words "
                "that were said; what they leave out is found by recall"
            )
        return (
            "an estimate, by the model's size and the number of compressions, of how far summaries "
            "can be trusted. Nothing of this session was measured; every word of it is kept, and "
            "found by recall"
        )

    @property
    def warning(self) -> str | None:
        """What a person is told; None before there is reason to, and where code wrote."""
        if not self.by_model or self.compressions < self.warn_after:
            return None
        return (
            f"compressed {self.compressions:,} times, and a model of this size is reliable for "
            f"about {self.warn_after}: its context is {self.grade} ({self.score:.0%}, "
            f"{self.meaning}). Start a new session, or go on with a larger model"
        )


@dataclass(frozen=True, slots=True)
class CheckpointStyle:
    """How a new checkpoint is to be written: its level, and the share of the level's cap."""

    level: Level
    share: float

    def applied(self, policy: CompactPolicy) -> CompactPolicy:
        """The policy with this way of writing."""
        return policy.model_copy(update={"new_level": self.level, "level_share": self.share})


WRITINGS: Sequence[tuple[float, CheckpointStyle]] = (
    (30, CheckpointStyle("detailed", 1.0)),
    (13, CheckpointStyle("detailed", 0.8)),
    (7, CheckpointStyle("detailed", 0.6)),
    (0, CheckpointStyle("moderate", 0.8)),
)
"""Billions from which on a way of writing counts.

The smaller a model, the sooner it repeats itself or invents, so it is asked for less: what it does
not say is still in the anchors, and in the history. Below 7 it is not asked for the many sections
of the detailed level either; 0.8 of the moderate cap is 0.4 of the detailed one.
"""


def reliability_of(billions: float, compressions: int, *, by_model: bool = True) -> Reliability:
    """How far a context can be trusted that a model of that size goes on with after so many
    compressions, whose summaries a model wrote or code.

    Raises:
        ValueError: a number of compressions below 0.
    """
    if compressions < 0:
        raise ValueError(f"no session was compressed {compressions} times")
    score = _from(FACTORS, billions) * KEPT**compressions
    after = next(times for most, times in WARN_AFTER if int(billions) <= most)
    return Reliability(score, _from(GRADES, score), compressions, after, by_model)


def writing_of(billions: float) -> CheckpointStyle:
    """How a summarizer of that size should write a new checkpoint."""
    return _from(WRITINGS, billions)


def _from(steps: Sequence[tuple[float, Found]], value: float) -> Found:
    """What the first step says that the value reaches; else what the last one says."""
    return next((found for least, found in steps if value >= least), steps[-1][1])
