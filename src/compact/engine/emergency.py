"""The emergency rungs, from mild to drastic: what is tightened where the usual ladder is not enough
(FR-10).

Data only: whoever runs them takes a snapshot before each and measures what it brought. Not even the
last one touches the system prompt, goals, pins or the newest message of a person.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from compact.engine.aging import Pressure
from compact.messages.policy import CompactPolicy

ROLL_OVER_SHARE = 0.15
"""Share of the usable window that a rolled-over session aims at."""


@dataclass(frozen=True, slots=True)
class LadderRung:
    """One rung: what it tightens."""

    name: str
    pressure: Pressure
    keep: Mapping[str, int] = field(default_factory=dict)
    """Counts of the policy, and what each is lowered to."""
    tight: bool = False
    """Whether an oversized newest group is clipped to the limit."""
    rolls_over: bool = False
    bare: bool = False
    """Whether a receipt alone stands for what is not shown."""

    def tightened(self, policy: CompactPolicy) -> CompactPolicy:
        """The policy as this rung has it."""
        changes: dict[str, object] = {k: min(getattr(policy, k), n) for k, n in self.keep.items()}
        if self.rolls_over:
            changes["pin_first_request"] = False
        if self.bare:
            changes["strategy"] = "off"
        return policy.model_copy(update=changes)


def _keep(users: int, turns: int, pairs: int) -> Mapping[str, int]:
    return {"keep_user_messages": users, "keep_recent_turns": turns, "keep_tool_pairs": pairs}


RUNGS: Sequence[LadderRung] = (
    LadderRung("lower checkpoints", "lower"),
    LadderRung("merge checkpoints", "merge"),
    LadderRung("summarize user messages", "merge", {"keep_user_messages": 1}),
    LadderRung("lower keep counts", "merge", _keep(1, 2, 1)),
    LadderRung("clip", "merge", _keep(1, 1, 0), tight=True),
    LadderRung("roll over", "merge", _keep(3, 1, 0), tight=True, rolls_over=True),
    LadderRung("receipt", "merge", _keep(1, 1, 0), tight=True, rolls_over=True, bare=True),
)
