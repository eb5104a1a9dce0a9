"""Calibration: learn from reported usage and refusals how far our token counts are off.

The ratio is reported / counted, and belongs to the tokenizer. A prompt that cost more raises it at
once. One that cost less lowers it slowly, and never below 1 if the tokenizer is exact: prompts that
are too small cost little, but those that are too large are refused. Limits are stored by the
requested size of the window.
"""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel, Field

from compact.messages.overflow import OverflowRefusal

LEAST_PROMPT = 200
"""Reports for prompts of fewer counted tokens are ignored: framing outweighs text there."""
SLOWLY = 0.1
"""How far a lower report moves the ratio towards it (0.1 = a tenth of the difference)."""
LOWEST, HIGHEST = 0.6, 4.0
"""Bounds of the ratio. They keep a wrong report from making every window useless."""
UNSAID = 1.25
"""Assumed ratio of real to expected tokens if an overflow error gives no number."""
LEAST_LIMIT = 512
"""Smaller reported limits are ignored: no window is so small. Some servers report what the answer
leaves of the window."""


class Calibration(BaseModel, frozen=True, defer_build=True):
    """The learned ratio, and the limits that providers reported."""

    ratio: float = Field(default=1.0, ge=LOWEST, le=HIGHEST)
    reports: int = 0
    limits: Mapping[int, int] = Field(default_factory=dict)
    """Requested window size → the smaller limit that an error reported."""

    def after(self, counted: int, reported: int, *, exact: bool) -> Calibration:
        """Return the calibration after a prompt, given our count and the provider's."""
        if counted < LEAST_PROMPT or reported <= 0:
            return self
        measured = reported / counted
        ratio = measured if measured > self.ratio else self.ratio + SLOWLY * (measured - self.ratio)
        ratio = min(max(ratio, 1.0 if exact else LOWEST), HIGHEST)
        return self.model_copy(update={"ratio": ratio, "reports": self.reports + 1})

    def window(self, size: int) -> int:
        """Return the size of a window, or a smaller limit that the provider reported for it."""
        return min(size, self.limits.get(size, size))

    def after_overflow(
        self, counted: int, refusal: OverflowRefusal, *, size: int, exact: bool
    ) -> Calibration:
        """Return the calibration after a prompt for a window was refused as too large."""
        learned = self.after(counted, self._told(counted, refusal), exact=exact)
        return learned if refusal.limit is None else learned.after_word(refusal.limit, size=size)

    def after_word(self, limit: int, *, size: int) -> Calibration:
        """Return the calibration after a provider reported its limit for a window."""
        if limit < LEAST_LIMIT:
            return self
        limits = {asked: least for asked, least in self.limits.items() if asked != size}
        if limit < size:
            limits[size] = limit
        return self.model_copy(update={"limits": limits})

    def _told(self, counted: int, refusal: OverflowRefusal) -> int:
        """Return the prompt's tokens according to the refusal; 0 if the refusal tells nothing."""
        expected = int(counted * self.ratio)
        if refusal.tokens is not None:
            return max(refusal.tokens, expected) if refusal.at_least else refusal.tokens
        if refusal.limit is not None and expected > refusal.limit:
            return 0  # the limit explains the refusal
        return int(expected * UNSAID)
