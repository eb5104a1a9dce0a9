"""What a session goes by, resolved from what a person set, the model's profile, the window's tier
and who writes the summaries (FR-11, FR-13, FR-14).

A person's own words count most; what they left open follows from the model and the window.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from compact.errors import InvalidConfig
from compact.messages.model_facts import ToolSupport
from compact.messages.policy import CompactPolicy
from compact.messages.reliability import Reliability, reliability_of, writing_of
from compact.messages.tiers import TierSettings, tier_of
from compact.models.profiles import ModelBook

DEFAULT_WINDOW = 8_192
"""Tokens of the window where neither a model nor a size is given."""


@dataclass(frozen=True, slots=True)
class Setting:
    """Whom a session is for: its model, and the one that writes its summaries."""

    book: ModelBook
    """What is known of models."""
    model: str | None = None
    summarizer: str | None = None
    """The key of the model that writes the summaries; None where none does."""
    tiers: Mapping[int, TierSettings] = field(default_factory=dict)
    """What a person set for single tiers, by number."""

    def size(self, window: int | None) -> int:
        """Tokens of the window that every limit follows from, for a size that a person named.

        A local server is set up for the size that the model's row says, never for more than was
        asked for. Elsewhere a size that is given counts more than the model's.

        Raises:
            UnknownModel: nothing is known of the model's window, and no size is given.
        """
        if self.model is None:
            return window or DEFAULT_WINDOW
        profile = self.book.profile_of(self.model)
        if window is not None and (profile is None or not profile.context_profiles):
            return window
        sizing = self.book.sizing(self.model, window)
        return min(sizing.num_ctx, window or sizing.num_ctx)

    def policy(self, base: CompactPolicy, size: int) -> CompactPolicy:
        """The policy for a window of that size.

        Raises:
            InvalidConfig: what a person keeps free for the answer leaves nothing for a prompt.
        """
        if base.output_reserve >= size:
            reason = (
                f"{base.output_reserve:,} tokens leave none of a window of {size:,} to a prompt"
            )
            raise InvalidConfig("output_reserve", reason)
        policy = tier_of(size, self.tiers).applied(base)
        if self.model is not None and not policy.output_reserve:
            reserve = self.book.output_reserve_of(self.model, size)
            policy = policy.model_copy(update={"output_reserve": reserve})
        if self.summarizer is not None and "level_share" not in base.model_fields_set:
            writing = writing_of(self.book.parameters_of(self.summarizer).billions)
            policy = writing.applied(policy)
        return policy

    def tools(self, model: str, said: bool | None) -> ToolSupport:
        """Whether a model may be given tools: by what is known of it, and what its server said."""
        profile = self.book.profile_of(model)
        known = profile.tools if profile else ToolSupport(None)
        return known.updated(ToolSupport(said, "auto_detected"))

    @property
    def strict_turns(self) -> bool:
        """Whether the model's server refuses any two messages of one role side by side."""
        return self.model is not None and self.book.strict_turns(self.model)

    @property
    def answer(self) -> int:
        """Tokens that the model's answer is given where a prompt leaves them; 0 without a model."""
        if self.model is None:
            return 0
        return (self.book.profile_of(self.model) or self.book.template).answer

    def reliability(self, compressions: int, *, by_model: bool = True) -> Reliability | None:
        """How far the context can be trusted after so many compressions, whose summaries a model
        wrote or code; None without a model.
        """
        if self.model is None:
            return None
        billions = self.book.parameters_of(self.model).billions
        return reliability_of(billions, compressions, by_model=by_model)
