"""What a compression that somebody asks for comes down to, or a message that is put aside."""

from __future__ import annotations

from compact.compression.ladder import Ladder
from compact.managers.state import SessionState
from compact.managers.view import View

HALF, ASKED_SHARE = 0.5, 0.6
"""Share of the usable window from which a compression that is asked for leaves at most the second
share of what lies above the floor (K-16)."""


LEAST_SHOWN, SHOWN_SHARE = 64, 0.25
"""Tokens that are shown at least of a message that is put aside; and the largest share of the
usable window."""


def requested_limit(state: SessionState, view: View, ratio: float | None) -> int:
    """Tokens that the prompt may have afterwards. `ratio` is the share to keep of what lies above
    the floor; None for the policy's target.
    """
    most, tokens = view.window.usable, view.tokens
    if ratio is None:
        most = view.window.target
        if tokens < HALF * view.window.usable:
            return most
    floor = Ladder(state.history, state.policy).floor() + view.aside
    share = ASKED_SHARE if ratio is None else ratio
    return min(most, floor + int(share * max(0, tokens - floor)))


def shown_of_aside(state: SessionState, view: View, position: int) -> int:
    """Tokens that a message may be shown with so that a prompt fits: half of what the rest of the
    floor leaves of the window, and no more than a share of it.
    """
    state.history.put_aside(position, LEAST_SHOWN)
    floor = Ladder(state.history, state.policy).floor() + view.aside
    free = (view.window.usable - floor) // 2
    return max(LEAST_SHOWN, min(free, int(SHOWN_SHARE * view.window.usable)))
