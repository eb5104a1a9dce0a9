"""A model that is asked again where that may help, and others in its place where it does not.

Start reading at `FallbackModel`. A failure that may pass (`ModelUnavailable`) is waited out, each
wait longer than the one before and none alike, as the server asks where it says so; an answer that
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
"""What is done to have one model answer a prompt."""
MARGIN = 1.25
"""Factor for a prompt that was counted by another model's tokenizer than the one that is to read
it."""


class FallbackModel:
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
        self._withdrawn: set[str] = set()
        """The stand-ins of which was said that they are asked without tools."""
        self._down: dict[str, ModelUnavailable] = {}
        """What became of asking a server for something beside an answer: where there is no use in
        asking it for that one, too."""

    @property
    def name(self) -> str:
        """The key of the model that is asked first."""
        return self._models[0].name

    @property
    def abilities(self) -> Abilities:
        """Those of the model that is asked first. A schema must be held by all of them, as any of
        them may have to answer; a stand-in that calls no tools is given none.
        """
        known = [model.abilities for model in self._models]
        return Abilities(
            tools=known[0].tools,
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

        async def answered(model: ChatModel, given: ActiveContext, ask: Ask) -> Reply:
            reply = await model.complete(given, ask)
            _check_says(reply, model)
            return self._signed(reply, model)

        return await self._first(answered, sendable(context), ask)

    async def stream(self, context: ActiveContext, ask: Ask = ASK) -> AsyncIterator[Delta]:
        """The answer as it is written. Once a piece was handed on nobody else is asked: what was
        read cannot be unread.

        Raises:
            As `complete`; ModelFailed also where an answer breaks off.
        """
        clock = asyncio.get_running_loop().time

        async def begun(model: ChatModel, given: ActiveContext, ask: Ask) -> _Begun:
            start = clock()
            sign = partial(self._signed, model=model)
            pieces = _signed_at_end(model.stream(given, ask), sign)
            first = await _beginning(pieces, model)
            if first.reply is not None and not first.text.strip() and first.reply.is_empty:
                await pieces.aclose()
                _check_says(first.reply, model)
            return _Begun(model, first, pieces, clock() - start)

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

    def _check_up(self, model: ChatModel) -> None:
        if down := self._down.pop(model.name, None):
            raise down

    async def count(self, context: ActiveContext) -> int | None:
        """Tokens of the prompt as the first model's server counts them."""
        model = self._models[0]
        return await self._aside(model, partial(model.count, context))

    async def limits(self) -> Limits:
        """What the first model's server says of its limits, in half the time of an answer at most:
        one who does not say them may answer all the same.
        """
        model, clock = self._models[0], asyncio.get_running_loop().time
        most = min(self._patience.each, self._patience.together) / 2
        return await self._aside(model, model.limits, clock() + most)

    async def _aside(
        self, model: ChatModel, work: Callable[[], Awaitable[T]], cut: float = inf
    ) -> T:
        """What a server says beside an answer; one that is down is remembered."""
        try:
            return await self._timed(model, work, cut)
        except ModelUnavailable as error:
            if not self._patience.asks_down_again:
                self._down[model.name] = error
            raise

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

    async def _first(self, work: Work[T], prompt: ActiveContext, ask: Ask) -> T:
        """What the first model yields that yields anything, the time for it shared by all."""
        clock = asyncio.get_running_loop().time
        end = clock() + self._patience.together - ask.waited
        row = Attempts(prompt, ask)
        for left, model in zip(range(len(self._models), 0, -1), self._models, strict=True):
            if model.name in row.refused:
                continue
            if row.last and clock() >= end:
                break
            if model is not self._models[0]:
                ask = ask.model_copy(update={"waited": 0.0, "options": {}})
            turn = _Turn(model, clock() + (end - clock()) / left, ask.waited)
            try:
                self._check_up(model)
                wanted = await self._wanted(turn, prompt, ask, row)
                if wanted is None:
                    row.note(model.name, None)
                    continue
                if row.last:
                    name, reason = row.last
                    self._tell(ModelReplaced(model=name, by=model.name, reason=str(reason)))
                return await self._served(turn, work, prompt, wanted)
            except ContextOverflow as error:
                error.stand_in = model.name if model is not self._models[0] else ""
                error.others = len(self._models) > 1
                if ask.refused_by is None:
                    raise
                row.note(model.name, error)
            except ModelFailed as error:
                row.note(model.name, error)
        raise row.told

    async def _wanted(
        self, turn: _Turn, prompt: ActiveContext, ask: Ask, row: Attempts
    ) -> Ask | None:
        """What the model is asked for: a stand-in within its own window, as far as that is known.
        None where others refused the prompt and this one is not known to hold it with the answer.

        Raises:
            ContextOverflow: the prompt is larger than the stand-in's window; not every server
                refuses what is.
        """
        model = turn.model
        if model is self._models[0] and not row.refused:
            return ask
        limits = await self._limits_of(turn)
        window = limits.window or self._windows.get(model.name)
        size = min((each for each in (window, limits.trained) if each), default=None)
        if row.refused:
            if window is None or size is None:
                return None
            room = ContextWindow(size=size, output_reserve=ask.max_tokens or 0).usable
            if await self._counted(turn, prompt, row) > room:
                return None
            return ask.model_copy(update={"window": size})
        if size is None:
            return ask
        if prompt.tokens > size:
            raise ContextOverflow(f"{model.name} has a window of {size:,} tokens", limit=size)
        return ask.model_copy(update={"window": min(size, ask.window or size)})

    async def _limits_of(self, turn: _Turn) -> Limits:
        """What the model's server says of its limits, where it does."""
        try:
            return await self._timed(turn.model, turn.model.limits, turn.until)
        except (ContextOverflow, ModelFailed):
            return Limits()

    async def _counted(self, turn: _Turn, prompt: ActiveContext, row: Attempts) -> float:
        """Tokens of a prompt that others refused, as the model counts them; else by the most that
        is known, with a margin; infinitely many where its server will not even count them.
        """
        given = self._given(turn.model, prompt)
        try:
            tokens = await self._timed(turn.model, partial(turn.model.count, given), turn.until)
        except ContextOverflow:
            return inf
        except ModelFailed:
            tokens = None
        if tokens is None:
            return max(prompt.tokens, *row.refused.values()) * MARGIN
        return tokens

    async def _served(self, turn: _Turn, work: Work[T], prompt: ActiveContext, ask: Ask) -> T:
        """The model's answer; once more where a stand-in's refusal taught that it calls no
        tools.
        """
        given = self._given(turn.model, prompt)
        if given is not prompt and turn.model.name not in self._withdrawn:
            self._withdrawn.add(turn.model.name)
            self._tell(ToolsWithdrawn(model=turn.model.name, reason="it calls none"))
        try:
            return await self._patiently(turn, partial(work, turn.model, given, ask))
        except ModelRefused:
            if not given.tools or self._given(turn.model, prompt).tools:
                raise
            return await self._served(turn, work, prompt, ask)

    def _given(self, model: ChatModel, prompt: ActiveContext) -> ActiveContext:
        """The prompt as the model takes it: a stand-in that calls no tools is given none. Whoever
        asks the first one knows of that one.
        """
        if model is self._models[0] or model.abilities.tools is not False or not prompt.tools:
            return prompt
        return prompt.model_copy(update={"tools": ()})

    async def _patiently(self, turn: _Turn, work: Callable[[], Awaitable[T]]) -> T:
        """The model's answer; after its share no attempt is begun any more."""
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
                    raise failed[-1] from None  # says more than an attempt that had no time left
                failed.append(error)
                raise

        retrying = AsyncRetrying(
            stop=is_over,
            wait=self._wait,
            retry=retry_if_exception(self._is_worth_another),
            before_sleep=lambda state: self._tell_again(turn.model, state),
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
        """What comes of asking a model once, given up when it takes too long with what was waited
        before, or at a time.
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
        """Whether the same model may do better if it is asked again."""
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

    def _tell_again(self, model: ChatModel, state: RetryCallState) -> None:
        error = state.outcome.exception() if state.outcome else None
        wait = state.next_action.sleep if state.next_action else 0.0
        self._tell(
            ModelAskedAgain(
                model=model.name, attempt=state.attempt_number, wait=wait, reason=str(error)
            )
        )

    def _tell(self, event: ModelAskedAgain | ModelReplaced | ToolsWithdrawn) -> None:
        if self._emit is not None:
            self._emit(event)


class _Turn(NamedTuple):
    """A model's turn to answer, by the loop's clock."""

    model: ChatModel
    until: float
    """When its share of the time ends: no attempt is begun any more, and one that is under way is
    given up."""
    waited: float
    """Seconds that its server was waited for already."""


class Attempts:
    """How it went with the models that were to answer a prompt, in their order."""

    def __init__(self, prompt: ActiveContext, ask: Ask) -> None:
        self._prompt = prompt
        self._went: list[tuple[str, CompactError | None]] = []
        for name, tokens in (ask.refused_by or {}).items():
            said = f"{name} refused the prompt as too large, and it cannot be made smaller"
            self.note(name, ContextOverflow(said, tokens=tokens))

    def note(self, name: str, error: CompactError | None) -> None:
        """That model did not answer; None where it was not asked, as it is not known to hold the
        prompt.
        """
        self._went.append((name, error))

    @property
    def refused(self) -> dict[str, int]:
        """Who refused it as too large, and the tokens it has for them."""
        return {
            name: error.tokens or self._prompt.tokens
            for name, error in self._went
            if isinstance(error, ContextOverflow)
        }

    @property
    def last(self) -> tuple[str, CompactError] | None:
        """Who failed last, and how."""
        return next(((name, error) for name, error in reversed(self._went) if error), None)

    @property
    def told(self) -> CompactError:
        """The error that says how it ended."""
        assert self.last, "there is at least one model"
        _, failed = self.last
        passed = [name for name, error in self._went if error is None]
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


class _Begun(NamedTuple):
    """An answer that is under way."""

    model: ChatModel
    first: Delta
    pieces: AsyncGenerator[Delta, None]
    taken: float
    """Seconds that the model has taken so far."""


def _is_slow(error: ModelFailed) -> bool:
    return isinstance(error, ModelUnavailable) and error.waited is not None


def _check_says(reply: Reply, model: ChatModel) -> None:
    if promised(reply, Reply, model.name).is_empty:
        raise ModelFailed(f"{model.name} answered with nothing", model=model.name)


async def _beginning(pieces: AsyncIterator[Delta], model: ChatModel) -> Delta:
    """The piece with the first word of an answer, or its last one, with the blanks before it."""
    text = ""
    async for piece in pieces:
        text += promised(piece, Delta, model.name).text
        if text.strip() or piece.reply is not None:
            return piece.model_copy(update={"text": text})
    raise ModelFailed(f"{model.name} ended its answer before it began", model=model.name)


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
