"""Drafting ahead: a compression that is written while the conversation goes on, and is put in force
when the trigger is passed, so that nobody waits for it.

It is drafted over the past as it was, by whoever would write it at the trigger, and alone: there
are never two for one span, whoever else has the session open. Whoever passes the trigger before it
is done waits for it; if anything that it stands on has changed meanwhile, it is void.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

from compact.messages.events import DraftMade, ErrorRaised
from compact.session.running import blocking
from compact.session.running.off_loop import in_thread
from compact.session.views.drafts import DRAFT, Draft, DraftBase, end_draft, is_under_way

if TYPE_CHECKING:
    from compact.messages.budget import ContextWindow
    from compact.session.state import SessionState
    from compact.session.views.breaker import Breaker

AGAIN_SHARE = 0.05
"""Share of the usable window by which a prompt has to grow before a draft is tried again, or its
new messages are read ahead; near the trigger they are read at every turn."""
PATIENCE = 5.0
"""Seconds that whoever closes a session waits for the writer to let go."""


class Drafting(Protocol):
    """What a draft needs of the view it is made for."""

    window: ContextWindow
    size: int

    @property
    def cut(self) -> int:
        """Where what is in view begins, but for some messages before it."""
        ...

    @property
    def tokens_now(self) -> int:
        """Tokens of the prompt as it is."""
        ...

    def ground(self) -> DraftBase:
        """What a draft that is made now stands on."""
        ...

    def alone(self) -> AbstractContextManager[None]:
        """One compression at a time."""
        ...

    async def propose(self, limit: int, tokens: int) -> Draft:
        """A new context; nothing is in force yet."""
        ...


class BackgroundDraft:
    """The draft of one view's next compression."""

    def __init__(self, state: SessionState, view: Drafting, breaker: Breaker) -> None:
        self._state = state
        self._view = view
        self._breaker = breaker
        self._work: blocking.BackgroundJob | None = None
        self._draft: Draft | None = None
        self._next_at = 0
        """Tokens of the prompt below which none is begun, because one was begun just now."""
        self._read_at = 0
        """Tokens of the prompt when it was read ahead last."""

    def consider(self, tokens: int, trigger: int) -> None:
        """Where the prompt is large enough, read ahead, and begin a draft if a model would write it
        and there is none. For whoever holds the session's lock: when a prompt is taken, and when it
        was answered, as whoever reads that gives the model time.
        """
        policy = self._state.policy_for(self._view.size)
        share = policy.draft_ratio / policy.trigger_ratio
        is_near = share < 1 and int(trigger * share) <= tokens
        much = abs(tokens - self._read_at) >= AGAIN_SHARE * self._view.window.usable
        if policy.summarizes and share < 1 and (is_near or much):
            self._read_at = tokens
            self._state.reading.begin(self._state.history, self._view.cut)
        if not is_near:
            return
        if not self._state.waits or self._is_at_work or self._breaker.is_open:
            return
        if tokens >= self._next_at and self._standing() is None:
            self.put_off(tokens)
            if not is_under_way(self._state, self._view.size):
                self._work = blocking.BackgroundJob(in_thread(self._write()))

    def put_off(self, tokens: int) -> None:
        """Begin none before the prompt of so many tokens has grown."""
        self._next_at = tokens + int(AGAIN_SHARE * self._view.window.usable)

    def take(self) -> Draft | None:
        """The draft that is ready, to be put in force. For whoever holds the session's lock."""
        draft, self._draft = self._standing(), None
        self._next_at = 0
        return draft

    def stop(self) -> None:
        """Give up what is being written; returns when nobody writes or reads any more."""
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
        """The draft that is ready, unless what it stands on has changed."""
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
