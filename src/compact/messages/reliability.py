"""Estimates how reliable a session's context is after compressions, from the size of the model
(FR-13).

Each compression leaves something out, and a small model leaves out more. The score is a factor for
the model's size, times 0.9 per compression. Sizes are in billions of parameters.

The size is read from a model's name. People write `3B`, `1.5b`, `270M` or `1T`. Of `E2B`
(effective) and `30B-A3B` (active) the first number counts. `8x7B` is 0.83 × 8 × 7, because experts
share their attention: Mixtral's 8x7B has 46.7 billion, its 8x22B 141 billion. A number below ten
with `M` is not a size, because `1m` is usually a window.

`ToolSupport` says whether a model may call tools.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar, get_args

from compact.messages.checkpoints import Level
from compact.messages.policy import CompactPolicy
from compact.patterns import regex

# --- model facts ----------------------------------------------------------------------------------

SHARED = 0.83
"""Part of (experts × size) that a mixture of experts has, because they share their attention."""
ASSUMED = 7.0
"""Assumed size (billions) of a model of unknown size."""
SMALL = 3.0
"""Size (billions) below which code writes the summaries. Such small models get lost in long rules,
examples and schemas."""
LARGE = 70.0
"""Assumed size (billions) of a provider's model whose size is not published."""
_BILLIONS = {"m": 0.001, "b": 1.0, "t": 1_000.0}
_SIZE = regex(
    r"(?<![a-z\d.])(?:(\d{1,3})\s?x\s?)?e?(\d{1,4}(?:\.\d{1,3})?)\s?([bmt])(?![a-z\d])",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Parameters:
    """A model's size, and where the number comes from."""

    billions: float
    source: Literal["profile", "name", "provider", "assumed"]
    """`profile` is the model's entry in the file of models. `name` is the model's name. `provider`
    means `LARGE` was assumed, `assumed` means `ASSUMED` was."""


def billions_in(text: str) -> float | None:
    """Return the first size in a text, in billions. Return None if there is none."""
    for experts, number, unit in _SIZE.findall(text):
        if unit in "mM" and float(number) < 10:
            continue
        one = float(number) * _BILLIONS[unit.lower()]
        if one > 0:
            return round(one * int(experts) * SHARED, 3) if int(experts or 0) > 1 else one
    return None


ToolSource = Literal["user_confirmed", "auto_detected", "runtime_error", "profile"]
"""The source of the fact, the strongest first: the user, the server, an error during use, the file
of models."""
_STRENGTH: Sequence[str] = get_args(ToolSource)


@dataclass(frozen=True, slots=True)
class ToolSupport:
    """Whether a model may call tools. None means unknown."""

    value: bool | None
    source: ToolSource = "profile"

    def updated(self, other: ToolSupport) -> ToolSupport:
        """Return the newer state. The stronger source wins. Of equal sources, the later wins. An
        unknown value changes nothing.
        """
        if other.value is None:
            return self
        if self.value is None:
            return other
        weaker = _STRENGTH.index(other.source) > _STRENGTH.index(self.source)
        return self if weaker else other


# --- reliability ----------------------------------------------------------------------------------

Grade = Literal["excellent", "good", "moderate", "low", "critical"]
Found = TypeVar("Found")

KEPT = 0.9
"""The score is multiplied by this for each compression."""
FACTORS: Sequence[tuple[float, float]] = ((70, 0.95), (30, 0.85), (13, 0.70), (7, 0.50), (0, 0.30))
"""Smallest size (billions of parameters) → the factor from that size on."""
GRADES: Sequence[tuple[float, Grade]] = (
    (0.85, "excellent"),
    (0.70, "good"),
    (0.50, "moderate"),
    (0.40, "low"),
    (0.0, "critical"),
)
"""Lowest score → the grade from that score on."""
WARN_AFTER: Sequence[tuple[float, int]] = ((3, 3), (7, 5), (13, 7), (math.inf, 10))
"""Largest size (whole billions: 3.2 is 3) → the number of compressions after which to warn."""


@dataclass(frozen=True, slots=True)
class Reliability:
    """How reliable a session's context is."""

    score: float
    """The score, from 0 to 1."""
    grade: Grade
    compressions: int
    warn_after: int
    """The number of compressions after which the user is warned."""
    by_model: bool = True
    """Whether a model wrote the summaries. Code invents nothing, it only leaves things out."""

    @property
    def meaning(self) -> str:
        """What the score means and does not mean, as text for the user."""
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
        """The warning for the user. It is None after few compressions, and if code wrote the
        summaries.
        """
        if not self.by_model or self.compressions < self.warn_after:
            return None
        return (
            f"compressed {self.compressions:,} times, and a model of this size is reliable for "
            f"about {self.warn_after}: its context is {self.grade} ({self.score:.0%}, "
            f"{self.meaning}). Start a new session, or go on with a larger model"
        )


@dataclass(frozen=True, slots=True)
class CheckpointStyle:
    """How to write a new checkpoint: its level, and how much of the level's cap to use."""

    level: Level
    share: float

    def applied(self, policy: CompactPolicy) -> CompactPolicy:
        """Return the policy with this style."""
        return policy.model_copy(update={"new_level": self.level, "level_share": self.share})


WRITINGS: Sequence[tuple[float, CheckpointStyle]] = (
    (30, CheckpointStyle("detailed", 1.0)),
    (13, CheckpointStyle("detailed", 0.8)),
    (7, CheckpointStyle("detailed", 0.6)),
    (0, CheckpointStyle("moderate", 0.8)),
)
"""Smallest size (billions of parameters) → the style from that size on. Small models soon repeat
themselves or invent things, so they are asked for less."""


def reliability_of(billions: float, compressions: int, *, by_model: bool = True) -> Reliability:
    """Return the reliability of a context after that many compressions, for a model of that size.
    `by_model` says whether a model wrote the summaries.

    Raises:
        ValueError: the number of compressions is below 0.
    """
    if compressions < 0:
        raise ValueError(f"no session was compressed {compressions} times")
    score = _from(FACTORS, billions) * KEPT**compressions
    after = next(times for most, times in WARN_AFTER if int(billions) <= most)
    return Reliability(score, _from(GRADES, score), compressions, after, by_model)


def writing_of(billions: float) -> CheckpointStyle:
    """Return the checkpoint style for a summarizer of that size."""
    return _from(WRITINGS, billions)


def _from(steps: Sequence[tuple[float, Found]], value: float) -> Found:
    """Return the value of the first step whose number is at most `value`, or of the last step."""
    return next((found for least, found in steps if value >= least), steps[-1][1])
