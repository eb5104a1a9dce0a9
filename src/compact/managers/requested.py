"""What a compression that somebody asks for comes down to."""

from compact.compression.ladder import Ladder
from compact.managers.drafts import Wanted
from compact.managers.state import SessionState
from compact.managers.view import View

ASKED_SHARE = 0.6
"""Largest share of what lies above the floor that is left where no other is asked for (K-16)."""
NOTHING_NEW = "nothing was said since the last compression"
FLOOR_ALONE = "the system prompt, pins and the newest message of a person are all there is"


def wanted_of(state: SessionState, view: View, ratio: float | None) -> Wanted:
    """Tokens that the prompt may have afterwards. `ratio` is the share to keep of what lies above
    the floor; None for the policy's target, and no more than `ASKED_SHARE`. Where nothing was said
    since the last compression, that one was it.
    """
    most, tokens, before = view.window.usable, view.tokens, view.projection
    if ratio is None:
        if before is not None and before.at == len(state.history):
            return Wanted(most, NOTHING_NEW)
        most = view.window.target
    floor = Ladder(state.history, state.policy).floor() + view.aside
    if tokens <= floor:
        return Wanted(floor, FLOOR_ALONE)
    share = ASKED_SHARE if ratio is None else ratio
    return Wanted(min(most, floor + int(share * (tokens - floor))))
