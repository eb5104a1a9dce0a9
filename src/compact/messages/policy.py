"""The policy: what is kept, and how hard to compress. It computes nothing itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import BaseModel, Field, field_validator, model_validator

from compact.messages import kit_names
from compact.messages.checkpoints import Level
from compact.messages.kit_names import POLICY
from compact.messages.messages import ROLES

Strategy = Literal["task_state", "brief", "decision_log", "code_delta", "mask", "off"]
"""How old messages are treated. The first four mask tool output and summarize the rest: as the
state of a task in sections, as a short account, as decisions and reasons, or as changes per file.
`mask` masks and leaves a receipt for the rest. `off` is a sliding window: the newest messages word
for word, and the receipt."""


class CompactPolicy(BaseModel, frozen=True, defer_build=True, extra="forbid"):
    """What is kept, and when and how far to compress. Ratios and shares are fractions of 1."""

    trigger_ratio: float = Field(default=0.70, gt=0, le=1)
    """Share of the window from which a session is compressed; sooner where a large reserve would
    leave no room for an answer behind it."""
    target_ratio: float | None = Field(default=None, gt=0, le=1)
    """Share of the usable window a session is compressed to; None is .60 in windows to 8k, and less
    in larger ones, .40 from 64k on."""
    trigger_tokens: int | None = Field(default=None, gt=0)
    """An absolute cap on the trigger, in tokens."""
    output_reserve: int = Field(default=0, ge=0)
    """Tokens of the window kept free for the model's answer."""
    keep_user_messages: int = Field(default=20, ge=1)
    """How many of a person's newest messages stay word for word."""
    keep_recent_turns: int = Field(default=6, ge=1)
    """How many of the newest turns stay in view; a turn starts with a person's message."""
    keep_tool_pairs: int = Field(default=4, ge=0)
    """How many of the newest tool calls keep their results word for word."""
    roles_never_pruned: tuple[str, ...] = ("system", "developer")
    draft_ratio: float = Field(default=0.60, gt=0, le=1)
    """Share of the window from which a model's summary is drafted in the background, and
    notes are read ahead; where the trigger is another share, the draft begins earlier or later with
    it. Never if at or above `trigger_ratio`."""
    summary_seconds: float = Field(default=300.0, gt=0)
    """Seconds a model may take for one summary; after that, the extractive one is used."""
    summary_request_seconds: float = Field(default=90.0, gt=0)
    """Seconds it may take for one request; after that, half as much is requested at once."""
    strategy: Strategy = "task_state"
    mode: str = "assistant"
    """The use of the session; it decides what a summary keeps first (`text.modes`)."""
    guidance: str = ""
    """What else a person wants kept, in their words."""
    new_level: Level = "detailed"
    """The level of a new checkpoint."""
    level_share: float = Field(default=1.0, gt=0, le=1)
    """Share of its level's cap for a new checkpoint: a small model writes badly at length."""
    checkpoint_share: float = Field(default=0.20, gt=0, le=0.6)
    """Share of the budget a checkpoint may take, not counting the instructions in it."""
    instruction_share: float = Field(default=1 / 3, ge=0, le=0.6)
    """Share of the budget within which a person's instructions stay word for word."""
    snapshots_kept: int = Field(default=20, ge=1)
    """How many snapshots a session keeps. Where a new one is too many, the oldest go that were
    saved before going back or in an emergency, then those without a note. Those with a note stay.
    """
    pin_first_request: bool = True
    """Whether the session's first request stays word for word until roll-over, if it is small
    compared to the available tokens; the plan says if it is not."""

    @model_validator(mode="before")
    @classmethod
    def _by_the_kits_names(cls, given: object) -> object:
        if not isinstance(given, Mapping) or POLICY.keys().isdisjoint(given):
            return given
        return kit_names.read(given, cls.model_fields).settings

    @property
    def trigger_pct(self) -> float:
        """`trigger_ratio`, by its other name."""
        return self.trigger_ratio

    @property
    def keep_tool_io_pairs(self) -> int:
        """`keep_tool_pairs`, by its other name."""
        return self.keep_tool_pairs

    @property
    def summarizes(self) -> bool:
        """Whether old messages are summarized, rather than only counted."""
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
