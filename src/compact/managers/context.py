"""`ContextManager`: a session that never overflows.

Messages go in one by one and stay in the history as they are. Prompts that fit the model's window
come out. With a store the session lives on disk: it can be reopened after any exit or crash, also
by several processes. `view` keeps the view up to date, `time_travel` goes back, `emergency_ladder`
handles emergencies, and `recall` brings messages back.
"""

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar, Unpack

from compact.core import recalls
from compact.core.asking import PATIENCE
from compact.core.budget import ContextBudget, ContextWindow
from compact.core.calls import checked_methods
from compact.core.checkpoints import Checkpoint
from compact.core.context import ActiveContext
from compact.core.copies import copied_message
from compact.core.formats.known import format_named
from compact.core.formats.tool_schemas import schemas_for
from compact.core.given import Given, fields_given, messages_given
from compact.core.goals import Goal, goals_given
from compact.core.messages import Message
from compact.core.plan import Plan
from compact.core.policy import CompactPolicy
from compact.core.prompts import SystemPrompt
from compact.core.protocols import SessionStore
from compact.core.recalls import Expansion, Recalled
from compact.core.sessions import Branch, Purpose, Snapshot
from compact.errors import InvalidArgument, InvalidMessage, NotFound, Superseded
from compact.managers import blocking, drafts, session_summary, syncing, time_travel
from compact.managers import recall as recalling
from compact.managers.breaker import Breaker
from compact.managers.counted_session import CountedSession, CountedSessions
from compact.managers.goal_tracking import taken_in, track, track_others
from compact.managers.history import Record, SessionHistory
from compact.managers.manual_compression import wanted_of
from compact.managers.models import Models
from compact.managers.opening import SessionOptions, format_of_all, opened
from compact.managers.pinning import Pinning
from compact.managers.recognition import Recognized, recognized
from compact.managers.repeated_system_prompt import RepeatedSystemPrompt
from compact.managers.sending import Sending

T = TypeVar("T")


@checked_methods
class ContextManager(Pinning, Sending):
    """A session: its whole history, and the active context for any window.

    `model` is a model key that gives a window and a tokenizer; `window` is the size in tokens and
    overrides the model's. Without either, the window is 8,192 tokens. For an unknown model, give
    the window; its tokens are then estimated (`tokenizer="chars"`) unless you give a tokenizer too.
    Prompts are compressed when they pass the policy's trigger.

    `store` is a file's name, an open store, or None for a session in memory only. A message is
    durable when `add_message` returns.
    """

    def __init__(
        self,
        model: str | None = None,
        window: int | None = None,
        store: str | Path | SessionStore | None = None,
        **options: Unpack[SessionOptions],
    ) -> None:
        for name in ("scope", "session_id"):
            if options.get(name) == "":
                raise InvalidArgument(name, f"{name} is empty: give one, or leave it out")
        self._asked_for = model, window, options
        self._owns_store = store is None or isinstance(store, str | Path)
        self._begin(store)

    def _begin(self, store: str | Path | SessionStore | None) -> None:
        model, window, options = self._asked_for
        self._state, size, _, counted_by = opened(model, window, store, options)
        self.id = self._state.id
        """The session's id; its events carry it."""
        self.store = self._state.store
        """The store of the session."""
        try:
            drafts.drop_abandoned(self._state)
            self._counted = CountedSession(self._state, size)
        except BaseException:
            if self._owns_store:
                self.store.close()
            raise
        self._view, self._post = self._counted.view(size), self._counted.sender
        self._repeated_prompt = RepeatedSystemPrompt(self._state)
        self._counted_sessions = CountedSessions(self._counted, counted_by)
        self._models = Models(
            self._state,
            model,
            fallbacks=options.get("fallbacks") or (),
            patience=options.get("patience") or PATIENCE,
        )
        self._asked = self._post
        """The sender of the last prompt, to which its result is reported."""

    def close(self) -> None:
        """Close the store, unless it was passed in open; then the caller closes it. Added messages
        are already stored.
        """
        self._counted_sessions.close()
        self._models.close()
        if self._owns_store:
            self.store.close()

    def __enter__(self) -> ContextManager:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- state ------------------------------------------------------------------------------------

    @property
    def policy(self) -> CompactPolicy:
        """What is kept, and when and how far to compress."""
        return self._state.policy

    @property
    def history(self) -> SessionHistory:
        """The full history of the open branch, as a sequence of messages."""
        return Record(self._state.history)

    @property
    def branch_id(self) -> str:
        """The id of the open branch."""
        return self._state.branch_id

    @property
    def window(self) -> ContextWindow:
        """The window that prompts are made for."""
        return self._view.window

    @property
    def budget(self) -> ContextBudget:
        """Tokens of the usable window, used and free."""
        self._counted.state.history.catch_up()
        return self.window.budget(self._view.tokens_now)

    @property
    def checkpoints(self) -> tuple[Checkpoint, ...]:
        """The checkpoints in view, oldest span first."""
        return self._view.checkpoints

    @property
    def compressions(self) -> int:
        """How many compressions led to what is in view."""
        return self._view.projection.number if self._view.projection else 0

    @property
    def last_plan(self) -> Plan | None:
        """What the last compression did and why; None before the first."""
        return self._view.plan

    # --- input ------------------------------------------------------------------------------------

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
        return self.add_messages([fields_given(fields) if message is None else message])[0]

    def add_messages(self, messages: Sequence[Given]) -> list[Message]:
        """Append several messages at once: all of them or none. Markers in an assistant's messages
        update the goals.

        Raises:
            InvalidMessage, StoreFailed: as `add_message`.
        """
        given = self._read(messages)
        repeated = self._repeated_prompt.repeated_in(given)
        rest, new = given[len(repeated) :], list[Message]()
        if rest or not repeated:
            new = taken_in(self._state, rest, self.window.usable)
        return self._repeated_prompt.take(repeated, ends=bool(rest)) + new

    def _read(self, messages: Sequence[Given]) -> Sequence[Message | Mapping[str, Any]]:
        """The messages as given, after switching the session to a format that can hold them."""
        given, (model, window, options) = messages_given(messages), self._asked_for
        if not options.get("format") and (other := format_of_all(self._state, given)):
            self._asked_for = model, window, {**options, "format": other, "session_id": self.id}
            self._counted_sessions.close()
            self._models.close()
            self._begin(self.store)
        return given

    def sync(self, messages: Sequence[Given]) -> Recognized:
        """Take the whole list that a client resends at every turn: known messages are recognized,
        and only new ones are stored. The same list again, from any client, adds nothing.

        A list with an edited past continues as a branch, reported by the event `BranchTaken`. A
        list cut off at its beginning continues from the end of the history. If the system prompt
        differs, prompts show the new one from now on; the store keeps the first.

        Raises:
            InvalidMessage: one is malformed, named by its place in the list, or the list is empty;
                nothing was changed.
            StoreFailed: as `add_message`.
            Superseded: other writers were faster, again and again.
        """
        given = syncing.checked(self._read(messages))
        state = self._state
        for _ in range(syncing.MOST_TRIES):
            with state.lock, suppress(Superseded):
                state.history.catch_up()
                found = recognized(state, self._view, given)
                new = syncing.take(state, self._view, given, found)
                track(state, new, found.known, self.window.usable)
                self._repeated_prompt.end()
                return found
        raise Superseded("other writers were faster, again and again")

    @property
    def goals(self) -> tuple[Goal, ...]:
        """The goals of the session. Active goals are in every prompt word for word."""
        return self._state.goals

    def set_goals(self, goals: Sequence[Goal | str]) -> tuple[Goal, ...]:
        """Replace the goals; a text is an active goal.

        Raises:
            InvalidArgument: this is not a list of goals and texts, or one is empty.
        """
        self._state.set_goals(goals_given(goals))
        track_others(self._state, self.window.usable)
        self._view.reload()
        return self.goals

    def confirm_goal(self, goal_id: str) -> tuple[Goal, ...]:
        """Confirm a goal that a model set: prompts show it as the person's from now on, and no
        model can end it.

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
        """The mode of the session: its use (`core.modes`)."""
        return self._state.policy.mode

    def set_mode(self, name: str) -> None:
        """Set the mode from now on, also when the session is reopened.

        Raises:
            InvalidConfig: there is no such mode; the text lists the modes.
        """
        self._state.set_mode(name)
        self._view.reload()

    @property
    def system_prompt(self) -> SystemPrompt | None:
        """The system prompt and the parts left out of it; None without the option `prompt`."""
        return self._counted.state.preamble(self._view.size).prompt

    # --- output -----------------------------------------------------------------------------------

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
        return self._run(self.aget_context_for_model(model_key), "aget_context_for_model()")

    async def aget_context_for_model(self, model_key: str | None = None) -> list[dict[str, Any]]:
        """`get_context_for_model` for async callers."""
        counted, view = (
            (self._counted, self._view)
            if model_key is None
            else self._counted_sessions.of(model_key)
        )
        self._asked = counted.sender
        return await counted.sender.fitted(view, view.rendered)

    def active_context(self) -> ActiveContext:
        """The typed value behind `get_context_for_model`: the only type that may be sent to a
        model.

        Raises:
            CannotFit, BlockingCallInLoop: as `get_context_for_model`.
        """
        return self._run(self.aactive_context(), "aactive_context()")

    async def aactive_context(self) -> ActiveContext:
        """`active_context` for async callers."""
        self._asked = self._post
        return await self._post.fitted(self._view, self._view.context)

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
        if target_ratio is not None and not 0 < target_ratio <= 1:
            reason = f"target_ratio must lie above 0 and be at most 1, got {target_ratio!r}"
            raise InvalidArgument("target_ratio", reason)
        state, view = self._counted.state, self._view
        return await view.compress(lambda: wanted_of(state, view, target_ratio), guidance=guidance)

    def estimate_tokens(self, text: str) -> int:
        """Tokens of a text by the session's tokenizer."""
        return self._state.counter.text(text)

    def get_conversation_summary(self) -> str:
        """The texts of the checkpoints in view; before the first one, a summary of the whole
        history.

        Raises:
            BlockingCallInLoop: the summarizer waits, in a running event loop.
        """
        work = self.aget_conversation_summary()
        waits = self._state.summarizer.waits
        return blocking.run(work, waits=waits, instead="aget_conversation_summary()")

    async def aget_conversation_summary(self) -> str:
        """`get_conversation_summary` for async callers."""
        if self.checkpoints:
            return "\n\n".join(c.summary for c in self.checkpoints)
        if not len(self.history):
            return ""
        return await session_summary.summary_of(self._state, self._breaker)

    # --- going back -------------------------------------------------------------------------------

    def snapshot(self, note: str = "", *, purpose: Purpose = "recovery") -> Snapshot:
        """Save the state of the session, to `restore` it later. Snapshots are tiny, whatever the
        session's size.
        """
        return time_travel.take_snapshot(self._state, self._view, purpose=purpose, note=note)

    def snapshots(self) -> list[Snapshot]:
        """The session's snapshots, the oldest first."""
        return self.store.snapshots(self.id)

    def restore(self, snapshot: Snapshot | str) -> None:
        """Continue from a snapshot. Later messages are kept on their own branch.

        Raises:
            NotFound: the session has no such snapshot.
        """
        wanted = snapshot if isinstance(snapshot, str) else snapshot.id
        found = time_travel.find_snapshot(self._state, wanted)
        time_travel.restore(self._state, self._view, found)

    def branch(self, *, at: int) -> Branch:
        """Start a new branch from the session's first `at` messages.

        Raises:
            NotFound: the session has fewer messages.
        """
        return time_travel.branch_off(self._state, self._view, at)

    def branches(self) -> list[Branch]:
        """The session's branches, the oldest first."""
        return self.store.branches(self.id)

    def undo(self) -> None:
        """Undo the last compression, restore or branch. Messages are kept.

        Raises:
            NotFound: there is nothing to undo.
        """
        time_travel.undo(self._state, self._view)

    def redo(self) -> None:
        """Reverse the last undo.

        Raises:
            NotFound: nothing was undone, or something else was done since.
        """
        time_travel.redo(self._state, self._view)

    def context_at(self, at: int) -> ActiveContext:
        """The context that a model saw when the session had `at` messages.

        Raises:
            NotFound: the session has fewer messages.
        """
        if not 0 <= at <= len(self.history):
            raise NotFound(f"session {self.id!r} has {len(self.history)} messages, not {at}")
        return self._view.context_at(at)

    # --- recall -----------------------------------------------------------------------------------

    def recall(self, query: str, *, limit: int = recalls.PAGE) -> list[Recalled]:
        """Messages of the whole history that share words with the query, the best match first."""
        return recalling.recall(self._state, query, limit=limit)

    def expand(self, id: str, *, max_tokens: int | None = None, start: int = 0) -> Expansion:
        """The original messages behind the id of a checkpoint, a message or a tool call.

        Returns as many as fit into `max_tokens`, starting with number `start`. If a single message
        does not fit, its text starts at that character. The page says where the next one starts.

        Raises:
            NotFound: nothing in the session has that id.
        """
        found = recalling.expand(self._state, id, max_tokens=max_tokens, start=start)
        return found.model_copy(update={"messages": tuple(map(copied_message, found.messages))})

    def recall_tools(self, format: str | None = None) -> list[dict[str, Any]]:
        """The schemas of the tools `recall` and `expand`, to declare to a model, in the session's
        wire format or another one.

        Raises:
            UnknownModel: there is no such format.
        """
        written = format_named(format or self._state.wire.name)
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
        return recalling.answer_tool(self._state, name, arguments, max_tokens)

    # --- inside -----------------------------------------------------------------------------------

    @property
    def _breaker(self) -> Breaker:
        return self._counted.breaker

    def _run(self, work: Coroutine[Any, Any, T], instead: str) -> T:
        return blocking.run(work, waits=self._state.waits, instead=instead)
