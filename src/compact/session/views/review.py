"""Proposes a compression for review. The proposal can be shown, edited and accepted. If it is
dropped instead, nothing has been stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from compact.engine.plan import as_it_is, weighed, why_no_more
from compact.errors import InvalidArgument, NotFound, Superseded
from compact.messages.checkpoints import REFERENCE_LINE, Checkpoint, Level, Verdict
from compact.session import running
from compact.session.views.drafts import Draft, end_draft
from compact.session.views.fitting import checked_ratio, wanted_of
from compact.session.views.view import ASKED, View

if TYPE_CHECKING:
    from compact.engine.plan import Plan
    from compact.session.open_session import OpenSession


@dataclass(frozen=True, slots=True)
class ProposedCheckpoint:
    """A checkpoint that a proposal would make."""

    id: str
    """Pass your own text for the checkpoint under this id. The edited checkpoint gets a new id."""
    text: str
    """The text that a model would see instead of the messages."""
    messages: tuple[int, ...]
    """Positions of the messages that the checkpoint would replace."""
    tokens: int
    """How many tokens the checkpoint has."""
    room: int
    """How many tokens your own text may have; 0 if the checkpoint cannot be edited."""
    level: Level
    made_by: str
    """The summarizer that wrote the text."""
    replaces: tuple[str, ...] = ()
    """Ids of the older checkpoints that this one would replace."""
    verdicts: tuple[Verdict, ...] = ()
    """The gate's findings."""


@dataclass(frozen=True, slots=True)
class CompressionProposal:
    """A compression that was not carried out yet. Pass it to `accept`, or drop it."""

    session_id: str
    window: int
    """The size of the window that the proposal is for, in tokens."""
    tokens_before: int
    """How many tokens the prompt has now."""
    tokens_after: int
    """How many tokens the prompt would have."""
    plan: Plan
    """Each step, and the context that would be sent."""
    checkpoints: tuple[ProposedCheckpoint, ...] = ()
    """The new checkpoints, oldest span first; empty if nothing can be freed."""
    draft: Draft | None = field(default=None, repr=False)
    """What `accept` carries out; None if nothing can be freed."""

    @property
    def messages(self) -> tuple[int, ...]:
        """Positions of the messages that the new checkpoints would replace, in order."""
        return tuple(sorted({position for made in self.checkpoints for position in made.messages}))

    @property
    def freed(self) -> int:
        """How many tokens smaller the prompt would be."""
        return self.tokens_before - self.tokens_after

    @property
    def why(self) -> str:
        """Why less would be freed than was requested; empty if the request would be met."""
        return self.plan.why


class Review:
    """`ctx.review`: a compression to read before it counts. Nothing changes until `accept`."""

    def __init__(self, session: OpenSession) -> None:
        self._session = session

    def propose(
        self, *, target_ratio: float | None = None, guidance: str = ""
    ) -> CompressionProposal:
        """Return what `compress_conversation` would do now: the messages that summaries would
        replace, the tokens before and after, and each new checkpoint with its text. To refuse the
        proposal, drop it. If nothing can be freed, it has no checkpoints, and its `why` says so.

        Raises:
            CannotFit, BlockingCallInLoop, InvalidArgument: as in `compress_conversation`.
        """
        work = self.apropose(target_ratio=target_ratio, guidance=guidance)
        waits = self._session.state.waits
        return running.run(work, waits=waits, instead="review.apropose()")

    async def apropose(
        self, *, target_ratio: float | None = None, guidance: str = ""
    ) -> CompressionProposal:
        """`propose` for async callers."""
        ratio = checked_ratio(target_ratio)
        return await running.off_loop(_proposed(self._session.view, ratio, guidance))

    def accept(
        self, proposal: CompressionProposal, *, summaries: Mapping[str, str] | None = None
    ) -> Plan:
        """Carry out a proposed compression, completely or not at all, and return its plan. Messages
        added since the proposal are still shown in full. `summaries` are your own texts to use
        instead of the proposed ones, by checkpoint id. If such a text is shortened later, it is
        shortened from your words, not from the messages. `ctx.time.undo()` undoes the compression.

        Raises:
            SummaryRejected: a text contains a secret, one of compact's headings or a picture, or is
                too long; the error says which. You may accept the proposal again with another text.
            Superseded: since the proposal was made, the session was compressed, or its goals, pins
                or branch changed; nothing was stored.
            NotFound: the proposal has no checkpoint with such an id.
            InvalidArgument: a text is empty, or the proposal is for another session.
        """
        return _accepted(self._session.view, proposal, summaries or {})

    async def aaccept(
        self, proposal: CompressionProposal, *, summaries: Mapping[str, str] | None = None
    ) -> Plan:
        """`accept` for async callers."""
        return await running.threaded(lambda: self.accept(proposal, summaries=summaries))


async def _proposed(view: View, ratio: float | None, guidance: str) -> CompressionProposal:
    from compact.engine.pipeline import rooms_of

    with view.alone():
        with view.state.lock:
            view.refresh()
            view.follow()
            wanted, why = wanted_of(view, ratio)
            wanted, before = min(wanted, view.window.usable), view.tokens
            if before <= wanted:
                return _nothing(view, wanted, why)
        counts = {"tokens": before, "trigger": view.window.trigger}
        view.decided(ASKED, triggered=True, guidance=guidance, **counts)
        draft = await view.propose(wanted, before, guidance=guidance)
        end_draft(view.state, view.size)  # no draft is under way while the user reads
    plan = draft.proposal.plan
    if plan.tokens_after >= before:
        return _nothing(view, wanted, why_no_more(plan.floor, before))
    rooms, live_ids = rooms_of(draft.proposal), {c.id for c in view.checkpoints}
    made = (c for c in draft.proposal.checkpoints if c.id not in live_ids)
    return CompressionProposal(
        session_id=view.state.id,
        window=view.size,
        tokens_before=before,
        tokens_after=plan.tokens_after,
        plan=weighed(plan.owned(), wanted),
        checkpoints=tuple(_told(c, rooms.get(c.id, 0)) for c in made),
        draft=draft,
    )


def _nothing(view: View, limit: int, why: str) -> CompressionProposal:
    plan = as_it_is(view.history, limit, view.context(), why)
    return CompressionProposal(view.state.id, view.size, plan.tokens_after, plan.tokens_after, plan)


def _told(checkpoint: Checkpoint, room: int) -> ProposedCheckpoint:
    return ProposedCheckpoint(
        id=checkpoint.id,
        text=checkpoint.story,
        messages=tuple(checkpoint.covered()),
        tokens=checkpoint.token_count,
        room=room,
        level=checkpoint.level,
        made_by=checkpoint.made_by,
        replaces=checkpoint.parents,
        verdicts=checkpoint.verdicts,
    )


def _accepted(view: View, proposal: CompressionProposal, texts: Mapping[str, str]) -> Plan:
    state, draft = view.state, proposal.draft
    if proposal.session_id != state.id:
        of = f"it was made for session {proposal.session_id!r}, this is {state.id!r}"
        raise InvalidArgument("proposal", f"the proposal cannot be accepted here: {of}")
    edited = _edited(proposal, texts)
    if draft is None:
        return proposal.plan
    with state.lock:
        view.refresh()
        if draft.ground != view.ground() or not _is_for(view, proposal):
            raise Superseded(
                "the session was compressed or changed since this was proposed; nothing was "
                "stored: propose again"
            )
    from compact.engine.pipeline import rewritten

    made = rewritten(draft.proposal, edited)
    view.commit(draft._replace(proposal=made))
    return made.plan.owned().model_copy(update={"why": proposal.why})


def _is_for(view: View, proposal: CompressionProposal) -> bool:
    """Return whether prompts are still made for the proposal's window and tokenizer."""
    return (view.size, view.tokenizer) == (proposal.window, proposal.plan.tokenizer)


def _edited(proposal: CompressionProposal, texts: Mapping[str, str]) -> dict[str, str]:
    originals = {checkpoint.id: checkpoint.text for checkpoint in proposal.checkpoints}
    edited = dict[str, str]()
    for id, text in texts.items():
        if id not in originals:
            raise NotFound(f"this proposal has no checkpoint {id!r}: it has {sorted(originals)}")
        if not (words := text.strip().removeprefix(REFERENCE_LINE).strip()):
            reason = f"the summary given for {id} is empty: to refuse a proposal, do not accept it"
            raise InvalidArgument("summaries", reason)
        if words != originals[id]:
            edited[id] = words
    return edited
