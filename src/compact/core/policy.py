"""The policy: one resolved value that says what is kept and how hard to compress.

Nothing here computes; `core.partition` and `compression.ladder` read it.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from compact.core.checkpoints import Level
from compact.core.messages import ROLES

Strategy = Literal["task_state", "brief", "decision_log", "code_delta", "mask", "off"]
"""What happens to what is old. The first four mask tool output and summarize the rest: as the state
of a task in sections, as a short account, as what was decided and why, as what changed in which
file. `mask` masks and leaves a receipt of what is not shown; `off` is a sliding window: the newest
messages word for word, and the receipt."""


class CompactPolicy(BaseModel):
    """What is kept, and when and how far to compress. Ratios and shares are fractions of 1."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    trigger_ratio: float = Field(default=0.70, gt=0, le=1)
    """Share of the usable window from which a session is compressed."""
    target_ratio: float = Field(default=0.40, gt=0, le=1)
    """Share of the usable window a session is compressed to."""
    trigger_tokens: int | None = Field(default=None, gt=0)
    """An absolute cap on the trigger, in tokens."""
    output_reserve: int = Field(default=0, ge=0)
    """Tokens of the window kept free for the model's answer."""
    keep_user_messages: int = Field(default=20, ge=1)
    """The newest messages of a person that stay word for word."""
    keep_recent_turns: int = Field(default=6, ge=1)
    """The newest turns that stay in view; a turn starts at a person's words."""
    keep_tool_pairs: int = Field(default=4, ge=0)
    """The newest tool calls whose results stay word for word."""
    roles_never_pruned: tuple[str, ...] = ("system", "developer")
    draft_ratio: float = Field(default=0.60, gt=0, le=1)
    """Share of the usable window from which a summary is drafted in the background, where a model
    writes it; at the trigger or above it, never."""
    summary_seconds: float = Field(default=300.0, gt=0)
    """Seconds that a model may take for one summary; then the extractive one is written."""
    summary_request_seconds: float = Field(default=90.0, gt=0)
    """Seconds that it may take for one request of it; then half as much is asked for at once."""
    strategy: Strategy = "task_state"
    mode: str = "assistant"
    """What the session is used for: it says what a summary keeps first (`core.modes`)."""
    guidance: str = ""
    """What a person wants kept beside that, in their words."""
    new_level: Level = "detailed"
    """The level a new checkpoint begins at."""
    level_share: float = Field(default=1.0, gt=0, le=1)
    """Share of its level's cap that a new checkpoint may take: a small model writes badly at
    length."""
    checkpoint_share: float = Field(default=0.20, gt=0, le=0.6)
    """Share of the budget a checkpoint may take, beside the instructions it carries."""
    instruction_share: float = Field(default=1 / 3, ge=0, le=0.6)
    """Share of the budget within which instructions of a person stay word for word."""
    pin_first_request: bool = True
    """Whether the session's first request stays word for word until roll-over, as long as it is
    small beside the room; the plan says where it is not."""

    @property
    def summarizes(self) -> bool:
        """Whether what is old is summarized, rather than only counted."""
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
