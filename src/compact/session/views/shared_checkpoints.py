"""Where a window stands: what it goes on from, and what a new one takes over of the others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from compact.engine.inputs import Standing, adopted, standing_of
from compact.messages.levels import Caps

if TYPE_CHECKING:
    from compact.engine.history import History
    from compact.messages.budget import ContextWindow
    from compact.messages.sessions import Projection
    from compact.session.counted_session import CountedSession
    from compact.session.state import SessionState

MOST_LOOKED_AT = 8
"""Newest moves each of which is looked at."""


def standing_in(
    counted: CountedSession,
    projection: Projection | None,
    window: ContextWindow,
    *,
    size: int,
    overhead_tokens: int,
    tokens: int,
) -> Standing:
    """Where a window stands, which the session knows by its `size`, that goes on from a projection.

    From none, it goes on from the checkpoints of another window that reach furthest and leave it a
    tail of its own.
    """
    caps = Caps(window.usable)
    if projection is not None:
        return standing_of(projection, caps, tokens=tokens)
    before = _start_of_tail(counted.history, window.target - overhead_tokens)
    projections = _others(counted.state, size, before)
    others = (adopted(each, caps, before=before, tokens=tokens) for each in projections)
    bare = standing_of(None, caps, tokens=tokens)
    return max(others, key=lambda standing: standing.cut, default=bare)


def _others(state: SessionState, size: int, before: int) -> Iterator[Projection]:
    """Projections of other windows on the open branch: the newest ones, and the newest of which
    nothing stands for messages from position `before` on.
    """
    for looked, move in enumerate(state.moves()):
        if move.window == size or move.projection_id is None:
            continue
        if looked < MOST_LOOKED_AT or move.at <= before:
            yield state.projection(move.projection_id)
        if move.at <= before:
            return


def _start_of_tail(history: History, room: int) -> int:
    """Where the newest messages start that take so many tokens."""
    position, total = len(history), 0
    while position > 0 and total <= room:
        position -= 1
        total += history.tokens(position)
    return position
