"""The part of `ContextManager` that calls models: it sends prompts, takes the answers, and switches
models. `prompt_sender` does the sending.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import aclosing

from compact.engine.plan import Plan
from compact.errors import InvalidArgument
from compact.messages.asking import Ask, wanted
from compact.messages.events import ModelChanged
from compact.messages.messages import Message
from compact.messages.protocols import ChatModel
from compact.messages.replies import Delta, Reply, Usage
from compact.session.intake import taken_in
from compact.session.methods.looking import Looking
from compact.session.prompt_parts import checked_size
from compact.session.running import blocking
from compact.wiring import key_of


class Sending(Looking):
    """The methods of `ContextManager` that send prompts and learn from the answers."""

    def send(
        self,
        model: ChatModel | str | None = None,
        *,
        max_tokens: int | None = None,
        temperature: float | None = None,
        stop: str | Sequence[str] | None = None,
        **options: object,
    ) -> Message:
        """Send the active context to the model, and append its answer. Give the model as an object
        or by its key, such as `ollama:qwen3:8b`; the default is the session's own model.

        `max_tokens` is the most the answer may take, as far as the prompt leaves room; without it,
        as much as the model's answers usually need, and never all that is left of the window.
        `temperature` is 0 to 2; `stop` are texts before which the answer ends. Other `options` go
        to the provider as they are (`top_p=0.9`, `reasoning_effort="low"`), not to fallbacks.

        The whole prompt is counted again before it is sent. If the provider still refuses it as too
        large, the counts are corrected by its numbers, and a smaller prompt is sent once. A model
        given by its key is retried if that may help; otherwise the session's `fallbacks` are asked.
        If a smaller prompt is refused too, or impossible, only fallbacks are asked whose window is
        known to hold it with the answer.

        Raises:
            CannotFit: the floor exceeds the usable window. For the window of the session, this is
                raised before any model is asked, even if a fallback has a larger one.
            ContextOverflow: the provider refused the smaller prompt too, and no fallback holds it.
            ModelFailed: it did not answer; the text says why, and the session is as it was.
            UnknownModel: the key names no known model, or none was given.
            InvalidArgument: an option cannot be sent, or is compact's own, such as `messages`.
        """
        asked = self._session.models.of(model)  # here, so that its errors have a short traceback
        ask = wanted(max_tokens, temperature, stop, options)
        return blocking.run(self._sent(asked, ask), waits=True, instead="asend(…)")

    async def asend(
        self,
        model: ChatModel | str | None = None,
        *,
        max_tokens: int | None = None,
        temperature: float | None = None,
        stop: str | Sequence[str] | None = None,
        **options: object,
    ) -> Message:
        """`send` for async callers."""
        asked = self._session.models.of(model)
        return await self._sent(asked, wanted(max_tokens, temperature, stop, options))

    async def _sent(self, model: ChatModel, ask: Ask) -> Message:
        return self._answered(await self._session.sender.sent(model, ask))

    def stream(
        self,
        model: ChatModel | str | None = None,
        *,
        max_tokens: int | None = None,
        temperature: float | None = None,
        stop: str | Sequence[str] | None = None,
        **options: object,
    ) -> Iterator[Delta]:
        """`send`, piece by piece as the answer is written. The answer is appended once its last
        piece was taken. An answer that breaks off is not appended.

        Raises:
            ModelFailed: and what else `send` raises, at the first piece or a later one.
        """
        wanted(max_tokens, temperature, stop, options)  # refused in time
        pieces = self.astream(
            model, max_tokens=max_tokens, temperature=temperature, stop=stop, **options
        )
        return blocking.each(pieces, instead="astream(…)")

    async def astream(
        self,
        model: ChatModel | str | None = None,
        *,
        max_tokens: int | None = None,
        temperature: float | None = None,
        stop: str | Sequence[str] | None = None,
        **options: object,
    ) -> AsyncIterator[Delta]:
        """`stream` for async callers."""
        asked = self._session.models.of(model)
        ask = wanted(max_tokens, temperature, stop, options)
        async with aclosing(self._session.sender.streamed(asked, ask)) as pieces:
            async for piece in pieces:
                if piece.reply is not None:
                    self._answered(piece.reply)
                yield piece

    def record_usage(self, usage: Usage | int) -> None:
        """Record the tokens that the provider reported for the last prompt; later counts are
        corrected by them.

        Raises:
            InvalidArgument: it is below 0.
        """
        tokens = usage if isinstance(usage, int) else usage.prompt_tokens
        if tokens < 0:
            raise InvalidArgument("usage", f"usage must be at least 0 tokens, got {tokens}")
        self._session.sender.reported(tokens)

    def report_overflow(self, error: object) -> Plan:
        """Report that the provider refused the last prompt as too large, with its error: an
        exception, its text or its JSON.

        Counts are corrected by the numbers in the error, and the context is made to fit. Get the
        next prompt and send it. Returns the plan.

        Raises:
            InvalidArgument: the error does not say that a context is too large.
            CannotFit: the floor exceeds the provider's limit.
        """
        return self._run(self.areport_overflow(error), "areport_overflow(…)")

    async def areport_overflow(self, error: object) -> Plan:
        """`report_overflow` for async callers."""
        return await self._session.sender.refused(error)

    def set_model(self, model: str | ChatModel, window: int | None = None) -> None:
        """Switch to another model, or to another window of the same model. Prompts, the tokens
        reserved for an answer, `send` and summaries that nobody else is named for then use it.
        History, goals, pins and checkpoints stay.

        Raises:
            UnknownModel: its window is not known, nor said by its server, and none is given;
                nothing was changed.
            InvalidConfig: the policy's own reserve is as large as the window; nothing was changed.
        """
        size = None if window is None else checked_size("window", window)
        before, session = self.reliability, self._session
        session.go_on_with(model, size)
        session.state.emit(ModelChanged(model=key_of(model), window=session.view.size))
        projection = session.view.projection
        if projection is not None and not (before is not None and before.warning):
            session.state.tell_trust(session.view.size, projection)

    def _answered(self, reply: Reply) -> Message:
        """Append the answer of a model; what the next prompt needs is drafted while it is read."""
        message = taken_in(self._session.state, [reply.message], self.window)[0]
        self._session.view.draft_ahead()
        return message
