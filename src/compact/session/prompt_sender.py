"""Sending: a prompt that fits is counted before it goes out, and its answer comes back.

Providers' reports correct the counts. If a provider refuses a prompt as too large, the session acts
first: it compresses by the ladder once, and asks the same model once more. Only if that does not
help, it asks other models that are known to hold the refused prompt.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from functools import partial
from typing import NamedTuple, TypeVar

from compact.engine.inputs import Wanted
from compact.engine.plan import Plan
from compact.errors import (
    CannotFit,
    ContextOverflow,
    InvalidArgument,
    ModelFailed,
    ModelRefused,
    ModelUnavailable,
)
from compact.messages.asking import ASK, Ask, Limits
from compact.messages.calls import got
from compact.messages.changes import PutAside
from compact.messages.context import ActiveContext
from compact.messages.copies import copied_message
from compact.messages.events import RatioLearned, ToolsWithdrawn, WindowCapped
from compact.messages.messages import Message
from compact.messages.overflow import refusal_of
from compact.messages.protocols import ChatModel
from compact.messages.reliability import ToolSource
from compact.messages.replies import Delta, Reply, promised
from compact.session.prompt_overhead import overhead_of
from compact.session.running import off_loop
from compact.session.state import SessionState
from compact.session.views.fitting import make_fit, shown_of_aside
from compact.session.views.time_travel import take_snapshot
from compact.session.views.view import View

T = TypeVar("T")
_TOOLLESS: Mapping[ToolSource, str] = {
    "user_confirmed": "your own entry of it says that it calls none",
    "auto_detected": "its server says that it calls none",
    "runtime_error": "it refused them",
    "profile": (
        "it is known as a model that calls none; if yours does, give it an entry of your own "
        "with tool_support: true"
    ),
}
"""Why a model is sent no tools, by the source of that knowledge."""


ANSWER_SHARE = 0.75
"""Largest share of the tokens left in the window that an answer may take."""


class Taken(NamedTuple):
    """A prompt that was taken."""

    view: View
    tokens: int
    """Its tokens as they were counted."""


class PromptSender:
    """Sends prompts to models, and learns from the answers."""

    def __init__(self, state: SessionState, view: View) -> None:
        self._state = state
        self._main = view
        self._known: set[tuple[str, int]] = set()
        """Models that were asked for their limits, each with the window's size."""
        self._refused_tools: dict[str, str] = {}
        """Models that refused tools, with their error texts."""
        self._withdrawn: set[str] = set()
        """Models for which the withdrawal of tools was reported."""
        self._taken: Taken | None = None
        """The last prompt that was taken."""
        self._was_refused = False
        """Whether the last prompt was reported as too large, and none was served since."""
        self._wanted = view
        """The view that was asked for last, whether it fitted or not."""
        self._owed: dict[tuple[str, int], tuple[object, int]] = {}
        """Reported refusals that no prompt was made smaller for yet, by tokenizer and window, each
        with the prompt's tokens."""

    def serve(self, view: View) -> None:
        """Send prompts of that view from now on."""
        self._main = self._wanted = view
        self._known.clear()

    async def fitted(self, view: View, take: Callable[[], T]) -> T:
        """What `take` returns when the view is up to date and fits. If nothing else helps,
        emergency rungs make it fit.

        Raises:
            CannotFit: what may not be shortened exceeds the usable window.
        """
        self._wanted = view

        def taken() -> T:
            self._taken = Taken(view, view.tokens)
            return take()

        return await view.fit(taken, partial(make_fit, self._state, view))

    def put_aside(self, position: int, tokens: int | None) -> Message:
        """Show only the beginning and end of a message from now on, in at most `tokens`, or in as
        many as let the view used last fit. Return the message as it is shown.

        Raises:
            CannotFit: the message is larger than that, and nothing can be left out.
        """
        state = self._state
        with state.lock:
            history = self._wanted.history
            most = tokens or shown_of_aside(self._wanted, position)
            whole = history.said_tokens(position)
            if whole > most and history.as_aside(position, most)[1] >= whole:
                raise CannotFit({"this message": whole}, most)
            state.record(PutAside(tokens=most), position)
            self._main.reload()
            return copied_message(history.shown(position))

    async def sent(self, model: ChatModel, wanted: Ask = ASK) -> Reply:
        """The model's answer to the active context.

        Raises:
            CannotFit: what may not be shortened exceeds the usable window.
            ContextOverflow: the provider refused the smaller prompt too.
        """

        async def answered(context: ActiveContext, ask: Ask) -> Reply:
            return promised(await model.complete(context, ask), Reply, model.name)

        reply, taken = await self._delivered(model, wanted, answered)
        self._learn_of(reply, taken)
        return reply

    async def streamed(self, model: ChatModel, wanted: Ask = ASK) -> AsyncGenerator[Delta, None]:
        """The model's answer as it is written. The last piece carries the whole answer.

        Raises:
            As `sent`; ModelFailed if the answer breaks off.
        """

        async def begun(context: ActiveContext, ask: Ask) -> tuple[Delta, AsyncIterator[Delta]]:
            pieces = model.stream(context, ask)
            return await _next(pieces, model), pieces

        (piece, pieces), taken = await self._delivered(model, wanted, begun)
        try:
            while piece.reply is None:
                yield piece
                piece = await _next(pieces, model)
            self._learn_of(piece.reply, taken)
            yield piece
        finally:
            if (close := getattr(pieces, "aclose", None)) is not None:
                await close()

    async def _delivered(
        self,
        model: ChatModel,
        wanted: Ask,
        deliver: Callable[[ActiveContext, Ask], Awaitable[T]],
    ) -> tuple[T, Taken]:
        """The result of `deliver`, and the prompt that was sent.

        A prompt that was refused as too large is made smaller, a second time by the emergency
        ladder. If that is impossible, it is sent to any model that holds it. If the model refuses
        tools, it is sent without them.
        """
        wanted = wanted.model_copy(update={"waited": await self._introduced(model)})
        refusal: ContextOverflow | None = None
        rolled_over = False
        floor: CannotFit | None = None
        refused_by: Mapping[str, int] | None = None
        view, calibration = self._main, self._main.calibration
        self._state.asks(model.name)
        self._settle_tools(model)
        context, taken = await off_loop(self._counted_afresh())
        try:
            while True:
                try:
                    return await deliver(context, self._ask(wanted, context, refused_by)), taken
                except ContextOverflow as error:
                    if floor:
                        raise floor from None
                    if rolled_over:
                        raise
                    rolled_over, refusal, refused_by = bool(refusal), error, {}
                    if floor := await self._floor(error, taken, again=rolled_over):
                        refused_by = {error.stand_in or model.name: self._expected(context)}
                        continue
                except ModelRefused as error:
                    if floor or not context.tools or not self._is_toolless_now(model):
                        raise
                    self._refused_tools[model.name] = str(error)
                    self._settle_tools(model)
                context, taken = await off_loop(self._counted_afresh())
        finally:
            if floor or (refusal and refusal.stand_in):  # the next prompt is for another window
                view.learn(calibration)
                self._main.corrected()

    async def _floor(
        self, refusal: ContextOverflow, taken: Taken, *, again: bool
    ) -> CannotFit | None:
        """Make a refused prompt smaller; by every means if it was refused `again`. Returns the
        error if that is impossible and there are other models to ask.

        Raises:
            CannotFit: it is impossible, and there are no other models.
            ContextOverflow: the same, for a prompt that was made smaller already.
        """
        try:
            await off_loop(self._refitted(refusal, taken, again=again))
        except CannotFit as floor:
            if not refusal.others:
                raise (refusal if again else floor) from None
            return floor
        return None

    def _is_toolless_now(self, model: ChatModel) -> bool:
        """Whether a refusal has just shown that the model calls no tools."""
        return model.abilities.tools is False and model.name not in self._refused_tools

    def _settle_tools(self, model: ChatModel) -> None:
        """Send tools along if the model calls them. Report once if it does not."""
        if not self._state.prompting.has_tools:
            return
        why = self._toolless(model)
        if why and model.name not in self._withdrawn:
            self._withdrawn.add(model.name)
            self._state.emit(ToolsWithdrawn(model=model.name, reason=why))
        self._state.give_tools(not why)

    def _toolless(self, model: ChatModel) -> str:
        """Return why a model is sent no tools, as far as known. Empty if it is sent tools."""
        if why := self._refused_tools.get(model.name):
            return why
        support = self._state.setting.tools(model.name, model.abilities.tools)
        return _TOOLLESS[support.source] if support.value is False else ""

    async def _introduced(self, model: ChatModel) -> float:
        """Ask a new model for its window: a server may allow less than the model, and some servers
        do not refuse a prompt that is too large. Return how many seconds this took.
        """
        view = self._main
        if (model.name, view.size) in self._known:
            return 0.0
        clock = asyncio.get_running_loop().time
        start = clock()
        try:
            limits = await model.limits()
        except ModelUnavailable:  # will be asked for more in a moment, and for this the next time
            return clock() - start
        except ModelFailed:
            limits = Limits()
        self._known.add((model.name, view.size))
        sizes = [size for size in (limits.window, limits.trained) if size is not None]
        if sizes and min(sizes) < view.window.size:
            view.learn(view.calibration.after_word(min(sizes), size=view.size))
            self._state.emit(WindowCapped(asked=view.size, size=view.window_now().size))
            view.corrected()
        return clock() - start

    def _ask(
        self, wanted: Ask, context: ActiveContext, refused_by: Mapping[str, int] | None
    ) -> Ask:
        """Set the answer's limit: the one asked for, else the user's reserve, else what the model's
        answers usually need with their reasoning. Leave a share of the free window free, because
        counts may differ and the conversation goes on.
        """
        window, own = self._main.window, self._state.policy.output_reserve
        left = window.size - self._expected(context)
        most = max(own, int(left * ANSWER_SHARE), min(left, window.output_reserve), 1)
        room = wanted.max_tokens or own or (window.output_reserve and self._state.setting.answer)
        facts = {"window": window.size, "refused_by": refused_by}
        return wanted.model_copy(update={**facts, "max_tokens": min(room, most) or None})

    def _expected(self, context: ActiveContext) -> int:
        """Return how many tokens a provider is expected to count for a prompt."""
        return int(context.tokens * max(1.0, self._main.window.ratio))

    async def _counted_afresh(self) -> tuple[ActiveContext, Taken]:
        """Return the active context, and count every message again.

        Raises:
            CannotFit: the context is still larger than the usable window.
        """
        view = self._main
        context = await self.fitted(view, view.context)
        if (counted := self.count(context)) > view.window.usable:
            view.history.recount()
            with view.alone():
                error = self._too_large(counted)
                await make_fit(self._state, view, error)
            context = await self.fitted(view, view.context)
            if (counted := self.count(context)) > view.window.usable:
                raise self._too_large(counted)
        self._taken = Taken(view, counted)
        return context, self._taken

    def _too_large(self, counted: int, limit: int | None = None) -> CannotFit:
        parts = self._main.preamble(self._state.goals).parts
        parts = {**parts, "messages": counted - sum(parts.values())}
        return CannotFit(parts, limit or self._main.window.usable)

    def count(self, context: ActiveContext) -> int:
        """Count the tokens of a whole prompt."""
        counter = self._main.counter
        beside = overhead_of(counter, context.system, context.tools)
        return beside + sum(map(counter.message, context.messages))

    def reported(self, tokens: int, taken: Taken | None = None) -> None:
        """Correct the counts by a provider's count of a prompt. Default: the last prompt."""
        self._was_refused = False
        if taken := taken or self._taken:
            self._learn(taken, tokens)

    def owes(self, error: object, taken: Taken) -> bool:
        """Make the next prompt smaller if the error says that this one was too large. Return
        whether it says so.
        """
        if refusal_of(error) is None:
            return False
        self._owed[_name_of(taken.view)] = error, taken.tokens
        return True

    async def pay(self, view: View) -> None:
        """Make a view as small as a reported refusal asks for.

        Raises:
            CannotFit: the floor is larger than the provider allows.
        """
        if (owed := self._owed.pop(_name_of(view), None)) is not None:
            again, self._was_refused = self._was_refused, True
            await self._refitted(owed[0], Taken(view, owed[1]), again=again)

    async def leave_room(self, view: View, answer_tokens: int) -> None:
        """Make a view so small that the window has room for an answer of that many tokens.

        Raises:
            CannotFit: the floor is larger than the rest of the window.
        """
        reserve = max(answer_tokens, view.window.output_reserve)
        window = view.window.model_copy(update={"output_reserve": reserve})
        last_resort = partial(make_fit, self._state, view)
        if await view.fit(lambda: view.tokens, last_resort) <= window.usable:
            return
        await view.compress(lambda _: Wanted(max(1, window.target)), last_resort)
        if (tokens := view.tokens) > window.usable:
            with view.alone():
                error = self._too_large(tokens, window.usable)
                await make_fit(self._state, view, error, max(1, window.usable))

    def _learn_of(self, reply: Reply, taken: Taken) -> None:
        if reply.usage is not None and not reply.is_stand_in:  # who has a tokenizer of its own
            self._learn(taken, reply.usage.prompt_tokens)

    def _learn(self, taken: Taken, tokens: int) -> None:
        view, before = taken.view, taken.view.calibration
        view.learn(before.after(taken.tokens, tokens, exact=view.counter.exact))
        self._tell(taken, before.ratio, tokens)

    async def refused(self, error: object) -> Plan:
        """Make the context fit after a provider refused it as too large. Return the plan.

        Raises:
            InvalidArgument: the error does not say that a context is too large.
            CannotFit: the floor is larger than the provider allows.
        """
        taken = self._taken or Taken(self._main, self._main.tokens_now)
        again, self._was_refused = self._was_refused, True
        return await off_loop(self._refitted(error, taken, again=again))

    async def _refitted(self, error: object, taken: Taken, *, again: bool) -> Plan:
        refusal = refusal_of(error)
        if refusal is None:
            reason = f"this error does not say that a context is too large: {got(error)}"
            raise InvalidArgument("error", reason)
        state, (view, tokens) = self._state, taken
        take_snapshot(state, view, purpose="emergency", note="a provider refused the prompt")
        calibration, exact = view.calibration, view.counter.exact
        view.learn(calibration.after_overflow(tokens, refusal, size=view.size, exact=exact))
        if (size := view.window_now().size) < view.window.size:
            state.emit(WindowCapped(asked=view.size, size=size))
        self._tell(taken, calibration.ratio, refusal.tokens or 0)
        if again:
            with view.alone():
                needed = max(1, min(tokens // 2, view.window.usable))
                return await make_fit(state, view, self._too_large(tokens, needed), needed)
        return await view.compress(
            lambda _: Wanted(view.window.target), partial(make_fit, state, view)
        )

    def _tell(self, taken: Taken, before: float, reported: int) -> None:
        ratio = taken.view.calibration.ratio
        if ratio != before:
            self._state.emit(RatioLearned(counted=taken.tokens, reported=reported, ratio=ratio))
        taken.view.corrected()


def _name_of(view: View) -> tuple[str, int]:
    return view.tokenizer, view.size


async def _next(pieces: AsyncIterator[Delta], model: ChatModel) -> Delta:
    try:
        return promised(await anext(pieces), Delta, model.name)
    except StopAsyncIteration:
        raise ModelFailed(f"{model.name} broke its answer off", model=model.name) from None
