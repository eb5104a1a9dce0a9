"""Drafts: compressions that are not in force yet.

While a draft is being written, a note in the store says so. If the process dies, the note shows
that the draft was abandoned. The draft's content is committed in one transaction, which also
deletes the note. Opening a session drops abandoned drafts.

`BackgroundDraft` writes a draft while the conversation continues. It is used when the trigger is
passed, so that no call has to wait. If it is not finished by then, the call waits for it. Two
processes never draft the same span. A draft is dropped if the session changed since it was begun.
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
from compact.messages.events import DraftDropped, DraftMade, ErrorRaised
from compact.messages.sessions import Destination, MoveKind, Projection, Run, Shown, Step
from compact.session import running
from compact.session.running import in_thread

if TYPE_CHECKING:
    from compact.engine.pipeline import Proposal
    from compact.session.state import SessionState
    from compact.session.views.breaker import Breaker
    from compact.session.views.view import View

DRAFT = "draft"
"""The name, in errors, of the stage before the stages of the pipeline."""
PREFIX = "draft:"
LONGEST = timedelta(hours=1)
"""The age at which a draft counts as abandoned, even if its process may be alive."""


class DraftBase(NamedTuple):
    """What a draft was made from. If any value changes, the draft is dropped."""

    base: int
    """The number of the window's newest move."""
    branch_id: str
    revision: int


class Draft(NamedTuple):
    """A proposal that is not in force yet."""

    proposal: Proposal
    ground: DraftBase
    overhead_tokens: int


def projected(draft: Draft, window: int, before: Projection | None) -> Projection:
    """Build the window's next projection (what its prompts show) from a draft."""
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
    """Build the step that takes a window to a destination. It also ends the window's draft."""
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
    """Refuse a proposal if the history grew while it was read. Such a proposal shows messages that
    would be added again after it.

    Raises:
        Superseded: the history grew.
    """
    ends = [proposal.cut]
    for piece in proposal.pieces:
        match piece:
            case Run(last=last) | Shown(position=int(last)):
                ends.append(last + 1)
    if max(ends) > proposal.at:
        raise Superseded("messages came while the history was read")


def begin_draft(state: SessionState, window: int, base: int) -> None:
    """Store a note that a compression for the window begins."""
    value = {
        "base": base,
        "process": os.getpid(),
        "machine": platform.node(),
        "since": clock_and_ids.now().isoformat(),
    }
    state.store.note(state.id, f"{PREFIX}{window}", value)


def end_draft(state: SessionState, window: int) -> None:
    """Delete the note of a draft that ended without a result. Errors of the store are ignored: the
    caller reports why the draft itself failed.
    """
    with suppress(Exception):
        state.store.note(state.id, f"{PREFIX}{window}", None)


def is_under_way(state: SessionState, window: int) -> bool:
    """Return whether any live process is compressing for the window."""
    value = state.store.notes(state.id).get(f"{PREFIX}{window}")
    return value is not None and not _is_abandoned(value)


def drop_abandoned(state: SessionState) -> None:
    """Drop the drafts whose process died."""
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
        pass  # another user's process, which is alive
    return True


# --- drafting ahead ------------------------------------------------------------------------------

AGAIN_SHARE = 0.05
"""The prompt must grow by this share of the usable window before a draft is tried again, or new
messages are read ahead. Near the trigger, new messages are read at every turn."""
PATIENCE = 5.0
"""How long closing a session waits for the draft to end, in seconds."""


class BackgroundDraft:
    """Writes a draft of one view's next compression in the background."""

    def __init__(self, state: SessionState, view: View, breaker: Breaker) -> None:
        self._state = state
        self._view = view
        self._breaker = breaker
        self._work: running.BackgroundJob | None = None
        self._draft: Draft | None = None
        self._next_at = 0
        """How many tokens the prompt must have before another draft is begun."""
        self._read_at = 0
        """How many tokens the prompt had when messages were last read ahead."""

    def consider(self, tokens: int, trigger: int) -> None:
        """Read ahead if the prompt is large enough. Begin a draft if a model would write it and
        there is none yet. Called when a prompt is taken, and after its answer, while the user
        reads. The caller holds the session's lock.
        """
        policy = self._state.policy_for(self._view.size)
        if not policy.summarizes:
            return
        share = policy.draft_ratio / policy.trigger_ratio
        is_near = share < 1 and int(trigger * share) <= tokens
        much = abs(tokens - self._read_at) >= AGAIN_SHARE * self._view.window.usable
        if share < 1 and (is_near or much):
            self._read_at = tokens
            self._state.reading.begin(self._state.history, self._view.cut)
        if not is_near:
            return
        if not self._state.waits or self._is_at_work or self._breaker.is_open:
            return
        if tokens >= self._next_at and self._standing() is None:
            self.put_off(tokens)
            if not is_under_way(self._state, self._view.size):
                self._work = running.BackgroundJob(in_thread(self._write()))

    def put_off(self, tokens: int) -> None:
        """Begin no draft until the prompt, which has `tokens` now, has grown by `AGAIN_SHARE`."""
        self._next_at = tokens + int(AGAIN_SHARE * self._view.window.usable)

    def take(self) -> Draft | None:
        """Return the finished draft, or None. The caller holds the session's lock."""
        draft, self._draft = self._standing(), None
        self._next_at = 0
        return draft

    def stop(self) -> None:
        """Stop reading ahead and give up the draft. Wait for it at most `PATIENCE` seconds."""
        self._state.reading.stop()
        if self._work is not None and not self._work.is_done:
            self._work.stop(PATIENCE)
        if self._draft is not None:
            self._draft = None
            end_draft(self._state, self._view.size)

    @property
    def _is_at_work(self) -> bool:
        return self._work is not None and not self._work.is_done

    def _standing(self) -> Draft | None:
        """Return the finished draft. It is dropped if the session changed since it was begun."""
        if self._draft is not None and self._draft.ground != self._view.ground():
            self._draft = None
            end_draft(self._state, self._view.size)
        return self._draft

    async def _write(self) -> None:
        view = self._view
        try:
            with view.alone():
                with self._state.lock:
                    target, tokens = view.window.target, view.tokens_now
                draft = self._draft = await view.propose(target, tokens)
        except Exception as error:  # noqa: BLE001 - nobody waits for it; at the trigger it is tried again
            stage = getattr(error, "stage", "") or DRAFT
            self._state.emit(ErrorRaised.of(error, stage, serves="the context before"))
            return
        after = draft.proposal.plan.tokens_after
        self._state.emit(DraftMade(window=view.size, tokens=after))
