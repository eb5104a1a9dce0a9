"""Drafts: a compression that is not in force yet, and the note that says one is under way, so that
one whose writer died is found.

A draft is nothing but that note: what it will say is committed in one transaction, which ends the
note too. Whoever opens a session drops the drafts of writers that are gone.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from compact.errors import Superseded
from compact.messages import clock_and_ids
from compact.messages.events import DraftDropped
from compact.messages.sessions import Destination, MoveKind, Projection, Run, Shown, Step

if TYPE_CHECKING:
    from compact.engine.pipeline import Proposal
    from compact.session.state import SessionState

DRAFT = "draft"
"""What an error names as the stage that failed before those of the pipeline."""
PREFIX = "draft:"
LONGEST = timedelta(hours=1)
"""After that time a draft of another machine counts as abandoned."""


class DraftBase(NamedTuple):
    """What a draft is made over: if any of it changes meanwhile, the draft is void."""

    base: int
    """The window's newest move."""
    branch_id: str
    revision: int


class Draft(NamedTuple):
    """A proposal that is not in force yet."""

    proposal: Proposal
    ground: DraftBase
    overhead_tokens: int


def projected(draft: Draft, window: int, before: Projection | None) -> Projection:
    """A draft as what is in force for a window after another projection."""
    proposal = draft.proposal
    return Projection(
        window=window,
        number=proposal.number,
        at=proposal.at,
        cut=proposal.cut,
        kept=proposal.kept,
        pieces=proposal.pieces,
        checkpoints=proposal.checkpoints,
        tokens=proposal.plan.tokens_after - draft.overhead_tokens,
        parent=before.id if before else None,
    )


def step_to(to: Destination, kind: MoveKind, session_id: str, window: int, base: int) -> Step:
    """The step of a window to there, which ends its draft."""
    return Step(
        kind=kind,
        session_id=session_id,
        branch_id=to.branch_id,
        window=window,
        base=base,
        at=to.at,
        projection=to.projection,
        begins=to.begins,
        changes=to.changes,
        forget=(f"{PREFIX}{window}",),
    )


def refuse_mixed(proposal: Proposal) -> None:
    """Refuse a proposal over a history that grew while it was read: it shows messages of which it
    says that they are yet to come.

    Raises:
        Superseded: it is one.
    """
    ends = [proposal.cut]
    for piece in proposal.pieces:
        match piece:
            case Run(last=last) | Shown(position=int(last)):
                ends.append(last + 1)
    if max(ends) > proposal.at:
        raise Superseded("messages came while the history was read")


def begin_draft(state: SessionState, window: int, base: int) -> None:
    """Say that a compression of that window begins."""
    value = {
        "base": base,
        "process": os.getpid(),
        "machine": platform.node(),
        "since": clock_and_ids.now().isoformat(),
    }
    state.store.note(state.id, f"{PREFIX}{window}", value)


def end_draft(state: SessionState, window: int) -> None:
    """Say that it ended without a result, where the store takes that: whoever tells of the draft's
    own failure does not tell of this one.
    """
    with suppress(Exception):
        state.store.note(state.id, f"{PREFIX}{window}", None)


def is_under_way(state: SessionState, window: int) -> bool:
    """Whether a compression of that window has begun, by whomever, whose writer is there."""
    value = state.store.notes(state.id).get(f"{PREFIX}{window}")
    return value is not None and not _is_abandoned(value)


def drop_abandoned(state: SessionState) -> None:
    """Drop the drafts of writers that are gone."""
    for name, value in state.store.notes(state.id).items():
        if name.startswith(PREFIX) and _is_abandoned(value):
            state.store.note(state.id, name, None)
            window = int(name.removeprefix(PREFIX))
            state.emit(DraftDropped(window=window, since=_since(value)))


def _is_abandoned(value: Mapping[str, Any]) -> bool:
    here = value.get("machine") == platform.node()
    old = abs(clock_and_ids.now() - _since(value)) > LONGEST
    return old or (here and not _is_alive(int(value["process"])))


def _since(value: Mapping[str, Any]) -> datetime:
    return datetime.fromisoformat(str(value["since"]))


def _is_alive(process: int) -> bool:
    if process == os.getpid():
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass  # somebody else's, and alive
    return True
