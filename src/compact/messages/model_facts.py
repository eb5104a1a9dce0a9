"""Facts of a model: its size in billions of parameters, and whether it may call tools.

People write sizes as `3B`, `1.5b`, `270M` or `1T`. Of `E2B` (effective) and `30B-A3B` (active) the
first number counts. `8x7B` is 0.83 × 8 × 7, because experts share their attention: Mixtral's 8x7B
has 46.7, its 8x22B 141. Below ten, `M` is no size: `1m` is a window.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from compact.patterns import regex

SHARED = 0.83
"""Share of experts times size that remains, because experts share their attention."""
ASSUMED = 7.0
"""Assumed billions of a model of unknown size."""
SMALL = 3.0
"""Billions below which a model is lost in long rules, examples and schemas, so that code's own
summary is better."""
LARGE = 70.0
"""Assumed billions of a provider's model whose maker does not say."""
_BILLIONS = {"m": 0.001, "b": 1.0, "t": 1_000.0}
_SIZE = regex(
    r"(?<![a-z\d.])(?:(\d{1,3})\s?x\s?)?e?(\d{1,4}(?:\.\d{1,3})?)\s?([bmt])(?![a-z\d])",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Parameters:
    """A model's size and its source."""

    billions: float
    source: Literal["profile", "name", "provider", "assumed"]
    """Its entry or name says it, or it is assumed: large for a provider's model, else small."""


def billions_in(text: str) -> float | None:
    """The first size in a text, in billions; None if there is none."""
    for experts, number, unit in _SIZE.findall(text):
        if unit in "mM" and float(number) < 10:
            continue
        one = float(number) * _BILLIONS[unit.lower()]
        if one > 0:
            return round(one * int(experts) * SHARED, 3) if int(experts or 0) > 1 else one
    return None


ToolSource = Literal["user_confirmed", "auto_detected", "runtime_error", "profile"]
"""Who says whether tools may be called, the strongest first: a person, the server, an error during
use, the file of models."""
_STRENGTH: Sequence[str] = get_args(ToolSource)


@dataclass(frozen=True, slots=True)
class ToolSupport:
    """Whether tools may be called. None means unknown."""

    value: bool | None
    source: ToolSource = "profile"

    def updated(self, other: ToolSupport) -> ToolSupport:
        """The state after `other`: the stronger source holds, of equal ones the later. An unknown
        value changes nothing.
        """
        if other.value is None:
            return self
        if self.value is None:
            return other
        weaker = _STRENGTH.index(other.source) > _STRENGTH.index(self.source)
        return self if weaker else other
