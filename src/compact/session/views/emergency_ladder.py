"""The emergency ladder to its end: what is done where a prompt cannot be made to fit as usual.

Rung by rung: a snapshot, the rung, its outcome measured; the first context that fits is put in
force. If none does, the error with the floor's breakdown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from compact.engine.inputs import ROLL_OVER_SHARE, RUNGS, LadderRung
from compact.errors import CannotFit, CompactError, SummaryRejected, Superseded
from compact.messages.events import EmergencyRung
from compact.session.views.time_travel import take_snapshot

if TYPE_CHECKING:
    from compact.engine.plan import Plan
    from compact.session.state import SessionState
    from compact.session.views.drafts import Draft
    from compact.session.views.view import View


async def make_fit(
    state: SessionState, view: View, error: CompactError, needed: int | None = None
) -> Plan:
    """Make the view fit its usable window by emergency rungs, or fewer `needed` tokens, after an
    error; for whoever compresses it `alone`.

    Raises:
        CannotFit: not even the last rung was enough; nothing is lost, the snapshots are there.
        CompactError: the error itself, where it is another one and no rung was enough.
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
    """What a rung brings, a snapshot taken before it; None where that is more than is needed."""
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
    """A draft within the limit, else within the usable window."""
    try:
        return await view.propose(limit, before, rung)
    except (CannotFit, SummaryRejected):
        if limit >= view.window.usable:
            raise
        return await view.propose(view.window.usable, before, rung)
