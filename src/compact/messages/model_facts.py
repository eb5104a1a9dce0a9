"""Facts about a model: its size in billions of parameters, and whether it may call tools.

People write sizes as `3B`, `1.5b`, `270M` or `1T`. Of `E2B` (effective) and `30B-A3B` (active) the
first number counts. `8x7B` is 0.83 × 8 × 7, because experts share their attention: Mixtral's 8x7B
has 46.7, its 8x22B 141. A number below ten with `M` is not a size: `1m` is a window.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from compact.patterns import regex

SHARED = 0.83
"""Share of (experts × size) that a model really has, because experts share their attention."""
ASSUMED = 7.0
"""Assumed size (billions) of a model whose size is unknown."""
SMALL = 3.0
"""Below this size (billions) a model gets lost in long rules, examples and schemas, so that a
summary written by code is better."""
LARGE = 70.0
"""Assumed size (billions) of a provider's model whose maker does not publish it."""
_BILLIONS = {"m": 0.001, "b": 1.0, "t": 1_000.0}
_SIZE = regex(
    r"(?<![a-z\d.])(?:(\d{1,3})\s?x\s?)?e?(\d{1,4}(?:\.\d{1,3})?)\s?([bmt])(?![a-z\d])",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Parameters:
    """A model's size, and where it comes from."""

    billions: float
    source: Literal["profile", "name", "provider", "assumed"]
    """`profile`: the model's entry. Assumed are `LARGE` (`provider`) and `ASSUMED` (`assumed`)."""


def billions_in(text: str) -> float | None:
    """Return the first size in a text, in billions; None if there is none."""
    for experts, number, unit in _SIZE.findall(text):
        if unit in "mM" and float(number) < 10:
            continue
        one = float(number) * _BILLIONS[unit.lower()]
        if one > 0:
            return round(one * int(experts) * SHARED, 3) if int(experts or 0) > 1 else one
    return None


ToolSource = Literal["user_confirmed", "auto_detected", "runtime_error", "profile"]
"""Where it is known from, the strongest first: the user, the server, an error during use, the file
of models."""
_STRENGTH: Sequence[str] = get_args(ToolSource)


@dataclass(frozen=True, slots=True)
class ToolSupport:
    """Whether a model may call tools. None means unknown."""

    value: bool | None
    source: ToolSource = "profile"

    def updated(self, other: ToolSupport) -> ToolSupport:
        """Return the state after `other`: the stronger source wins, and of equal sources the later.
        An unknown value changes nothing.
        """
        if other.value is None:
            return self
        if self.value is None:
            return other
        weaker = _STRENGTH.index(other.source) > _STRENGTH.index(self.source)
        return self if weaker else other
