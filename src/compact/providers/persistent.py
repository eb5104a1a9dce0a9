"""A model that is asked again where that may help, and others in its place where it does not.

Start reading at `Persistent`. A failure that may pass (`ModelUnavailable`) is waited out, each wait
longer than the one before and none alike, as the server asks where it says so; an answer that
cannot be used is asked for once more; a refusal is not argued with: the next model is asked. Who
waits can always be cancelled.

A prompt that is too large for a model goes back to whoever made it. That layer acts first: it can
learn from the refusal and make a smaller prompt, which the model of a person's choice then answers;
from here the same prompt could only go to another model. When it has done what it can
(`Ask.refused_by`), the others are asked, but only those whose window is known to hold the prompt
and the answer: a prompt that one model refused is sent to no other in the hope that it fits.
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
from typing import NamedTuple, TypeVar

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception
from tenacity.stop import stop_after_attempt, stop_before_delay
from tenacity.wait import wait_random_exponential

from compact.core.asking import ASK, PATIENCE, Abilities, Ask, Limits, Patience
from compact.core.budget import ContextWindow
from compact.core.context import ActiveContext, sendable
from compact.core.events import ModelAskedAgain, ModelReplaced
from compact.core.protocols import ChatModel, Emit
from compact.core.replies import Delta, Reply
from compact.errors import (
    CompactError,
    ContextOverflow,
    ModelFailed,
    ModelRefused,
    ModelUnavailable,
)

T = TypeVar("T")
MARGIN = 1.25
"""Factor for a prompt that was counted by another model's tokenizer than the one that is to read
it."""


class Persistent:
    """Models in the order they are asked: the first one as long as it answers.

    `windows` are those that are known, in tokens, by the models' keys; what a server says of its
    own counts more.
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

    @property
    def name(self) -> str:
        """The key of the model that is asked first."""
        return self._models[0].name

    @property
    def abilities(self) -> Abilities:
        """What all of them can do, as any of them may have to answer."""
        known = [model.abilities for model in self._models]
        tools = [each.tools for each in known]
        return Abilities(
            tools=False if False in tools else None if None in tools else True,
            schemas=all(each.schemas for each in known),
            counts=known[0].counts,
        )

    async def complete(self, context: ActiveContext, ask: Ask = ASK) -> Reply:
        """The first answer that can be used, and who gave it.

        Raises:
            ContextOverflow: the prompt is too large for the model whose turn it was; with
                `ask.refused_by`, also where no other one is known to hold it.
            ModelFailed: none of them answered; the last one's error.
        """
        sendable(context)

        async def answered(model: ChatModel, ask: Ask) -> Reply:
            reply = await model.complete(context, ask)
            _check_says(reply, model)
            return self._signed(reply, model)

        return await self._first(answered, context, ask)

    async def stream(self, context: ActiveContext, ask: Ask = ASK) -> AsyncIterator[Delta]:
        """The answer as it is written. Once a piece was handed on nobody else is asked: what was
        read cannot be unread.

        Raises:
            As `complete`; ModelFailed also where an answer breaks off.
        """
        sendable(context)

        clock = asyncio.get_running_loop().time

        async def begun(model: ChatModel, ask: Ask) -> _Begun:
            start = clock()
            sign = partial(self._signed, model=model)
            pieces = _signed_at_end(model.stream(context, ask), sign)
            try:
                first = await anext(pieces)
            except StopAsyncIteration:
                said = f"{model.name} ended its answer before it began"
                raise ModelFailed(said, model=model.name) from None
            if first.reply is not None and not first.text and first.reply.is_empty:
                await pieces.aclose()
                _check_says(first.reply, model)
            return _Begun(model, first, pieces, clock() - start)

        model, piece, pieces, taken = await self._first(begun, context, ask)
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
                    raise self._too_slow(model.name) from None
                taken += clock() - start

    async def count(self, context: ActiveContext) -> int | None:
        """Tokens of the prompt as the first model's server counts them."""
        return await self._timed(self._models[0], lambda model: model.count(context))

    async def limits(self) -> Limits:
        """What the first model's server says of its limits."""
        return await self._timed(self._models[0], lambda model: model.limits())

    async def aclose(self) -> None:
        """Close the connections of all of them."""
        for model in self._models:
            if (close := getattr(model, "aclose", None)) is not None:
                await close()

    def _signed(self, reply: Reply, model: ChatModel) -> Reply:
        """The reply with who gave it."""
        is_other = model is not self._models[0]
        return reply.model_copy(
            update={"model": reply.model or model.name, "is_stand_in": is_other}
        )

    async def _first(
        self, work: Callable[[ChatModel, Ask], Awaitable[T]], prompt: ActiveContext, ask: Ask
    ) -> T:
        """What the first model yields that yields anything, the time for it shared by all."""
        clock = asyncio.get_running_loop().time
        end = clock() + self._patience.together
        row = _Row(ask)
        for left, model in zip(range(len(self._models), 0, -1), self._models, strict=True):
            if model.name in row.refused:
                continue
            if row.failed and clock() >= end:
                break
            wanted = await self._roomy(model, prompt, ask, row.refused) if row.refused else ask
            if wanted is None:
                row.passed.append(model.name)
                continue
            if row.failed:
                reason = str(row.failed)
                self._tell(ModelReplaced(model=row.last, by=model.name, reason=reason))
            try:
                share = (end - clock()) / left
                return await self._patiently(model, partial(_asked, work, wanted), share)
            except ContextOverflow as error:
                error.stand_in = model.name if model is not self._models[0] else ""
                error.others = len(self._models) > 1
                if ask.refused_by is None:
                    raise
                row.note(model.name, error)
                row.refused[model.name] = error.tokens or prompt.tokens
            except ModelFailed as error:
                row.note(model.name, error)
        raise row.told

    async def _roomy(
        self, model: ChatModel, prompt: ActiveContext, ask: Ask, refused: Mapping[str, int]
    ) -> Ask | None:
        """What the model is asked for in its own window; None where that one is not known to hold
        the prompt with the answer.
        """
        limits = await self._said(model, lambda model: model.limits()) or Limits()
        window = limits.window or self._windows.get(model.name)
        if window is None:
            return None
        window = min(window, limits.trained or window)
        tokens = await self._said(model, lambda model: model.count(prompt))
        if tokens is None:
            tokens = int(max(prompt.tokens, *refused.values()) * MARGIN)
        if tokens > ContextWindow(size=window, output_reserve=ask.max_tokens or 0).usable:
            return None
        return ask.model_copy(update={"window": window})

    async def _said(self, model: ChatModel, work: Callable[[ChatModel], Awaitable[T]]) -> T | None:
        """What a model says of itself; None where it does not."""
        try:
            return await self._timed(model, work)
        except ModelFailed:
            return None

    async def _patiently(
        self, model: ChatModel, work: Callable[[ChatModel], Awaitable[T]], seconds: float
    ) -> T:
        """The model's answer; after so many seconds no attempt is begun any more."""
        retrying = AsyncRetrying(
            stop=stop_after_attempt(self._patience.attempts) | stop_before_delay(max(0.0, seconds)),
            wait=self._wait,
            retry=retry_if_exception(self._is_worth_another),
            before_sleep=lambda state: self._tell_again(model, state),
            sleep=self._sleep,
            reraise=True,
        )
        return await retrying(self._timed, model, work)

    async def _timed(self, model: ChatModel, work: Callable[[ChatModel], Awaitable[T]]) -> T:
        try:
            async with asyncio.timeout(self._patience.each):
                return await work(model)
        except TimeoutError:
            raise self._too_slow(model.name) from None

    def _too_slow(self, name: str) -> ModelUnavailable:
        seconds = f"{self._patience.each:g} seconds"
        return ModelUnavailable(f"{name} did not answer within {seconds}", model=name)

    def _is_worth_another(self, error: BaseException) -> bool:
        """Whether the same model may do better if it is asked again."""
        if isinstance(error, ModelUnavailable):
            return (error.retry_after or 0) <= self._patience.longest_wait
        return isinstance(error, ModelFailed) and not isinstance(error, ModelRefused)

    def _wait(self, state: RetryCallState) -> float:
        patience = self._patience
        wait = wait_random_exponential(patience.first_wait, patience.longest_wait)(state)
        error = state.outcome.exception() if state.outcome else None
        asked = error.retry_after if isinstance(error, ModelUnavailable) else None
        return max(wait, asked or 0.0)

    def _tell_again(self, model: ChatModel, state: RetryCallState) -> None:
        error = state.outcome.exception() if state.outcome else None
        wait = state.next_action.sleep if state.next_action else 0.0
        self._tell(
            ModelAskedAgain(
                model=model.name, attempt=state.attempt_number, wait=wait, reason=str(error)
            )
        )

    def _tell(self, event: ModelAskedAgain | ModelReplaced) -> None:
        if self._emit is not None:
            self._emit(event)


class _Row:
    """How it went with the models so far that were to answer a prompt."""

    def __init__(self, ask: Ask) -> None:
        self.refused = dict(ask.refused_by or {})
        """Who refused it as too large, and the tokens it has for them."""
        self.passed: list[str] = []
        """Who was not asked: not known to hold it."""
        self.last = next(reversed(self.refused), "")
        """Who failed last."""
        self.failed: CompactError | None = None
        if self.last:
            self.failed = ContextOverflow(
                f"{self.last} refused the prompt as too large, and it cannot be made smaller"
            )

    def note(self, name: str, error: CompactError) -> None:
        """That model did not answer."""
        self.last, self.failed = name, error

    @property
    def told(self) -> CompactError:
        """The error that says how it ended."""
        failed = self.failed
        assert failed, "there is at least one model"
        if not isinstance(failed, ContextOverflow) or not self.passed:
            return failed
        error = ContextOverflow(
            f"{failed}; {_listed(self.passed)} not asked: not known to hold the prompt and the "
            "answer",
            tokens=failed.tokens,
            limit=failed.limit,
        )
        error.stand_in, error.others = failed.stand_in, failed.others
        return error


def _asked(
    work: Callable[[ChatModel, Ask], Awaitable[T]], ask: Ask, model: ChatModel
) -> Awaitable[T]:
    return work(model, ask)


def _listed(names: Sequence[str]) -> str:
    return f"{', '.join(names)} {'was' if len(names) == 1 else 'were'}"


class _Begun(NamedTuple):
    """An answer that is under way."""

    model: ChatModel
    first: Delta
    pieces: AsyncGenerator[Delta, None]
    taken: float
    """Seconds that the model has taken so far."""


def _check_says(reply: Reply, model: ChatModel) -> None:
    if reply.is_empty:
        raise ModelFailed(f"{model.name} answered with nothing", model=model.name)


async def _signed_at_end(
    pieces: AsyncIterator[Delta], sign: Callable[[Reply], Reply]
) -> AsyncGenerator[Delta, None]:
    """The pieces, the last one with who answered. Closing this lets go of the answer that is under
    way.
    """
    try:
        async for piece in pieces:
            if piece.reply is not None:
                piece = piece.model_copy(update={"reply": sign(piece.reply)})
            yield piece
    finally:
        if (close := getattr(pieces, "aclose", None)) is not None:
            await close()
