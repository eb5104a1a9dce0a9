"""What a compression needs besides the history: the limit of the prompt (`Budget`) and the state of
the session (`Standing`).

If the prompt does not fit, the steps in `RUNGS` make them stricter, and the policy too (FR-10).
Importing this module does not load the pipeline.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from compact.engine.checkpoint_levels import Pressure
from compact.messages.checkpoints import Caps, Checkpoint
from compact.messages.messages import Message
from compact.messages.own_text import headed
from compact.messages.policy import CompactPolicy
from compact.messages.sessions import Projection, Shown


@dataclass(frozen=True, slots=True)
class Budget:
    """The limit of a prompt, and the tokens that its other parts take besides the messages."""

    limit: int
    overhead: Mapping[str, int]
    """Tokens by part: tool schemas, a separate system prompt, goals, the priming of the reply."""
    hard: int | None = None
    """The size to which the prompt may grow for its newest group. None if `limit` is final. A
    session aims below the window, since the prompt will grow again."""

    words: int = 0
    """Tokens that the newest user messages may take before everything else."""

    @property
    def overhead_tokens(self) -> int:
        """Tokens of the prompt's other parts."""
        return sum(self.overhead.values())

    def floor(self, parts: Mapping[str, int]) -> dict[str, int]:
        """Return the floor's tokens by part, with the prompt's other parts."""
        return {k: parts.get(k, 0) + self.overhead.get(k, 0) for k in {**parts, **self.overhead}}

    @property
    def fill(self) -> bool:
        """Whether spare room is filled by clipping. Not if the prompt will still grow (`hard`)."""
        return self.hard is None


class Wanted(NamedTuple):
    """The prompt size that a caller wants from a compression."""

    tokens: int
    why: str = ""
    """Why the size is not smaller."""


NO_CAPS = Caps(usable=0)
"""The caps of a single call: its one checkpoint never ages."""


@dataclass(frozen=True, slots=True)
class Standing:
    """The state from which a session's next compression continues."""

    caps: Caps = NO_CAPS
    number: int = 0
    """How many compressions there were."""
    cut: int = 0
    """Everything before this position is covered, except `kept`."""
    kept: frozenset[int] = frozenset()
    """Positions before the cut whose messages the prompt shows."""
    live: tuple[Checkpoint, ...] = ()
    """The checkpoints in the prompt, oldest span first."""
    record: Message | None = None
    """The record message currently in the prompt, if any."""
    tokens: int = 0
    """Tokens of the current prompt."""
    pressure: Pressure = "none"
    goals: tuple[str, ...] = ()
    """The words of the open goals. No summary may say that they are done."""
    open_tasks: tuple[str, ...] = ()
    """The words of the goals' open tasks."""
    by_model: bool = False
    """Whether a model writes the summaries."""
    by_code: bool = False
    """Whether code writes the summaries."""

    @property
    def by_record(self) -> bool:
        """Whether only the record tells what is covered, because code writes no other summaries."""
        return self.is_session and self.by_code

    @property
    def is_session(self) -> bool:
        """Whether this is a session. A single call has no caps and no past."""
        return self.caps is not NO_CAPS


ONE_CALL = Standing()
"""The state of a single call."""


def standing_of(projection: Projection | None, caps: Caps, *, tokens: int) -> Standing:
    """Return a session's state after a projection (a compressed view), or without one."""
    if projection is None:
        return Standing(caps, tokens=tokens)
    kept, record = frozenset(projection.kept), _record_of(projection)
    live = projection.checkpoints
    return Standing(caps, projection.number, projection.cut, kept, live, record, tokens)


def _record_of(projection: Projection) -> Message | None:
    return record_in(piece.message for piece in projection.pieces if isinstance(piece, Shown))


def record_in(messages: Iterable[Message]) -> Message | None:
    """Return the first of these messages that compact wrote under the heading `Record`. Return None
    if there is none.
    """
    ours = (m for m in messages if m.metadata.source == "checkpoint")
    return next((m for m in ours if headed(m.text) == "Record"), None)


def adopted(projection: Projection, caps: Caps, *, before: int, tokens: int) -> Standing:
    """Return the state that another window takes over from a projection. It takes the oldest
    checkpoints, up to the first that covers a position from `before` on.
    """
    taken = [c for c in projection.checkpoints if c.span.last < before]
    if len(taken) == len(projection.checkpoints):
        return standing_of(projection, caps, tokens=tokens)
    kept, cut = left_by(taken)
    record = _record_of(projection)
    return Standing(caps, projection.number, cut, kept, tuple(taken), record, tokens)


def left_by(checkpoints: Sequence[Checkpoint]) -> tuple[frozenset[int], int]:
    """Return the positions that neighbouring checkpoints do not cover, and where the last one ends.
    Positions between two spans were never covered.
    """
    kept: set[int] = set()
    cut = checkpoints[0].span.first if checkpoints else 0
    for checkpoint in checkpoints:
        kept.update(range(cut, checkpoint.span.first))
        kept.update(checkpoint.kept)
        kept.difference_update(checkpoint.released)
        cut = checkpoint.span.last + 1
    return frozenset(kept), cut


ROLL_OVER_SHARE = 0.15
"""A session that rolls over aims at this share of the usable window."""


@dataclass(frozen=True, slots=True)
class LadderRung:
    """One step of the emergency ladder: what it tightens."""

    name: str
    pressure: Pressure
    keep: Mapping[str, int] = field(default_factory=dict)
    """Fields of the policy → the values to which they are lowered."""
    tight: bool = False
    """Whether an oversized newest group is clipped to the limit."""
    rolls_over: bool = False
    bare: bool = False
    """Whether only a receipt (no summary) replaces the hidden messages."""

    def tightened(self, policy: CompactPolicy) -> CompactPolicy:
        """Return the policy with this step's changes."""
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
"""The steps from mild to drastic. `session.views.fitting` takes a snapshot before each and
measures it. None changes the system prompt, goals, pins or the newest user message."""
