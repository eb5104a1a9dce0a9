"""How small a context is made: on request, and by the emergency ladder if it does not fit.

The emergency ladder takes a snapshot before each rung, and measures the outcome. The first context
that fits is put in force. If none does, the error lists the parts of the floor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from compact.engine.inputs import ROLL_OVER_SHARE, RUNGS, LadderRung, Wanted
from compact.errors import CannotFit, CompactError, SummaryRejected, Superseded
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
    """Make the view fit its usable window by emergency rungs, or `needed` tokens if those are
    fewer. `error` is why it did not fit. The caller holds the view's turn (`alone`).

    Raises:
        CannotFit: not even the last rung was enough. Nothing is lost, and the snapshots are there.
        CompactError: `error`, if it is of another kind and no rung was enough.
        Superseded: something else came in between, and counts.
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
    """The draft of a rung, with a snapshot taken before it. None if it needs more tokens than
    `needed`.
    """
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
"""Largest share of what lies above the floor that is kept, if no other share is requested (K-16).
"""
FLOOR_ALONE = (
    "the system prompt, pins, checkpoints and the newest message of a person are all there is"
)


LEAST_SHOWN, SHOWN_SHARE = 64, 0.25
"""Tokens that are shown at least of a message that is put aside, and its largest share of the
usable window."""


def wanted_of(view: View, ratio: float | None, *, was_due: bool = False) -> Wanted:
    """The tokens that a prompt may have after a requested compression. `ratio` is the share to keep
    of what lies above the floor. None stands for the policy's target, and at most `ASKED_SHARE` of
    what was not compressed before: checkpoints age by their own rules. `was_due` says that a due
    compression was made just now. Without a ratio, that one was the requested one.
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
    """The tokens with which a message may be shown so that a prompt fits: what the rest of the
    floor and the checkpoints leave of the window's target. If that is less, half of what the floor
    leaves of the window, at most `SHOWN_SHARE`.
    """
    floor = _floor(view, but=position)
    free = (view.window.usable - floor) // 2
    left = view.window.target - floor - sum(c.token_count for c in view.checkpoints)
    return max(LEAST_SHOWN, left, min(free, int(SHOWN_SHARE * view.window.usable)))


def _floor(view: View, but: int | None = None) -> int:
    """Tokens of what may not be shortened, with what stands beside the messages."""
    from compact.engine.ladder import Ladder

    ladder = Ladder(view.counted.history, view.counted.state.policy)
    return ladder.floor(but=but) + view.overhead_tokens
