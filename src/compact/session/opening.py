"""Opens a session: turns options into an open `SessionState`.

Options are checked before the store is used. If opening fails, everything that was opened here is
closed again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict, cast

from compact import wiring
from compact.engine.prompt_order import RequestExtras
from compact.errors import (
    BlockingCallInLoop,
    InvalidConfig,
    ModelFailed,
    NotFound,
    UnknownModel,
)
from compact.messages import clock_and_ids
from compact.messages.asking import PATIENCE, Patience
from compact.messages.events import Event
from compact.messages.formats.known import format_instead, format_named
from compact.messages.formats.wire import WireFormat
from compact.messages.messages import Message
from compact.messages.policy import CompactPolicy, TierSettings
from compact.messages.protocols import (
    ChatModel,
    Emit,
    ReadsAhead,
    ReadsAtOnce,
    SessionStore,
    StorageAdapter,
    Summarizer,
    TokenEstimator,
)
from compact.messages.sessions import DEFAULT_SCOPE, FIXED, Branch, Run, Session, Shown
from compact.messages.tokens import TokenCounter
from compact.models.effective_settings import Setting
from compact.models.model_keys import format_for
from compact.models.profiles import ModelBook, shipped
from compact.secrets.redactor import NOTHING_ELSE, Redactor
from compact.session import history, running
from compact.session.entering import new_branch
from compact.session.prompt_overhead import checked_size, parts_beside
from compact.session.prompting import Prompting, mode_in
from compact.session.running import delivered_on_loop
from compact.session.state import NEWEST_MOVES, SessionState
from compact.text.prompts import PromptParts

if TYPE_CHECKING:
    from compact.memory.memory_manager import MemoryManager

LEAST_WINDOW = 64
"""The smallest allowed window, in tokens. A smaller one could not hold a message."""
SOON = 5.0
"""How long to wait for a server to say a model's window before a session is opened, in seconds."""
FORMAT_NOTE = "format"
"""The name of the note with the format that a session changed to while it had only texts."""
PAGE = 256
"""How many messages to read at once."""


class SessionOptions(TypedDict, total=False):
    """Options of a `ContextManager` other than model, window and store."""

    system: str | Sequence[Mapping[str, Any]] | None
    """A system prompt that you send in its own field. It is counted and never changed."""
    tools: Sequence[Mapping[str, Any]] | None
    """Tool schemas that you send with each request. They are counted and never changed."""
    tokenizer: str | TokenEstimator | None
    """`o200k`, `cl100k`, `claude`, `chars`, or your own tokenizer. Default: the model's."""
    format: str | None
    """The wire format of message dictionaries: `chat_completions`, `anthropic`, `responses` or
    `ollama`. A session keeps its format, unless it has only texts. Then, without this option, it
    changes to the format of the first message that fits only one format."""
    prompt: PromptParts | None
    """The parts of a system prompt, which is assembled for the mode and within the budget of the
    window's tier. It comes before the history's own system messages."""
    user_mode: str | Path | None
    """The file with the texts of the mode `user`."""
    tiers: Mapping[int, TierSettings] | None
    """Tier number → settings for that tier. A tier is a class of window sizes."""
    models: ModelBook | None
    """The known facts about models. Default: the built-in book."""
    policy: CompactPolicy | None
    """What is kept, and when and how far to compress. Default: `CompactPolicy()`."""
    summarizer: str | ChatModel | Sequence[str | ChatModel] | Summarizer | None
    """What writes the summaries. `model` (default): the session's own model if it can be called and
    is good enough, else code. `extractive`: code. Or a model or its key (`ollama:qwen3:8b`);
    several, tried in this order; your own object; or None for only a receipt."""
    fallbacks: Sequence[str | ChatModel] | None
    """Models to ask, in this order, if the asked model does not answer."""
    patience: Patience | None
    """How long to keep asking models given by key, for answers and for summaries."""
    memory: bool | MemoryManager | None
    """Where to find old turns to quote before the user's newest message, if it is about them. True:
    the session's own store. Or a memory of the same scope. Default: nothing is quoted."""
    recall_tokens: int | None
    """How many tokens to quote per message. Default: a tenth of the window, at most 1,000."""
    archive: str | Path | StorageAdapter | None
    """Where to keep copies, without secrets, of what compressions take out of prompts: a folder,
    `s3://BUCKET/PREFIX`, or your own adapter."""
    redactor: Redactor | None
    """Finds secrets in addition to those always redacted, in all copies made of the session."""
    on_event: Callable[[Event], None] | None
    """Called with each event, in order. The `emit` of an `EventBus` hands them to exporters."""
    session_id: str
    """Opens the session with that id if the store has it, else creates it."""
    scope: str
    """The user, tenant or project that the session belongs to. Default: `default`, for one person.
    A session of another scope is never opened."""
    title: str | None
    """The title of a new session."""


MOST_AHEAD = 64
"""How many pages of messages to read ahead at an opening, the newest ones."""
DEFAULTS: Mapping[str, object] = {"summarizer": wiring.OWN, "scope": DEFAULT_SCOPE}
"""Defaults of options that are not None."""


def opened(
    own: wiring.Model | None,
    window: int | None,
    store: str | Path | SessionStore | None,
    options: SessionOptions,
    reads: ExitStack,
) -> tuple[SessionState, int]:
    """Return the requested session, created if the store has none, and its window in tokens. Until
    `reads` is left, nothing is asked twice of a store that is far away.

    Raises:
        InvalidConfig, UnknownModel, InvalidArgument: an option is wrong, or the stored session has
            another format or scope.
        StoreFailed: the store cannot be opened.
    """
    model = None if own is None else wiring.key_of(own)
    setting = Setting(
        book=options.get("models") or shipped(), model=model, tiers=options.get("tiers") or {}
    )
    least = LEAST_WINDOW
    given_size = None if window is None else checked_size("window", window, least=least)
    window = found_for(setting) if given_size is None else given_size
    size = setting.size(window)
    # refused before the store is opened
    setting.policy(options.get("policy") or CompactPolicy(), size)
    asked = format_named(options.get("format") or format_for(model))
    otherwise = None if window is None else "chars"
    counter = _counter(asked.name, options, model, otherwise)
    # refused before the store is opened
    wiring.summarizer(options.get("summarizer"), counter, book=setting.book)
    setting = replace(setting, summarizer=_writers(options, own, setting).first)
    for key in options.get("fallbacks") or ():
        wiring.chat_model(key)  # also refused before the store is opened
    opened_store = wiring.session_store(store, options.get("scope", DEFAULT_SCOPE))
    owns = store is None or isinstance(store, str | Path)
    try:
        if isinstance(opened_store, ReadsAtOnce) and (name := options.get("session_id")):
            reads.enter_context(opened_store.at_once())
            if isinstance(opened_store, ReadsAhead):
                _read_ahead(opened_store, name, size)
        session = _session_in(opened_store, options, asked.name, counter, model)
        if session.wire != asked.name:
            counter = _counter(session.wire, options, model, otherwise)
        state = _state(opened_store, session, options, counter, setting, own, size)
    except BaseException:
        if owns:
            opened_store.close()
        raise
    return state, size


def _read_ahead(store: ReadsAhead, session_id: str, size: int) -> None:
    """Ask in two round trips for what opening a session reads."""
    own = cast("SessionStore", store)
    store.read_ahead(
        partial(store.newest, session_id, size),  # first: what comes later is seen as a change
        *(partial(ask, session_id) for ask in (own.session, own.notes, own.branches, own.changes)),
        partial(own.moves, session_id, size, most=NEWEST_MOVES),
    )
    try:
        branch = own.session(session_id).branch
    except NotFound:
        return
    projection, end = store.newest(session_id, size), branch.messages
    places = list(range(projection.at if projection else 0, end))
    for piece in projection.pieces if projection else ():
        if isinstance(piece, Run):
            places += range(piece.first, piece.last + 1)
        elif isinstance(piece, Shown) and piece.position is not None:
            places.append(piece.position)
    pages = sorted({place - place % history.PAGE for place in places})[-MOST_AHEAD:]
    store.read_ahead(
        partial(own.marked, branch.id, FIXED, before=end, most=history.MOST_FIXED),
        partial(own.read, branch.id, end, end + history.NEWLY_READ),
        *(partial(own.read, branch.id, page, page + history.PAGE) for page in pages),
    )


async def found_window(model: str) -> int | None:
    """Return a model's window in tokens, as its server says; None if it does not say.

    Raises:
        UnknownModel: the key names no provider.
        ModelFailed: the server cannot be asked.
    """
    asked = wiring.chat_model(model, timeout=SOON)
    try:
        limits = await asked.limits()
    finally:
        if (close := getattr(asked, "aclose", None)) is not None:
            await close()
    return limits.window or limits.default or limits.trained


def found_for(setting: Setting) -> int | None:
    """Return the window of a setting's model, as its server says. None if the window is known
    already, or the server cannot be asked now.
    """
    if setting.model is None:
        return None
    profile = setting.book.profile_of(setting.model)
    if profile is not None and profile.window is not None:
        return None
    with suppress(UnknownModel, ModelFailed, BlockingCallInLoop):
        return running.run(found_window(setting.model), waits=True, instead="…")
    return None


def _counter(
    wire: str, options: SessionOptions, model: str | None, otherwise: str | None
) -> TokenCounter:
    tokenizer = options.get("tokenizer")
    return wiring.token_counter(wire, tokenizer=tokenizer, model=model, otherwise=otherwise)


def _session_in(
    store: SessionStore,
    options: SessionOptions,
    wire: str,
    counter: TokenCounter,
    model: str | None,
) -> Session:
    """Return the store's session with that id, created if there is none.

    Raises:
        InvalidConfig: it has another format, or belongs to another scope.
    """
    session_id = options.get("session_id") or clock_and_ids.new_id()
    scope = options.get("scope") or DEFAULT_SCOPE
    try:
        session = store.session(session_id)
    except NotFound:
        new = Session(
            id=session_id,
            scope=scope,
            title=options.get("title"),
            model=model,
            wire=wire,
            tokenizer=counter.estimator.name,
            branch=new_branch(store, session_id),
        )
        session = store.session(session_id, create=new)
    if session.scope != scope:
        raise InvalidConfig(
            "scope",
            f"the session {session_id!r} of this store does not belong to {scope!r}: "
            "give the scope that it was made with, or another session_id",
        )
    return _in_format(store, session, wire if options.get("format") else None)


def _in_format(store: SessionStore, session: Session, asked: str | None) -> Session:
    """Return the session in its present format, or in the requested one if everything in it reads
    the same there, as texts do.

    Raises:
        InvalidConfig: it does not.
    """
    begun, noted = session.wire, store.notes(session.id).get(FORMAT_NOTE)
    if noted is not None:
        session = session.model_copy(update={"wire": noted["wire"]})
    if asked in (None, begun, session.wire):
        return session
    if not _reads_the_same(store, session.branch, format_named(asked)):
        raise InvalidConfig(
            "format",
            f"the session {session.id!r} is in {session.wire!r}, not in {asked!r}: "
            "leave format out, or give another session_id",
        )
    store.note(session.id, FORMAT_NOTE, {"wire": asked})
    return session.model_copy(update={"wire": asked})


def _reads_the_same(store: SessionStore, branch: Branch, wire: WireFormat) -> bool:
    """Return whether another format reads everything on a branch the same."""
    return all(
        wire.reads_the_same(message)
        for start in range(0, branch.messages, PAGE)
        for message, *_ in store.read(branch.id, start, start + PAGE)
    )


class OtherFormat(NamedTuple):
    """A message that does not fit a session's format."""

    place: int
    """Its place in the given list."""
    name: str
    """The format that it has."""


def other_format(
    state: SessionState, given: Sequence[Message | Mapping[str, Any]]
) -> OtherFormat | None:
    """Return the first of these messages that does not fit the session's format, or None."""
    name = state.wire.name
    for place, message in enumerate(given):
        if not isinstance(message, Message) and (other := format_instead(message, name)):
            return OtherFormat(place, other)
    return None


def may_be_in(state: SessionState, name: str) -> bool:
    """Return whether everything in a session reads the same in another format."""
    branch = state.store.branch(state.branch_id)
    return _reads_the_same(state.store, branch, format_named(name))


def _state(
    store: SessionStore,
    session: Session,
    options: SessionOptions,
    counter: TokenCounter,
    setting: Setting,
    own: wiring.Model | None,
    size: int,
) -> SessionState:
    parts_beside(counter, options.get("system"), options.get("tools"))  # refuses wrong tools now
    policy = options.get("policy") or CompactPolicy()
    if "summarizer" in options and options["summarizer"] is None:
        policy = policy.model_copy(update={"strategy": "off"})
    wire = format_named(session.wire)
    emit = wiring.emitter(options.get("on_event"), session_id=session.id)
    emit = emit if emit is wiring.ignore_event else delivered_on_loop(emit)
    redactor = wiring.with_listener(options.get("redactor") or NOTHING_ELSE, emit)
    archive = None
    if (adapter := wiring.storage_adapter(options.get("archive"))) is not None:
        from compact.session.archiving import Archive

        archive = Archive(adapter, store, session.id, emit, redactor)
        emit = archive.emit

    choose = _choosing(options, counter, setting, policy, emit)
    writers, summarizer = choose(own, size)
    state = SessionState(
        id=session.id,
        store=store,
        wire=wire,
        counter=counter,
        policy=policy,
        setting=setting,
        writers=writers,
        summarizer=summarizer,
        choose=choose,
        emit=emit,
        prompting=_prompting(wire, options),
        tokenizer=session.tokenizer,
        archive=archive,
        redactor=redactor,
        recall=_recall(store, session.scope, options, redactor),
    )
    state.prompting.mode(policy.mode)  # refuses an unknown mode now
    state.open(session.branch)
    return state


def _choosing(
    options: SessionOptions,
    counter: TokenCounter,
    setting: Setting,
    policy: CompactPolicy,
    emit: Emit,
) -> Callable[[wiring.Model | None, int], tuple[wiring.Writers, Summarizer]]:
    """Return a function that finds what writes summaries, for a model and its window."""

    def chosen(own: wiring.Model | None, size: int) -> tuple[wiring.Writers, Summarizer]:
        writers = _writers(options, own, setting)
        return writers, wiring.summarizer(
            writers.row,
            counter,
            book=setting.book,
            emit=emit,
            patience=options.get("patience") or PATIENCE,
            policy=policy,
            size=size if writers.own else None,
        )

    return chosen


def _recall(
    store: SessionStore, scope: str, options: SessionOptions, redactor: Redactor
) -> wiring.TurnRecall | None:
    memory, tokens = options.get("memory"), options.get("recall_tokens")
    tokens = None if tokens is None else checked_size("recall_tokens", tokens)
    if memory is None or memory is False:
        return None
    return wiring.TurnRecall(memory, store, scope=scope, tokens=tokens, redactor=redactor)


def _prompting(wire: WireFormat, options: SessionOptions) -> Prompting:
    return Prompting(
        wire,
        RequestExtras.of(options.get("system"), options.get("tools")),
        parts=options.get("prompt"),
        own_mode=mode_in(options.get("user_mode")),
        tiers=options.get("tiers"),
    )


def _writers(options: SessionOptions, own: wiring.Model | None, setting: Setting) -> wiring.Writers:
    return wiring.writers(options.get("summarizer", wiring.OWN), own, setting.book)
