"""The half of a session's front door that leads to models: sending what fits, taking what comes
back, and going on with another model. How prompts are sent lives in `sender`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing

from compact.core.calls import checked_methods
from compact.core.events import ModelChanged
from compact.core.messages import Message
from compact.core.plan import Plan
from compact.core.protocols import ChatModel
from compact.core.reliability import Reliability
from compact.core.replies import Delta, Reply, Usage
from compact.errors import InvalidArgument
from compact.managers import blocking
from compact.managers.compress import checked_size
from compact.managers.counted_session import CountedSession, CountedSessions
from compact.managers.goal_tracking import taken_in
from compact.managers.models import Models
from compact.managers.prompt_sender import PromptSender
from compact.managers.state import SessionState
from compact.managers.view import View


@checked_methods
class Sending:
    """What a `ContextManager` sends, and what it learns from it."""

    _state: SessionState
    _counted_sessions: CountedSessions
    _counted: CountedSession
    _view: View
    _post: PromptSender
    _asked: PromptSender
    """Who took the last prompt, and is told what became of it."""
    _models: Models

    def send(self, model: ChatModel | str | None = None) -> Message:
        """Have the model answer the active context, and append its answer. A model is given as an
        object or by its key, such as `ollama:qwen3:8b`; without one, it is the session's own.

        The prompt is counted again as a whole before it is sent. If the provider refuses it as too
        large nevertheless, counts are corrected by what it says, and a smaller one is sent once. A
        model that is given by its key is asked again where that may help, and the session's
        `fallbacks` are asked where it does not; where a smaller prompt is refused, too, or there
        can be none, only those whose window is known to hold it with the answer.

        Raises:
            CannotFit: what may not be shortened exceeds the usable window. Of the window that the
                session was opened for, this is told before anybody is asked: for fallbacks with
                larger ones, too.
            ContextOverflow: the provider refused the smaller prompt too, and no fallback holds it.
            ModelFailed: it did not answer; the text says why, and the session is as it was.
            UnknownModel: no model is known by that key, or none was given.
        """
        return blocking.run(self.asend(model), waits=True, instead="asend(…)")

    async def asend(self, model: ChatModel | str | None = None) -> Message:
        """`send` for async callers."""
        asked = self._models.of(model)
        self._asked = self._post
        reply = await self._post.sent(asked)
        return self._answered(reply)

    def stream(self, model: ChatModel | str | None = None) -> Iterator[Delta]:
        """`send`, piece by piece as the answer is written; it is appended when its last piece was
        taken. An answer that breaks off is not.

        Raises:
            As `send`, at the first piece or a later one.
        """
        return blocking.each(self.astream(model), instead="astream(…)")

    async def astream(self, model: ChatModel | str | None = None) -> AsyncIterator[Delta]:
        """`stream` for async callers."""
        asked = self._models.of(model)
        self._asked = self._post
        async with aclosing(self._post.streamed(asked)) as pieces:
            async for piece in pieces:
                if piece.reply is not None:
                    self._answered(piece.reply)
                yield piece

    def record_usage(self, usage: Usage | int) -> None:
        """Say what the provider reported for the prompt that was taken last, in tokens; later
        counts are corrected by it.

        Raises:
            InvalidArgument: it is below 0.
        """
        tokens = usage if isinstance(usage, int) else usage.prompt_tokens
        if tokens < 0:
            raise InvalidArgument("usage", f"usage must be at least 0 tokens, got {tokens}")
        self._asked.reported(tokens)

    def report_overflow(self, error: object) -> Plan:
        """Say that the provider refused the prompt that was taken last as too large, with its
        error: an exception, its text or its JSON.

        Counts are corrected by the numbers it names, and the context is made to fit; take the next
        prompt and send that. Returns what was done.

        Raises:
            InvalidArgument: the error says nothing of a context that is too large.
            CannotFit: what may not be shortened exceeds what the provider allows.
        """
        work = self.areport_overflow(error)
        return blocking.run(work, waits=self._state.waits, instead="areport_overflow(…)")

    async def areport_overflow(self, error: object) -> Plan:
        """`report_overflow` for async callers."""
        return await self._asked.refused(error)

    def set_model(self, model: str, window: int | None = None) -> None:
        """Go on with another model, or with another window of the same: prompts, the room for an
        answer and `send` are for it from now on. History, goals, pins and checkpoints stay.

        Raises:
            UnknownModel: nothing is known of its window, and none is given; nothing was changed.
            InvalidConfig: the policy's own reserve is as large as the window; neither.
        """
        size = None if window is None else checked_size("window", window)
        before = self.reliability
        self._counted, self._view = self._counted_sessions.go_on_with(model, size)
        self._asked = self._post = self._counted.sender
        self._models.own = model
        self._state.emit(ModelChanged(model=model, window=self._view.size))
        now = self.reliability
        if now is not None and not (before is not None and before.warning):
            self._state.tell_trust(self._view.size, now.compressions)

    @property
    def reliability(self) -> Reliability | None:
        """How far the context can be trusted after its compressions, by the model's size; None
        where no model is known.
        """
        projection = self._view.projection
        return self._state.setting.reliability(projection.number if projection else 0)

    def _answered(self, reply: Reply) -> Message:
        """Append what a model answered."""
        return taken_in(self._state, [reply.message], self._view.window.usable)[0]
