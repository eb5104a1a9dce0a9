"""How large a model is: its parameters in billions, read from what people write.

`3B`, `1.5b`, `270M` and `1T` are what they say; of `E2B` (effective) and `30B-A3B` (active) the
first number counts. `8x7B` is 0.83 × 8 × 7, as experts share what is not theirs: Mixtral's 8x7B has
46.7, its 8x22B 141. Below ten, `M` is no size: `1m` is a window.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from compact.patterns import regex

SHARED = 0.83
"""What is left of experts times size where they share their attention."""
ASSUMED = 7.0
"""Billions of a model that nobody says the size of."""
SMALL = 3.0
"""Billions below which a model is lost in long rules, examples and schemas, and code's own summary
is better than the model's."""
LARGE = 70.0
"""Billions that a provider's model counts as, where its maker does not say."""
_BILLIONS = {"m": 0.001, "b": 1.0, "t": 1_000.0}
_SIZE = regex(
    r"(?<![a-z\d.])(?:(\d{1,3})\s?x\s?)?e?(\d{1,4}(?:\.\d{1,3})?)\s?([bmt])(?![a-z\d])",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Parameters:
    """A model's size, and how it is known."""

    billions: float
    source: Literal["profile", "name", "provider", "assumed"]
    """Its entry or its name says it; or it is taken for a provider's large one, or a small one."""


def billions_in(text: str) -> float | None:
    """The first size that a text names, in billions; None where it names none."""
    for experts, number, unit in _SIZE.findall(text):
        if unit in "mM" and float(number) < 10:
            continue
        one = float(number) * _BILLIONS[unit.lower()]
        if one > 0:
            return round(one * int(experts) * SHARED, 3) if int(experts or 0) > 1 else one
    return None
