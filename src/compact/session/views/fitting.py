"""Decides how small a requested compression makes a context. Runs the emergency ladder if a context
does not fit.

The ladder's rungs are ever stricter ways to compress. Before each rung a snapshot is taken. The
first context that fits is used. If none fits, the error lists the parts of the floor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from compact.engine.inputs import ROLL_OVER_SHARE, RUNGS, LadderRung, Wanted
from compact.errors import CannotFit, CompactError, InvalidArgument, SummaryRejected, Superseded
from compact.messages.events import EmergencyRung
from compact.session.views.time_travel import take_snapshot
from compact.session.views.view import View

if TYPE_CHECKING:
    from compact.engine.plan import Plan
    from compact.session.state import SessionState
    from compact.session.views.drafts import Draft


async def make_fit(
    state: SessionState, view: View, error: CompactError, needed: int | None = None
) -> Plan:
    """Make the view fit by emergency rungs: into its usable window, or into `needed` tokens if that
    is less. `error` says why it did not fit. The caller holds the view's turn (`alone`).

    Raises:
        CannotFit: not even the last rung was enough. Nothing is lost; the snapshots are kept.
        CompactError: `error` itself, if it is of another kind and no rung was enough.
        Superseded: the session changed meanwhile, and that change is kept.
    """
    most = view.window.usable
    for rung in RUNGS:
        try:
            draft = await tried(state, view, rung, min(needed or most, most))
        except Superseded:
            raise
        except CompactError as failed:
            error = failed if isinstance(failed, CannotFit) else error
            continue
        if draft is not None:
            view.commit(draft)
            return draft.proposal.plan.owned()
    raise error


async def tried(state: SessionState, view: View, rung: LadderRung, needed: int) -> Draft | None:
    """Take a snapshot, and return a rung's draft; None if it exceeds `needed` tokens."""
    limit = int(needed * ROLL_OVER_SHARE) if rung.rolls_over else needed
    snapshot = take_snapshot(state, view, purpose="emergency", note=rung.name)
    before, after = view.tokens_now, None
    try:
        draft = await _fitted(view, limit, before, rung)
        after = draft.proposal.plan.tokens_after
    finally:
        state.emit(
            EmergencyRung(
                rung=rung.name,
                snapshot_id=snapshot.id,
                tokens_before=before,
                tokens_after=after,
                needed=needed,
            )
        )
    return draft if after <= needed else None


async def _fitted(view: View, limit: int, before: int, rung: LadderRung) -> Draft:
    try:
        return await view.propose(limit, before, rung)
    except (CannotFit, SummaryRejected):
        if limit >= view.window.usable:
            raise
        return await view.propose(view.window.usable, before, rung)


# --- on request ----------------------------------------------------------------------------------

ASKED_SHARE = 0.6
"""The largest share of the tokens above the floor to keep, if no share is requested (K-16)."""
FLOOR_ALONE = (
    "the system prompt, pins, checkpoints and the newest message of a person are all there is"
)


LEAST_SHOWN, SHOWN_SHARE = 64, 0.25
"""The least tokens to show of a message that was put aside, and the most, as a share of the usable
window."""


def wanted_of(view: View, ratio: float | None, *, was_due: bool = False) -> Wanted:
    """Return how many tokens a prompt may have after a requested compression. `ratio` is the share
    of the tokens above the floor to keep. None means the policy's target, and at most `ASKED_SHARE`
    of the tokens that are not in checkpoints, because checkpoints age by their own rules. `was_due`
    says that a due compression was made just now. Then, without a ratio, nothing more is done.
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
    """Return how many tokens of a message may be shown so that a prompt fits. This is what the rest
    of the floor and the checkpoints leave of the window's target. Or, if this is more, half of what
    the floor leaves of the usable window, but at most `SHOWN_SHARE` of the window.
    """
    floor = _floor(view, but=position)
    free = (view.window.usable - floor) // 2
    left = view.window.target - floor - sum(c.token_count for c in view.checkpoints)
    return max(LEAST_SHOWN, left, min(free, int(SHOWN_SHARE * view.window.usable)))


def _floor(view: View, but: int | None = None) -> int:
    """Return how many tokens may not be shortened, including what is sent besides the messages."""
    from compact.engine.ladder import Ladder

    ladder = Ladder(view.history, view.state.policy)
    return ladder.floor(but=but) + view.overhead_tokens


def checked_ratio(ratio: float | None) -> float | None:
    """Check the share to keep, and return it.

    Raises:
        InvalidArgument: it is not above 0 and at most 1.
    """
    if ratio is not None and not 0 < ratio <= 1:
        reason = f"target_ratio must lie above 0 and be at most 1, got {ratio!r}"
        raise InvalidArgument("target_ratio", reason)
    return ratio
