"""`CompactManager`: middleware. It takes the list that a program is about to send, and returns the
list to send: the same one, or a compressed one. Each session is a `ContextManager` of the manager's
store.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict, Unpack

from compact import forks, wiring
from compact.config import CompactConfig
from compact.engine.prompt_order import RequestExtras
from compact.errors import StoreFailed, Superseded
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
from compact.session.context_manager import ContextManager
from compact.session.one_call import acompress
from compact.session.running import off_loop
from compact.session.system_prompt import MOST_TRIES

if TYPE_CHECKING:
    from compact.memory.memory_manager import MemoryManager
    from compact.session.state import SessionState

MOST_OPEN = 64
"""How many sessions stay open. Beyond that, the session that was unused for longest is closed, and
its next use opens it again."""
System = str | Sequence[Mapping[str, Any]] | None
"""A system prompt in its own field, as text or as the provider's blocks."""
Tools = Sequence[Mapping[str, Any]] | None


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
        self.store = wiring.session_store(chosen)
        archive = options.get("archive") or self.config.adapter("storage") or self.config.archive
        self._archive = wiring.storage_adapter(archive, kms_key=self.config.archive_kms_key)
        self.scope = named("scope", options.get("scope", DEFAULT_SCOPE))
        """The scope of all sessions of this manager."""
        self._memory: MemoryManager | None = None
        if self.config.memory:
            self._memory = wiring.MemoryManager(self.store, scope=self.scope, settings=self.config)
        self._open: OrderedDict[str, ContextManager] = OrderedDict()
        """The open sessions by id. The session used last is at the end."""
        self._lock = forks.Lock()
        self._is_closed = False

    # --- before a call ----------------------------------------------------------------------------

    def preflight(
        self,
        session_id: str,
        messages: Sequence[Given],
        *,
        tools: Tools = None,
        system_prompt: System = None,
        model: str | None = None,
        format: str | None = None,
    ) -> list[Any]:
        """Return the messages to send to the model instead of the whole list, in the same format.

        Pass the whole conversation each time. Only messages that are not known yet are stored.
        Until the trigger is passed again, the compressed part stays the same, so the provider's
        prompt cache can be used. A list whose past was edited continues as a branch.

        `tools` and `system_prompt` are what you send in addition to the messages. They are counted
        and never changed. `model` is the key of the model to ask this time, if it is not the
        settings' model. `format` is the wire format of a new conversation, if the messages do not
        show it. If a summarizer or the store fails, the call does not fail: the messages are
        shortened without it, and the event `compact.error` says so.

        Raises:
            InvalidMessage: a message is malformed; the error names the field.
            CannotFit: the floor (what may not be shortened) is larger than the usable window.
            UnknownModel: the model is not known, and the settings give no window.
            BlockingCallInLoop: the summarizer would block a running event loop.
        """
        waits = (
            bool(messages)
            and self.session(session_id, model=model, format=format)._session.state.waits
        )
        work = self.apreflight(
            session_id,
            messages,
            tools=tools,
            system_prompt=system_prompt,
            model=model,
            format=format,
        )
        return running.run(work, waits=waits, instead="apreflight()")

    async def apreflight(
        self,
        session_id: str,
        messages: Sequence[Given],
        *,
        tools: Tools = None,
        system_prompt: System = None,
        model: str | None = None,
        format: str | None = None,
    ) -> list[Any]:
        """`preflight` for async callers."""
        given = messages_given(messages)
        if not given:
            return []
        ctx = self.session(session_id, model=model, format=format)
        key = None if model == ctx._session.state.setting.model else model
        try:
            return await off_loop(_prompt_of(ctx, given, system_prompt, tools, key))
        except (StoreFailed, Superseded) as error:
            serves = "the list itself, shortened without a summary"
            emit = wiring.emitter(self._bus.emit, session_id=session_id)
            emit(ErrorRaised.of(error, "sync", serves=serves))
            return await acompress(
                given,
                max_tokens=ctx.window.usable,
                system=system_prompt,
                tools=tools,
                tokenizer=ctx._session.state.counter.estimator,
                policy=ctx.policy,
                summarizer=None,
                format=format,
            )

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
        self, session_id: str, *, model: str | None = None, format: str | None = None
    ) -> ContextManager:
        """Return the session with that id, to inspect it, pin messages, set goals or recall. The
        session is opened at its first use, and the manager closes it. `format` is the wire format
        to open it in. Without `format`, the session takes on the format of its messages.

        Raises:
            InvalidConfig: the session belongs to another scope, or is in another format.
            UnknownModel: as in `preflight`.
            StoreFailed: the manager is closed.
        """
        named("session_id", session_id)
        with self._lock:
            if self._is_closed:
                raise StoreFailed("the manager is closed")
            if session_id not in self._open:
                self._open[session_id] = self._opened(session_id, model, format)
            self._open.move_to_end(session_id)
            left = self._open.popitem(last=False)[1] if len(self._open) > MOST_OPEN else None
            ctx = self._open[session_id]
        if left is not None:
            left.close()
        if model and ctx._session.models.own is None and not self.config.max_context_tokens:
            ctx.set_model(model)  # the first that it is used with
        return ctx

    def subscribe(self, listener: Callable[[Event], None]) -> Callable[[], None]:
        """Call the listener with each event of the manager's sessions from now on. Return a
        function that ends the subscription.
        """
        return self._bus.subscribe(listener)

    def _opened(self, session_id: str, model: str | None, format: str | None) -> ContextManager:
        config, options = self.config, self._options
        return ContextManager(
            config.model or model,
            config.max_context_tokens,
            self.store,
            format=format,
            session_id=session_id,
            scope=self.scope,
            tokenizer=options.get("tokenizer") or config.adapter("estimator") or config.tokenizer,
            policy=config.policy(),
            summarizer=options.get("summarizer")
            or config.adapter("summarizer")
            or config.summarizers(),
            models=config.book(),
            tiers=config.tiers,
            memory=self._memory,
            recall_tokens=self.config.recall_tokens,
            archive=self._archive,
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


async def _prompt_of(
    ctx: ContextManager, given: Sequence[Given], system: System, tools: Tools, model: str | None
) -> list[Any]:
    """Take a whole resent list into the session, and return the prompt for it.

    Raises:
        Superseded: other processes changed the session meanwhile, at every try.
    """
    beside = RequestExtras.of(system, tools)
    with ctx._session.turn:
        for _ in range(MOST_TRIES):
            _, place = ctx._synced(given)
            ctx._session.state.give(beside)  # to the session in the format of the list
            sent = await _shown(ctx, given, model, _WantedPrompt(place, beside))
            if sent is not None:
                return sent
    raise Superseded("other processes took this session elsewhere, again and again")


async def _compacted(ctx: ContextManager, given: Sequence[Given], note: str) -> list[Any]:
    with ctx._session.turn:
        ctx.sync(given)
        await ctx.acompress_conversation(guidance=note)
        return await _shown(ctx, given, None) or []


class _WantedPrompt(NamedTuple):
    """Names the list that a prompt is wanted for."""

    place: tuple[str, int]
    """The list's branch and its length."""
    beside: RequestExtras
    """What is sent in addition to the list."""

    def is_still(self, state: SessionState) -> bool:
        """Tell whether the session still ends with this list."""
        now = (state.branch_id, len(state.history))
        return now == self.place and state.prompting.has(self.beside)


async def _shown(
    ctx: ContextManager,
    given: Sequence[Given],
    model: str | None,
    wanted: _WantedPrompt | None = None,
) -> list[Any] | None:
    """Return the prompt in the form of the given messages: `Message` values, or a provider's
    dictionaries. Return None if the session no longer ends with the wanted list.
    """
    session = ctx._session
    view = session.view if model is None else session.view_for(model)

    def taken() -> list[Any] | None:
        if wanted is not None and not wanted.is_still(session.state):
            return None
        return view.context().sent if as_values else view.rendered()

    as_values = isinstance(given[0], Message)
    return await session.sender.fitted(view, taken)
