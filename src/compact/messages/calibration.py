"""Calibration: what reported usage and refusals teach about our token counts and about windows.

The ratio is reported / counted, and belongs to the tokenizer. A prompt that cost more raises it at
once. One that cost less lowers it slowly, and never below 1 if the tokenizer is exact: a prompt
that is too small costs little, one that is too large is refused. A limit belongs to the size of
window that was asked for.
"""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel, Field

from compact.messages.overflow import OverflowRefusal

LEAST_PROMPT = 200
"""Counted tokens below which a report is ignored: framing outweighs text there."""
SLOWLY = 0.1
"""Share of the difference by which one lower report can lower the ratio."""
LOWEST, HIGHEST = 0.6, 4.0
"""Bounds of the ratio, so that a wrong report cannot make every window useless."""
UNSAID = 1.25
"""Factor for an overflow that does not say how many tokens there were."""
LEAST_LIMIT = 512
"""Tokens below which a reported limit is ignored. No window is that small; some servers report what
is left of the window beside the answer."""


class Calibration(BaseModel, frozen=True, defer_build=True):
    """The learned ratio, and the limits that providers reported."""

    ratio: float = Field(default=1.0, ge=LOWEST, le=HIGHEST)
    reports: int = 0
    limits: Mapping[int, int] = Field(default_factory=dict)
    """Smaller sizes that an error reported, by the size that was asked for."""

    def after(self, counted: int, reported: int, *, exact: bool) -> Calibration:
        """The calibration after a prompt, from our count and the provider's."""
        if counted < LEAST_PROMPT or reported <= 0:
            return self
        measured = reported / counted
        ratio = measured if measured > self.ratio else self.ratio + SLOWLY * (measured - self.ratio)
        ratio = min(max(ratio, 1.0 if exact else LOWEST), HIGHEST)
        return self.model_copy(update={"ratio": ratio, "reports": self.reports + 1})

    def window(self, size: int) -> int:
        """A window's size, bounded by the limit that the provider reported for it."""
        return min(size, self.limits.get(size, size))

    def after_overflow(
        self, counted: int, refusal: OverflowRefusal, *, size: int, exact: bool
    ) -> Calibration:
        """The calibration after a prompt for a window of that size was refused as too large."""
        learned = self.after(counted, self._told(counted, refusal), exact=exact)
        return learned if refusal.limit is None else learned.after_word(refusal.limit, size=size)

    def after_word(self, limit: int, *, size: int) -> Calibration:
        """The calibration after a provider reported its limit for a window of that size."""
        if limit < LEAST_LIMIT:
            return self
        limits = {asked: least for asked, least in self.limits.items() if asked != size}
        if limit < size:
            limits[size] = limit
        return self.model_copy(update={"limits": limits})

    def _told(self, counted: int, refusal: OverflowRefusal) -> int:
        """Tokens of the prompt as the refusal tells. 0 if it teaches nothing of them."""
        expected = int(counted * self.ratio)
        if refusal.tokens is not None:
            return max(refusal.tokens, expected) if refusal.at_least else refusal.tokens
        if refusal.limit is not None and expected > refusal.limit:
            return 0  # the limit explains the refusal
        return int(expected * UNSAID)
