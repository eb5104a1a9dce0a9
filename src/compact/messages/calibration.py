"""What a provider's reported usage and its refusals teach: how far our token counts are off, and
that a window is smaller than was said.

The ratio is reported / counted, and belongs to the tokenizer. A prompt that cost more than the
ratio says raises it at once; one that cost less lowers it slowly, and never below 1 where the
tokenizer is exact: a prompt that is too small costs little, one that is too large is lost. A limit
belongs to the size of the window that was asked for.
"""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel, Field

from compact.messages.overflow import OverflowRefusal

LEAST_PROMPT = 200
"""Counted tokens below which a report says little: framing outweighs text."""
SLOWLY = 0.1
"""Share of the way that one report of less can lower the ratio."""
LOWEST, HIGHEST = 0.6, 4.0
"""Bounds of the ratio, so that a wrong report cannot make a window of any size useless."""
UNSAID = 1.25
"""Factor for an overflow that does not say how many tokens there were."""
LEAST_LIMIT = 512
"""Tokens below which no window lies: a smaller number is not the window's (some servers name what
is left of it beside the answer)."""


class Calibration(BaseModel, frozen=True, defer_build=True):
    """The learned ratio, and the limits that providers have shown to have."""

    ratio: float = Field(default=1.0, ge=LOWEST, le=HIGHEST)
    reports: int = 0
    limits: Mapping[int, int] = Field(default_factory=dict)
    """Tokens of windows that an error told to be smaller, by the size that was asked for."""

    def after(self, counted: int, reported: int, *, exact: bool) -> Calibration:
        """What is known after a prompt that we counted so, and the provider so."""
        if counted < LEAST_PROMPT or reported <= 0:
            return self
        seen = reported / counted
        ratio = seen if seen > self.ratio else self.ratio + SLOWLY * (seen - self.ratio)
        ratio = min(max(ratio, 1.0 if exact else LOWEST), HIGHEST)
        return self.model_copy(update={"ratio": ratio, "reports": self.reports + 1})

    def window(self, size: int) -> int:
        """The size of a window that was asked for, as far as a provider's errors bear it out."""
        return min(size, self.limits.get(size, size))

    def after_overflow(
        self, counted: int, refusal: OverflowRefusal, *, size: int, exact: bool
    ) -> Calibration:
        """What is known after a prompt for a window of that size was refused as too large."""
        known = self.after(counted, self._told(counted, refusal), exact=exact)
        return known if refusal.limit is None else known.after_word(refusal.limit, size=size)

    def after_word(self, limit: int, *, size: int) -> Calibration:
        """What is known after a provider named its limit for a window of that size."""
        if limit < LEAST_LIMIT:
            return self
        limits = {asked: least for asked, least in self.limits.items() if asked != size}
        if limit < size:
            limits[size] = limit
        return self.model_copy(update={"limits": limits})

    def _told(self, counted: int, refusal: OverflowRefusal) -> int:
        """Tokens of the prompt, as far as a refusal tells; 0 where it teaches nothing of them."""
        expected = int(counted * self.ratio)
        if refusal.tokens is not None:
            return max(refusal.tokens, expected) if refusal.at_least else refusal.tokens
        if refusal.limit is not None and expected > refusal.limit:
            return 0  # the limit alone explains it
        return int(expected * UNSAID)
