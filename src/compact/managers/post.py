"""Sending: a prompt that fits, counted before it goes out, and what comes back of it.

What providers report corrects our counts; a refusal triggers the ladder once, and one more try.
"""

from __future__ import annotations

from compact.core.context import ActiveContext
from compact.core.events import RatioLearned, WindowCapped
from compact.core.overflow import refusal_of
from compact.core.plan import Plan
from compact.core.protocols import ChatModel
from compact.core.replies import Reply
from compact.errors import CannotFit, ContextOverflow, SummaryRejected
from compact.managers.rescue import rescue
from compact.managers.state import SessionState
from compact.managers.travel import take_snapshot
from compact.managers.view import View


class Post:
    """What goes to models and comes back from them."""

    def __init__(self, state: SessionState, view: View) -> None:
        self._state = state
        self._view = view
        self._taken = 0
        """Tokens of the prompt that was taken last."""

    async def fitted(self, view: View) -> None:
        """Bring a view up to date, by emergency rungs where nothing else helps.

        Raises:
            CannotFit: what may not be shortened exceeds the usable window.
        """
        try:
            await view.refresh()
        except (CannotFit, SummaryRejected) as error:
            if view.is_hopeless(error):
                raise
            await rescue(self._state, view, since=error)
        self._taken = view.tokens

    async def sent(self, model: ChatModel) -> Reply:
        """The model's answer to the active context.

        Raises:
            CannotFit: what may not be shortened exceeds the usable window.
            ContextOverflow: the provider refused the smaller prompt too.
        """
        try:
            reply = await model.complete(await self._checked())
        except ContextOverflow as error:
            await self.refused(error)
            reply = await model.complete(await self._checked())
        if reply.usage is not None:
            self.reported(reply.usage.prompt_tokens)
        return reply

    async def _checked(self) -> ActiveContext:
        """The active context, every message of it counted afresh.

        Raises:
            CannotFit: it is larger than the usable window after all that could be done.
        """
        view = self._view
        await self.fitted(view)
        context, usable = view.context(), view.window.usable
        if (counted := self.count(context)) > usable:
            self._state.history.recount()
            await rescue(self._state, view, since=CannotFit({"prompt": counted}, usable))
            context = view.context()
            if (counted := self.count(context)) > usable:
                raise CannotFit({"prompt": counted}, usable)
        self._taken = counted
        return context

    def count(self, context: ActiveContext) -> int:
        """Tokens of a whole prompt."""
        return self._state.beside + sum(map(self._state.counter.message, context.messages))

    def reported(self, tokens: int) -> None:
        """Learn from what a provider counted for the prompt that was taken last."""
        if self._taken:
            state, before = self._state, self._state.calibration
            state.learn(before.after(self._taken, tokens, exact=state.counter.exact))
            self._tell(before.ratio, tokens)

    async def refused(self, error: object) -> Plan:
        """Make the context fit after a provider refused it as too large; what was done.

        Raises:
            ValueError: the error says nothing of a context that is too large.
            CannotFit: what may not be shortened exceeds what the provider allows.
        """
        refusal = refusal_of(error)
        if refusal is None:
            raise ValueError(f"this error says nothing of a context that is too large: {error}")
        state, view = self._state, self._view
        counted = self._taken or view.tokens_now
        take_snapshot(state, view, purpose="emergency", note="a provider refused the prompt")
        known, exact = state.calibration, state.counter.exact
        state.learn(known.after_overflow(counted, refusal, size=view.size, exact=exact))
        if (size := state.window(view.size).size) < view.window.size:
            state.emit(WindowCapped(asked=view.size, size=size))
        self._tell(known.ratio, refusal.tokens or 0)
        view.reload()
        view.follow()
        try:
            return await view.compress(view.window.target)
        except (CannotFit, SummaryRejected) as failed:
            if view.is_hopeless(failed):
                raise
            return await rescue(state, view, since=failed)

    def _tell(self, before: float, reported: int) -> None:
        ratio = self._state.calibration.ratio
        if ratio != before:
            self._state.emit(RatioLearned(counted=self._taken, reported=reported, ratio=ratio))
        self._view.corrected()
