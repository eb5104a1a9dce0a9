"""What a compression that somebody asks for comes down to, or a message that is put aside."""

from compact.engine.inputs import Wanted
from compact.session.views.view import View

ASKED_SHARE = 0.6
"""Largest share of what lies above the floor that is left where no other is asked for (K-16)."""
FLOOR_ALONE = (
    "the system prompt, pins, checkpoints and the newest message of a person are all there is"
)


LEAST_SHOWN, SHOWN_SHARE = 64, 0.25
"""Tokens that are shown at least of a message that is put aside; and the largest share of the
usable window."""


def wanted_of(view: View, ratio: float | None, *, was_due: bool = False) -> Wanted:
    """Tokens that the prompt may have afterwards. `ratio` is the share to keep of what lies above
    the floor; None for the policy's target, and no more than `ASKED_SHARE` of what was not
    compressed before: checkpoints age as they do. `was_due` is whether a compression was due
    anyway, and made: without a ratio that one was it.
    """
    most, tokens = view.window.usable, view.tokens
    floor = _floor(view)
    if ratio is None:
        if was_due:
            return Wanted(most)
        most = view.window.target
        floor += sum(checkpoint.token_count for checkpoint in view.checkpoints)
    if tokens <= floor:
        return Wanted(floor, FLOOR_ALONE)
    share = ASKED_SHARE if ratio is None else ratio
    return Wanted(min(most, floor + int(share * (tokens - floor))))


def shown_of_aside(view: View, position: int) -> int:
    """Tokens that a message may be shown with so that a prompt fits: what the rest of the
    floor and the checkpoints leave of the window's target; where that is less, half of what the
    floor leaves of the window, and no more than a share of it.
    """
    floor = _floor(view, but=position)
    free = (view.window.usable - floor) // 2
    left = view.window.target - floor - sum(c.token_count for c in view.checkpoints)
    return max(LEAST_SHOWN, left, min(free, int(SHOWN_SHARE * view.window.usable)))


def _floor(view: View, but: int | None = None) -> int:
    """Tokens of what may not be shortened, and of what stands beside the messages."""
    from compact.engine.ladder import Ladder

    ladder = Ladder(view.counted.history, view.counted.state.policy)
    return ladder.floor(but=but) + view.overhead_tokens
