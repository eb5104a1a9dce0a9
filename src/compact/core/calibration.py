"""What a provider's reported usage teaches about our token counts.

The ratio is reported / counted. A prompt that cost more than the ratio says raises it at once; one
that cost less lowers it slowly, and never below 1 where the tokenizer is exact: a prompt that is
too small costs little, one that is too large is lost.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

LEAST_PROMPT = 200
"""Counted tokens below which a report says little: framing outweighs text."""
SLOWLY = 0.1
"""Share of the way that one report of less can lower the ratio."""
LOWEST, HIGHEST = 0.6, 4.0
UNSAID = 1.25
"""Factor for an overflow that does not say how many tokens there were."""


class Calibration(BaseModel):
    """The learned ratio, and the limit a provider has shown to have."""

    model_config = ConfigDict(frozen=True)

    ratio: float = Field(default=1.0, ge=LOWEST, le=HIGHEST)
    reports: int = 0
    limit: int | None = None
    """Tokens of the provider's window, where an error told that it is smaller than was said."""

    def after(self, counted: int, reported: int, *, exact: bool) -> Calibration:
        """What is known after a prompt that we counted so, and the provider so."""
        if counted < LEAST_PROMPT or reported <= 0:
            return self
        seen = reported / counted
        ratio = seen if seen > self.ratio else self.ratio + SLOWLY * (seen - self.ratio)
        ratio = min(max(ratio, 1.0 if exact else LOWEST), HIGHEST)
        return self.model_copy(update={"ratio": ratio, "reports": self.reports + 1})

    def after_overflow(
        self, counted: int, reported: int | None, limit: int | None, *, exact: bool
    ) -> Calibration:
        """What is known after a prompt was refused as too large."""
        told = reported if reported is not None else int(counted * self.ratio * UNSAID)
        known = self.after(counted, told, exact=exact)
        smaller = limit if self.limit is None or limit is None else min(limit, self.limit)
        return known.model_copy(update={"limit": smaller if smaller is not None else self.limit})
