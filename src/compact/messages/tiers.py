"""Tiers of windows: limits of the system prompt, and thresholds, by size (FR-11).

A tier follows from the window's *nominal size* (8,192). Every limit follows from the size that the
server is given (`num_ctx`, 6,963).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pydantic import BaseModel, Field, field_validator

from compact.messages.policy import CompactPolicy

NUMBERS = (1, 2, 3, 4, 5)
"""Numbers of the tiers, the smallest windows first."""


class TierSettings(BaseModel, frozen=True, defer_build=True, extra="forbid"):
    """The user's settings for one tier. None means the general setting, or the tier's own.

    They take precedence over the same settings without a tier, from any source.
    """

    trigger_ratio: float | None = Field(default=None, gt=0, le=1)
    target_ratio: float | None = Field(default=None, gt=0, le=1)
    draft_ratio: float | None = Field(default=None, gt=0, le=1)
    prompt_tokens: int | None = Field(default=None, ge=1)
    """Most tokens of the system prompt."""

    @field_validator("*", mode="before")
    @classmethod
    def _no_booleans_as_numbers(cls, value: object) -> object:
        if value is True or value is False:
            raise ValueError("expected a number, not true or false")
        return value


NO_SETTINGS = TierSettings.model_construct()


@dataclass(frozen=True, slots=True)
class Tier:
    """A class of windows of similar size."""

    number: int
    name: str
    largest: int | None
    """Size of the largest window in the tier; None for no limit."""
    prompt_tokens: int
    """Most tokens of the assembled system prompt. An excess is reported, never cut."""
    settings: TierSettings = NO_SETTINGS

    def applied(self, policy: CompactPolicy) -> CompactPolicy:
        """Return the policy with this tier's thresholds."""
        own = self.settings.model_dump(exclude_none=True, exclude={"prompt_tokens"})
        return policy.model_copy(update=own) if own else policy


TIERS: Sequence[Tier] = (
    Tier(1, "up to 4k", 4_096, 200),
    Tier(2, "8k", 8_192, 500),
    Tier(3, "16k", 16_384, 1_000),
    Tier(4, "32k", 32_768, 1_500),
    Tier(5, "64k and more", None, 1_500),
)


def tier_of(size: int, settings: Mapping[int, TierSettings] | None = None) -> Tier:
    """Return the tier of a window of that size, with the user's settings for the tier."""
    tier = next(each for each in TIERS if each.largest is None or size <= each.largest)
    own = (settings or {}).get(tier.number)
    if own is None:
        return tier
    prompt = own.prompt_tokens or tier.prompt_tokens
    return Tier(tier.number, tier.name, tier.largest, prompt, own)
