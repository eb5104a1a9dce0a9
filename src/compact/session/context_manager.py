"""`ContextManager`: a session that never overflows.

Add messages one by one: the history keeps them unchanged. Ask for prompts: each fits the model's
window. With a store the session is kept on disk. It can be reopened after any exit or crash, and
several processes can use it at once.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Coroutine, Iterator, Sequence
from contextlib import aclosing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack

from compact.engine.chronology.extractive import ExtractiveSummarizer
from compact.engine.plan import Plan
from compact.errors import InvalidArgument, InvalidMessage, NotFound, Superseded
from compact.messages.asking import Ask, ask_from
from compact.messages.budget import ContextBudget, ContextWindow, WindowUse
from compact.messages.calls import known_options, named
from compact.messages.changes import PinSet
from compact.messages.checkpoints import Checkpoint
from compact.messages.context import ActiveContext
from compact.messages.copies import copied_message
from compact.messages.events import ModelChanged
from compact.messages.given import Given, fields_given, messages_given
from compact.messages.goals import Goal, goals_given
from compact.messages.messages import Message
from compact.messages.options import taking
from compact.messages.policy import CompactPolicy
from compact.messages.protocols import ChatModel, SessionStore
from compact.messages.reliability import Reliability
from compact.messages.replies import Delta, Reply, Usage
from compact.session import running
from compact.session.entering import MOST_TRIES
from compact.session.history import Record, SessionHistory
from compact.session.intake import taken_in, track, track_others
from compact.session.open_session import OpenSession
from compact.session.opening import SessionOptions
from compact.session.prompt_overhead import checked_size
from compact.session.resent_list import ListDigest, Recognized, take, understood
from compact.session.running import off_loop, threaded
from compact.session.views.fitting import checked_ratio, wanted_of
from compact.session.views.review import Review
from compact.session.views.time_travel import TimeTravel
from compact.session.views.view import use_of
from compact.text import recalls
from compact.text.prompts import SystemPrompt
from compact.text.recalls import Expansion, Recalled
from compact.wiring import key_of

if TYPE_CHECKING:
    from compact.session.recall import RecallTools

T = TypeVar("T")
Place = tuple[str, int]
"""A branch's id, and its number of messages."""


class ContextManager:
    """A session: its whole history, and the active context for any window.

    `model` is a model object or a model's key. The model sets the window and the tokenizer.
    `window` is a size in tokens and overrides the model's window. Without either, the window is
    8,192 tokens. If compact does not know the model, it asks the model's server for the window, but
    not inside a running event loop. If the server does not say, pass `window`. For such a model
    tokens are estimated (`tokenizer="chars"`) unless you pass a tokenizer too.

    A prompt is compressed when it passes the policy's trigger. The model writes the summaries if it
    can be called and is good enough (docs/guides/summaries.md). With `summarizer="extractive"`,
    code writes them. `store` is a file's name, an open store, or None to keep the session only in
    memory. When `add_message` returns, the message is stored.
    """

    @taking(SessionOptions)
    def __init__(
        self,
        model: str | ChatModel | None = None,
        window: int | None = None,
        store: str | Path | SessionStore | None = None,
        **options: Unpack[SessionOptions],
    ) -> None:
        known_options(options, SessionOptions)
        for name in ("scope", "session_id"):
            if name in options:
                named(name, options[name])
        self._session = OpenSession(model, window, store, options)

    def close(self) -> None:
        """Close the session, and its store if the session opened the store itself. Nothing has to
        be saved: each message was stored when it was added.
        """
        self._session.close()

    async def aclose(self) -> None:
        """`close` for async callers. Connections of models are closed on their own loop."""
        await threaded(self.close)

    async def __aenter__(self) -> ContextManager:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def __enter__(self) -> ContextManager:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- looking --------------------------------------------------------------------------------

    @property
    def id(self) -> str:
        """The session's id. Each of its events carries this id."""
        return self._session.state.id

    @property
    def store(self) -> SessionStore:
        """The store that keeps the session."""
        return self._session.state.store

    @property
    def policy(self) -> CompactPolicy:
        """The policy: what is kept, and when and how far to compress."""
        return self._session.state.policy

    @property
    def history(self) -> SessionHistory:
        """The full history of the open branch, as a sequence of messages."""
        return Record(self._session.state.history)

    @property
    def branch_id(self) -> str:
        """The id of the open branch."""
        return self._session.state.branch_id

    @property
    def window(self) -> ContextWindow:
        """The window that prompts are made for."""
        return self._session.view.window

    @property
    def budget(self) -> ContextBudget:
        """How many tokens of the usable window are used, and how many are free."""
        self._session.state.history.catch_up()
        return self.window.budget(self._session.view.tokens_now)

    @property
    def window_use(self) -> WindowUse:
        """How many tokens each part of the prompt takes, for example to draw a bar."""
        return use_of(self._session.view)

    @property
    def checkpoints(self) -> tuple[Checkpoint, ...]:
        """The checkpoints (summaries of older messages) that prompts show now, oldest first."""
        return self._session.view.checkpoints

    @property
    def compressions(self) -> int:
        """How many compressions led to what prompts show now."""
        return self._session.view.projection.number if self._session.view.projection else 0

    @property
    def last_plan(self) -> Plan | None:
        """What the last compression did and why; None before the first one."""
        plan = self._session.view.plan
        return plan.owned() if plan is not None else None

    @property
    def reliability(self) -> Reliability | None:
        """How far a model of this size can be trusted with the compressed context, and what that
        means. None if the model is unknown.
        """
        return self._session.state.trust(self._session.view.projection)

    @property
    def summarizes_by_model(self) -> bool:
        """Whether a model or your own summarizer writes the summaries, and not code."""
        state = self._session.state
        return state.policy.summarizes and not isinstance(state.summarizer, ExtractiveSummarizer)

    def estimate_tokens(self, text: str) -> int:
        """Return how many tokens the text has, by the session's tokenizer."""
        return self._session.state.counter.text(text)

    def _run(self, work: Coroutine[Any, Any, T], instead: str) -> T:
        return running.run(work, waits=self._session.state.waits, instead=instead)

    # --- adding messages -------------------------------------------------------------------------

    def add_message(self, message: Given | None = None, /, **fields: object) -> Message:
        """Append a message to the history, store it, and return it with its id and time. Nothing is
        compressed. Pass a `Message`, a provider's dictionary, an object of a provider's client such
        as `response.choices[0].message`, or the message's fields as keywords, including marks such
        as `pinned=True`. Fields that only a provider knows must be inside a dictionary.

        A program that reopens a session may add its system prompt again: the same prompt is not
        stored twice. If the prompt differs, the model is shown the new one from then on, and the
        store keeps the first. Marks such as `metadata={"pinned": True}` are never sent to a
        provider.

        Raises:
            InvalidMessage: the message is malformed; the error names the field.
            StoreFailed: the message could not be stored; it is not part of the history.
        """
        if message is not None and fields:
            raise InvalidMessage("message", "give a message or its fields, not both")
        return self._added([fields_given(fields) if message is None else message])[0]

    def add_messages(self, messages: Sequence[Given]) -> list[Message]:
        """Append several messages at once, all or none. Return them with their ids and times. Goal
        markers in an assistant's messages update the goals.

        Raises:
            InvalidMessage, StoreFailed: as in `add_message`.
        """
        return self._added(messages)

    def _added(self, messages: Sequence[Given]) -> list[Message]:
        given = self._session.read(messages, len(self._session.state.history))
        repeated = self._session.repeated_prompt.repeated_in(given)
        rest, new = given[len(repeated) :], []
        if rest or not repeated:
            new = taken_in(self._session.state, rest, self.window)
        return self._session.repeated_prompt.take(repeated, ends=bool(rest)) + new

    async def aadd_message(self, message: Given | None = None, /, **fields: object) -> Message:
        """`add_message` for async callers. A long message is counted in a thread."""
        return await threaded(lambda: self.add_message(message, **fields))

    async def aadd_messages(self, messages: Sequence[Given]) -> list[Message]:
        """`add_messages` for async callers."""
        return await threaded(lambda: self.add_messages(messages))

    def sync(self, messages: Sequence[Given]) -> Recognized:
        """Take the whole list of messages that a client resends at every turn. Store only the new
        messages. Return which messages were known. The same list again, from any client, adds
        nothing.

        A message is known if it says exactly the same. A list with an edited past, or with nothing
        known, continues as a branch; the event `BranchTaken` gives the reason. A list without its
        beginning continues if it starts with the history's last messages. If the system prompt
        differs, prompts show the new one from then on, and the store keeps the first.

        Raises:
            InvalidMessage: the list is empty, or a message is malformed; the error gives its place
                in the list. Nothing was changed.
            StoreFailed: as in `add_message`.
            Superseded: other processes changed the session first, at every try.
        """
        return self._synced(messages)[0]

    async def a_sync(self, messages: Sequence[Given]) -> Recognized:
        """`sync` for async callers."""
        return await threaded(lambda: self.sync(messages))

    def _synced(self, messages: Sequence[Given]) -> tuple[Recognized, Place]:
        """Run `sync`. Also return where the list ends: the branch and the number of messages."""
        session = self._session
        listed = ListDigest(messages_given(messages))
        session.read(listed.messages[session.last_list.known(listed) :])
        state, last = session.state, session.last_list
        for _ in range(MOST_TRIES):
            with state.lock, suppress(Superseded):
                state.history.catch_up()
                view = session.view
                view.refresh()
                given, recognized = understood(state, view, last, listed)
                new = take(state, view, given, recognized)
                track(state, new, recognized.known, self.window)
                session.repeated_prompt.end()
                last.keep(listed, recognized.ours)
                return recognized, (state.branch_id, len(state.history))
        raise Superseded("other writers were faster, again and again")

    # --- prompts and compressions ----------------------------------------------------------------

    def get_context_for_model(self, model_key: str | None = None) -> list[dict[str, Any]]:
        """Return the prompt for the model, as dictionaries in the provider's format. They are
        copies: you may change them.

        Compresses first if the prompt passed the trigger. With a model key, the prompt is made for
        that model's window and counted by its tokenizer. If the provider's format has a separate
        field for the system prompt, the text from `system=` or `prompt=` is in
        `active_context().system`, with the goals. System messages that you added stay in the list,
        where `sync` recognizes them. `send` moves them into the field. If you send the list
        yourself, do the same.

        Raises:
            CannotFit: the floor (what may not be shortened) is larger than the usable window.
            UnknownModel: the model key is unknown.
            BlockingCallInLoop: the summarizer would block a running event loop.
        """
        return self._run(self._prompt(model_key), "aget_context_for_model()")

    async def aget_context_for_model(self, model_key: str | None = None) -> list[dict[str, Any]]:
        """`get_context_for_model` for async callers."""
        return await self._prompt(model_key)

    async def _prompt(self, model_key: str | None) -> list[dict[str, Any]]:
        session = self._session

        async def made() -> list[dict[str, Any]]:
            view = session.view if model_key is None else session.view_for(model_key)
            return await session.sender.fitted(view, view.rendered)

        return await off_loop(made())

    def active_context(self) -> ActiveContext:
        """Return the active context, from which `get_context_for_model` makes its dictionaries. No
        other type may be sent to a model.

        Raises:
            CannotFit, BlockingCallInLoop: as in `get_context_for_model`.
        """
        return self._run(self.aactive_context(), "aactive_context()")

    async def aactive_context(self) -> ActiveContext:
        """`active_context` for async callers."""
        view = self._session.view
        return await off_loop(self._session.sender.fitted(view, view.context))

    def compress_conversation(
        self, target_ratio: float | None = None, *, guidance: str = ""
    ) -> Plan:
        """Compress now. Return the plan, which says what was done and why.

        The floor (system prompt, pinned messages, the user's newest message) is never shortened.
        `target_ratio` is the share of all other tokens to keep, above 0 and at most 1. The default
        is the policy's target, at most 60 %. If nothing can be freed, nothing changes. If less is
        freed than you asked for, the plan says why. `guidance` tells a summarizing model what else
        to keep: "keep the API discussion".

        Raises:
            CannotFit, BlockingCallInLoop: as in `get_context_for_model`.
            InvalidArgument: `target_ratio` is out of range.
        """
        work = self.acompress_conversation(target_ratio, guidance=guidance)
        return self._run(work, "acompress_conversation()")

    async def acompress_conversation(
        self, target_ratio: float | None = None, *, guidance: str = ""
    ) -> Plan:
        """`compress_conversation` for async callers."""
        view, ratio = self._session.view, checked_ratio(target_ratio)
        return await off_loop(
            view.compress(
                lambda was_due: wanted_of(view, ratio, was_due=was_due), guidance=guidance
            )
        )

    def get_conversation_summary(self) -> str:
        """Return the texts of the checkpoints that prompts show now. If there are none, summarize
        the whole history.

        Raises:
            BlockingCallInLoop: the summarizer would block a running event loop.
        """
        work = self.aget_conversation_summary()
        waits = self._session.state.writer_waits
        return running.run(work, waits=waits, instead="aget_conversation_summary()")

    async def aget_conversation_summary(self) -> str:
        """`get_conversation_summary` for async callers."""
        if self.checkpoints:
            return "\n\n".join(c.summary for c in self.checkpoints)
        if not len(self.history):
            return ""
        session = self._session
        from compact.session.views.breaker import summary_of

        return await off_loop(summary_of(session.state, session.breaker))

    # --- sending ---------------------------------------------------------------------------------

    def send(
        self,
        model: ChatModel | str | None = None,
        *,
        max_tokens: int | None = None,
        temperature: float | None = None,
        stop: str | Sequence[str] | None = None,
        **options: object,
    ) -> Message:
        """Send the active context to the model. Append the answer to the history, and return it.
        Pass the model as an object or by its key, such as `ollama:qwen3:8b`. The default is the
        session's own model.

        `max_tokens` limits the answer; the room that the prompt leaves limits it too. The default
        is what the model's answers usually need, never all the rest of the window. `temperature` is
        0 to 2. The answer ends before the first of the texts in `stop`. Other `options` go to the
        provider unchanged (`top_p=0.9`, `reasoning_effort="low"`), but not to fallbacks.

        The prompt is counted again before it is sent. If the provider still refuses it as too
        large, the counts are corrected by the provider's numbers, and a smaller prompt is sent
        once. A model given by its key is asked again if that may help. After that the session's
        `fallbacks` are asked. If the smaller prompt is refused too, or cannot be made, only those
        fallbacks are asked whose window is known to hold the prompt and the answer.

        Raises:
            CannotFit: the floor is larger than the usable window. For the session's window no model
                is asked then, even if a fallback has a larger window.
            ContextOverflow: the smaller prompt was refused too, and no fallback can hold it.
            ModelFailed: the model did not answer; the error says why. The session is unchanged.
            UnknownModel: the key names no known model, or there is no model to ask.
            InvalidArgument: an option cannot be sent, or compact sets it itself (`messages`).
        """
        asked = self._session.models.of(model)  # here, so that its errors have a short traceback
        ask = ask_from(max_tokens, temperature, stop, options)
        return running.run(self._sent(asked, ask), waits=True, instead="asend(…)")

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
        return await self._sent(asked, ask_from(max_tokens, temperature, stop, options))

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
        """Like `send`, but yield the answer piece by piece as the model writes it. The answer is
        appended when you took its last piece. An answer that breaks off is not appended.

        Raises:
            ModelFailed: as in `send`. Other errors of `send` may also come with any piece.
        """
        ask_from(max_tokens, temperature, stop, options)  # refused before anything is asked
        pieces = self.astream(
            model, max_tokens=max_tokens, temperature=temperature, stop=stop, **options
        )
        return running.each(pieces, instead="astream(…)")

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
        ask = ask_from(max_tokens, temperature, stop, options)
        async with aclosing(self._session.sender.streamed(asked, ask)) as pieces:
            async for piece in pieces:
                if piece.reply is not None:
                    self._answered(piece.reply)
                yield piece

    def record_usage(self, usage: Usage | int) -> None:
        """Record how many tokens the provider reported for the last prompt. Later counts are
        corrected by this number.

        Raises:
            InvalidArgument: the number is below 0.
        """
        tokens = usage if isinstance(usage, int) else usage.prompt_tokens
        if tokens < 0:
            raise InvalidArgument("usage", f"usage must be at least 0 tokens, got {tokens}")
        self._session.sender.reported(tokens)

    def report_overflow(self, error: object) -> Plan:
        """Report that the provider refused the last prompt as too large. `error` is the provider's
        error: an exception, its text or its JSON.

        The counts are corrected by the numbers in the error, and the context is compressed to fit.
        Returns the plan. Afterwards get the next prompt and send it.

        Raises:
            InvalidArgument: the error does not say that a prompt is too large.
            CannotFit: the floor is larger than the provider's limit.
        """
        return self._run(self.areport_overflow(error), "areport_overflow(…)")

    async def areport_overflow(self, error: object) -> Plan:
        """`report_overflow` for async callers."""
        return await self._session.sender.refused(error)

    def set_model(self, model: str | ChatModel, window: int | None = None) -> None:
        """Switch to another model, or to another window for the same model. The new model is used
        for prompts, for the tokens reserved for answers and for `send`. It also writes the
        summaries, unless you named a summarizer. History, goals, pins and checkpoints stay.

        Raises:
            UnknownModel: the window is unknown, the model's server does not say it, and you gave
                none; nothing was changed.
            InvalidConfig: the policy's reserve is as large as the window; nothing was changed.
        """
        size = None if window is None else checked_size("window", window)
        before, session = self.reliability, self._session
        session.go_on_with(model, size)
        session.state.emit(ModelChanged(model=key_of(model), window=session.view.size))
        projection = session.view.projection
        if projection is not None and not (before is not None and before.warning):
            session.state.tell_trust(session.view.size, projection)

    def _answered(self, reply: Reply) -> Message:
        """Append a model's answer. Start to draft the next compression while the user reads it."""
        message = taken_in(self._session.state, [reply.message], self.window)[0]
        self._session.view.draft_ahead()
        return message

    # --- goals and mode --------------------------------------------------------------------------

    @property
    def goals(self) -> Goals:
        """The session's goals, and how to change them: `goals.set([...])`, `goals.confirm(id)`."""
        return Goals.of(self._session)

    @property
    def mode(self) -> str:
        """The session's mode: what the session is used for (see `text.modes`)."""
        return self._session.state.policy.mode

    def set_mode(self, name: str) -> None:
        """Set the session's mode. It is kept when the session is reopened.

        Raises:
            InvalidConfig: there is no such mode; the error lists the modes.
        """
        self._session.state.set_mode(name)
        self._session.view.reload()

    @property
    def system_prompt(self) -> SystemPrompt | None:
        """The system prompt, and which parts were left out; None without the option `prompt`."""
        return self._session.view.preamble().prompt

    # --- time travel and review -------------------------------------------------------------------

    @property
    def time(self) -> TimeTravel:
        """Snapshots and branches, undo and redo."""
        return TimeTravel(self._session)

    @property
    def review(self) -> Review:
        """Compressions to read, edit and accept before they take effect."""
        return Review(self._session)

    # --- pins, and messages put aside ------------------------------------------------------------

    def pin(self, message: Message | str) -> None:
        """Show a message word for word in prompts from now on. Pass the message or its id. If it
        was compressed already, it comes back with the next compression (`compress_conversation()`).

        Raises:
            NotFound: the session has no such message.
        """
        self._set_pin(message, is_pinned=True)

    def unpin(self, message: Message | str | int) -> None:
        """Allow a pinned message to be shortened again. Pass the message, its id or its position. A
        message that was added with the mark `pinned` or `protected` stays pinned.

        Raises:
            NotFound: the session has no such message.
        """
        self._set_pin(message, is_pinned=False)

    def _set_pin(self, message: Message | str | int, *, is_pinned: bool) -> None:
        state = self._session.state
        position = state.history.place_of(message)
        state.record(PinSet(is_pinned=is_pinned), position)

    def put_aside(
        self, message: Message | str | None = None, *, tokens: int | None = None
    ) -> Message:
        """Show models only the beginning and end of a message from now on, with the message's id.
        Return the message as it is shown. The default is the user's newest message.

        Use this to continue after a message that fits in no window. The history keeps the whole
        text; `recall` and `expand` find it there. Pictures and documents are replaced by a line
        that says so. `tokens` is how large the shown message may be. The default is what the rest
        of the prompt leaves of the target of the window used last, or up to a quarter of that
        window if this is more. If `tokens` is at least the message's size, the whole message is
        shown again. `undo` does not show the whole message again.

        Raises:
            NotFound: the session has no such message.
            CannotFit: the message is larger than `tokens`, and nothing can be left out.
        """
        if tokens is not None:
            tokens = checked_size("tokens", tokens)
        position = self._session.state.history.place_of(message)
        return self._session.sender.put_aside(position, tokens)

    # --- recall ----------------------------------------------------------------------------------

    def recall(self, query: str, *, limit: int = recalls.PAGE) -> list[Recalled]:
        """Find messages in the whole history that share words with the query, best match first."""
        from compact.session.recall import recall

        return recall(self._session.state, query, limit=limit)

    def expand(self, id: str, *, max_tokens: int | None = None, start: int = 0) -> Expansion:
        """Return the original messages behind the id of a checkpoint, a message or a tool call.

        Returns as many as fit into `max_tokens`, from number `start` on. If a single message does
        not fit, `start` counts characters of its text. The page says where the next one starts.

        Raises:
            NotFound: nothing in the session has that id.
        """
        from compact.session.recall import expand

        page = expand(self._session.state, id, max_tokens=max_tokens, start=start)
        return page.model_copy(update={"messages": tuple(map(copied_message, page.messages))})

    @property
    def tools(self) -> RecallTools:
        """`recall` and `expand` as tools for a model: `tools.schemas()`, `tools.call(…)`."""
        from compact.session.recall import RecallTools

        return RecallTools(self._session)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            from compact.session.moved import moved

            return moved(self, name)


class Goals(tuple[Goal, ...]):
    """The current goals of a session. Every prompt shows the active ones word for word. The tuple
    does not change: after a change, `ctx.goals` is a new one.
    """

    _session: OpenSession

    def __reduce__(self) -> tuple[type[tuple[Goal, ...]], tuple[tuple[Goal, ...]]]:
        """Copy or pickle only the goals, without the session."""
        return tuple, (tuple(self),)

    @classmethod
    def of(cls, session: OpenSession) -> Self:
        """Return the goals that the session has now."""
        goals = cls(session.state.goals)
        goals._session = session
        return goals

    def set(self, goals: Sequence[Goal | str]) -> Goals:
        """Replace all goals, and return the new ones. A text becomes an active goal.

        Raises:
            InvalidArgument: `goals` is not a list of goals and texts, or a goal is empty.
        """
        session = self._session
        session.state.set_goals(goals_given(goals))
        track_others(session.state, session.view.window)
        session.view.reload()
        return Goals.of(session)

    def confirm(self, goal_id: str) -> Goals:
        """Confirm a goal that a model set, and return all goals. Prompts then show it as the user's
        own, and no model can end it.

        Raises:
            NotFound: the session has no goal with that id.
        """
        goals = self._session.state.goals
        if all(goal.id != goal_id for goal in goals):
            raise NotFound(
                f"the session has no goal {goal_id!r}; `goals` lists them with their ids"
            )
        changed = {"confirmed": True}
        return self.set([g.model_copy(update=changed) if g.id == goal_id else g for g in goals])
