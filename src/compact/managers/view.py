"""A view: the active context of one session for one window, kept up to date as messages come.

A new message is appended to what is in view; nothing is looked at again until the trigger is
passed. Then the pipeline makes a new context from the history, and the view goes on from there. So
a turn costs its new messages, whatever the length of the history. A call that nobody has answered
yet is never sent bare: a note answers it until its result comes.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from threading import Lock
from typing import Any

from compact.compression import pipeline, shorten
from compact.compression.pipeline import counted_until
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
from compact.wiring import nobody

POLL_SECONDS = 0.005
"""How often a caller looks whether another one's compression has ended."""
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
        self._trigger = window.trigger
        """The window's trigger; above it where a floor leaves little room, so that a session is not
        compressed at every turn."""
        self._mutex = Lock()
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
        if len(self._history) - self._seen > BACKLOG:
            total = counted_until(self._history, self._trigger - self._aside) + self._aside
            if total > self._trigger:
                self._due = True
                await self._compress(self.window.target, total)
                return
        self._catch_up()
        if self._due:
            await self._compress(self.window.target, self._tokens)
        else:
            self._decided(self._tokens, "below the trigger")

    def _catch_up(self) -> None:
        for position in range(self._seen, len(self._history)):
            self._append(self._history[position], self._history.tokens(position))
            self._due = self._tokens > self._trigger
        self._seen = len(self._history)

    @property
    def tokens_now(self) -> int:
        """Tokens of the prompt with the messages that were not looked at yet."""
        new = range(self._seen, len(self._history))
        return self._tokens + sum(map(self._history.tokens, new))

    async def compress(self, limit: int) -> Plan:
        """Compress to `limit` tokens now; where the floor needs more, to what it needs, up to the
        usable window.

        Raises:
            CannotFit: what may not be shortened exceeds the usable window.
        """
        async with self._alone():
            return await self._compress(limit, self._tokens, "asked for")

    @asynccontextmanager
    async def _alone(self) -> AsyncIterator[None]:
        """One compression at a time: where the summarizer waits, others wait for it, in whatever
        loop or thread they run.
        """
        while not self._mutex.acquire(blocking=False):
            import asyncio

            await asyncio.sleep(POLL_SECONDS)
        try:
            yield
        finally:
            self._mutex.release()

    async def _compress(self, limit: int, tokens: int, reason: str = "above the trigger") -> Plan:
        self._decided(tokens, reason, triggered=True)
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

    def _decided(self, tokens: int, reason: str, *, triggered: bool = False) -> None:
        if self._emit is nobody:  # asked at every turn
            return
        trigger = self._trigger
        self._emit(
            TriggerDecision(triggered=triggered, tokens=tokens, trigger=trigger, reason=reason)
        )

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
        self._trigger = max(self.window.trigger, (plan.tokens_after + self.window.usable) // 2)
        if plan.tokens_after <= self.window.target:
            self._trigger = self.window.trigger
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
        if message.tool_results:
            message, tokens = self._with_results(message, tokens)
        elif self._open and message.reply_id is None:
            self._close()
        self._push(message, tokens)
        if calls := message.tool_calls:
            self._open.update((call.id, call) for call in calls)
            self._asker = message

    def _with_results(self, message: Message, tokens: int) -> tuple[Message, int]:
        """A message with results as a provider accepts it after the calls that are open."""
        due = [r.call_id for r in message.tool_results if r.call_id in self._open]
        if self._open and not due:
            self._close()
        shown = shorten.closed([message], called=due)[0]
        for call_id in due:
            self._open.pop(call_id, None)
        if self._open and shown.text:
            (shown,) = shorten.joined(self._note(), shown)
            self._open = {}
        return shown, tokens if shown is message else self._history.counter.message(shown)

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
