"""A session's effective settings, from the user's settings, the model's profile, the window's tier
and the summarizer (FR-11, FR-13, FR-14).

The user's settings take precedence. The model and the window decide the rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from compact.errors import InvalidConfig
from compact.messages.policy import CompactPolicy, TierSettings, tier_of
from compact.messages.reliability import Reliability, ToolSupport, reliability_of, writing_of
from compact.models.profiles import ModelBook

DEFAULT_WINDOW = 8_192
"""The window in tokens if neither a model nor a window is given."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A session's model, the model that writes its summaries, and the facts about both."""

    book: ModelBook
    model: str | None = None
    summarizer: str | None = None
    """The key of the model that writes the summaries. It is None if code writes them."""
    tiers: Mapping[int, TierSettings] = field(default_factory=dict)
    """The user's settings for individual tiers, by tier number."""

    def size(self, window: int | None) -> int:
        """Return the window in tokens from which all limits follow. `window` is the user's setting.

        A local model gets a window size from its profile, but never more than the user's setting.
        For other models the user's setting overrides the model's own window.

        Raises:
            UnknownModel: the model's window is unknown, and no size is given.
        """
        if self.model is None:
            return window or DEFAULT_WINDOW
        profile = self.book.profile_of(self.model)
        if window is not None and (profile is None or not profile.context_profiles):
            return window
        sizing = self.book.sizing(self.model, window)
        return min(sizing.num_ctx, window or sizing.num_ctx)

    def policy(self, base: CompactPolicy, size: int) -> CompactPolicy:
        """Return the policy for a window of that size.

        Raises:
            InvalidConfig: the output reserve leaves no room for a prompt.
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
        """Return whether a model calls tools, from its profile and its server's report `said`."""
        profile = self.book.profile_of(model)
        support = profile.tools if profile else ToolSupport(None)
        return support.updated(ToolSupport(said, "auto_detected"))

    @property
    def strict_turns(self) -> bool:
        """Whether the model's server refuses two messages in a row with the same role."""
        return self.model is not None and self.book.strict_turns(self.model)

    @property
    def answer(self) -> int:
        """Tokens wanted for the model's answer, or 0 without a model. A prompt may leave fewer."""
        if self.model is None:
            return 0
        return (self.book.profile_of(self.model) or self.book.template).answer

    def reliability(self, compressions: int, *, by_model: bool = True) -> Reliability | None:
        """Return how reliable the context is after this many compressions. Return None without a
        model.

        `by_model` says whether a model, rather than code, wrote the summaries.
        """
        if self.model is None:
            return None
        billions = self.book.parameters_of(self.model).billions
        return reliability_of(billions, compressions, by_model=by_model)
