"""What goes into a compression beside the history: the budget, and where a session stands.

Also the emergency rungs, which tighten both (FR-10). A session imports this module, not the engine.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from compact.engine.aging import Pressure
from compact.messages.checkpoints import Checkpoint
from compact.messages.levels import Caps
from compact.messages.messages import Message
from compact.messages.own_text import headed
from compact.messages.policy import CompactPolicy
from compact.messages.sessions import Projection, Shown


@dataclass(frozen=True, slots=True)
class Budget:
    """The tokens of a prompt, and how many of them are taken by what stands beside the messages."""

    limit: int
    overhead: Mapping[str, int]
    """By part: tool schemas, a system prompt beside the messages, goals, the reply's priming."""
    hard: int | None = None
    """What the prompt may grow to for the sake of its newest group; None where the limit is all
    there is. A session aims at a limit below: it will grow again, so that there is no need to use
    the limit up either."""

    words: int = 0
    """What the newest messages of a person may take before everything else, if anything."""

    @property
    def overhead_tokens(self) -> int:
        """Tokens of what stands beside the messages."""
        return sum(self.overhead.values())

    def floor(self, parts: Mapping[str, int]) -> dict[str, int]:
        """Parts of the history's floor together with what stands beside it."""
        return {k: parts.get(k, 0) + self.overhead.get(k, 0) for k in {**parts, **self.overhead}}

    @property
    def fill(self) -> bool:
        """Whether to use the limit up, clipping at the cut."""
        return self.hard is None


class Wanted(NamedTuple):
    """What somebody wants a compression to come to."""

    tokens: int
    why: str = ""
    """Why no less is wanted, where that is all there is."""


NO_CAPS = Caps(usable=0)
"""Of a single call, which has one checkpoint that never ages; tokens."""


@dataclass(frozen=True, slots=True)
class Standing:
    """The state a session's next compression goes on from."""

    caps: Caps = NO_CAPS
    number: int = 0
    """How many compressions there were."""
    cut: int = 0
    """Everything before it is covered and stays so, except ..."""
    kept: frozenset[int] = frozenset()
    """... these positions, which have been in view all along."""
    live: tuple[Checkpoint, ...] = ()
    """The checkpoints in view, oldest span first."""
    record: Message | None = None
    """The standing record in view."""
    tokens: int = 0
    """Tokens of the prompt as it is."""
    pressure: Pressure = "none"
    goals: tuple[str, ...] = ()
    """The words of the open goals: no summary may call them done."""
    open_tasks: tuple[str, ...] = ()
    """The words of what is still to do for them."""
    by_model: bool = False
    """Whether a model tells the stories."""
    by_code: bool = False
    """Whether nobody tells any: the record is all there is."""

    @property
    def by_record(self) -> bool:
        """Whether the record tells all that is covered, as nobody writes stories of its spans."""
        return self.is_session and self.by_code

    @property
    def is_session(self) -> bool:
        """Whether there is a session: a single call has no caps and nothing behind it."""
        return self.caps is not NO_CAPS


ONE_CALL = Standing()
"""Where a single call stands."""


def standing_of(projection: Projection | None, caps: Caps, *, tokens: int) -> Standing:
    """Where a session stands that goes on from a projection; None is the bare history."""
    if projection is None:
        return Standing(caps, tokens=tokens)
    kept, record = frozenset(projection.kept), _record_of(projection)
    live = projection.checkpoints
    return Standing(caps, projection.number, projection.cut, kept, live, record, tokens)


def _record_of(projection: Projection) -> Message | None:
    """The record that a projection shows."""
    return record_in(piece.message for piece in projection.pieces if isinstance(piece, Shown))


def record_in(messages: Iterable[Message]) -> Message | None:
    """The standing record among these messages."""
    ours = (m for m in messages if m.metadata.source == "checkpoint")
    return next((m for m in ours if headed(m.text) == "Record"), None)


def adopted(projection: Projection, caps: Caps, *, before: int, tokens: int) -> Standing:
    """What another window takes over of a projection: its oldest checkpoints, as far as they stand
    in for nothing from position `before` on.
    """
    taken = [c for c in projection.checkpoints if c.span.last < before]
    if len(taken) == len(projection.checkpoints):
        return standing_of(projection, caps, tokens=tokens)
    kept, cut = left_by(taken)
    record = _record_of(projection)
    return Standing(caps, projection.number, cut, kept, tuple(taken), record, tokens)


def left_by(checkpoints: Sequence[Checkpoint]) -> tuple[frozenset[int], int]:
    """What neighbouring checkpoints leave in view of their span, and where it ends.

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
