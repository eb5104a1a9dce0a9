"""The emergency rungs, from mild to drastic: what is tightened where the usual ladder is not enough
(FR-10).

Data only: whoever runs them takes a snapshot before each and measures what it brought. Not even the
last one touches the system prompt, goals, pins or the newest message of a person.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from compact.compression.aging import Pressure
from compact.core.policy import CompactPolicy

ROLL_OVER_SHARE = 0.15
"""Share of the usable window that a rolled-over session aims at."""


@dataclass(frozen=True, slots=True)
class LadderRung:
    """One rung: what it tightens."""

    name: str
    pressure: Pressure
    users: int | None = None
    """Messages of a person that stay word for word, at most."""
    turns: int | None = None
    pairs: int | None = None
    tight: bool = False
    """Whether an oversized newest group is clipped to the limit."""
    rolls_over: bool = False
    bare: bool = False
    """Whether a receipt alone stands for what is not shown."""

    def tightened(self, policy: CompactPolicy) -> CompactPolicy:
        """The policy as this rung has it."""
        changes: dict[str, object] = {}
        if self.users is not None:
            changes["keep_user_messages"] = min(policy.keep_user_messages, self.users)
        if self.turns is not None:
            changes["keep_recent_turns"] = min(policy.keep_recent_turns, self.turns)
        if self.pairs is not None:
            changes["keep_tool_pairs"] = min(policy.keep_tool_pairs, self.pairs)
        if self.rolls_over:
            changes["pin_first_request"] = False
        if self.bare:
            changes["strategy"] = "off"
        return policy.model_copy(update=changes)


RUNGS: Sequence[LadderRung] = (
    LadderRung("lower checkpoints", "lower"),
    LadderRung("merge checkpoints", "merge"),
    LadderRung("summarize user messages", "merge", users=1),
    LadderRung("lower keep counts", "merge", users=1, turns=2, pairs=1),
    LadderRung("clip", "merge", users=1, turns=1, pairs=0, tight=True),
    LadderRung("roll over", "merge", users=3, turns=1, pairs=0, tight=True, rolls_over=True),
    LadderRung(
        "receipt", "merge", users=1, turns=1, pairs=0, tight=True, rolls_over=True, bare=True
    ),
)
