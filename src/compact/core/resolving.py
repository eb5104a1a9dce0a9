"""The one policy that a session goes by, resolved from what a person set, the model's profile, its
tier, and who writes the summaries (FR-11, FR-13, FR-14).

A person's own words count most; what they left open follows from the model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from compact.core.policy import CompactPolicy
from compact.core.profiles import ModelBook
from compact.core.reliability import writing_of
from compact.core.tiers import Tier, TierSettings, tier_of

DEFAULT_WINDOW = 8_192
"""Tokens of the window where neither a model nor a size is given."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a session is opened with."""

    policy: CompactPolicy = field(default_factory=CompactPolicy)
    model: str | None = None
    window: int | None = None
    """The size as a person names it, in tokens."""
    summarizer: str | None = None
    """The key of the model that writes the summaries; None where none does."""
    tiers: Mapping[int, TierSettings] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Resolved:
    """What follows from it."""

    policy: CompactPolicy
    size: int
    """Tokens of the window that every limit follows from; what a local server is told."""
    tier: Tier


def resolved(wanted: Wanted, book: ModelBook) -> Resolved:
    """The policy, window and tier of a session.

    Raises:
        UnknownModel: nothing is known of the model's window, and no size is given.
    """
    named, size = _sizes(wanted, book)
    tier = tier_of(named, wanted.tiers)
    policy = tier.applied(wanted.policy)
    if wanted.model is not None and not policy.output_reserve:
        reserve = book.output_reserve_of(wanted.model, size)
        policy = policy.model_copy(update={"output_reserve": reserve})
    if wanted.summarizer is not None and "level_share" not in wanted.policy.model_fields_set:
        writing = writing_of(book.parameters_of(wanted.summarizer).billions)
        policy = writing.applied(policy)
    return Resolved(policy, size, tier)


def _sizes(wanted: Wanted, book: ModelBook) -> tuple[int, int]:
    """The window's size as a person names it, and as limits are computed from.

    A local server is set up for the size that the model's row says, never for more than was asked
    for. Elsewhere a size that is given counts more than the model's.
    """
    model, window = wanted.model, wanted.window
    if model is None:
        size = window or DEFAULT_WINDOW
        return size, size
    profile = book.profile_of(model)
    if window is not None and (profile is None or not profile.context_profiles):
        return window, window
    sizing = book.sizing(model, window)
    return sizing.size, min(sizing.num_ctx, window or sizing.num_ctx)
