"""`CompactManager`: middleware. It takes the list that a program is about to send, and returns the
list to send: the same one, or a compressed one. Each session is a `ContextManager` of the manager's
store.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict, Unpack

from compact import forks, wiring
from compact.config import CompactConfig
from compact.engine.prompt_order import RequestExtras
from compact.errors import NotFound, StoreFailed, Superseded
from compact.messages import clock_and_ids
from compact.messages.calls import known_options, named
from compact.messages.events import ErrorRaised, Event
from compact.messages.given import Given, messages_given
from compact.messages.messages import Message
from compact.messages.options import taking
from compact.messages.protocols import (
    ChatModel,
    SessionStore,
    StorageAdapter,
    Summarizer,
    TokenEstimator,
)
from compact.messages.sessions import DEFAULT_SCOPE
from compact.secrets.redactor import Redactor
from compact.session import running
from compact.session.context_manager import ContextManager, Place
from compact.session.entering import MOST_TRIES
from compact.session.fitted import Fitted, Prompt, origins
from compact.session.opening import found_window
from compact.session.prompt_overhead import checked_size
from compact.session.prompt_sender import Taken
from compact.session.resent_list import checked, continued
from compact.session.running import off_loop

if TYPE_CHECKING:
    from compact.memory.memory_manager import MemoryManager
    from compact.session.state import SessionState
    from compact.session.views.view import View

MOST_OPEN = 64
"""How many sessions stay open. Beyond that, the session that was unused for longest is closed, and
its next use opens it again."""


class ManagerOptions(TypedDict, total=False):
    """Options of a `CompactManager`, in addition to its settings."""

    store: str | Path | SessionStore | None
    """Where sessions are kept: a file's name, an open store, or None for the store that the
    settings name. If they name none, sessions are kept in memory."""
    scope: str
    """The user, tenant or project that the manager's sessions belong to. Default: `default`."""
    tokenizer: str | TokenEstimator | None
    """A tokenizer, instead of the settings' or the model's."""
    summarizer: str | ChatModel | Sequence[str | ChatModel] | Summarizer | None
    """A summarizer, instead of the settings'."""
    archive: str | Path | StorageAdapter | None
    """Where to keep copies of what compressions take out of prompts. Overrides the settings'
    `archive`."""
    redactor: Redactor | None
    """Finds secrets in addition to those that are always redacted. Overrides the settings' own
    redactor. It may use your own validators."""
    on_event: Callable[[Event], None] | None
    """Called with each event, in order."""


class CallOptions(TypedDict, total=False):
    """Options of `preflight` and `fit`."""

    tools: Sequence[Mapping[str, Any]] | None
    """Tool schemas that you send too. They are counted and never changed."""
    system_prompt: str | Sequence[Mapping[str, Any]] | None
    """A system prompt that you send in its own field. It is counted and never changed."""
    model: str | None
    """The key of the model to ask this time, if it is not the settings' model."""
    format: str | None
    """The wire format of a new conversation, if the messages do not show it."""
    answer_tokens: int | None
    """The room to leave for the answer to this call. Default: the policy's reserve."""


class CompactManager:
    """Middleware to run before each call of a model.

    `config` holds the settings, such as the model, the window and what to keep. Without `config`,
    the defaults are used. The window is the settings' `max_context_tokens`; else that of the
    settings' `model`; else that of the first model a session is used with; else 8,192 tokens.
    """

    @taking(ManagerOptions)
    def __init__(
        self, config: CompactConfig | None = None, **options: Unpack[ManagerOptions]
    ) -> None:
        known_options(options, ManagerOptions)
        self.config = config or CompactConfig()
        self._options = options
        self._redactor = options.get("redactor") or self.config.redactor()
        self._bus = wiring.event_bus(
            self.config, listener=options.get("on_event"), redactor=self._redactor
        )
        chosen = options.get("store") or self.config.store
        if not chosen and self.config.memory:
            chosen = ":memory:"  # plain memory keeps no index
        self._owns_store = not chosen or isinstance(chosen, str | Path)
        self.scope = named("scope", options.get("scope", DEFAULT_SCOPE))
        """The scope of all sessions of this manager."""
        self.store = wiring.session_store(chosen, self.scope)
        archive = options.get("archive") or self.config.adapter("storage") or self.config.archive
        self._archive = wiring.storage_adapter(archive, kms_key=self.config.archive_kms_key)
        self._memory: MemoryManager | None = None
        if self.config.memory:
            self._memory = wiring.MemoryManager(self.store, scope=self.scope, settings=self.config)
        self._open: OrderedDict[str, ContextManager] = OrderedDict()
        """The open sessions by id. The session used last is at the end."""
        self._lock = forks.Lock()
        self._is_closed = False

    # --- before a call ----------------------------------------------------------------------------

    @taking(CallOptions)
    def preflight(
        self, session_id: str, messages: Sequence[Given], **options: Unpack[CallOptions]
    ) -> list[Any]:
        """Return the messages to send to the model instead of the whole list, in the same format.

        Pass the whole conversation each time. Only messages that are not known yet are stored.
        Until the trigger is passed again, the compressed part stays the same, so the provider's
        prompt cache can be used. A list whose past was edited continues as a branch. If a
        summarizer or the store fails, the call does not fail: the messages are shortened without
        it, and the event `compact.error` says so.

        Raises:
            InvalidMessage: a message is malformed; the error names the field.
            CannotFit: the floor (what may not be shortened) is larger than the usable window.
            UnknownModel: the model is not known, and the settings give no window.
            BlockingCallInLoop: the summarizer would block a running event loop.
        """
        return self.fit(session_id, messages, **options).copies()

    @taking(CallOptions)
    async def apreflight(
        self, session_id: str, messages: Sequence[Given], **options: Unpack[CallOptions]
    ) -> list[Any]:
        """`preflight` for async callers."""
        return (await self.afit(session_id, messages, **options)).copies()

    @taking(CallOptions)
    def fit(
        self, session_id: str, messages: Sequence[Given], **options: Unpack[CallOptions]
    ) -> Fitted:
        """Return what to send instead of the whole list, as `preflight` does, and which of the
        given messages stand in each sent one. For adapters of frameworks: messages that are sent as
        they were given are the given objects. Report to the result what the provider says of this
        prompt.

        Raises:
            InvalidMessage, CannotFit, UnknownModel, BlockingCallInLoop: as in `preflight`.
        """
        known_options(options, CallOptions)
        model, format = options.get("model"), options.get("format")
        waits = bool(messages) and self._waits(session_id, model, format)
        work = self.afit(session_id, messages, **options)
        return running.run(work, waits=waits, instead="afit() or apreflight()")

    @taking(CallOptions)
    async def afit(
        self, session_id: str, messages: Sequence[Given], **options: Unpack[CallOptions]
    ) -> Fitted:
        """`fit` for async callers."""
        known_options(options, CallOptions)
        given = messages_given(messages)
        if not given:
            return Fitted(messages)
        room, model = options.get("answer_tokens"), options.get("model")
        room = None if room is None else checked_size("answer_tokens", room)
        extras = RequestExtras.of(options.get("system_prompt"), options.get("tools"))
        wanted, format = _Wanted(extras, model, room), options.get("format")
        opened: list[ContextManager] = []

        async def served() -> Prompt:
            opened.append(self.session(session_id, model=model, format=format))
            return await _prompt_of(opened[0], given, wanted)

        try:
            prompt = await off_loop(served())
            return Fitted(messages, given, prompt, partial(self.session, session_id))
        except (StoreFailed, Superseded) as error:
            if self._is_closed or self._lock.is_inherited:
                raise
            serves = "the list itself, shortened without a summary"
            emit = wiring.emitter(self._bus.emit, session_id=session_id)
            emit(ErrorRaised.of(error, "sync", serves=serves))
        if format is None and opened:
            format = opened[0]._session.state.wire.name
        with self._opened(session_id, model, format, is_away=True) as away:
            if opened:
                away._session.view.learn(opened[0]._session.view.calibration)
            return Fitted(messages, given, await off_loop(_prompt_of(away, given, wanted)))

    def _waits(self, session_id: str, model: str | None, format: str | None) -> bool:
        with suppress(StoreFailed):
            return self.session(session_id, model=model, format=format)._session.state.waits
        return False

    def manual_compact(
        self, session_id: str, messages: Sequence[Given], note: str = ""
    ) -> list[Any]:
        """Compress now, even if the trigger was not passed. Return the messages to send. `note`
        tells a summarizing model in plain words what to keep. If nothing can be freed, the messages
        stay as they are, and the event `compact.trigger_decision` says why.

        Raises:
            As in `preflight`; StoreFailed: the messages or the compression could not be stored.
        """
        waits = bool(messages) and self.session(session_id)._session.state.waits
        work = self.amanual_compact(session_id, messages, note)
        return running.run(work, waits=waits, instead="amanual_compact()")

    async def amanual_compact(
        self, session_id: str, messages: Sequence[Given], note: str = ""
    ) -> list[Any]:
        """`manual_compact` for async callers."""
        given = messages_given(messages)
        if not given:
            return []
        return await off_loop(_compacted(self.session(session_id), given, note))

    # --- sessions ---------------------------------------------------------------------------------

    def session(
        self,
        session_id: str,
        *,
        create: bool = True,
        model: str | None = None,
        format: str | None = None,
    ) -> ContextManager:
        """Return the session with that id, to inspect it, pin messages, set goals or recall. The
        session is opened at its first use, and the manager closes it. `create=False` opens only a
        session that is there. `format` is the wire format to open it in. Without `format`, the
        session takes on the format of its messages.

        Raises:
            NotFound: with `create=False`: there is no such session; the error names similar ones.
            InvalidConfig: the session belongs to another scope, or is in another format.
            UnknownModel: as in `preflight`.
            StoreFailed: the manager is closed.
        """
        named("session_id", session_id)
        with self._lock:
            if self._is_closed:
                raise StoreFailed("the manager is closed")
            if session_id not in self._open:
                if not create:
                    self._find(session_id)
                self._open[session_id] = self._opened(session_id, model, format)
            self._open.move_to_end(session_id)
            left = self._open.popitem(last=False)[1] if len(self._open) > MOST_OPEN else None
            ctx = self._open[session_id]
        if left is not None:
            left.close()
        if model and ctx._session.models.own is None and not self.config.max_context_tokens:
            ctx.set_model(model)  # the first that it is used with
        return ctx

    def _leave(self, session_id: str) -> None:
        """Close a session. Its next use opens it again."""
        with self._lock:
            left = self._open.pop(session_id, None)
        if left is not None:
            left.close()

    def _find(self, session_id: str) -> None:
        try:
            self.store.session(session_id)
        except NotFound:
            known = [session.id for session in self.store.sessions(scope=self.scope)]
            close = ", ".join(map(repr, get_close_matches(session_id, known))) or "none"
            raise NotFound(
                f"there is no session {session_id!r} in the scope {self.scope!r}, which has "
                f"{len(known):,}; with similar names: {close}"
            ) from None

    def recognize(self, messages: Sequence[Given]) -> str | None:
        """Return the id of the session that a resent list continues. None if the list begins a
        conversation, or the store cannot tell. Nothing is stored.

        A list continues a session that knows it up to its last answer. If several sessions do,
        one that waits for that answer is taken; they are equal so far. Record the answers
        (`Fitted.answered`), so that conversations that begin alike are told apart. A system prompt
        with other words at the list's beginning may be new: the newest sessions' are tried.

        Raises:
            InvalidMessage: an item is no message.
        """
        return continued(self.store, self.scope, checked(messages))

    def check(self, model: str | None = None) -> None:
        """Check at a program's start that sessions can be made and kept: the window, the tokenizer,
        the summarizer and the store. `model` is the key of the model that will be asked, if it is
        not the settings' model. Makes a session, and deletes it.

        Raises:
            UnknownModel: the model is not known, and the settings give no window; or there is no
                such tokenizer or summarizer.
            InvalidConfig: a setting does not fit the window.
            ModelFailed: the model that writes the summaries cannot be asked.
            StoreFailed: the store cannot be written, or the manager is closed.
        """
        name = f"check-{clock_and_ids.new_id()}"
        ctx = self._opened(name, model, None)
        try:
            ctx.estimate_tokens("compact")
            ctx.add_message({"role": "user", "content": "compact"})
            if (writer := ctx._session.state.writers.first) is not None:
                wiring.check_package(writer)
                running.run(found_window(writer), waits=True, instead="it outside of the loop")
        finally:
            ctx.close()
            self.store.delete_session(name)

    def subscribe(self, listener: Callable[[Event], None]) -> Callable[[], None]:
        """Call the listener with each event of the manager's sessions from now on. Return a
        function that ends the subscription.
        """
        return self._bus.subscribe(listener)

    def _opened(
        self, session_id: str, model: str | None, format: str | None, *, is_away: bool = False
    ) -> ContextManager:
        """Open a session. `is_away` opens a new one in memory, because the store is away."""
        config, options = self.config, self._options
        summarizer = (
            options.get("summarizer") or config.adapter("summarizer") or config.summarizers()
        )
        return ContextManager(
            config.model or model,
            config.max_context_tokens,
            None if is_away else self.store,
            format=format,
            session_id=session_id,
            scope=self.scope,
            tokenizer=options.get("tokenizer") or config.adapter("estimator") or config.tokenizer,
            policy=config.policy(),
            summarizer="extractive" if is_away else summarizer,
            models=config.book(),
            tiers=config.tiers,
            memory=None if is_away else self._memory,
            recall_tokens=self.config.recall_tokens,
            archive=None if is_away else self._archive,
            redactor=self._redactor,
            on_event=self._bus.emit,
        )

    def close(self) -> None:
        """Close the sessions, and the store unless you passed an open store."""
        if self._lock.is_inherited:
            return
        with self._lock:
            self._is_closed = True
            for ctx in self._open.values():
                ctx.close()
            self._open.clear()
        if self._owns_store:
            self.store.close()
        self._bus.close()

    def __enter__(self) -> CompactManager:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Wanted(NamedTuple):
    """Says what a prompt is wanted for, beside its list."""

    beside: RequestExtras
    """What is sent in addition to the list."""
    model: str | None
    answer_tokens: int | None = None


async def _prompt_of(
    ctx: ContextManager, given: Sequence[Message | Mapping[str, Any]], wanted: _Wanted
) -> Prompt:
    """Take a whole resent list into the session, and return the prompt for it.

    Raises:
        Superseded: other processes changed the session meanwhile, at every try.
    """
    model = None if wanted.model == ctx._session.state.setting.model else wanted.model
    with ctx._session.turn:
        for _ in range(MOST_TRIES):
            found, place = ctx._synced(given)
            session = ctx._session  # in the format of the list
            session.state.give(wanted.beside)
            view = session.view if model is None else session.view_for(model)
            await session.sender.pay(view)
            if wanted.answer_tokens is not None:
                await session.sender.leave_room(view, wanted.answer_tokens)
            is_whole = not found.ours and len(given) == place[1]
            listed = _Listed(given, wanted.beside, place, is_whole)
            made = await session.sender.fitted(view, partial(listed.prompt, session.state, view))
            if made is not None:
                return made
    raise Superseded("other processes took this session elsewhere, again and again")


class _Listed(NamedTuple):
    """A list as the session took it in."""

    given: Sequence[Message | Mapping[str, Any]]
    beside: RequestExtras
    place: Place
    """The list's branch, and how many messages it has."""
    is_whole: bool
    """Whether the list is the branch, message by message."""

    def prompt(self, state: SessionState, view: View) -> Prompt | None:
        """Return the prompt that the view shows now. Return None if the session does not end with
        this list any more.
        """
        as_values, now = isinstance(self.given[0], Message), (state.branch_id, len(state.history))
        if now != self.place or not state.prompting.has(self.beside):
            return None
        sent = view.context().sent if as_values else view.rendered()
        places = view.places(as_values=as_values)
        if not self.is_whole:
            places = origins(self.given, sent, places, state.history.__getitem__, state.own)
        return Prompt(sent, places, Taken(view, view.tokens), self.place)


async def _compacted(ctx: ContextManager, given: Sequence[Given], note: str) -> list[Any]:
    with ctx._session.turn:
        ctx.sync(given)
        await ctx.acompress_conversation(guidance=note)
        session = ctx._session
        as_values = isinstance(given[0], Message)
        return await session.sender.fitted(
            view := session.view,
            lambda: view.context().sent if as_values else view.rendered(),
        )
