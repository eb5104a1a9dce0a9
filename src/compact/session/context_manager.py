"""`ContextManager`: a session that never overflows.

Messages go in one by one and stay in the history as they are. Prompts that fit the model's window
come out. With a store the session lives on disk: it can be reopened after any exit or crash, also
by several processes at once.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping, Sequence
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Any, TypeVar, Unpack

from compact.engine.chronology.extractive import ExtractiveSummarizer
from compact.engine.plan import Plan
from compact.errors import InvalidArgument, InvalidMessage, NotFound, Superseded
from compact.messages.asking import Ask, wanted
from compact.messages.budget import ContextBudget, ContextWindow, WindowUse
from compact.messages.calls import known_options, named
from compact.messages.changes import PinSet
from compact.messages.checkpoints import Checkpoint
from compact.messages.context import ActiveContext
from compact.messages.copies import copied_message
from compact.messages.events import ModelChanged
from compact.messages.formats.known import format_named
from compact.messages.formats.tool_schemas import schemas_for
from compact.messages.given import Given, fields_given, messages_given
from compact.messages.goals import Goal, goals_given
from compact.messages.messages import Message
from compact.messages.options import taking
from compact.messages.policy import CompactPolicy
from compact.messages.protocols import ChatModel, SessionStore
from compact.messages.reliability import Reliability
from compact.messages.replies import Delta, Reply, Usage
from compact.messages.sessions import Branch, Move, Purpose, Snapshot
from compact.session import running
from compact.session.history import Record, SessionHistory
from compact.session.intake import taken_in, track, track_others
from compact.session.open_session import OpenSession
from compact.session.opening import SessionOptions
from compact.session.prompt_overhead import checked_size
from compact.session.resent_list import ListDigest, Recognized, take, understood
from compact.session.running import off_loop, threaded
from compact.session.state import ALL_MOVES
from compact.session.system_prompt import MOST_TRIES
from compact.session.views import review, time_travel
from compact.session.views.fitting import wanted_of
from compact.session.views.review import CompressionProposal
from compact.session.views.view import use_of
from compact.text import recalls
from compact.text.prompts import SystemPrompt
from compact.text.recalls import Expansion, Recalled
from compact.wiring import key_of

T = TypeVar("T")
Place = tuple[str, int]
"""A branch, and its number of messages."""


class ContextManager:
    """A session: its whole history, and the active context for any window.

    `model` is a model, or its key. It gives a window and a tokenizer. `window` is the size in
    tokens and overrides the model's. Without either, the window is 8,192 tokens. For an unknown
    model, its server is asked, but not within a running event loop. If the server does not say,
    give the window. Tokens are then estimated (`tokenizer="chars"`) unless you give a tokenizer
    too. Prompts are compressed when they pass the policy's trigger. The model writes the summaries
    if it can be asked and is fit (docs/guides/summaries.md). With `summarizer="extractive"` code
    writes them.

    `store` is a file's name, an open store, or None for a session in memory only. A message is
    durable when `add_message` returns.
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
        """Close the session, and its store if it was opened here. Added messages are stored
        already.
        """
        self._session.close()

    async def aclose(self) -> None:
        """`close` for async callers: connections of models are closed on their own loop."""
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
        """The session's id. Its events carry it."""
        return self._session.state.id

    @property
    def store(self) -> SessionStore:
        """The store of the session."""
        return self._session.state.store

    @property
    def policy(self) -> CompactPolicy:
        """What is kept, and when and how far to compress."""
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
        """Tokens of the usable window, used and free."""
        self._session.state.history.catch_up()
        return self.window.budget(self._session.view.tokens_now)

    @property
    def window_use(self) -> WindowUse:
        """The tokens of the prompt by part, to draw a bar of the window."""
        return use_of(self._session.view)

    @property
    def checkpoints(self) -> tuple[Checkpoint, ...]:
        """The checkpoints in view, oldest span first."""
        return self._session.view.checkpoints

    @property
    def compressions(self) -> int:
        """How many compressions led to what is in view."""
        return self._session.view.projection.number if self._session.view.projection else 0

    def moves(self) -> list[Move]:
        """The moves that changed what is in view for the window, on the open branch, oldest first:
        compressions, undo, redo and restore.
        """
        state = self._session.state
        return list(state.moves(self.window.size, most=ALL_MOVES))[::-1]

    @property
    def last_plan(self) -> Plan | None:
        """What the last compression did and why. None before the first one."""
        plan = self._session.view.plan
        return plan.owned() if plan is not None else None

    @property
    def reliability(self) -> Reliability | None:
        """How far the context can be trusted after its compressions, by the model's size, and what
        that means. None if the model is not known.
        """
        return self._session.state.trust(self._session.view.projection)

    @property
    def summarizes_by_model(self) -> bool:
        """Whether a model or your own summarizer writes the summaries. Otherwise code does."""
        state = self._session.state
        return state.policy.summarizes and not isinstance(state.summarizer, ExtractiveSummarizer)

    def estimate_tokens(self, text: str) -> int:
        """Tokens of a text by the session's tokenizer."""
        return self._session.state.counter.text(text)

    def _run(self, work: Coroutine[Any, Any, T], instead: str) -> T:
        return running.run(work, waits=self._session.state.waits, instead=instead)

    # --- adding messages -------------------------------------------------------------------------

    def add_message(self, message: Given | None = None, /, **fields: object) -> Message:
        """Append a message to the history: a `Message`, a provider's dictionary, an object of its
        client such as `response.choices[0].message`, or the fields as keywords, including marks
        such as `pinned=True`. Pass fields that only a provider knows inside a dictionary.

        Stores the message, and never compresses. Returns it with its id and time. A program that
        reopens a session may add its system prompt again: it is recognized and not stored twice. If
        it differs, prompts show the new one from now on, and the store keeps the first. Marks such
        as `metadata={"pinned": True}` are kept by compact and never sent to a provider.

        Raises:
            InvalidMessage: the message is malformed; the text names the field.
            StoreFailed: the message could not be stored, and is not part of the history.
        """
        if message is not None and fields:
            raise InvalidMessage("message", "give a message or its fields, not both")
        return self._added([fields_given(fields) if message is None else message])[0]

    def add_messages(self, messages: Sequence[Given]) -> list[Message]:
        """Append several messages at once: all of them or none. Markers in an assistant's messages
        update the goals.

        Raises:
            InvalidMessage, StoreFailed: as `add_message`.
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
        """`add_message` for async callers: a long message is counted off the event loop."""
        return await threaded(lambda: self.add_message(message, **fields))

    async def aadd_messages(self, messages: Sequence[Given]) -> list[Message]:
        """`add_messages` for async callers."""
        return await threaded(lambda: self.add_messages(messages))

    def sync(self, messages: Sequence[Given]) -> Recognized:
        """Take the whole list that a client resends at every turn: known messages are recognized,
        and only new ones are stored. The same list again, from any client, adds nothing.

        Messages are compared by what they say, exactly. A list with an edited past, or one that is
        not known, continues as a branch, reported by the event `BranchTaken` with the reason. A
        list cut off at its beginning continues if it starts with the history's last messages. If
        the system prompt differs, prompts show the new one from now on; the store keeps the first.

        Raises:
            InvalidMessage: one is malformed, named by its place in the list, or the list is empty;
                nothing was changed.
            StoreFailed: as `add_message`.
            Superseded: other writers were faster, again and again.
        """
        return self._synced(messages)[0]

    async def a_sync(self, messages: Sequence[Given]) -> Recognized:
        """`sync` for async callers."""
        return await threaded(lambda: self.sync(messages))

    def _synced(self, messages: Sequence[Given]) -> tuple[Recognized, Place]:
        """`sync`, and the place where the list ends."""
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
        """The prompt for the model, as provider dictionaries; they are the caller's own copies.

        If the format has a field for the system prompt, the text from `system=` or `prompt=` is in
        `active_context().system`, with the goals. System messages that were added stay in the list,
        where `sync` recognizes them; `send` moves them into the field. If you send the list
        yourself, move them too.

        Compresses if the trigger was passed. With a model key, the prompt is for that model's
        window and counted by its tokenizer.

        Raises:
            CannotFit: the floor, which may not be shortened, exceeds the usable window.
            UnknownModel: the model key is not known.
            BlockingCallInLoop: the summarizer waits, in a running event loop.
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
        """The typed value behind `get_context_for_model`: the only type that may be sent to a
        model.

        Raises:
            CannotFit, BlockingCallInLoop: as `get_context_for_model`.
        """
        return self._run(self.aactive_context(), "aactive_context()")

    async def aactive_context(self) -> ActiveContext:
        """`active_context` for async callers."""
        view = self._session.view
        return await off_loop(self._session.sender.fitted(view, view.context))

    def compress_conversation(
        self, target_ratio: float | None = None, *, guidance: str = ""
    ) -> Plan:
        """Compress now; the plan says what was done and why.

        `target_ratio` is the share to keep of the tokens above the floor (system prompt, pins, a
        person's newest message), 0 to 1. The default is the policy's target, and at most 60 %. If
        nothing can be freed, nothing changes; if less is freed than requested, the plan says why.
        `guidance` says what else a summarizing model should keep: "keep the API discussion".

        Raises:
            CannotFit, BlockingCallInLoop: as `get_context_for_model`.
        """
        work = self.acompress_conversation(target_ratio, guidance=guidance)
        return self._run(work, "acompress_conversation()")

    async def acompress_conversation(
        self, target_ratio: float | None = None, *, guidance: str = ""
    ) -> Plan:
        """`compress_conversation` for async callers."""
        view, ratio = self._session.view, _checked_ratio(target_ratio)
        return await off_loop(
            view.compress(
                lambda was_due: wanted_of(view, ratio, was_due=was_due), guidance=guidance
            )
        )

    def propose_compression(
        self, *, target_ratio: float | None = None, guidance: str = ""
    ) -> CompressionProposal:
        """What `compress_conversation` would do now: the messages that summaries would stand in
        for, the tokens before and after, and each new checkpoint with its text. Nothing counts
        before `accept`. To refuse the proposal, drop it. If nothing can be freed, it has no
        checkpoints, and `why` says so.

        Raises:
            CannotFit, BlockingCallInLoop: as `get_context_for_model`.
        """
        work = self.apropose_compression(target_ratio=target_ratio, guidance=guidance)
        return self._run(work, "apropose_compression()")

    async def apropose_compression(
        self, *, target_ratio: float | None = None, guidance: str = ""
    ) -> CompressionProposal:
        """`propose_compression` for async callers."""
        ratio = _checked_ratio(target_ratio)
        return await off_loop(review.proposed(self._session.view, ratio, guidance))

    def accept(
        self, proposal: CompressionProposal, *, summaries: Mapping[str, str] | None = None
    ) -> Plan:
        """Put a proposed compression in force, whole or not at all. Messages added since stay in
        view. `summaries` are a person's texts instead of the proposed ones, by the ids of the
        checkpoints. When they age, they are shortened from these words, not from the messages.
        `undo` takes the compression back.

        Raises:
            SummaryRejected: a text holds a secret, a heading of ours or a picture, or it is too
                long; the error says which. The proposal can be accepted with another one.
            Superseded: the session was compressed, or its goals, pins or branch changed since the
                proposal was made; nothing was stored.
            NotFound: the proposal has no such checkpoint.
            InvalidArgument: a text is empty, or the proposal is of another session.
        """
        return review.accepted(self._session.view, proposal, summaries or {})

    async def aaccept(
        self, proposal: CompressionProposal, *, summaries: Mapping[str, str] | None = None
    ) -> Plan:
        """`accept` for async callers."""
        return await threaded(lambda: self.accept(proposal, summaries=summaries))

    def get_conversation_summary(self) -> str:
        """The texts of the checkpoints in view; before the first one, a summary of the whole
        history.

        Raises:
            BlockingCallInLoop: the summarizer waits, in a running event loop.
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
        """Send the active context to the model, and append its answer. Give the model as an object
        or by its key, such as `ollama:qwen3:8b`. Default: the session's own model.

        `max_tokens` is the most that the answer may take, as far as the prompt leaves room.
        Default: as much as the model's answers usually need, and never all that is left of the
        window. `temperature` is 0 to 2. `stop` are texts before which the answer ends. Other
        `options` go to the provider as they are (`top_p=0.9`, `reasoning_effort="low"`), but not to
        fallbacks.

        The whole prompt is counted again before it is sent. If the provider still refuses it as too
        large, the counts are corrected by its numbers, and a smaller prompt is sent once. A model
        given by its key is retried if that may help. Otherwise the session's `fallbacks` are asked.
        If a smaller prompt is refused too, or impossible, only fallbacks are asked whose window is
        known to hold it with the answer.

        Raises:
            CannotFit: the floor exceeds the usable window. For the session's window, this is raised
                before any model is asked, even if a fallback has a larger one.
            ContextOverflow: the provider refused the smaller prompt too, and no fallback holds it.
            ModelFailed: it did not answer; the text says why, and the session is as it was.
            UnknownModel: the key names no known model, or none was given.
            InvalidArgument: an option cannot be sent, or is compact's own, such as `messages`.
        """
        asked = self._session.models.of(model)  # here, so that its errors have a short traceback
        ask = wanted(max_tokens, temperature, stop, options)
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
        ask = wanted(max_tokens, temperature, stop, options)
        async with aclosing(self._session.sender.streamed(asked, ask)) as pieces:
            async for piece in pieces:
                if piece.reply is not None:
                    self._answered(piece.reply)
                yield piece

    def record_usage(self, usage: Usage | int) -> None:
        """Record the tokens that the provider reported for the last prompt. Later counts are
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
        """Switch to another model, or to another window of the same model. Prompts, the reserve for
        answers, `send`, and summaries without a named summarizer then use it. History, goals, pins
        and checkpoints stay.

        Raises:
            UnknownModel: its window is not known, its server does not say it, and none is given;
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
        """Append a model's answer. A draft of the next prompt is begun while a person reads it."""
        message = taken_in(self._session.state, [reply.message], self.window)[0]
        self._session.view.draft_ahead()
        return message

    # --- goals and mode --------------------------------------------------------------------------

    @property
    def goals(self) -> tuple[Goal, ...]:
        """The goals of the session. Active goals are in every prompt word for word."""
        return self._session.state.goals

    def set_goals(self, goals: Sequence[Goal | str]) -> tuple[Goal, ...]:
        """Replace the goals; a text is an active goal.

        Raises:
            InvalidArgument: this is not a list of goals and texts, or one is empty.
        """
        self._session.state.set_goals(goals_given(goals))
        track_others(self._session.state, self.window)
        self._session.view.reload()
        return self.goals

    def confirm_goal(self, goal_id: str) -> tuple[Goal, ...]:
        """Confirm a goal that a model set. Prompts then show it as the person's, and no model can
        end it.

        Raises:
            NotFound: the session has no goal with that id.
        """
        if all(goal.id != goal_id for goal in self.goals):
            raise NotFound(
                f"the session has no goal {goal_id!r}; `goals` lists them with their ids"
            )
        changed = {"confirmed": True}
        return self.set_goals(
            [g.model_copy(update=changed) if g.id == goal_id else g for g in self.goals]
        )

    @property
    def mode(self) -> str:
        """The mode of the session: what it is used for (`text.modes`)."""
        return self._session.state.policy.mode

    def set_mode(self, name: str) -> None:
        """Set the mode from now on, also when the session is reopened.

        Raises:
            InvalidConfig: there is no such mode; the text lists the modes.
        """
        self._session.state.set_mode(name)
        self._session.view.reload()

    @property
    def system_prompt(self) -> SystemPrompt | None:
        """The system prompt and the parts left out of it; None without the option `prompt`."""
        return self._session.view.counted.preamble(self._session.view.size).prompt

    # --- pins, and messages put aside ------------------------------------------------------------

    def pin(self, message: Message | str) -> None:
        """Keep a message word for word from now on, by itself or by its id. One that has left the
        view comes back with the next compression, such as `compress_conversation()`.

        Raises:
            NotFound: the session has no such message.
        """
        self._set_pin(message, is_pinned=True)

    def unpin(self, message: Message | str | int) -> None:
        """Let a pinned message be shortened again, by itself, its id or its position. A message
        that was added with its own mark (`pinned`, `protected`) stays.

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
        """Show models only head and tail of a message from now on, with its id. Default: a person's
        newest message. So a session goes on after a message that fits in no window. The whole text
        stays in the history, where `recall` and `expand` read it. For pictures and documents, which
        have no head and tail, a line says that they are left out.

        `tokens` is the size of what is shown. Default: what everything else in view leaves of the
        target of the window that was last asked for, or a quarter of that window. If `tokens` is at
        least the message's own size, the whole message is shown again. `undo` does not do that.
        Returns the message as it is shown.

        Raises:
            NotFound: the session has no such message.
            CannotFit: it is larger than that, and nothing of it can be left out.
        """
        if tokens is not None:
            tokens = checked_size("tokens", tokens)
        position = self._session.state.history.place_of(message)
        return self._session.sender.put_aside(position, tokens)

    # --- recall ----------------------------------------------------------------------------------

    def recall(self, query: str, *, limit: int = recalls.PAGE) -> list[Recalled]:
        """Messages of the whole history that share words with the query, the best match first."""
        from compact.session.recall import recall

        return recall(self._session.state, query, limit=limit)

    def expand(self, id: str, *, max_tokens: int | None = None, start: int = 0) -> Expansion:
        """The original messages behind the id of a checkpoint, a message or a tool call.

        Returns as many as fit into `max_tokens`, starting with number `start`. If a single message
        does not fit, its text starts at that character. The page says where the next one starts.

        Raises:
            NotFound: nothing in the session has that id.
        """
        from compact.session.recall import expand

        page = expand(self._session.state, id, max_tokens=max_tokens, start=start)
        return page.model_copy(update={"messages": tuple(map(copied_message, page.messages))})

    def recall_tools(self, format: str | None = None) -> list[dict[str, Any]]:
        """The schemas of the tools `recall` and `expand`, to declare to a model, in the session's
        wire format or another one.

        Raises:
            UnknownModel: there is no such format.
        """
        written = format_named(format or self._session.state.wire.name)
        return schemas_for(written.tool_shape, recalls.tools())

    def call_tool(
        self,
        name: str,
        arguments: str | Mapping[str, Any],
        *,
        max_tokens: int | None = None,
    ) -> str:
        """Run `recall` or `expand` for a model that called it, and return the answer.

        Raises:
            InvalidInput: there is no such tool, or its argument is missing.
            NotFound: nothing has that id.
        """
        from compact.session.recall import answer_tool

        session = self._session
        shown = session.view.shown_whole()
        return answer_tool(session.state, name, arguments, max_tokens, shown)

    # --- going back ------------------------------------------------------------------------------

    def snapshot(self, note: str = "", *, purpose: Purpose = "recovery") -> Snapshot:
        """Save the state of the session, to `restore` it later. Snapshots are tiny, whatever the
        session's size. Beyond `policy.snapshots_kept`, the oldest ones without a note are deleted.
        """
        session = self._session
        return time_travel.take_snapshot(session.state, session.view, purpose=purpose, note=note)

    def snapshots(self) -> list[Snapshot]:
        """The session's snapshots, oldest first."""
        return self.store.snapshots(self.id)

    def delete_snapshot(self, snapshot: Snapshot | str) -> None:
        """Delete a snapshot. The messages that it names stay in the history.

        Raises:
            NotFound: the session has no such snapshot.
        """
        wanted = snapshot if isinstance(snapshot, str) else snapshot.id
        saved = time_travel.find_snapshot(self._session.state, wanted)
        self.store.delete_snapshots(self.id, [saved.id])

    def restore(self, snapshot: Snapshot | str) -> None:
        """Continue from a snapshot. Later messages are kept on their own branch.

        Raises:
            NotFound: the session has no such snapshot.
        """
        wanted = snapshot if isinstance(snapshot, str) else snapshot.id
        saved = time_travel.find_snapshot(self._session.state, wanted)
        time_travel.restore(self._session.state, self._session.view, saved)

    def branch(self, *, at: int) -> Branch:
        """Start a new branch from the session's first `at` messages.

        Raises:
            NotFound: the session has fewer messages.
        """
        return time_travel.branch_off(self._session.state, self._session.view, at)

    def branches(self) -> list[Branch]:
        """The session's branches, oldest first."""
        return self.store.branches(self.id)

    def undo(self) -> None:
        """Undo the last compression, restore or branch. Messages are kept.

        Raises:
            NotFound: there is nothing to undo.
        """
        time_travel.step("undo", self._session.state, self._session.view)

    def redo(self) -> None:
        """Reverse the last undo.

        Raises:
            NotFound: nothing was undone, or something else was done since.
        """
        time_travel.step("redo", self._session.state, self._session.view)

    def context_at(self, at: int) -> ActiveContext:
        """The context that a model saw when the session had `at` messages. For all messages, it has
        what recall would quote for a person's newest one.

        Raises:
            NotFound: the session has fewer messages.
        """
        if not 0 <= at <= len(self.history):
            raise NotFound(f"session {self.id!r} has {len(self.history)} messages, not {at}")
        return time_travel.context_at(self._session.view, at)


def _checked_ratio(ratio: float | None) -> float | None:
    if ratio is not None and not 0 < ratio <= 1:
        reason = f"target_ratio must lie above 0 and be at most 1, got {ratio!r}"
        raise InvalidArgument("target_ratio", reason)
    return ratio
