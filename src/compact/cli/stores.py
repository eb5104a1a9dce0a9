"""Finds and opens the store and its sessions for commands.

Reading never creates a store. A session is named by its id, or by a unique prefix of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from compact import wiring
from compact.cli.options import (
    SettingsOptions,
    Store,
    Tokenizer,
    argument,
    number_option,
    text_option,
)
from compact.cli.settings import name_of_store, settings_of
from compact.config import CompactConfig, did_you_mean
from compact.errors import CompactError, InvalidConfig, InvalidTranscript, NotFound, StoreFailed
from compact.files import is_file, named_path
from compact.messages.events import Event
from compact.messages.goals import Goal, GoalStatus
from compact.messages.messages import SHORT_ID
from compact.messages.protocols import SessionStore, StorageAdapter
from compact.messages.sessions import CHAT_NOTE, DEFAULT_SCOPE, Branch, Session
from compact.models.effective_settings import DEFAULT_WINDOW

if TYPE_CHECKING:
    from compact.memory.memory_manager import MemoryManager
    from compact.session.context_manager import ContextManager


@dataclass(frozen=True, kw_only=True)
class StoreOptions(SettingsOptions):
    """Options of commands with a store."""

    store: Store = None
    scope: Annotated[
        str | None,
        text_option(
            "NAME", "Whose sessions: a user, tenant or project. Default: default; lists show all."
        ),
    ] = None


def session_ids(context: typer.Context, typed: str) -> list[str]:
    """Return the session ids that begin with the typed text, for completion in a shell."""
    values = context.params
    options = StoreOptions(
        store=values.get("store"), scope=values.get("scope"), config=values.get("config")
    )
    try:
        with opened(options) as catalog:
            return [session.id for session in catalog.sessions() if session.id.startswith(typed)]
    except (CompactError, OSError):  # completion prints no errors in the middle of a command line
        return []


@dataclass(frozen=True, kw_only=True)
class OneSessionOptions(StoreOptions):
    """Options of commands about one session."""

    session: Annotated[
        str, argument("SESSION", "A session's id, or a unique prefix of it.", session_ids)
    ]


@dataclass(frozen=True, kw_only=True)
class OpenOptions(OneSessionOptions):
    """Options of commands that open a session."""

    window: Annotated[
        int | None, number_option("The model's window. Default: the settings', else the last one.")
    ] = None
    tokenizer: Tokenizer = None


@dataclass(frozen=True)
class SessionCatalog:
    """An open store, its name, and the scope whose sessions are visible."""

    store: SessionStore
    file: str
    settings: CompactConfig
    scope: str | None = None
    """The scope in the options. Without one, lists show all scopes, and only sessions of the
    default scope can be opened."""

    def sessions(self) -> list[Session]:
        """Return the visible sessions. The newest comes first."""
        return [self._with_model(each) for each in self.store.sessions(scope=self.scope)]

    def _with_model(self, session: Session) -> Session:
        model = self.store.notes(session.id).get(CHAT_NOTE, {}).get("model")
        return session.model_copy(update={"model": model}) if model else session

    def find(self, name: str) -> Session:
        """Return the session with this id or unique prefix."""
        scope = self.scope or DEFAULT_SCOPE
        with suppress(NotFound):
            session = self.store.session(name)
            if session.scope == scope:
                return self._with_model(session)
        ids = [session.id for session in self.store.sessions(scope=scope)]
        where = f"{self.file}, scope {scope!r}"
        try:
            session = self.store.session(one_of(name, ids, what="session", where=where))
            return self._with_model(session)
        except NotFound as error:
            if self.scope or len(ids) == len(self.sessions()):
                raise
            other = next((s.scope for s in self.sessions() if s.id == name), "NAME")
            raise NotFound(f"{error}; to look in another scope: --scope {other}") from None

    def branch(self, session: Session, name: str | None) -> Branch:
        """Return a branch of the session. Without a name, return the open branch."""
        if name is None:
            return session.branch
        ids = [branch.id for branch in self.store.branches(session.id)]
        where = f"session {session.id!r}"
        return self.store.branch(one_of(name, ids, what="branch", where=where))

    def known_window_of(self, session: Session) -> int | None:
        """Return the window in tokens, or None if it is unknown. It is the window in the settings,
        else the session's last window, else its model's window.
        """
        window = self.settings.window()
        if window is not None:
            return window.size
        moves = self.store.moves(session.id, None, most=1)
        if moves:
            return moves[0].window
        profile = self.settings.book().profile_of(session.model or "")
        return profile.window if profile else None


def one_of(name: str, known: Sequence[str], *, what: str, where: str) -> str:
    """Return the known id that equals the name, or the only id that begins with the name."""
    if name in known:
        return name
    near = [each for each in known if name and each.startswith(name)]
    if len(near) == 1:
        return near[0]
    if near:
        raise NotFound(f"{len(near)} {what} ids begin with {name!r}: {_some(near)}")
    hint = did_you_mean(name, known)
    hint = hint or (f"; there are {_some(known)}" if known else "; there is none at all")
    raise NotFound(f"no {what} {name!r} in {where}{hint}")


def _some(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:5])) + (" …" if len(names) > 5 else "")


def meant(ctx: ContextManager, name: str) -> str:
    """Return the id of the message that the user named. The name is an id, a number (-1 is the
    last), or the first eight characters of an id, as texts show it. `ck-…` names a checkpoint.
    """
    if name.startswith("ck-"):
        ids = [checkpoint.id for checkpoint in ctx.store.checkpoints(ctx.id)]
        return one_of(name, ids, what="checkpoint", where=f"session {ctx.id!r}")
    history = ctx.history
    digits = name.removeprefix("-")
    is_number = len(digits) <= 18 and digits.isascii() and digits.isdigit()
    if history.position_of(name) is None and is_number:
        number = int(name)
        if -len(history) <= number < len(history):
            return history[number].id
    if len(name) == SHORT_ID and history.position_of(name) is None:
        return next((each.id for each in history if each.id.startswith(name)), name)
    return name


def goals_with(
    ctx: ContextManager, added: Iterable[str], ended: Mapping[str, GoalStatus]
) -> list[Goal]:
    """Return a session's goals with new ones, and with some ended: their ids, or unique prefixes of
    them → how they ended. Empty texts are left out.
    """
    ids, where = [goal.id for goal in ctx.goals], f"session {ctx.id!r}"
    status = {one_of(name, ids, what="goal", where=where): how for name, how in ended.items()}
    goals = (
        goal.model_copy(update={"status": status.get(goal.id, goal.status)}) for goal in ctx.goals
    )
    return [*goals, *(Goal(text=text.strip()) for text in added if text.strip())]


@contextmanager
def opened(
    options: StoreOptions, *, create: bool = False, **own: object
) -> Iterator[SessionCatalog]:
    """Open the store for the block. `own` holds options that only one command has."""
    settings = settings_of(options, **own)
    file = name_of_store(settings)
    if create and settings.store is None:
        _make_folder(Path(file).parent)
    try:
        store = wiring.store_at(file, create=create)
    except NotFound as error:
        raise NotFound(
            f"{error}: name one with --store FILE (or COMPACT_STORE), or make one with: "
            "compactctl sessions import FILE, compactctl migrate PATH or compactctl chat"
        ) from None
    try:
        yield SessionCatalog(store, wiring.shown_name(file), settings, options.scope)
    finally:
        store.close()


def _make_folder(folder: Path) -> None:
    """Create the folder, readable only by its owner, and make Git ignore it."""
    try:
        folder.mkdir(mode=0o700)
        (folder / ".gitignore").write_text("*\n", encoding="ascii")
    except FileExistsError:
        return
    except OSError as error:
        raise StoreFailed(f"{folder} cannot be made: {error.strerror or error}") from None


@contextmanager
def to_read(options: OpenOptions) -> Iterator[ContextManager]:
    """Open a session for the block, for reading. The name may be that of a file with a
    conversation, which is then read into memory.
    """
    file = named_path(options.session)
    if not is_file(file):
        with entered(options) as (_, ctx):
            yield ctx
        return
    catalog = catalog_of_file(file, settings_of(options))
    with closing(catalog.store):
        sessions = catalog.sessions()
        if len(sessions) > 1:
            raise InvalidTranscript(
                catalog.file,
                f"holds {len(sessions):,} conversations: make sessions of them with "
                "compactctl sessions import, and name one",
            )
        with context_of(catalog, sessions[0]) as ctx:
            yield ctx


def catalog_of_file(path: Path, settings: CompactConfig, *, masks: bool = False) -> SessionCatalog:
    """Return the conversations of a file as sessions in memory. With `masks`, secrets are removed.

    Raises:
        InvalidTranscript: the file holds no conversation that can be read.
    """
    from compact.exchange import exporting, importing, sources

    store, reason = wiring.session_store(":memory:"), InvalidTranscript(str(path), "holds nothing")
    for found in sources.conversations_in(sources.SourceFile(path, is_named=True)):
        if isinstance(found.read, InvalidTranscript):
            reason = found.read
            continue
        read = found.read
        if masks:
            read = exporting.without_secrets(read, settings.redactor())
        id = read.session.id
        if any(session.id == id for session in store.sessions()):
            id = f"{id}-{found.number}"
        importing.put(store, importing.as_new(read, store, settings, session_id=id))
    if not store.sessions():
        raise reason
    return SessionCatalog(store, str(path), settings)


@contextmanager
def entered(
    options: OpenOptions, *, on_event: Callable[[Event], None] | None = None, **own: object
) -> Iterator[tuple[SessionCatalog, ContextManager]]:
    """Open the session and its store for the block. The session's events also go to the exporters
    in the settings, and its compressions to the archive in the settings.
    """
    with opened(options, create=False, **own) as catalog:
        session, settings = catalog.find(options.session), catalog.settings
        archive = wiring.storage_adapter(settings.archive, kms_key=settings.archive_kms_key)
        with (
            closing(wiring.event_bus(settings, listener=on_event)) as bus,
            context_of(catalog, session, archive=archive, on_event=bus.emit) as ctx,
        ):
            yield catalog, ctx


def memory_of(catalog: SessionCatalog, scope: str | None = None) -> MemoryManager:
    """Return the memory of a scope. The default is the catalog's scope, else the default scope."""
    from compact.memory.memory_manager import MemoryManager

    chosen = scope or catalog.scope or DEFAULT_SCOPE
    return MemoryManager(catalog.store, scope=chosen, settings=catalog.settings)


def context_of(
    catalog: SessionCatalog,
    session: Session,
    *,
    window: int | None = None,
    recall: bool = False,
    archive: StorageAdapter | None = None,
    on_event: Callable[[Event], None] | None = None,
) -> ContextManager:
    """Open the session with its own tokenizer and tool schemas, and the policy in the settings.
    With `recall`, or if the settings say so, old turns are quoted before the newest message.
    """
    from compact.session.context_manager import ContextManager  # listing sessions opens no session

    settings = catalog.settings
    tokenizer = settings.tokenizer or session.tokenizer
    if not wiring.names_tokenizer(tokenizer):
        if settings.tokenizer:
            raise InvalidConfig("tokenizer", f"no tokenizer named {tokenizer!r}")
        tokenizer = wiring.token_counter_of(settings, session.wire).estimator.name
    tools = session.metadata.get("tools")
    return ContextManager(
        window=window or catalog.known_window_of(session) or DEFAULT_WINDOW,
        store=catalog.store,
        session_id=session.id,
        scope=session.scope,
        tokenizer=tokenizer,
        format=session.wire,
        tools=tools if isinstance(tools, list) else None,
        policy=settings.policy(),
        summarizer=settings.summarizers(),
        models=settings.book(),
        tiers=settings.tiers,
        memory=memory_of(catalog, session.scope) if recall or settings.memory else None,
        recall_tokens=settings.recall_tokens,
        archive=archive,
        redactor=settings.redactor(),
        on_event=on_event,
    )
