"""Retry a model, and ask other models instead if that does not help.

After a failure that may pass (`ModelUnavailable`), the same model is asked again. Waits grow and
are random, and a server's own wish counts. An unusable answer is asked for again too. After a
refusal, or if a model was too slow, the next model is asked. All models share one budget of time.
Every wait can be cancelled. The vendors' clients could try again by themselves, but they report no
wait and know no budget.

A prompt that is too large for a model goes back to the caller first. The caller can make a smaller
prompt for the model that the user chose; this module could only send the same prompt to another
model. Once the caller has done so (`Ask.refused_by`), the other models are asked, but only those
whose window is known to hold prompt and answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Mapping,
    Sequence,
)
from functools import partial
from math import inf
from typing import NamedTuple, TypeVar

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception
from tenacity.wait import wait_random_exponential

from compact.errors import (
    CompactError,
    ContextOverflow,
    ModelFailed,
    ModelRefused,
    ModelUnavailable,
)
from compact.messages.asking import ASK, PATIENCE, Abilities, Ask, Limits, Patience
from compact.messages.budget import ContextWindow
from compact.messages.context import ActiveContext, sendable
from compact.messages.events import ModelAskedAgain, ModelReplaced, ToolsWithdrawn
from compact.messages.protocols import ChatModel, Emit
from compact.messages.replies import Delta, Reply, promised

T = TypeVar("T")
Work = Callable[[ChatModel, ActiveContext, Ask], Awaitable[T]]
"""Asks one model."""
MARGIN = 1.25
"""Multiplies the count of a prompt that another model's tokenizer counted."""


class FallbackModel:
    """Asks models in their order. The later models are stand-ins for the first one.

    `windows` are the known windows in tokens, by the models' keys. A server's own statement counts
    more.
    """

    def __init__(
        self,
        models: Sequence[ChatModel],
        patience: Patience = PATIENCE,
        *,
        windows: Mapping[str, int] | None = None,
        emit: Emit | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        if not models:
            raise ValueError("give at least one model")
        self._models = tuple(models)
        self._patience = patience
        self._windows = windows or {}
        self._emit = emit
        self._sleep = sleep
        self._withdrawn: set[str] = set()
        """Stand-ins whose missing tools were reported."""
        self._down: dict[str, ModelUnavailable] = {}
        """Servers that failed when asked for their limits or a count, if a server that is down
        should not be asked for the answer either."""

    @property
    def name(self) -> str:
        """The key of the model that is asked first."""
        return self._models[0].name

    @property
    def abilities(self) -> Abilities:
        """The abilities of the first model. Schemas need all models, as any may have to answer; a
        stand-in without tools is given none.
        """
        first = self._models[0].abilities
        schemas = all(model.abilities.schemas for model in self._models)
        return Abilities(tools=first.tools, schemas=schemas, counts=first.counts)

    async def complete(self, context: ActiveContext, ask: Ask = ASK) -> Reply:
        """Return the first usable answer. `Reply.model` names the model that gave the answer.

        Raises:
            ContextOverflow: the prompt is too large for the model whose turn it was; with
                `ask.refused_by`, no other model is known to hold it.
            ModelFailed: no model answered; the error of the last one.
        """

        async def answered(model: ChatModel, given: ActiveContext, ask: Ask) -> Reply:
            reply = await model.complete(given, ask)
            _check_says(reply, model)
            return self._signed(reply, model)

        return await self._first(answered, sendable(context), ask)

    async def stream(self, context: ActiveContext, ask: Ask = ASK) -> AsyncIterator[Delta]:
        """Yield the answer as it is written. After its first piece no other model is asked, as the
        reader has seen that piece.

        Raises:
            As `complete`; ModelFailed also if an answer breaks off.
        """
        clock = asyncio.get_running_loop().time

        async def begun(model: ChatModel, given: ActiveContext, ask: Ask) -> _Begun:
            start, pieces = clock(), model.stream(given, ask)
            first = await _beginning(pieces, model)
            if first.reply is not None and not first.text.strip() and first.reply.is_empty:
                await _close(pieces)
                _check_says(first.reply, model)
            return _Begun(model, first, pieces, clock() - start)

        model, piece, pieces, taken = await self._first(begun, sendable(context), ask)
        try:
            while True:
                if piece.reply is not None:
                    reply = self._signed(piece.reply, model)
                    piece = piece.model_copy(update={"reply": reply})
                yield piece
                start = clock()
                try:
                    async with asyncio.timeout(self._patience.each - taken):
                        piece = await anext(pieces)
                except StopAsyncIteration:
                    return
                except TimeoutError:
                    raise self._too_slow(model, self._patience.each) from None
                taken += clock() - start
        finally:
            await _close(pieces)

    async def count(self, context: ActiveContext) -> int | None:
        """Return how many tokens the prompt has as counted by the first model's server."""
        model = self._models[0]
        return await self._unless_down(model, self._timed(model, partial(model.count, context)))

    async def limits(self) -> Limits:
        """Return the limits of the first model, as its server states them.

        Asking may take at most half the time of an answer, because a server that does not state
        its limits may still answer prompts.
        """
        model = self._models[0]
        return await self._unless_down(model, self._limits_of(model))

    async def _limits_of(self, model: ChatModel, until: float = inf) -> Limits:
        most = min(self._patience.each, self._patience.together) / 2
        until = min(until, asyncio.get_running_loop().time() + most)
        return await self._timed(model, model.limits, until)

    async def _unless_down(self, model: ChatModel, work: Awaitable[T]) -> T:
        try:
            return await work
        except ModelUnavailable as error:
            if not self._patience.asks_down_again:
                self._down[model.name] = error
            raise

    async def aclose(self) -> None:
        """Close the connections of all models."""
        for model in self._models:
            if (close := getattr(model, "aclose", None)) is not None:
                await close()

    def _signed(self, reply: Reply, model: ChatModel) -> Reply:
        is_other = model is not self._models[0]
        return reply.model_copy(
            update={"model": reply.model or model.name, "is_stand_in": is_other}
        )

    async def _first(self, work: Work[T], prompt: ActiveContext, ask: Ask) -> T:
        clock = asyncio.get_running_loop().time
        until = clock() + self._patience.together - ask.waited
        attempts = Attempts(prompt, ask)
        for model in self._models:
            if model.name in attempts.refused:
                continue
            if attempts.last and clock() >= until:
                break
            if model is not self._models[0]:
                ask = ask.model_copy(update={"waited": 0.0, "options": {}})
            try:
                wanted = await self._wanted(model, prompt, ask, attempts, until)
                if wanted is None:
                    attempts.unasked.append(model.name)
                    continue
                if attempts.last:
                    name, reason = attempts.last
                    self._report(ModelReplaced(model=name, by=model.name, reason=str(reason)))
                return await self._served(model, work, prompt, wanted, until)
            except ContextOverflow as error:
                error.stand_in = model.name if model is not self._models[0] else ""
                error.others = len(self._models) > 1
                if ask.refused_by is None:
                    raise
                attempts.note(model.name, error)
            except ModelFailed as error:
                attempts.note(model.name, error)
        raise attempts.error

    async def _wanted(
        self, model: ChatModel, prompt: ActiveContext, ask: Ask, attempts: Attempts, until: float
    ) -> Ask | None:
        """Build the request for a model. A stand-in gets its own window as limit, if it is known.

        Return None if other models refused the prompt, and this one may not hold it and the answer.

        Raises:
            ContextOverflow: the prompt is larger than the stand-in's window. Not every server
                refuses such a prompt itself.
            ModelUnavailable: the model's server was down a moment ago.
        """
        if down := self._down.pop(model.name, None):
            raise down
        if model is self._models[0] and not attempts.refused:
            return ask
        try:
            limits = await self._limits_of(model, until)
        except (ContextOverflow, ModelFailed):
            limits = Limits()
        window = limits.window or self._windows.get(model.name)
        size = min(filter(None, (window, limits.trained)), default=None)
        if attempts.refused:
            if window is None or size is None:
                return None
            # Tokens of another model are counted by another tokenizer.
            tokens = max(prompt.tokens, *attempts.refused.values()) * MARGIN
            room = ContextWindow(size=size, output_reserve=ask.max_tokens or 0).usable
            return ask.model_copy(update={"window": size}) if tokens <= room else None
        if size is None:
            return ask
        if prompt.tokens > size:
            raise ContextOverflow(f"{model.name} has a window of {size:,} tokens", limit=size)
        return ask.model_copy(update={"window": min(size, ask.window or size)})

    async def _served(
        self, model: ChatModel, work: Work[T], prompt: ActiveContext, ask: Ask, until: float
    ) -> T:
        # A stand-in's refusal may teach that it calls no tools. Then it is asked without them.
        given = self._prompt_for(model, prompt)
        if given is not prompt and model.name not in self._withdrawn:
            self._withdrawn.add(model.name)
            self._report(ToolsWithdrawn(model=model.name, reason="it calls none"))
        try:
            return await self._patiently(model, partial(work, model, given, ask), until, ask.waited)
        except ModelRefused:
            if not given.tools or self._prompt_for(model, prompt).tools:
                raise
            return await self._served(model, work, prompt, ask, until)

    def _prompt_for(self, model: ChatModel, prompt: ActiveContext) -> ActiveContext:
        # Only a stand-in loses its tools here: the caller knows the first model's abilities.
        if model is self._models[0] or model.abilities.tools is not False or not prompt.tools:
            return prompt
        return prompt.model_copy(update={"tools": ()})

    async def _patiently(
        self, model: ChatModel, work: Callable[[], Awaitable[T]], until: float, waited: float
    ) -> T:
        clock = asyncio.get_running_loop().time

        def is_over(state: RetryCallState) -> bool:
            is_last = state.attempt_number >= self._patience.attempts
            return is_last or clock() + state.upcoming_sleep >= until

        retrying = AsyncRetrying(
            stop=is_over,
            wait=self._wait,
            retry=retry_if_exception(partial(self._is_worth_another, model)),
            before_sleep=lambda state: self._report_retry(model, state),
            sleep=self._sleep,
            reraise=True,
        )
        return await retrying(partial(self._timed, model, work, until, waited))

    async def _timed(
        self,
        model: ChatModel,
        work: Callable[[], Awaitable[T]],
        cut: float = inf,
        waited: float = 0.0,
    ) -> T:
        """Ask a model once. Give up at the time `cut`, or when the time for one answer is over;
        `waited` seconds of that time are already spent.
        """
        left = min(self._patience.each - waited, cut - asyncio.get_running_loop().time())
        try:
            async with asyncio.timeout(left):
                return await work()
        except TimeoutError:
            raise self._too_slow(model, left + waited) from None

    def _too_slow(self, model: ChatModel, seconds: float) -> ModelUnavailable:
        waited = max(0.0, round(seconds, 3))
        why = f" ({self._patience.setting})" if seconds > self._patience.each - 1e-6 else ""
        said = f"{model.name} did not answer within {waited:g} seconds{why}"
        return ModelUnavailable(said, model=model.name, waited=waited)

    def _is_worth_another(self, model: ChatModel, error: BaseException) -> bool:
        if isinstance(error, ModelUnavailable):
            if error.retry_after is None and not self._patience.asks_down_again:
                return False
            if error.waited is not None and model is not self._models[-1]:
                return False  # what is left of the time is for the models after it
            return (error.retry_after or 0) <= self._patience.longest_wait
        return isinstance(error, ModelFailed) and not isinstance(error, ModelRefused)

    def _wait(self, state: RetryCallState) -> float:
        patience = self._patience
        wait = wait_random_exponential(patience.first_wait, patience.longest_wait)(state)
        error = state.outcome.exception() if state.outcome else None
        asked = error.retry_after if isinstance(error, ModelUnavailable) else None
        return max(wait, asked or 0.0)

    def _report_retry(self, model: ChatModel, state: RetryCallState) -> None:
        error = state.outcome.exception() if state.outcome else None
        wait = state.next_action.sleep if state.next_action else 0.0
        self._report(
            ModelAskedAgain(
                model=model.name, attempt=state.attempt_number, wait=wait, reason=str(error)
            )
        )

    def _report(self, event: ModelAskedAgain | ModelReplaced | ToolsWithdrawn) -> None:
        if self._emit is not None:
            self._emit(event)


class Attempts:
    """Records which models did not answer a prompt, and why."""

    def __init__(self, prompt: ActiveContext, ask: Ask) -> None:
        self._tokens = prompt.tokens
        self.refused: dict[str, int] = {}
        """Model key -> the token count of the prompt, for models that refused it as too large."""
        self.unasked: list[str] = []
        """Models that were not asked, as they are not known to hold the prompt."""
        self.last: tuple[str, CompactError] | None = None
        """The last model that failed, and its error."""
        for name, tokens in (ask.refused_by or {}).items():
            said = f"{name} refused the prompt as too large, and it cannot be made smaller"
            self.note(name, ContextOverflow(said, tokens=tokens))

    def note(self, name: str, error: CompactError) -> None:
        """Record a model's failure."""
        self.last = name, error
        if isinstance(error, ContextOverflow):
            self.refused[name] = error.tokens or self._tokens

    @property
    def error(self) -> CompactError:
        """The error to raise when no model answered."""
        assert self.last, "there is at least one model"
        _, failed = self.last
        if not isinstance(failed, ContextOverflow) or not self.unasked:
            return failed
        names = f"{', '.join(self.unasked)} {'was' if len(self.unasked) == 1 else 'were'}"
        text = f"{failed}; {names} not asked: not known to hold the prompt and the answer"
        error = ContextOverflow(text, tokens=failed.tokens, limit=failed.limit)
        error.stand_in, error.others = failed.stand_in, failed.others
        return error


class _Begun(NamedTuple):
    """An answer whose first piece has arrived."""

    model: ChatModel
    first: Delta
    pieces: AsyncIterator[Delta]
    taken: float
    """How many seconds the model has taken so far."""


def _check_says(reply: Reply, model: ChatModel) -> None:
    if promised(reply, Reply, model.name).is_empty:
        raise ModelFailed(f"{model.name} answered with nothing", model=model.name)


async def _beginning(pieces: AsyncIterator[Delta], model: ChatModel) -> Delta:
    """Return the first piece that holds a word (or the last piece), with all blanks before it."""
    text = ""
    async for piece in pieces:
        text += promised(piece, Delta, model.name).text
        if text.strip() or piece.reply is not None:
            return piece.model_copy(update={"text": text})
    raise ModelFailed(f"{model.name} ended its answer before it began", model=model.name)


async def _close(pieces: AsyncIterator[Delta]) -> None:
    """Close an answer that is under way, if it can be closed."""
    if (close := getattr(pieces, "aclose", None)) is not None:
        await close()
