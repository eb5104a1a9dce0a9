"""Retries a model, and asks other models if retrying does not help.

Start reading at `FallbackModel`. After a temporary failure (`ModelUnavailable`), the same model is
asked again. Waits are random and grow; a wait that the server asks for is respected. An unusable
answer is asked for again too. After a refusal the next model is asked. Every wait can be cancelled.

If a prompt is too large for a model, the refusal is first raised to the caller. The caller can make
a smaller prompt for the model that the user chose; this module could only send the same prompt to
another model. If the caller then asks again (`Ask.refused_by`), the other models are asked, but
only those whose window is known to hold the prompt and the answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Mapping,
    Sequence,
)
from contextlib import aclosing
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
"""A function that asks one model."""
MARGIN = 1.25
"""A token count by another model's tokenizer is multiplied by this, because counts differ."""


class FallbackModel:
    """Asks models in order. The later models are stand-ins for the first one.

    `windows` are the known windows in tokens, by model key. What a server reports takes precedence.
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
        """Stand-ins that cannot call tools, and for which this was already reported."""
        self._down: dict[str, ModelUnavailable] = {}
        """Servers that were down when they were asked for limits or a count. They are not asked for
        the answer. It stays empty if servers that are down are to be asked again."""

    @property
    def name(self) -> str:
        """The key of the model that is asked first."""
        return self._models[0].name

    @property
    def abilities(self) -> Abilities:
        """The abilities of the first model. Schemas need all models, because any of them may have
        to answer. If a stand-in cannot call tools, it is asked without them.
        """
        first = self._models[0].abilities
        schemas = all(model.abilities.schemas for model in self._models)
        return Abilities(tools=first.tools, schemas=schemas, counts=first.counts)

    async def complete(self, context: ActiveContext, ask: Ask = ASK) -> Reply:
        """Return the first usable answer. `Reply.model` names the model that gave it.

        Raises:
            ContextOverflow: the prompt is too large for a model. With `ask.refused_by`, no other
                model
                is known to hold it.
            ModelFailed: no model answered; the error of the last one.
        """

        async def answered(model: ChatModel, given: ActiveContext, ask: Ask) -> Reply:
            reply = await model.complete(given, ask)
            _check_says(reply, model)
            return self._signed(reply, model)

        return await self._first(answered, sendable(context), ask)

    async def stream(self, context: ActiveContext, ask: Ask = ASK) -> AsyncIterator[Delta]:
        """Yield the answer while it is written. After its first piece no other model is asked,
        because the reader has seen that piece.

        Raises:
            As `complete`; ModelFailed also if an answer breaks off.
        """
        clock = asyncio.get_running_loop().time

        async def begun(model: ChatModel, given: ActiveContext, ask: Ask) -> _StartedAnswer:
            start = clock()
            sign = partial(self._signed, model=model)
            pieces = _signed_at_end(model.stream(given, ask), sign)
            first = await _beginning(pieces, model)
            if first.reply is not None and not first.text.strip() and first.reply.is_empty:
                await pieces.aclose()
                _check_says(first.reply, model)
            return _StartedAnswer(model, first, pieces, clock() - start)

        model, piece, pieces, taken = await self._first(begun, sendable(context), ask)
        async with aclosing(pieces):
            while True:
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

    async def count(self, context: ActiveContext) -> int | None:
        """Return the prompt's tokens as the first model's server counts them."""
        model = self._models[0]
        return await self._timed_beside(model, partial(model.count, context))

    async def limits(self) -> Limits:
        """Return the limits of the first model, as its server reports them.

        This takes at most half the time of an answer, because a server that does not report its
        limits may still answer prompts.
        """
        model, clock = self._models[0], asyncio.get_running_loop().time
        most = min(self._patience.each, self._patience.together) / 2
        return await self._timed_beside(model, model.limits, clock() + most)

    async def _timed_beside(
        self, model: ChatModel, work: Callable[[], Awaitable[T]], cut: float = inf
    ) -> T:
        try:
            return await self._timed(model, work, cut)
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
        # Each model gets an equal share of the remaining time.
        clock = asyncio.get_running_loop().time
        end = clock() + self._patience.together - ask.waited
        attempts = Attempts(prompt, ask)
        for left, model in zip(range(len(self._models), 0, -1), self._models, strict=True):
            if model.name in attempts.refused:
                continue
            if attempts.last and clock() >= end:
                break
            if model is not self._models[0]:
                ask = ask.model_copy(update={"waited": 0.0, "options": {}})
            turn = _Turn(model, clock() + (end - clock()) / left, ask.waited)
            try:
                wanted = await self._request_for(turn, prompt, ask, attempts)
                if wanted is None:
                    attempts.note(model.name, None)
                    continue
                if attempts.last:
                    name, reason = attempts.last
                    self._report(ModelReplaced(model=name, by=model.name, reason=str(reason)))
                return await self._served(turn, work, prompt, wanted)
            except ContextOverflow as error:
                error.stand_in = model.name if model is not self._models[0] else ""
                error.others = len(self._models) > 1
                if ask.refused_by is None:
                    raise
                attempts.note(model.name, error)
            except ModelFailed as error:
                attempts.note(model.name, error)
        raise attempts.error

    async def _request_for(
        self, turn: _Turn, prompt: ActiveContext, ask: Ask, attempts: Attempts
    ) -> Ask | None:
        """Build the request for a model. A stand-in gets its own window as the limit, if it is
        known. Return None if other models refused the prompt as too large, and this model is not
        known to hold it and the answer.

        Raises:
            ContextOverflow: the prompt is larger than the stand-in's window. Not every server would
                refuse it.
            ModelUnavailable: the model's server was down a moment ago.
        """
        model = turn.model
        if down := self._down.pop(model.name, None):
            raise down
        if model is self._models[0] and not attempts.refused:
            return ask
        limits = await self._limits_of(turn)
        window = limits.window or self._windows.get(model.name)
        size = min(filter(None, (window, limits.trained)), default=None)
        if attempts.refused:
            if window is None or size is None:
                return None
            room = ContextWindow(size=size, output_reserve=ask.max_tokens or 0).usable
            if await self._counted(turn, prompt, attempts) > room:
                return None
            return ask.model_copy(update={"window": size})
        if size is None:
            return ask
        if prompt.tokens > size:
            raise ContextOverflow(f"{model.name} has a window of {size:,} tokens", limit=size)
        return ask.model_copy(update={"window": min(size, ask.window or size)})

    async def _limits_of(self, turn: _Turn) -> Limits:
        try:
            return await self._timed(turn.model, turn.model.limits, turn.until)
        except (ContextOverflow, ModelFailed):
            return Limits()

    async def _counted(self, turn: _Turn, prompt: ActiveContext, attempts: Attempts) -> float:
        """Return this model's token count for a prompt that other models refused.

        If the model does not count, return the largest known count times `MARGIN`. Return infinity
        if the server refuses even to count the prompt.
        """
        given = self._prompt_for(turn.model, prompt)
        try:
            tokens = await self._timed(turn.model, partial(turn.model.count, given), turn.until)
        except ContextOverflow:
            return inf
        except ModelFailed:
            tokens = None
        if tokens is None:
            return max(prompt.tokens, *attempts.refused.values()) * MARGIN
        return tokens

    async def _served(self, turn: _Turn, work: Work[T], prompt: ActiveContext, ask: Ask) -> T:
        # A stand-in's refusal may show that it cannot call tools. Then it is asked again without
        # them.
        given = self._prompt_for(turn.model, prompt)
        if given is not prompt and turn.model.name not in self._withdrawn:
            self._withdrawn.add(turn.model.name)
            self._report(ToolsWithdrawn(model=turn.model.name, reason="it calls none"))
        try:
            return await self._patiently(turn, partial(work, turn.model, given, ask))
        except ModelRefused:
            if not given.tools or self._prompt_for(turn.model, prompt).tools:
                raise
            return await self._served(turn, work, prompt, ask)

    def _prompt_for(self, model: ChatModel, prompt: ActiveContext) -> ActiveContext:
        # Only a stand-in loses its tools here: the caller knows the first model's abilities.
        if model is self._models[0] or model.abilities.tools is not False or not prompt.tools:
            return prompt
        return prompt.model_copy(update={"tools": ()})

    async def _patiently(self, turn: _Turn, work: Callable[[], Awaitable[T]]) -> T:
        # No attempt starts after the model's share of the time.
        clock = asyncio.get_running_loop().time
        failed = list[ModelFailed]()

        def is_over(state: RetryCallState) -> bool:
            is_last = state.attempt_number >= self._patience.attempts
            return is_last or clock() + state.upcoming_sleep >= turn.until

        async def attempt() -> T:
            try:
                return await self._timed(turn.model, work, turn.until, turn.waited)
            except ModelFailed as error:
                if failed and _is_slow(error) and clock() >= turn.until:
                    raise failed[-1] from None  # it says more than an attempt without time
                failed.append(error)
                raise

        retrying = AsyncRetrying(
            stop=is_over,
            wait=self._wait,
            retry=retry_if_exception(self._is_worth_another),
            before_sleep=lambda state: self._report_retry(turn.model, state),
            sleep=self._sleep,
            reraise=True,
        )
        return await retrying(attempt)

    async def _timed(
        self,
        model: ChatModel,
        work: Callable[[], Awaitable[T]],
        cut: float = inf,
        waited: float = 0.0,
    ) -> T:
        """Ask a model once. `waited` seconds of the time for one answer are already spent. Give up
        at the time `cut` (the loop's clock), or when the time for one answer is over.
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

    def _is_worth_another(self, error: BaseException) -> bool:
        if isinstance(error, ModelUnavailable):
            if error.retry_after is None and not self._patience.asks_down_again:
                return False
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


class _Turn(NamedTuple):
    """When the model's share of the time ends, by the loop's clock. Then every attempt ends."""

    model: ChatModel
    until: float
    """When the model's share of the time ends, by the loop's clock. Attempts end then."""
    waited: float
    """Seconds of the time for one answer that are already spent."""


class Attempts:
    """Records the models that did not answer a prompt, in order, and why."""

    def __init__(self, prompt: ActiveContext, ask: Ask) -> None:
        self._prompt = prompt
        self._outcomes: list[tuple[str, CompactError | None]] = []
        for name, tokens in (ask.refused_by or {}).items():
            said = f"{name} refused the prompt as too large, and it cannot be made smaller"
            self.note(name, ContextOverflow(said, tokens=tokens))

    def note(self, name: str, error: CompactError | None) -> None:
        """Record a failure. `error` None: not asked, because its window may be too small."""
        self._outcomes.append((name, error))

    @property
    def refused(self) -> dict[str, int]:
        """Model key → the token count of the prompt, for models that refused it as too large."""
        return {
            name: error.tokens or self._prompt.tokens
            for name, error in self._outcomes
            if isinstance(error, ContextOverflow)
        }

    @property
    def last(self) -> tuple[str, CompactError] | None:
        """The last model that failed, and its error."""
        return next(((name, error) for name, error in reversed(self._outcomes) if error), None)

    @property
    def error(self) -> CompactError:
        """The error to raise when no model answered."""
        assert self.last, "there is at least one model"
        _, failed = self.last
        passed = [name for name, error in self._outcomes if error is None]
        if not isinstance(failed, ContextOverflow) or not passed:
            return failed
        error = ContextOverflow(
            f"{failed}; {_listed(passed)} not asked: not known to hold the prompt and the answer",
            tokens=failed.tokens,
            limit=failed.limit,
        )
        error.stand_in, error.others = failed.stand_in, failed.others
        return error


def _listed(names: Sequence[str]) -> str:
    return f"{', '.join(names)} {'was' if len(names) == 1 else 'were'}"


class _StartedAnswer(NamedTuple):
    model: ChatModel
    first: Delta
    pieces: AsyncGenerator[Delta, None]
    taken: float
    """How many seconds the model has taken so far."""


def _is_slow(error: ModelFailed) -> bool:
    return isinstance(error, ModelUnavailable) and error.waited is not None


def _check_says(reply: Reply, model: ChatModel) -> None:
    if promised(reply, Reply, model.name).is_empty:
        raise ModelFailed(f"{model.name} answered with nothing", model=model.name)


async def _beginning(pieces: AsyncIterator[Delta], model: ChatModel) -> Delta:
    """Return the first piece that holds text, or the last piece, with all blanks before it."""
    text = ""
    async for piece in pieces:
        text += promised(piece, Delta, model.name).text
        if text.strip() or piece.reply is not None:
            return piece.model_copy(update={"text": text})
    raise ModelFailed(f"{model.name} ended its answer before it began", model=model.name)


async def _signed_at_end(
    pieces: AsyncIterator[Delta], sign: Callable[[Reply], Reply]
) -> AsyncGenerator[Delta, None]:
    # Closing this generator also closes the model's stream.
    try:
        async for piece in pieces:
            if piece.reply is not None:
                piece = piece.model_copy(update={"reply": sign(piece.reply)})
            yield piece
    finally:
        if (close := getattr(pieces, "aclose", None)) is not None:
            await close()
