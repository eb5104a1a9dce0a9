"""Where a session stands: what its earlier compressions left, and what another window may take
over of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from compact.engine.aging import Pressure
from compact.messages.checkpoints import Checkpoint
from compact.messages.levels import Caps
from compact.messages.messages import Message
from compact.messages.own_text import headed
from compact.messages.sessions import Projection, Shown

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
