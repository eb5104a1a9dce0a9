"""A view: the active context of one session for one window, kept up to date as messages come.

A new message is appended to what is in view; nothing is looked at again until the trigger is
passed. Then the pipeline makes a new context from the history, and the view goes on from there. So
a turn costs its new messages, whatever the length of the history. A call that nobody has answered
yet is never sent bare: a note answers it until its result comes.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from compact.compression import pipeline, shorten
from compact.compression.pipeline import total_within
from compact.compression.stages import Budget, Carried
from compact.core.budget import ContextWindow
from compact.core.checkpoints import Checkpoint
from compact.core.context import ActiveContext
from compact.core.events import TriggerDecision
from compact.core.history import History
from compact.core.messages import Message, ToolCall
from compact.core.plan import Plan
from compact.core.policy import CompactPolicy
from compact.core.protocols import Emit, Summarizer
from compact.errors import CannotFit, SummaryRejected

if TYPE_CHECKING:
    from asyncio import Lock

BACKLOG = 64
"""New messages from which on the end of the history is counted first, before anything is
appended."""


class View:
    """The active context of a history for one window."""

    def __init__(
        self,
        history: History,
        window: ContextWindow,
        policy: CompactPolicy,
        *,
        aside: int,
        summarizer: Summarizer,
        emit: Emit,
    ) -> None:
        self.window = window
        self.checkpoint: Checkpoint | None = None
        self.plan: Plan | None = None
        """What the last compression did."""
        self._history = history
        self._policy = policy
        self._aside = aside
        self._summarizer = summarizer
        self._emit = emit
        self._messages: list[Message] = []
        self._rendered: list[dict[str, Any]] = []
        self._tokens = aside
        self._seen = 0
        self._due = False
        """Whether the trigger was passed and no compression has succeeded since."""
        self._lock: Lock | None = None
        self._open: dict[str, ToolCall] = {}
        self._asker: Message | None = None
        self._carried: Carried | None = None

    @property
    def tokens(self) -> int:
        """Tokens of the prompt as it would be sent now, messages that were not yet looked at left
        out.
        """
        return self._tokens

    async def refresh(self) -> None:
        """Take in new messages, and compress if the trigger is passed.

        Raises:
            CannotFit: what may not be shortened exceeds the usable window.
        """
        if self._seen == len(self._history) and not self._due:
            return
        async with self._alone():
            await self._refresh()

    async def _refresh(self) -> None:
        new = len(self._history) - self._seen
        if new > BACKLOG and total_within(self._history, self.window.trigger - self._aside) is None:
            await self._compress(self.window.target, "the history exceeds the trigger")
            return
        self._catch_up()
        if self._due:
            await self._compress(self.window.target, "the trigger was passed")

    def _catch_up(self) -> None:
        for position in range(self._seen, len(self._history)):
            self._append(self._history[position], self._history.tokens(position))
            self._due = self._tokens > self.window.trigger
        self._seen = len(self._history)

    async def compress(self, limit: int, reason: str) -> Plan:
        """Compress to `limit` tokens now; where the floor needs more, to what it needs, up to the
        usable window.

        Raises:
            CannotFit: what may not be shortened exceeds the usable window.
        """
        async with self._alone():
            return await self._compress(limit, reason)

    def _alone(self) -> AbstractAsyncContextManager[object]:
        """One compression at a time: where the summarizer waits, others wait for it."""
        if not self._summarizer.waits:
            return nullcontext()
        import asyncio

        if self._lock is None:
            self._lock = asyncio.Lock()
        return self._lock

    async def _compress(self, limit: int, reason: str) -> Plan:
        self._due = True
        self._emit(
            TriggerDecision(
                triggered=True, tokens=self._tokens, trigger=self.window.trigger, reason=reason
            )
        )
        covered = len(self._history)
        try:
            outcome = await self._run(limit)
        except CannotFit:
            if limit >= self.window.usable:
                raise
            outcome = await self._run(self.window.usable)
        self._carried = outcome.carried
        self._take(outcome.plan, covered)
        self._catch_up()
        return outcome.plan

    async def _run(self, limit: int) -> pipeline.Outcome:
        try:
            return await pipeline.compress(
                self._history,
                self._policy,
                budget=Budget(limit, self._aside, hard=self.window.usable),
                summarizer=self._summarizer,
                emit=self._emit,
                carried=self._carried,
            )
        except SummaryRejected:
            self._carried = None  # its notes have read what was not committed: begin anew
            raise

    def _take(self, plan: Plan, seen: int) -> None:
        """Go on from a new context, made of the first `seen` messages; others may have come since.

        A note that answers a call still open at its end is left out again.
        """
        self.plan, self.checkpoint = plan, plan.checkpoint
        messages = list(plan.context.messages)
        self._open, self._asker = {}, None
        self._tokens = plan.context.tokens
        self._seen, self._due = seen, False
        if messages and shorten.is_answer(messages[-1]):
            note = messages.pop()
            self._tokens -= self._history.counter.message(note)
            waiting = {result.call_id for result in note.tool_results}
            asker = next(m for m in reversed(messages) if m.tool_calls)
            self._open = {c.id: c for c in asker.tool_calls if c.id in waiting}
            self._asker = asker
        self._messages = messages
        self._rendered = self._history.wire.render(messages)

    def _append(self, message: Message, tokens: int) -> None:
        if isinstance(message.content, str):
            if self._open:
                self._close()
            self._push(message, tokens)
            return
        results = message.tool_results
        if results:
            if any(result.call_id not in self._open for result in results):
                message = shorten.closed([message], called=self._open)[0]
                tokens = self._history.counter.message(message)
            for result in results:
                self._open.pop(result.call_id, None)
        elif self._open and message.reply_id is None:
            self._close()
        self._push(message, tokens)
        if calls := message.tool_calls:
            self._open.update((call.id, call) for call in calls)
            self._asker = message

    def _push(self, message: Message, tokens: int) -> None:
        self._messages.append(message)
        self._rendered += self._history.wire.render((message,))
        self._tokens += tokens

    def _close(self) -> None:
        """Answer calls that will get no result any more: somebody went on without it."""
        note = self._note()
        self._open = {}
        self._push(note, self._history.counter.message(note))

    def _note(self) -> Message:
        assert self._asker is not None, "open calls have a message that made them"
        return shorten.answer(list(self._open.values()), self._asker)

    def messages(self) -> list[Message]:
        """The messages to send, in order."""
        return [*self._messages, self._note()] if self._open else list(self._messages)

    def rendered(self) -> list[dict[str, Any]]:
        """The messages to send, as the provider's dictionaries."""
        if self._open:
            return self._rendered + self._history.wire.render((self._note(),))
        return list(self._rendered)

    def context(self) -> ActiveContext:
        """The active context as a value."""
        note = self._history.counter.message(self._note()) if self._open else 0
        return ActiveContext(
            messages=tuple(self.messages()),
            tokens=self._tokens + note,
            checkpoints=(self.checkpoint,) if self.checkpoint else (),
        )
