"""Sending: a prompt that fits, counted before it goes out, and what comes back of it.

What providers report corrects our counts; a refusal triggers the ladder once, and one more try.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from compact.core.asking import Ask
from compact.core.context import ActiveContext
from compact.core.events import RatioLearned, WindowCapped
from compact.core.overflow import refusal_of
from compact.core.plan import Plan
from compact.core.protocols import ChatModel
from compact.core.replies import Reply
from compact.errors import CannotFit, ContextOverflow
from compact.managers.rescue import rescue
from compact.managers.state import SessionState
from compact.managers.travel import take_snapshot
from compact.managers.view import View

T = TypeVar("T")


class Post:
    """What goes to models and comes back from them."""

    def __init__(self, state: SessionState, view: View) -> None:
        self._state = state
        self._main = view
        self._taken: tuple[View, int] | None = None
        """The view whose prompt was taken last, and its tokens."""

    async def fitted(self, view: View, take: Callable[[], T]) -> T:
        """What `take` gives when the view is up to date and fits, by emergency rungs where nothing
        else helps.

        Raises:
            CannotFit: what may not be shortened exceeds the usable window.
        """

        def taken() -> T:
            self._taken = view, view.tokens
            return take()

        return await view.fit(taken, partial(rescue, self._state, view))

    async def sent(self, model: ChatModel) -> Reply:
        """The model's answer to the active context.

        Raises:
            CannotFit: what may not be shortened exceeds the usable window.
            ContextOverflow: the provider refused the smaller prompt too.
        """
        try:
            reply = await model.complete(await self._checked(), self._ask())
        except ContextOverflow as error:
            await self.refused(error)
            reply = await model.complete(await self._checked(), self._ask())
        if reply.usage is not None:
            self.reported(reply.usage.prompt_tokens)
        return reply

    def _ask(self) -> Ask:
        """How the answer is wanted: within what the window keeps free for it."""
        window = self._main.window
        return Ask(window=window.size, max_tokens=window.output_reserve or None)

    async def _checked(self) -> ActiveContext:
        """The active context, every message of it counted afresh.

        Raises:
            CannotFit: it is larger than the usable window after all that could be done.
        """
        view = self._main
        context = await self.fitted(view, view.context)
        if (counted := self.count(context)) > view.window.usable:
            self._state.history.recount()
            async with view.alone():
                error = CannotFit({"prompt": counted}, view.window.usable)
                await rescue(self._state, view, error)
            context = await self.fitted(view, view.context)
            if (counted := self.count(context)) > view.window.usable:
                raise CannotFit({"prompt": counted}, view.window.usable)
        self._taken = view, counted
        return context

    def count(self, context: ActiveContext) -> int:
        """Tokens of a whole prompt."""
        return self._state.beside + sum(map(self._state.counter.message, context.messages))

    def reported(self, tokens: int) -> None:
        """Learn from what a provider counted for the prompt that was taken last."""
        if self._taken:
            (view, counted), state = self._taken, self._state
            before = state.calibration
            state.learn(before.after(counted, tokens, exact=state.counter.exact))
            self._tell(view, before.ratio, tokens)

    async def refused(self, error: object) -> Plan:
        """Make the context fit after a provider refused it as too large; what was done.

        Raises:
            ValueError: the error says nothing of a context that is too large.
            CannotFit: what may not be shortened exceeds what the provider allows.
        """
        refusal = refusal_of(error)
        if refusal is None:
            raise ValueError(f"this error says nothing of a context that is too large: {error}")
        state = self._state
        view, counted = self._taken or (self._main, self._main.tokens_now)
        take_snapshot(state, view, purpose="emergency", note="a provider refused the prompt")
        known, exact = state.calibration, state.counter.exact
        state.learn(known.after_overflow(counted, refusal, size=view.size, exact=exact))
        if (size := state.window(view.size).size) < view.window.size:
            state.emit(WindowCapped(asked=view.size, size=size))
        self._tell(view, known.ratio, refusal.tokens or 0)
        return await view.compress(lambda: view.window.target, partial(rescue, state, view))

    def _tell(self, view: View, before: float, reported: int) -> None:
        ratio = self._state.calibration.ratio
        if ratio != before:
            counted = self._taken[1] if self._taken else 0
            self._state.emit(RatioLearned(counted=counted, reported=reported, ratio=ratio))
        view.corrected()
