"""What a compression that somebody asks for comes down to."""

from __future__ import annotations

from compact.compression.ladder import Ladder
from compact.managers.state import SessionState
from compact.managers.view import View

HALF, ASKED_SHARE = 0.5, 0.6
"""Share of the usable window from which a compression that is asked for leaves at most the second
share of what lies above the floor (K-16)."""


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
