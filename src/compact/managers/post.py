"""Sending: a prompt that fits, counted before it goes out, and what comes back of it.

What providers report corrects our counts; a refusal triggers the ladder once, and one more try.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import TypeVar

from compact.core.asking import Ask
from compact.core.context import ActiveContext
from compact.core.events import RatioLearned, ToolsWithdrawn, WindowCapped
from compact.core.overflow import refusal_of
from compact.core.plan import Plan
from compact.core.protocols import ChatModel
from compact.core.replies import Delta, Reply
from compact.errors import CannotFit, ContextOverflow, ModelFailed, ModelRefused
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
        self._known: set[str] = set()
        """The models that were asked for their limits."""
        self._taken: tuple[View, int] | None = None
        """The view whose prompt was taken last, and its tokens."""

    def serve(self, view: View) -> None:
        """Send what is in that view from now on."""
        self._main = view

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

        async def answered(context: ActiveContext) -> Reply:
            return await model.complete(context, self._ask())

        return self._taken_note_of(await self._delivered(model, answered))

    async def streamed(self, model: ChatModel) -> AsyncIterator[Delta]:
        """The model's answer as it is written; the last piece carries the whole.

        Raises:
            As `sent`; ModelFailed where the answer breaks off.
        """

        async def begun(context: ActiveContext) -> tuple[Delta, AsyncIterator[Delta]]:
            pieces = model.stream(context, self._ask())
            return await _next(pieces, model), pieces

        piece, pieces = await self._delivered(model, begun)
        while piece.reply is None:
            yield piece
            piece = await _next(pieces, model)
        self._taken_note_of(piece.reply)
        yield piece

    async def _delivered(
        self, model: ChatModel, deliver: Callable[[ActiveContext], Awaitable[T]]
    ) -> T:
        """What comes of the prompt: made smaller once where it was refused as too large, and
        without tools where the model cannot call any.
        """
        await self._introduced(model)
        try:
            return await self._with_tools(model, deliver)
        except ContextOverflow as error:
            await self.refused(error)
            return await self._with_tools(model, deliver)

    async def _with_tools(
        self, model: ChatModel, deliver: Callable[[ActiveContext], Awaitable[T]]
    ) -> T:
        context = await self._checked()
        if not context.tools or _calls_tools(model):
            try:
                return await deliver(context)
            except ModelRefused as error:
                if not context.tools or _calls_tools(model):
                    raise
                self._state.emit(ToolsWithdrawn(model=model.name, reason=str(error)))
        return await deliver(context.model_copy(update={"tools": ()}))

    async def _introduced(self, model: ChatModel) -> None:
        """Ask a model that is new here what its window is: a server may be set up for less than
        was asked for, and not every server refuses what is too large.
        """
        if model.name in self._known:
            return
        self._known.add(model.name)
        state, view = self._state, self._main
        try:
            limits = await model.limits()
        except ModelFailed:
            return  # who does not answer this will be asked for more in a moment
        told = [size for size in (limits.window, limits.trained) if size is not None]
        if told and min(told) < view.window.size:
            state.learn(state.calibration.after_word(min(told), size=view.size))
            state.emit(WindowCapped(asked=view.size, size=state.window(view.size).size))
            view.corrected()

    def _taken_note_of(self, reply: Reply) -> Reply:
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
        beside = self._state.lead(self._main.size).tokens
        return beside + sum(map(self._state.counter.message, context.messages))

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


def _calls_tools(model: ChatModel) -> bool:
    """Whether it can, as far as that is known now: a refusal may teach another thing."""
    return model.abilities.tools is not False


async def _next(pieces: AsyncIterator[Delta], model: ChatModel) -> Delta:
    try:
        return await anext(pieces)
    except StopAsyncIteration:
        raise ModelFailed(f"{model.name} broke its answer off", model=model.name) from None
