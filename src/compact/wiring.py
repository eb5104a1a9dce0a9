"""Wiring turns names into objects, such as tokenizers, models, stores and exporters.

Only this module names adapters. It resolves the choices of an application: a model key,
`tokenizer="o200k"`, a file. Other modules never look up adapters by name. Most adapters are
imported at their first use, because compressing a list of messages needs none of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeGuard, cast

from compact.engine.chronology.extractive import ExtractiveSummarizer
from compact.errors import InvalidArgument, NotFound, StoreFailed, UnknownModel
from compact.files import named_path
from compact.messages.asking import PATIENCE, Patience
from compact.messages.events import ErrorRaised, Event, RedactionOff
from compact.messages.formats.known import format_named
from compact.messages.policy import CompactPolicy
from compact.messages.protocols import (
    ChatModel,
    Emit,
    SessionStore,
    StorageAdapter,
    Summarizer,
    TokenEstimator,
)
from compact.messages.reliability import SMALL
from compact.messages.tokens import CLAUDE_FRAMING, TokenCounter
from compact.models.model_keys import parse_key
from compact.models.profiles import ModelBook, profile_of, shipped
from compact.models.provider_table import PROVIDERS
from compact.models.providers import tokenizers
from compact.secrets.redactor import Redactor

if TYPE_CHECKING:
    from compact.config import CompactConfig
    from compact.memory.memory_manager import MemoryManager as MemoryManager
    from compact.memory.turn_recall import TurnRecall as TurnRecall
    from compact.models.providers.answers import answer_in as answer_in
    from compact.models.providers.answers import pieces_of as pieces_of
    from compact.models.providers.answers import served_limits as served_limits
    from compact.models.providers.clients import check_package as check_package
    from compact.models.providers.clients import how_to_install as how_to_install
    from compact.models.providers.clients import is_here as is_here
    from compact.models.providers.clients import key_for as key_for
    from compact.models.providers.clients import leads_to as leads_to
    from compact.models.providers.embedders import TypedEmbedder as TypedEmbedder
    from compact.models.providers.embedders import embedder as embedder
    from compact.models.providers.ollama_chat import ollama_models as ollama_models
    from compact.store.postgres.queue import JobQueue as JobQueue
    from compact.store.postgres.store import PostgresStore as PostgresStore
    from compact.store.sqlite.backup import put_back as put_back
    from compact.store.sqlite.backup import put_to_work as put_to_work
    from compact.store.sqlite.migrations import MIGRATIONS as MIGRATIONS
    from compact.store.sqlite.repair import RepairReport as RepairReport
    from compact.store.sqlite.repair import repair
    from compact.store.sqlite.store import SQLiteManager as SQLiteManager
    from compact.store.sqlite.vector_store import Backend
    from compact.store.sqlite.vector_store import VectorStore as VectorStore
    from compact.telemetry.bus import EventBus
    from compact.transcripts import boundaries, documents, reading, writing, zipped
    from compact.transcripts.documents import Document
    from compact.transcripts.tails import Since
    from compact.transcripts.transcript import Transcript as Transcript

    read_file, read_stream = documents.bytes_of, documents.all_of
    is_zip, zipped_files = zipped.is_zip, zipped.files_in
    each_transcript = reading.each
    repair_store, write_transcript = repair, writing.write
    boundary_reader, find_transcripts = boundaries.Reader, boundaries.find
    has_compaction, transcript_homes = boundaries.has_compaction, boundaries.homes

_LOADED_LATE = {
    "MemoryManager": "memory.memory_manager:MemoryManager",
    "MIGRATIONS": "store.sqlite.migrations:MIGRATIONS",
    "TurnRecall": "memory.turn_recall:TurnRecall",
    "TypedEmbedder": "models.providers.embedders:TypedEmbedder",
    "answer_in": "models.providers.answers:answer_in",
    "boundary_reader": "transcripts.boundaries:Reader",
    "check_package": "models.providers.clients:check_package",
    "each_transcript": "transcripts.reading:each",
    "embedder": "models.providers.embedders:embedder",
    "find_transcripts": "transcripts.boundaries:find",
    "has_compaction": "transcripts.boundaries:has_compaction",
    "how_to_install": "models.providers.clients:how_to_install",
    "is_here": "models.providers.clients:is_here",
    "is_zip": "transcripts.zipped:is_zip",
    "key_for": "models.providers.clients:key_for",
    "leads_to": "models.providers.clients:leads_to",
    "ollama_models": "models.providers.ollama_chat:ollama_models",
    "pieces_of": "models.providers.answers:pieces_of",
    "put_back": "store.sqlite.backup:put_back",
    "put_to_work": "store.sqlite.backup:put_to_work",
    "read_file": "transcripts.documents:bytes_of",
    "read_stream": "transcripts.documents:all_of",
    "repair_store": "store.sqlite.repair:repair",
    "served_limits": "models.providers.answers:served_limits",
    "transcript_homes": "transcripts.boundaries:homes",
    "write_transcript": "transcripts.writing:write",
    "zipped_files": "transcripts.zipped:files_in",
}
"""Public name → the module that defines it, for adapters and the memory. Each is loaded on first
use. The memory's package depends on the sessions' package, so it is named here and not imported."""


def __getattr__(name: str) -> object:
    if name not in _LOADED_LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, _, own = _LOADED_LATE[name].partition(":")
    return getattr(import_module(f"compact.{module}"), own)


TOKENIZERS = tokenizers.NAMES
"""The names of all tokenizers."""

_counters: dict[tuple[str, str], TokenCounter] = {}


def token_counter(
    wire: str,
    *,
    tokenizer: str | TokenEstimator | None = None,
    model: str | None = None,
    otherwise: str | None = None,
) -> TokenCounter:
    """Return the counter for messages of a wire format.

    The tokenizer is `tokenizer`, else the model's, else the format's: exact `o200k` for chat
    completions and Responses items, the `claude` estimate for Anthropic messages, `chars` for
    Ollama's. `otherwise` is the tokenizer for unknown models. Counters of named tokenizers are
    shared, so that each text is counted once. A tokenizer's own `framing` replaces the format's.

    Raises:
        UnknownModel: there is no such tokenizer, or the model is unknown and `otherwise` is None.
    """
    framing = format_named(wire).framing
    if tokenizer is not None and not isinstance(tokenizer, str):
        return TokenCounter(tokenizer, getattr(tokenizer, "framing", framing))
    name = tokenizer or _tokenizer_for(wire, model, otherwise)
    counter = _counters.get((name, wire))
    framing = CLAUDE_FRAMING if name == "claude" else framing
    if counter is None:
        chosen = tokenizers.tokenizer(name)
        framing = getattr(chosen, "framing", framing)
        counter = _counters[name, wire] = TokenCounter(chosen, framing)
    return counter


def _tokenizer_for(wire: str, model: str | None, otherwise: str | None) -> str:
    if not model:
        return format_named(wire).tokenizer
    if otherwise is not None and profile_of(model) is None:
        return otherwise
    return tokenizers.tokenizer_of_model(model)


def names_tokenizer(name: str) -> bool:
    """Return whether a name means a tokenizer: one of `TOKENIZERS`, or a `tokenizer.json`."""
    return name in TOKENIZERS or name.endswith(".json")


def token_counter_of(settings: CompactConfig, wire: str) -> TokenCounter:
    """Return the counter that the settings choose for messages of a wire format.

    Raises:
        InvalidConfig: there is no such tokenizer, or the model's is unknown. The text names the
            setting and its source.
    """
    try:
        return token_counter(wire, tokenizer=settings.known_tokenizer(), model=settings.model)
    except UnknownModel as error:
        raise settings.wrong("tokenizer" if settings.tokenizer else "model", str(error)) from None


EXTRACTIVE, OWN = "extractive", "model"
"""Names of summarizers: the one that needs no model, and the session's own model. If that model
cannot be asked or writes no summaries, `OWN` means `EXTRACTIVE`."""
Model = str | ChatModel
"""A model's key, or an object that answers as a model."""
Chosen = Model | Sequence[Model] | Summarizer | None
"""What a caller may pass as `summarizer`."""


class Writers(NamedTuple):
    """The summarizers of a session."""

    row: Chosen
    """The argument for `summarizer`, in which the session's own model replaces `OWN`."""
    own: str = ""
    """The key of the session's own model. It is empty if that model writes no summaries."""
    why: str = ""
    """Why the session's own model writes no summaries. Empty if another summarizer was chosen."""

    @property
    def first(self) -> str | None:
        """The key of the model that is asked first. It is None if no model is asked."""
        first = self.row[0] if isinstance(self.row, list | tuple) else self.row
        is_one = is_model(first) and first not in (EXTRACTIVE, OWN)
        return key_of(cast("Model", first)) if is_one else None


def writers(chosen: Chosen, own: Model | None, book: ModelBook) -> Writers:
    """Return the summarizers for a session with the model `own`. That model writes if `OWN` is
    chosen, its API key and package are available, and its profile does not rule it out.
    """
    row: list[Any] = list(chosen) if isinstance(chosen, list | tuple) else [chosen]
    if OWN not in [choice for choice in row if isinstance(choice, str)] or own is None:
        return Writers(chosen)
    why = _not_asked(own, book)
    row = [own if choice == OWN else choice for choice in row if choice != OWN or not why]
    return Writers(row or EXTRACTIVE, "" if why else key_of(own), why)


def _not_asked(model: Model, book: ModelBook) -> str:
    """Return why a session's own model is not asked for summaries. It is empty if it is asked."""
    from compact.models.providers.clients import unaskable

    try:
        return book.unfit(key_of(model)) or (unaskable(model) if isinstance(model, str) else "")
    except UnknownModel as error:
        return str(error)


def key_of(model: Model) -> str:
    """Return the key of a model."""
    return model if isinstance(model, str) else model.name


def is_model(given: object) -> TypeGuard[Model]:
    """Return whether a value is a model's key or a model."""
    return isinstance(given, str) or callable(getattr(given, "complete", None))


def summarizer(
    chosen: Chosen,
    counter: TokenCounter,
    *,
    book: ModelBook | None = None,
    emit: Emit | None = None,
    patience: Patience = PATIENCE,
    policy: CompactPolicy | None = None,
    size: int | None = None,
) -> Summarizer:
    """Return the summarizer for a choice.

    For None or `extractive`, code writes. Otherwise models write; several are asked in order.
    Outside a session `OWN` is skipped (`writers`). The policy limits the time for one request and
    for one summary. `size` is the window in tokens if neither profile nor server names one.

    Raises:
        UnknownModel: a key names no model.
    """
    row: list[Any] = list(chosen) if isinstance(chosen, list | tuple) else [chosen]
    if not row:
        raise InvalidArgument("summarizer", "summarizer is an empty list: name a model in it")
    if not isinstance(chosen, list | tuple) and chosen is not None and not is_model(chosen):
        return cast("Summarizer", chosen)
    models = [choice for choice in row if choice not in (None, EXTRACTIVE, OWN)]
    if row[0] == EXTRACTIVE or not models:
        return ExtractiveSummarizer(counter)
    return _model_summarizer(models, book, emit, patience, policy or CompactPolicy(), size)


def _model_summarizer(
    models: Sequence[Model],
    known_models: ModelBook | None,
    emit: Emit | None,
    patience: Patience,
    policy: CompactPolicy,
    size: int | None,
) -> Summarizer:
    # The summarizer's requests must fit the smallest window of all these models.
    from compact.engine.stories.abstractive import UNSAID_WINDOW, Manner, ModelSummarizer

    book, keys = known_models or shipped(), list(map(key_of, models))
    if policy.summary_request_seconds < patience.each:
        seconds = policy.summary_request_seconds
        patience = replace(patience, each=seconds, setting="summary_request_seconds")
    patience = replace(patience, attempts=min(2, patience.attempts), asks_down_again=False)
    try:
        model = asked_model(models, emit, patience, book)
    except UnknownModel as error:
        raise UnknownModel(f"no such summarizer: {error}; or write 'extractive'") from None
    windows = [book.window_of(key) for key in keys if _window_is_known(key, book)]
    known = min(windows) if len(windows) == len(keys) else None
    counter = token_counter("chat_completions", model=keys[0], otherwise="chars")
    reserves = [book.output_reserve_of(key, known) for key in keys] if known else [0]
    manner = Manner(
        is_small=any(book.parameters_of(key).billions < SMALL for key in keys),
        unsaid=size or UNSAID_WINDOW,
        emit=emit,
        clock=time.monotonic,
        limit=policy.summary_seconds,
    )
    return ModelSummarizer(model, counter, window=known, reserve=max(reserves), manner=manner)


def _window_is_known(key: str, book: ModelBook) -> bool:
    profile = book.profile_of(key)
    return profile is not None and profile.window is not None


def asked_model(
    chosen: Sequence[str | ChatModel],
    emit: Emit | None,
    patience: Patience = PATIENCE,
    known_models: ModelBook | None = None,
) -> ChatModel:
    """Combine models into one that asks them in order, and asks a model again where that may help.

    Raises:
        UnknownModel: a key names no model.
    """
    from compact.models.providers.fallback_model import FallbackModel

    longest, book = max(TIMEOUT, patience.each), known_models or shipped()
    models = [chat_model(each, timeout=longest) for each in chosen]
    named = [model.name for model in models]
    windows = {name: book.window_of(name) for name in named if _window_is_known(name, book)}
    return FallbackModel(models, patience, windows=windows, emit=emit)


TIMEOUT = 600.0
"""The default of the longest time for one answer, in seconds."""


def chat_model(
    key: str | ChatModel, *, timeout: float = TIMEOUT, api_key: str | None = None
) -> ChatModel:
    """Build the model for a key (`models.model_keys`). A model is returned unchanged.

    `timeout` is in seconds, for one answer. `api_key` is sent to the address in the model's key. By
    default the environment's API key is used; it is sent only to the address that it belongs to.
    The client's package is imported with the first request.

    Raises:
        UnknownModel: the text is not a key. The error says how to write keys.
        InvalidArgument: `api_key` is given for a model that needs none.
    """
    if not isinstance(key, str):
        if api_key is not None:
            raise InvalidArgument("api_key", "api_key is for a model's key, and this is a model")
        return key
    named = parse_key(key)
    provider = PROVIDERS[named.provider]
    module, _, adapter = provider.adapter.partition(":")
    made = getattr(import_module(f"compact.models.providers.{module}"), adapter)
    if provider.spoken is None:
        if api_key is not None:
            reason = f"api_key is for a server, and {named} runs in this process"
            raise InvalidArgument("api_key", reason)
        return cast("ChatModel", made(named.name, timeout=timeout))
    at = {"base_url": named.base_url, "api_key": api_key, "timeout": timeout}
    return cast("ChatModel", made(named.name, **at))


def session_store(
    store: str | Path | SessionStore | None, scope: str | None = None
) -> SessionStore:
    """Open the store in a file, or in PostgreSQL at `postgresql://…`. `:memory:` is a SQLite
    database in memory. None is a store of plain objects. An open store is returned unchanged. A
    store in PostgreSQL shows only the sessions of `scope`.

    Raises:
        StoreFailed: the file cannot be opened.
        InvalidArgument: the extra `postgres` is not installed.
    """
    if store is None:
        from compact.store.inmemory import InMemoryStore

        return InMemoryStore()
    if not isinstance(store, str | Path):
        return store
    if is_server(store):
        return _on_server(str(store), scope)
    from compact.store.sqlite.store import SQLiteManager

    return SQLiteManager(store)


def is_server(store: object) -> bool:
    """Whether the store is the address of a PostgreSQL server, and not a file."""
    return isinstance(store, str) and store.startswith(("postgresql://", "postgres://"))


def shown_name(store: str) -> str:
    """Return a store's name for display: an address without its password."""
    if not is_server(store):
        return store
    from compact.store.postgres.schema import without_password

    return without_password(store)


def _on_server(address: str, scope: str | None) -> SessionStore:
    return cast("PostgresStore", _of_postgres("store:PostgresStore")(address, scope=scope))


def set_up_server(address: str, *, citus: bool = False, role: str | None = None) -> Iterator[str]:
    """Make a server's tables, and yield a sentence on each step (`store.postgres.setup.set_up`)."""
    yield from _of_postgres("setup:set_up")(address, citus=citus, role=role)


def job_queue(address: str) -> JobQueue:
    """Return the jobs of a store on a server.

    Raises:
        InvalidArgument: it is no server, or the extra `work` is not installed.
    """
    if not is_server(address):
        reason = f"jobs need a store on a server (postgresql://…), and {address} is a file"
        raise InvalidArgument("store", reason)
    return cast("JobQueue", _of_postgres("queue:JobQueue", "work")(address))


def _of_postgres(name: str, extra: str = "postgres") -> Any:  # noqa: ANN401 - the adapter's
    module, _, own = name.partition(":")
    try:
        return getattr(import_module(f"compact.store.postgres.{module}"), own)
    except ImportError as missing:
        from compact.models.providers.clients import how_to_install

        what = {
            "postgres": "sessions in PostgreSQL need psycopg",
            "work": "jobs need procrastinate",
        }
        reason = f"{what[extra]}: {how_to_install(extra)}"
        raise InvalidArgument("store", reason) from missing


def memory_store(store: SessionStore, scope: str) -> SQLiteManager:
    """Return a store that has an index, as memory uses it. One on a server shows `scope` only."""
    within = getattr(store, "within_scope", None)
    return cast("SQLiteManager", store if within is None else within(scope))


def vector_store(store: SessionStore, backend: Backend = "rows") -> VectorStore:
    """Return the vector index of a store's messages, kept in the store's file or on its server.

    Raises:
        InvalidArgument: the store keeps no vectors, or the backend cannot be loaded.
    """
    if hasattr(store, "within_scope"):
        return cast("VectorStore", cast("PostgresStore", store).vectors)
    from compact.store.sqlite.store import SQLiteManager
    from compact.store.sqlite.vector_store import VectorStore

    if not isinstance(store, SQLiteManager):
        raise InvalidArgument(
            "embedder", "vectors are kept in a file or in PostgreSQL, and in no other store"
        )
    return VectorStore(store, backend=backend)


def storage_adapter(
    archive: str | Path | StorageAdapter | None, *, kms_key: str | None = None
) -> StorageAdapter | None:
    """Return the adapter for archives in a folder or at `s3://BUCKET/PREFIX`. In S3, archives are
    encrypted with the KMS key if one is given. An adapter is returned unchanged.

    Raises:
        InvalidArgument: the address names no bucket.
        ImportError: a package for that place is not installed; the text names it.
    """
    if archive is None or not isinstance(archive, str | Path):
        return archive
    if not str(archive).startswith("s3://"):
        from compact.store.archives.files import FileStorage

        return FileStorage(archive)
    from compact.store.archives.files import S3Storage
    from compact.store.blobs.places import bucket_of

    bucket, prefix = bucket_of(str(archive))
    return S3Storage(bucket, prefix, kms_key=kms_key)


def archive_place(place: str | Path) -> str:
    """Check and return the place for the memory's archives: a folder, or an address in S3.

    Raises:
        InvalidArgument: the address names no bucket.
    """
    if str(place).startswith("s3://"):
        from compact.store.blobs.places import bucket_of

        bucket_of(str(place))
    return str(place)


def store_at(path: str | Path, *, create: bool = False) -> SessionStore:
    """Open the store in a file or on a server. With `create`, a missing file is made.

    Raises:
        NotFound: there is no such file, or it is empty.
        StoreFailed: the file cannot be opened.
        StoreDamaged: the file is not a database, or a damaged one.
    """
    if is_server(path):
        return session_store(path)
    file = named_path(path)
    try:
        if not create and not file.exists():
            raise NotFound(f"there is no store {str(path)!r}")
        if not create and file.is_file() and file.stat().st_size == 0:
            raise NotFound(f"{path} is an empty file, not a store")
    except (OSError, ValueError) as error:
        raise StoreFailed(f"{str(path)!r} cannot be opened: {error}") from None
    return session_store(file)


def store_engine() -> dict[str, Any]:
    """Return the versions of SQLite and apsw, and whether they support word search and encryption.

    Raises:
        ImportError: apsw is not installed.
    """
    import apsw

    return {
        "sqlite": apsw.sqlite_lib_version(),
        "apsw": apsw.apsw_version(),
        "fts5": "ENABLE_FTS5" in apsw.compile_options,
        "encrypts": hasattr(apsw, "mc_version"),
    }


def store_damage(store: SessionStore) -> tuple[list[str], dict[str, list[int]]]:
    """Return an open store's faults, and by branch the positions that earlier damage lost."""
    from compact.store.sqlite.recovery import lost_in

    check = getattr(store, "integrity_check", None)
    wrong = check() if check is not None else []
    return wrong, {} if wrong else lost_in(store)


def file_formats() -> dict[str, str]:
    """Return the file formats that can be read: name → title."""
    from compact.transcripts import table

    return {known.name: known.title for known in table.FORMATS}


def read_transcript(
    source: str | Path,
    *,
    data: bytes | None = None,
    format: str | None = None,
    conversation: int | None = None,
    active: bool = False,
    writable: bool = False,
    since: Since | None = None,
) -> Transcript:
    """Read a conversation from a file, or from `data` if given.

    With `writable`, everything that `write_transcript` cannot write is skipped.

    `since` reads only the end of a file of JSON Lines: from this byte on, or from the last
    compaction of Claude Code or Codex (`boundary`) with a person's earlier messages before it. Then
    `compacted` of the transcript is the number of these messages. Broken rows are left out.

    Raises:
        InvalidTranscript: the file is damaged or unknown. The text names the line and the reason.
    """
    from compact.transcripts import reading, tails, writing

    if since is None:
        document: Path | bytes | Document = Path(source) if data is None else data
    else:
        document = tails.load_since(Path(source), since)
    read = reading.read(
        document,
        source=str(source),
        format=format,
        conversation=conversation,
        active=active,
    )
    return writing.writable(read) if writable else read


def emitter(listener: Callable[[Event], None] | None, *, session_id: str = "") -> Emit:
    """Return a function that passes a session's events to a listener and catches its errors."""
    if listener is None:
        return ignore_event
    from compact.telemetry.bus import EventBus

    bus = EventBus()
    bus.subscribe(listener)
    named = {"session_id": session_id}
    return (lambda event: bus.emit(event.model_copy(update=named))) if session_id else bus.emit


def ignore_event(_: Event) -> None:
    """Drop an event, because there is no listener."""


def with_listener(redactor: Redactor, emit: Emit) -> Redactor:
    """Return the redactor after setting it up to report validators that fail."""
    redactor.failing(
        lambda error: emit(ErrorRaised.of(error, "redact", serves="what was matched is taken out"))
    )
    return redactor


def event_bus(
    settings: CompactConfig | None = None,
    *,
    listener: Callable[[Event], None] | None = None,
    redactor: Redactor | None = None,
) -> EventBus:
    """Return a bus with this listener and the settings' exporters. `redactor` replaces the
    settings'.

    Raises:
        InvalidConfig: an exporter's package is not installed.
    """
    from compact.config import OTEL, CompactConfig
    from compact.telemetry.bus import LINGER, EventBus

    settings = settings or CompactConfig()
    redactor = redactor or settings.redactor()
    bus = EventBus(content=settings.telemetry_content, redact=settings.redact, redactor=redactor)
    with_listener(redactor, bus.emit)
    if listener is not None:
        bus.subscribe(listener)
    if (exporter := settings.adapter("exporter")) is not None:
        bus.export_to(exporter)
    if settings.console_events:
        from compact.telemetry.bus import ConsoleExporter

        bus.export_to(ConsoleExporter())
    if settings.ariadne_url is not None:
        from compact.telemetry import ariadne

        exporter = ariadne.AriadneExporter(settings.ariadne_url)
        bus.export_to(exporter, linger=LINGER, heartbeat=ariadne.HEARTBEAT)
    if settings.otlp_endpoint is not None:
        try:
            from compact.telemetry import otlp
        except ImportError as error:
            raise settings.wrong("otlp_endpoint", str(error)) from None
        address = None if settings.otlp_endpoint == OTEL else settings.otlp_endpoint
        bus.export_to(otlp.OtlpExporter(address), linger=LINGER)
    if not settings.redact:
        bus.emit(RedactionOff())
    return bus
