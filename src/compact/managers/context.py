"""Front door 2: `ContextManager`, a session that never overflows.

Messages go in one by one and stay in the history as they are; a prompt that fits the model's window
comes out. With a store the session lives on disk: it can be opened again after any end, by several
processes too. How the view is kept up to date lives in `view`, going back in `time_travel`, what is
done in an emergency in `emergency_ladder`, bringing back in `recall`.
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

    `model` is a model key that names a window and a tokenizer; `window` is the size in tokens and
    counts more than the model's. Without either, the window is 8,192 tokens. Of a model that is not
    known, give the window; its tokens are then estimated (`tokenizer="chars"`) unless a tokenizer
    is given too. Prompts are compressed when they pass the policy's trigger.

    `store` is a file's name, an open store, or None for a session that lives in memory only. A
    message is durable when `add_message` returns.
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
        """The session's id, which its events carry."""
        self.store = self._state.store
        """Where the session is kept."""
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
        """Who took the last prompt, and is told what became of it."""

    def close(self) -> None:
        """Let go of the store, unless it was handed over open: then whoever opened it closes it.
        What was added is there already.
        """
        self._counted_sessions.close()
        self._models.close()
        if self._owns_store:
            self.store.close()

    def __enter__(self) -> ContextManager:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- what there is ----------------------------------------------------------------------------

    @property
    def policy(self) -> CompactPolicy:
        """What is kept, and when and how far to compress."""
        return self._state.policy

    @property
    def history(self) -> SessionHistory:
        """The full record of the branch that is open: read it as a sequence of messages."""
        return Record(self._state.history)

    @property
    def branch_id(self) -> str:
        """The branch that is open."""
        return self._state.branch_id

    @property
    def window(self) -> ContextWindow:
        """The window prompts are made for."""
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

    # --- what goes in -----------------------------------------------------------------------------

    def add_message(self, message: Given | None = None, /, **fields: object) -> Message:
        """Append a message to the history: a `Message`, a provider's dictionary, an object of its
        client such as `response.choices[0].message`, or its fields as keywords, with marks such as
        `pinned=True` among them. What only a provider knows passes inside a dictionary.

        Stores, never compresses. Returns the message with its id and time. A program that opens a
        session again may begin as the first time: the system prompt that it says then is the one
        that the session begins with, and not stored twice; where it says something else, prompts
        show its new words from now on, and the store keeps the first ones. Marks such as
        `metadata={"pinned": True}` are ours: they are kept here and never sent to a provider.

        Raises:
            InvalidMessage: it is malformed; the text names the field.
            StoreFailed: it could not be stored, and is not part of the history.
        """
        if message is not None and fields:
            raise InvalidMessage("message", "give a message or its fields, not both")
        return self.add_messages([fields_given(fields) if message is None else message])[0]

    def add_messages(self, messages: Sequence[Given]) -> list[Message]:
        """Append several messages at once: all of them or none. What an assistant says of the
        goals in them, by markers, brings the goals on.

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
        """The messages as they were given, once the session is in a format that they can be in."""
        given, (model, window, options) = messages_given(messages), self._asked_for
        if not options.get("format") and (other := format_of_all(self._state, given)):
            self._asked_for = model, window, {**options, "format": other, "session_id": self.id}
            self._counted_sessions.close()
            self._models.close()
            self._begin(self.store)
        return given

    def sync(self, messages: Sequence[Given]) -> Recognized:
        """Take the list that a client sends whole at every turn: what is known is recognized, only
        what is new is stored. The same list once more, from whomever, adds nothing.

        A list whose past was edited goes on as a branch, said by the event `BranchTaken`. A list
        whose beginning was cut off goes on from the history's end. Where the system prompt says
        something else, prompts show its new words from now on; the store keeps the first ones.

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
        """What the session is for. Active goals are in every prompt word for word."""
        return self._state.goals

    def set_goals(self, goals: Sequence[Goal | str]) -> tuple[Goal, ...]:
        """Have these goals from now on; a text is an active goal.

        Raises:
            InvalidArgument: it is no list of goals and texts, or one is empty.
        """
        self._state.set_goals(goals_given(goals))
        track_others(self._state, self.window.usable)
        self._view.reload()
        return self.goals

    def confirm_goal(self, goal_id: str) -> tuple[Goal, ...]:
        """Make a goal that a model set the person's own: prompts show it as theirs from now on, and
        no model ends it.

        Raises:
            NotFound: the session has no goal of that id.
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
        """What the session is used for (`core.modes`)."""
        return self._state.policy.mode

    def set_mode(self, name: str) -> None:
        """Be used for this from now on, also when it is opened again.

        Raises:
            InvalidConfig: there is no such mode; names those there are.
        """
        self._state.set_mode(name)
        self._view.reload()

    @property
    def system_prompt(self) -> SystemPrompt | None:
        """The system prompt and what was left out of it; None without the option `prompt`."""
        return self._counted.state.preamble(self._view.size).prompt

    # --- what comes out ---------------------------------------------------------------------------

    def get_context_for_model(self, model_key: str | None = None) -> list[dict[str, Any]]:
        """The prompt for the model, as provider dictionaries that are whoever asked's own.

        In a format with a field for the system prompt, what was given as `system=` or `prompt=`
        stands in `active_context().system`, goals included. System messages that were added stay in
        the list, by which `sync` knows them again: `send` moves them into the field, as does
        whoever sends the list without it.

        Compresses if the trigger was passed. With a model key, the prompt for that model's window,
        by that model's tokenizer.

        Raises:
            CannotFit: what may not be shortened exceeds the usable window.
            UnknownModel: nothing is known of that model key.
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
        """The typed value behind `get_context_for_model`: the only one that a model may be given.

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

        `target_ratio` is the share to keep of what lies above the floor (system prompt, pins, the
        newest message of a person), 0 to 1; without it, the policy's target, and at most 60 %. What
        frees nothing is left as it is; where less is freed than was asked for, the plan says why.
        `guidance` is what a model that summarizes shall
        keep beside the usual, in a person's words: "keep the API discussion".

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
        """What the checkpoints in view say; before the first one, a summary of the whole history.

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
        """Keep where the session stands, to `restore` it later; tiny, whatever the session's
        size.
        """
        return time_travel.take_snapshot(self._state, self._view, purpose=purpose, note=note)

    def snapshots(self) -> list[Snapshot]:
        """The session's snapshots, the oldest first."""
        return self.store.snapshots(self.id)

    def restore(self, snapshot: Snapshot | str) -> None:
        """Go on from a snapshot. What came after it is kept, on its own branch.

        Raises:
            NotFound: the session has no such snapshot.
        """
        wanted = snapshot if isinstance(snapshot, str) else snapshot.id
        found = time_travel.find_snapshot(self._state, wanted)
        time_travel.restore(self._state, self._view, found)

    def branch(self, *, at: int) -> Branch:
        """Go on from where the session had `at` messages, on a branch of its own.

        Raises:
            NotFound: the session has fewer messages.
        """
        return time_travel.branch_off(self._state, self._view, at)

    def branches(self) -> list[Branch]:
        """The session's branches, the oldest first."""
        return self.store.branches(self.id)

    def undo(self) -> None:
        """Go back to what was in force before the last compression, restore or branch. Messages
        stay.

        Raises:
            NotFound: there is nothing to undo.
        """
        time_travel.undo(self._state, self._view)

    def redo(self) -> None:
        """Take the last undo back.

        Raises:
            NotFound: nothing was undone, or something else came since.
        """
        time_travel.redo(self._state, self._view)

    def context_at(self, at: int) -> ActiveContext:
        """What a model saw when the session had `at` messages.

        Raises:
            NotFound: the session has fewer messages.
        """
        if not 0 <= at <= len(self.history):
            raise NotFound(f"session {self.id!r} has {len(self.history)} messages, not {at}")
        return self._view.context_at(at)

    # --- bringing back ----------------------------------------------------------------------------

    def recall(self, query: str, *, limit: int = recalls.PAGE) -> list[Recalled]:
        """Messages of the whole history that share words with the query, the best first."""
        return recalling.recall(self._state, query, limit=limit)

    def expand(self, id: str, *, max_tokens: int | None = None, start: int = 0) -> Expansion:
        """The original messages behind a checkpoint's id, a message's id or a tool call's id: as
        many as fit into `max_tokens`, from the one numbered `start`; of one message that does not
        fit, its text from that character on. The page says where the next one starts.

        Raises:
            NotFound: nothing in the session has that id.
        """
        found = recalling.expand(self._state, id, max_tokens=max_tokens, start=start)
        return found.model_copy(update={"messages": tuple(map(copied_message, found.messages))})

    def recall_tools(self, format: str | None = None) -> list[dict[str, Any]]:
        """The tools `recall` and `expand`, to be declared to a model that may use them, as the
        session's wire format writes them, or another one.

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
        """What `recall` or `expand` answers a model that called it.

        Raises:
            InvalidInput: there is no such tool, or its argument is missing.
            NotFound: nothing has the id that was asked for.
        """
        return recalling.answer_tool(self._state, name, arguments, max_tokens)

    # --- inside -----------------------------------------------------------------------------------

    @property
    def _breaker(self) -> Breaker:
        return self._counted.breaker

    def _run(self, work: Coroutine[Any, Any, T], instead: str) -> T:
        return blocking.run(work, waits=self._state.waits, instead=instead)
