"""The policy: what is kept, and how hard to compress. This module holds settings and computes no
view.

Windows of similar size form a *tier* (FR-11). A tier has thresholds and a limit of the system
prompt. The tier follows from the window's *nominal size* (for example 8,192). Token limits follow
from the size that the server is given (`num_ctx`, for example 6,963).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, Field, field_validator, model_validator

from compact.messages import kit_names
from compact.messages.checkpoints import Level
from compact.messages.kit_names import POLICY
from compact.messages.messages import ROLES

Strategy = Literal["task_state", "brief", "decision_log", "code_delta", "mask", "off"]
"""How old messages are treated. The first four hide tool output and summarize the rest. They write
the state of a task in sections, a short account, decisions with reasons, or changes per file.
`mask` hides tool output, and puts a receipt in place of the rest. `off` keeps the newest messages
word for word, and puts the receipt in place of all others."""


class CompactPolicy(BaseModel, frozen=True, defer_build=True, extra="forbid"):
    """What is kept, and when and how far to compress. Ratios and shares are fractions of 1."""

    trigger_ratio: float = Field(default=0.70, gt=0, le=1)
    """Share of the window from which on a session is compressed. Compression starts earlier if a
    large `output_reserve` would leave no room for an answer."""
    target_ratio: float | None = Field(default=None, gt=0, le=1)
    """Share of the usable window that a session is compressed to. None means .60 in windows up to
    8k, and less in larger ones, down to .40 from 64k on."""
    trigger_tokens: int | None = Field(default=None, gt=0)
    """Upper bound of the trigger, in tokens."""
    output_reserve: int = Field(default=0, ge=0)
    """How many tokens of the window are kept free for the model's answer."""
    keep_user_messages: int = Field(default=20, ge=1)
    """How many of the user's newest messages stay word for word."""
    keep_recent_turns: int = Field(default=6, ge=1)
    """How many of the newest turns a prompt shows. A turn starts with a message of the user."""
    keep_tool_pairs: int = Field(default=4, ge=0)
    """How many of the newest tool calls keep their results word for word."""
    roles_never_pruned: tuple[str, ...] = ("system", "developer")
    draft_ratio: float = Field(default=0.60, gt=0, le=1)
    """Share of the window from which on a model drafts a summary in the background and takes notes
    ahead. If the trigger is set to another share, the draft's share changes with it. If it is not
    below `trigger_ratio`, nothing is drafted."""
    summary_seconds: float = Field(default=300.0, gt=0)
    """Seconds that a model may take for one summary. Then the extractive summary is used."""
    summary_request_seconds: float = Field(default=90.0, gt=0)
    """Seconds that a model may take for one request. Then half as much is requested at once."""
    strategy: Strategy = "task_state"
    mode: str = "assistant"
    """What the session is used for. It decides what a summary keeps first (`text.modes`)."""
    guidance: str = ""
    """What else a summary should keep, in the user's words."""
    new_level: Level = "detailed"
    """The level of a new checkpoint."""
    level_share: float = Field(default=1.0, gt=0, le=1)
    """Share of the level's cap that a new checkpoint gets. It is lower for a small model."""
    checkpoint_share: float = Field(default=0.20, gt=0, le=0.6)
    """Share of the budget that a checkpoint may take, without the instructions in it."""
    instruction_share: float = Field(default=1 / 3, ge=0, le=0.6)
    """Share of the budget in which the user's instructions stay word for word."""
    snapshots_kept: int = Field(default=20, ge=1)
    """How many snapshots a session keeps. If there are more, the oldest are removed: first those
    that were saved before an undo or in an emergency, then those without a note. Those with a note
    stay."""
    pin_first_request: bool = True
    """Whether the session's first request stays word for word until roll-over, if it is small
    compared to the available tokens. The plan reports it if the request does not stay."""

    @model_validator(mode="before")
    @classmethod
    def _by_the_kits_names(cls, given: object) -> object:
        if not isinstance(given, Mapping) or POLICY.keys().isdisjoint(given):
            return given
        return kit_names.read(given, cls.model_fields).settings

    @property
    def trigger_pct(self) -> float:
        """The same as `trigger_ratio`, under the kit's name."""
        return self.trigger_ratio

    @property
    def keep_tool_io_pairs(self) -> int:
        """The same as `keep_tool_pairs`, under the kit's name."""
        return self.keep_tool_pairs

    @property
    def summarizes(self) -> bool:
        """Whether old messages are summarized. Otherwise a receipt only counts them."""
        return self.strategy not in ("mask", "off")

    @field_validator("roles_never_pruned")
    @classmethod
    def _known_roles(cls, roles: tuple[str, ...]) -> tuple[str, ...]:
        for role in roles:
            if role not in ROLES:
                raise ValueError(
                    f"no role is called {role!r}; there are {', '.join(sorted(ROLES))}"
                )
        return roles


# --- tiers ----------------------------------------------------------------------------------------

NUMBERS = (1, 2, 3, 4, 5)
"""Numbers of the tiers. Tier 1 has the smallest windows."""


class TierSettings(BaseModel, frozen=True, defer_build=True, extra="forbid"):
    """The user's settings for one tier. None means the setting without a tier, or the tier's
    default.

    They take precedence over the same settings without a tier, whatever source these come from.
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
    """Size of the largest window in the tier. None means no limit."""
    prompt_tokens: int
    """Most tokens of the assembled system prompt. A longer prompt is reported, never cut."""
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
    """Return the tier of a window of that size, together with the user's settings for the tier."""
    tier = next(each for each in TIERS if each.largest is None or size <= each.largest)
    own = (settings or {}).get(tier.number)
    if own is None:
        return tier
    prompt = own.prompt_tokens or tier.prompt_tokens
    return Tier(tier.number, tier.name, tier.largest, prompt, own)
