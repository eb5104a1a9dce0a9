"""What goes into a compression beside the history: the budget, and where a session stands.

The emergency rungs tighten both (FR-10). A session imports this module without the engine.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from compact.engine.checkpoint_levels import Pressure
from compact.messages.checkpoints import Checkpoint
from compact.messages.levels import Caps
from compact.messages.messages import Message
from compact.messages.own_text import headed
from compact.messages.policy import CompactPolicy
from compact.messages.sessions import Projection, Shown


@dataclass(frozen=True, slots=True)
class Budget:
    """The limit of a prompt, and the tokens that stand beside its messages."""

    limit: int
    overhead: Mapping[str, int]
    """Tokens by part: tool schemas, a separate system prompt, goals, the priming of the reply."""
    hard: int | None = None
    """The prompt may grow to this for its newest group. None if the limit is final. A session aims
    below the window, as it will grow again."""

    words: int = 0
    """Tokens that the newest messages of a person may take before everything else."""

    @property
    def overhead_tokens(self) -> int:
        """Tokens that stand beside the messages."""
        return sum(self.overhead.values())

    def floor(self, parts: Mapping[str, int]) -> dict[str, int]:
        """Return the tokens of the floor by part, with what stands beside the messages."""
        return {k: parts.get(k, 0) + self.overhead.get(k, 0) for k in {**parts, **self.overhead}}

    @property
    def fill(self) -> bool:
        """Whether to use up the limit by clipping at the cut."""
        return self.hard is None


class Wanted(NamedTuple):
    """The size that a caller wants from a compression."""

    tokens: int
    why: str = ""
    """Why it is no smaller."""


NO_CAPS = Caps(usable=0)
"""Caps of a single call: its one checkpoint never ages."""


@dataclass(frozen=True, slots=True)
class Standing:
    """The state that the next compression of a session goes on from."""

    caps: Caps = NO_CAPS
    number: int = 0
    """How many compressions there were."""
    cut: int = 0
    """Everything before this position is covered, except `kept`."""
    kept: frozenset[int] = frozenset()
    """Positions before the cut that are in view."""
    live: tuple[Checkpoint, ...] = ()
    """The checkpoints in view, oldest span first."""
    record: Message | None = None
    """The standing record in view."""
    tokens: int = 0
    """Tokens of the prompt as it is."""
    pressure: Pressure = "none"
    goals: tuple[str, ...] = ()
    """The words of the open goals. No summary may call them done."""
    open_tasks: tuple[str, ...] = ()
    """The words of their open tasks."""
    by_model: bool = False
    """Whether a model writes the stories."""
    by_code: bool = False
    """Whether code writes them."""

    @property
    def by_record(self) -> bool:
        """Whether the record alone says what is covered, as code writes no stories of spans."""
        return self.is_session and self.by_code

    @property
    def is_session(self) -> bool:
        """Whether this is a session. A single call has no caps and no past."""
        return self.caps is not NO_CAPS


ONE_CALL = Standing()
"""The state of a single call."""


def standing_of(projection: Projection | None, caps: Caps, *, tokens: int) -> Standing:
    """Return the state of a session after a projection. None is the bare history."""
    if projection is None:
        return Standing(caps, tokens=tokens)
    kept, record = frozenset(projection.kept), _record_of(projection)
    live = projection.checkpoints
    return Standing(caps, projection.number, projection.cut, kept, live, record, tokens)


def _record_of(projection: Projection) -> Message | None:
    return record_in(piece.message for piece in projection.pieces if isinstance(piece, Shown))


def record_in(messages: Iterable[Message]) -> Message | None:
    """Return the standing record among these messages."""
    ours = (m for m in messages if m.metadata.source == "checkpoint")
    return next((m for m in ours if headed(m.text) == "Record"), None)


def adopted(projection: Projection, caps: Caps, *, before: int, tokens: int) -> Standing:
    """Return what another window takes over of a projection. These are its oldest checkpoints, up
    to the first that covers a position from `before` on.
    """
    taken = [c for c in projection.checkpoints if c.span.last < before]
    if len(taken) == len(projection.checkpoints):
        return standing_of(projection, caps, tokens=tokens)
    kept, cut = left_by(taken)
    record = _record_of(projection)
    return Standing(caps, projection.number, cut, kept, tuple(taken), record, tokens)


def left_by(checkpoints: Sequence[Checkpoint]) -> tuple[frozenset[int], int]:
    """Return the positions that adjacent checkpoints leave in view, and where their span ends.
    Positions between two spans have been in view all along.
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
"""Share of the usable window that a rolled-over session aims at."""


@dataclass(frozen=True, slots=True)
class LadderRung:
    """One emergency rung: what it tightens."""

    name: str
    pressure: Pressure
    keep: Mapping[str, int] = field(default_factory=dict)
    """Fields of the policy, and the values that they are lowered to."""
    tight: bool = False
    """Whether an oversized newest group is clipped to the limit."""
    rolls_over: bool = False
    bare: bool = False
    """Whether only a receipt stands for what is hidden."""

    def tightened(self, policy: CompactPolicy) -> CompactPolicy:
        """Return the policy as this rung has it."""
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
"""From mild to drastic. `session.views.emergency_ladder` takes a snapshot before each, and measures
it. None touches the system prompt, goals, pins or the newest message of a person."""
