"""`MemoryManager`: all sessions of a scope as one memory that can be searched, marked and kept.

    memory = MemoryManager("chat.db")
    for hit in memory.search("when did we move the harbour office?").hits:
        print(hit.timestamp, hit.title, hit.text)

A stored message can be found at once. There is no second copy, and no model writes anything.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from datetime import date, datetime
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Self, TypedDict, Unpack, get_args

from pydantic import BaseModel, Field, ValidationError

from compact import wiring
from compact.config import CompactConfig
from compact.errors import CompactError, InvalidArgument, InvalidInput, ModelFailed, NotFound
from compact.memory.ageing import MemoryAgeing, Schedule, ageing_of
from compact.memory.archival_manager import DAYS, ArchivalManager, forget, forget_scope
from compact.memory.backup import make_backup, restore_backup
from compact.memory.compression_engine import importance_of, original_of, retention_of
from compact.memory.facts import NOTE, Fact, facts_of
from compact.memory.retention import Importance
from compact.memory.searching import (
    Ranked,
    ResultReader,
    Ways,
    by_day,
    first_readable,
    ranked,
)
from compact.messages import clock_and_ids
from compact.messages.calls import got, known_options, named, no_text, of_field
from compact.messages.codec import instant
from compact.messages.events import Event, MemoryAged
from compact.messages.given import Given, fields_given
from compact.messages.messages import Message, Role
from compact.messages.options import taking
from compact.messages.protocols import Embedder, SessionStore
from compact.messages.sessions import DEFAULT_SCOPE, Session
from compact.session.entering import added
from compact.text.archived import ArchivedConversation, ArchiveReport, BackupReport, ForgottenReport
from compact.text.dates import limits
from compact.text.digests import AgeingReport, CompressedConversation, CompressionLevel
from compact.text.embedding import Generation, Near, Numbers
from compact.text.found import Method, SearchFilter, SearchResult, TimelineEntry
from compact.text.turns import instant_of


class MemoryStatus(BaseModel, frozen=True, defer_build=True):
    """What a memory holds of one scope. The file may hold other scopes too."""

    scope: str
    sessions: int = 0
    messages: int = 0
    """How many messages the open branches have, archived messages included."""
    important: int = 0
    """How many sessions are marked as important."""
    first: datetime | None = None
    """When the oldest session began; None without sessions."""
    last: datetime | None = None
    """The time of the newest message; None without sessions."""
    levels: Mapping[CompressionLevel, int] = Field(default_factory=dict)
    """Level → how many sessions have a digest of this level."""
    archived: int = 0
    """How many sessions have their original messages in the archive."""
    archive_bytes: int = 0
    """The size of the archived originals, in bytes."""
    archive_folder: str | None = None
    """The folder of the archives; None if the memory has neither a file nor such a folder."""
    file_bytes: int | None = None
    """The size of the database and its log, in bytes; None for a database in memory."""
    unindexed: int = 0
    """How many messages, of all scopes, the next search has to index first."""
    unembedded: int | None = None
    """How many messages, of all scopes, have no vector; None without a working embedder."""
    embedder: str | None = None
    """The embedder's name; None without one."""
    embedder_failed: str | None = None
    """Why the embedder failed; None if it did not."""


CLOSE_SECONDS = 2.0
"""How long `close` waits for a running schedule, in seconds."""
FIRST_RUN, LOOK_AGAIN = 2.0, 3600.0
"""Seconds from the opening to the first ageing, and from one check for a new day to the next. The
first delay keeps a short program and its first search fast."""
PAGE = 10
"""How many messages, and how many sessions, a search returns by default."""


class SearchOptions(TypedDict, total=False):
    """Options of a search."""

    sessions: Sequence[str]
    """Ids of the sessions to search. Default: all sessions of the scope."""
    roles: Sequence[Role]
    """Roles of the messages to find. Default: any role."""
    since: datetime | date | str | None
    """The earliest time of a message, such as `2026-05-17`, `3 March` or `last week`. A time
    without a zone is UTC."""
    until: datetime | date | str | None
    """The latest time of a message. A day, week, month or year counts to its end."""
    least_importance: float | None
    """The least importance of a message, 0 to 1. Messages without a stored one are not found."""
    recent: bool
    """Whether to raise the score of newer messages, by up to a tenth."""
    about: str
    """A text on the current topic. Messages on this topic score up to a tenth higher."""
    method: Method | None
    """`lexical` (by words), `semantic` (by meaning) or `hybrid` (both, the default). Without
    vectors every search is lexical. The result names the method that was used."""
    neighbours: int
    """How many messages to show before and after each hit. Default: 1."""


class MemoryManager:
    """The memory of one scope, in a file, in `:memory:`, in PostgreSQL (`postgresql://…`), or in an
    open store.

    `embedder` is an embedder or its name, such as `minilm` or `ollama:nomic-embed-text`. The
    default is the settings' embedder. After `embed` was called, searches also find by meaning.
    Archives are written to `archive_folder`: a folder or `s3://BUCKET/PREFIX`. The default is the
    settings' folder, else a folder next to the file.

    Raises:
        StoreFailed, StoreDamaged: the file cannot be opened.
        InvalidArgument: the store has no search index.
    """

    def __init__(
        self,
        path: str | Path | SessionStore = ":memory:",
        *,
        scope: str = DEFAULT_SCOPE,
        embedder: str | Embedder | None = None,
        archive_folder: str | Path | None = None,
        settings: CompactConfig | None = None,
    ) -> None:
        self._scope = named("scope", scope)
        self._settings = settings or CompactConfig()
        embedder = embedder or self._settings.embedder
        self._embedder = wiring.TypedEmbedder(embedder) if embedder else None
        self._store = wiring.session_store(path, scope)
        self._owns_store = isinstance(path, str | Path)
        self._archive_folder = archive_folder or self._settings.memory_archive
        if not hasattr(self._store, "holding"):
            raise InvalidArgument(
                "path",
                "memory needs a store with a search index: a file's name, ':memory:', or "
                "'postgresql://…'",
            )
        self._index = wiring.memory_store(self._store, scope)
        path = getattr(self._store, "path", ":memory:")
        self._file = None if path == ":memory:" else Path(path)
        backend = self._settings.vector_backend
        self._vectors = wiring.vector_store(self._index, backend) if self._embedder else None
        self._schedules: list[Schedule[AgeingReport]] = []
        self._ageings: list[MemoryAgeing] = []

    @property
    def store(self) -> SessionStore:
        """The store. Every session of the scope in this store belongs to this memory."""
        return self._store

    @property
    def scope(self) -> str:
        """The scope whose sessions this memory holds."""
        return self._scope

    def close(self) -> None:
        """Stop the schedules, in a few seconds. Close the file, if this object opened it."""
        while self._schedules:
            if not self._schedules.pop().stop(CLOSE_SECONDS):
                for each in self._ageings:
                    with suppress(CompactError):  # somebody else closed it
                        each.store.release_lease(each.turn)
        if self._owns_store:
            self._store.close()

    def __enter__(self) -> Self:
        if self._owns_store:
            self.age_daily()
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def status(self) -> MemoryStatus:
        """Return what this memory holds, and how many messages still need an index or a vector."""
        sessions, kept = self.sessions(), self.archived()
        notes = self._index.digest_notes(self._scope)
        unembedded, why = None, None
        try:
            unembedded = self.unembedded() if self._embedder else None
        except ModelFailed as error:
            why = str(error)
        levels = Counter(
            notes[each.id].level if each.id in notes else CompressionLevel.FULL for each in sessions
        )
        return MemoryStatus(
            scope=self._scope,
            sessions=len(sessions),
            messages=sum(each.branch.messages for each in sessions),
            important=sum(bool(each.metadata.get("important")) for each in sessions),
            first=min(
                (x for each in sessions for x in (each.created_at, each.updated_at)),
                key=instant,
                default=None,
            ),
            last=max((each.updated_at for each in sessions), key=instant, default=None),
            levels={level: levels[level] for level in CompressionLevel if levels[level]},
            archived=len(kept),
            archive_bytes=sum(each.bytes for each in kept),
            archive_folder=archives.folder if (archives := self._archives()) else None,
            file_bytes=self._file_bytes(),
            unindexed=self._index.unindexed(),
            unembedded=unembedded,
            embedder=self._embedder.name if self._embedder else None,
            embedder_failed=why,
        )

    def _file_bytes(self) -> int | None:
        if self._file is None:
            return None
        parts = (self._file, self._file.with_name(f"{self._file.name}-wal"))
        return sum(each.stat().st_size for each in parts if each.exists())

    # --- what is remembered -----------------------------------------------------------------------

    def add_message(
        self,
        session_id: str,
        message: Given | str | None = None,
        content: str | Sequence[object] = "",
        **fields: object,
    ) -> Message:
        """Append a message to a session of the scope. If there is no such session, it is created.
        Pass a message, or a role and content, or the message's fields. Return the message with its
        id, time and importance.

            memory.add_message("garden", "user", "The fern stands by the window.")
            memory.add_message("garden", role="user", content="And in winter?")

        Raises:
            InvalidArgument: the session's id is no text, or is empty.
            InvalidMessage: the message is malformed; the error names the field.
            NotFound: the session belongs to another scope.
            StoreFailed: the message could not be stored.
        """
        named("session_id", session_id)
        if isinstance(message, str):
            fields["role"], message = message, None
        values = {**fields, "content": content} if content else fields
        return added(self._index, self._scope, session_id, message or fields_given(values))

    def remember(self, text: str, *, at: datetime | str | float | None = None) -> Message:
        """Keep a sentence of the person as a lasting note. The note is a message in a session for
        notes, which is marked as important. `at` is its time (default: now). Return the message.

        Raises:
            InvalidArgument: there is no text.
            InvalidMessage: the time cannot be read.
            StoreFailed: the note could not be stored.
        """
        name = f"notes of {self._scope}"
        marks = {"source": "person", "important": True, "tags": [NOTE]}
        named("text", text.strip() if isinstance(text, str) else text)
        time = {} if at is None else {"timestamp": at}
        fields = {"role": "user", "content": text, "importance_score": 1.0, "metadata": marks}
        note = self.add_message(name, {**fields, **time})
        if not self.session(name).metadata.get("important"):
            self.describe(name, title="Notes", important=True)
        return note

    def facts(
        self, *, limit: int | None = None, progress: Callable[[int, int], None] | None = None
    ) -> list[Fact]:
        """Return the person's lasting statements, newest first, at most `limit`: notes, rules and
        values, in their current wording, with the wordings that they replaced. This reads all
        messages of the scope, which takes seconds for tens of thousands. `progress` is called with
        the number of sessions read and their total.

        Raises:
            StoreFailed, StoreDamaged: messages, or the archive that they are in, cannot be read.
        """
        return facts_of(self._index, self._scope, progress)[:limit]

    # --- search -----------------------------------------------------------------------------------

    def catch_up(self, progress: Callable[[int, int], None] | None = None) -> bool:
        """Index the messages of all scopes that were stored since the last search. Return whether
        that was possible. Each search does this too; call it yourself to show progress. `progress`
        is called with the number of messages indexed and their total.
        """
        return self._index.catch_up(progress)

    @taking(SearchOptions)
    def search(
        self, query: str, *, limit: int = PAGE, **options: Unpack[SearchOptions]
    ) -> SearchResult:
        """Find the messages and sessions that answer a question best, at most `limit` of each.

        A message's score depends on its words and those of its neighbours, on who wrote it, on the
        times that the question names (such as `yesterday`), and on what an answer must contain
        (such as a number or a name). A question that names only a time finds the messages of that
        time. So does an empty question with `since` or `until`.

        Raises:
            InvalidArgument: an option is wrong, or `limit` or `neighbours` is below 0.
        """
        known_options(options, SearchOptions)
        neighbours = options.get("neighbours", 1)
        for name, number in (("limit", limit), ("neighbours", neighbours)):
            if number < 0:
                raise InvalidArgument(name, f"{name} must be at least 0, got {number}")
        best, ways, failed = self._ranked(query, limit, options)
        reader = ResultReader(query, best, self._index, neighbours)
        archived = self._archived_among(best, query)
        unread = list(reader.unread)
        if not reader.is_whole:
            every, ways, failed = self._ranked(query, len(best.turns), options)
            best, more = first_readable(self._index, every, limit)
            reader = ResultReader(query, best, self._index, neighbours)
            archived += self._archived_among(best, query)
            unread += more
        names = {each.session_id: each for each in archived}
        return SearchResult(
            query=query,
            method=ways.method,
            complete=best.turns.complete,
            hits=tuple(reader.hits(names)),
            sessions=tuple(reader.sessions()),
            failed=str(failed) if failed else None,
            unread=tuple(dict.fromkeys(unread)),
            archived=tuple(names.values())[:limit],
        )

    def _archived_among(self, best: Ranked, query: str) -> list[ArchivedConversation]:
        return self.archives.archived_among(best, query) if self._has_archive else []

    def timeline(
        self,
        *,
        since: datetime | date | str | None = None,
        until: datetime | date | str | None = None,
    ) -> list[TimelineEntry]:
        """Return how many messages each session has on each day (UTC), earliest first. `since` and
        `until` limit the time, as in `search`.

        Raises:
            InvalidArgument: `since` or `until` is no time.
        """
        turns = self._index.turns(self._scope)
        days = list(by_day(turns, *limits(since, until, clock_and_ids.now())))
        titles = self._index.told((), sorted({turns.sessions[place] for place, *_ in days})).titles
        return [
            TimelineEntry(
                day=instant_of(first).date(),
                session_id=turns.sessions[place],
                title=titles.get(turns.sessions[place]),
                messages=messages,
                first=instant_of(first),
                last=instant_of(last),
            )
            for place, messages, first, last in days
        ]

    def _ranked(
        self,
        query: str,
        most: int,
        options: SearchOptions,
        without: Sequence[tuple[str, int]] = (),
        now: datetime | None = None,
    ) -> tuple[Ranked, Ways, ModelFailed | None]:
        """Search. If the embedder fails, search by words, and return the embedder's error too."""
        now = now or clock_and_ids.now()
        since, until = limits(options.get("since"), options.get("until"), now)
        try:
            only = SearchFilter.model_validate({**options, "since": since, "until": until})
        except ValidationError as error:
            raise of_field(error) from None
        search = partial(
            ranked, self._index, self._scope, query, most=most, only=only, without=without
        )
        try:
            ways = self._ways(options, now)
            return search(ways=ways), ways, None
        except ModelFailed as error:
            ways = self._ways({**options, "method": "lexical"}, now)
            return search(ways=ways), ways, error

    def _ways(self, options: SearchOptions, now: datetime) -> Ways:
        """Choose how to search. Without vectors, the search is lexical."""
        method, of = options.get("method") or "hybrid", None
        if method not in get_args(Method):
            methods = ", ".join(map(repr, get_args(Method)))
            raise InvalidArgument("method", f"method must be one of {methods}, got {got(method)}")
        if self._vectors is not None and self._embedder is not None and method != "lexical":
            of = self._vectors.made_by(self._embedder)
        return Ways(
            nearest=partial(self._nearest, of, cache(self._vector_of)) if of else None,
            words=method != "semantic" or of is None,
            recent=options.get("recent", False),
            now=now,
            about=options.get("about", ""),
        )

    def _vector_of(self, text: str) -> Numbers:
        return self._embedder.embed([text], query=True)[0] if self._embedder else ()

    def _nearest(
        self,
        of: Generation,
        vector_of: Callable[[str], Numbers],
        text: str,
        within: Sequence[tuple[int, int]],
        most: int,
    ) -> Sequence[Near]:
        if self._vectors is None or self._embedder is None:
            return ()
        try:
            return self._vectors.similar(vector_of(text), of=of, most=most, keys=within)
        except InvalidInput as error:
            raise ModelFailed(f"{self._embedder.name}: {error}") from error

    # --- vectors ----------------------------------------------------------------------------------

    def embed(
        self, *, most: int | None = None, progress: Callable[[int, int], None] | None = None
    ) -> int:
        """Make vectors for messages of all scopes that have none, at most `most`. Return how many
        messages got one. Other work can continue meanwhile. Messages that are stored meanwhile, or
        whose archive cannot be read, get a vector at a later call. `progress` is called with the
        number done and the total.

        Raises:
            InvalidArgument: this memory has no embedder.
            ModelFailed: the embedder failed. Earlier vectors are kept; call again to continue.
        """
        if self._vectors is None or self._embedder is None:
            raise InvalidArgument(
                "embedder", "this memory has no embedder: MemoryManager(embedder=)"
            )
        return self._vectors.embed_pending(self._embedder, most=most, progress=progress)

    def unembedded(self) -> int:
        """Return how many messages have no vector; 0 without an embedder."""
        if self._vectors is None or self._embedder is None:
            return 0
        return self._vectors.pending(self._embedder)

    # --- archives ---------------------------------------------------------------------------------

    @property
    def archives(self) -> ArchivalManager:
        """The archive of this memory.

        Raises:
            InvalidArgument: the memory is on a server, which keeps all texts.
        """
        return ArchivalManager(
            self._store,
            folder=self._archive_folder,
            kms_key=self._settings.archive_kms_key,
            scope=self._scope,
            settings=self._settings,
        )

    def archive(
        self,
        ids: Sequence[str] | None = None,
        *,
        older_than_days: int = DAYS,
        progress: Callable[[int, int], None] | None = None,
    ) -> ArchiveReport:
        """Move conversations into archive files. See `ArchivalManager.archive_conversations`."""
        return self.archives.archive_conversations(
            ids, older_than_days=older_than_days, progress=progress
        )

    def restore(self, session_id: str) -> Session:
        """Restore an archived conversation. See `ArchivalManager.restore_conversation`."""
        return self.archives.restore_conversation(session_id)

    def archived(self) -> list[ArchivedConversation]:
        """Return the archived conversations, the one with the newest message first."""
        return self.archives.list_archived() if self._has_archive else []

    # --- backups ----------------------------------------------------------------------------------

    def backup(
        self, path: str | Path, *, progress: Callable[[int, int], None] | None = None
    ) -> BackupReport:
        """Back up the whole store, with the sessions of all scopes, into a new folder. The folder
        gets the database, its archives, the settings without secrets, and a manifest with each
        file's checksum. The store can be used meanwhile. `progress` is called with the bytes done
        and their total.

        Raises:
            StoreFailed: the path exists already, or the backup cannot be written.
            StoreDamaged: an archive is missing or was changed; no backup was made.
        """
        return make_backup(self._store, path, self._settings, progress)

    restore_backup = staticmethod(restore_backup)

    # --- deleting ---------------------------------------------------------------------------------

    def forget(
        self, session_id: str | None = None, *, person: str | None = None
    ) -> ForgottenReport:
        """Delete a session everywhere: its messages, everything made from them, its archive, the
        copies that compressions made, and what other sessions of the scope recalled from it. The
        report lists what could not be deleted. Backups are not touched.

        With `person`, delete all sessions of this memory's scope instead. `person` must be the
        scope's name, as a protection against mistakes.

        Raises:
            InvalidArgument: both or neither are given, or `person` is another scope.
            NotFound: the scope has no such session.
            StoreFailed: the session could not be deleted, or nothing of the person.
        """
        if session_id is not None and person is None:
            return forget(self._index, self.session(session_id).id, self._settings)
        if session_id is not None or person != self._scope:
            reason = f"give a session's id, or person={self._scope!r}, the scope of this memory"
            raise InvalidArgument("person", reason)
        return forget_scope(self._index, self._scope, self._settings)

    # --- what a person says of a session ----------------------------------------------------------

    def sessions(self) -> list[Session]:
        """Return the sessions of the scope, last changed first."""
        return self._index.sessions(scope=self._scope)

    def describe(
        self,
        session_id: str,
        *,
        title: str | None = None,
        important: bool | None = None,
        tags: Sequence[str] | None = None,
    ) -> Session:
        """Set a session's title, importance mark or tags. Return the session. What you do not pass
        is not changed. An important session is never aged. It is archived only if you name its id.

        Raises:
            NotFound: the scope has no such session.
        """
        session = self.session(session_id)
        no_text("tags", tags or ())
        changes = {"important": important, "tags": None if tags is None else sorted(set(tags))}
        metadata = {**session.metadata, **{k: v for k, v in changes.items() if v is not None}}
        return self._index.describe(
            session_id, title=session.title if title is None else title, metadata=metadata
        )

    def session(self, session_id: str) -> Session:
        """Return a session of the scope.

        Raises:
            NotFound: the scope has no such session.
        """
        session = self._index.session(session_id)
        if session.scope != self._scope:
            raise NotFound(f"no session {session_id!r} in scope {self._scope!r}")
        return session

    # --- ageing -----------------------------------------------------------------------------------

    def age(
        self,
        now: datetime | None = None,
        *,
        session_id: str | None = None,
        dry_run: bool = False,
        progress: Callable[[int, int], None] | None = None,
    ) -> AgeingReport:
        """Give each session of the scope the digest that fits its age, and archive the originals of
        the oldest sessions; with `session_id`, only this session. Important sessions age more
        slowly, and marked ones stay whole. Return a report with a row for each session. A session
        that cannot be read is not changed; its row says why. A dry run only reports. `progress` is
        called with the number of sessions done and their total.

        Raises:
            NotFound: the scope has no such session.
            BlockingCallInLoop: a model writes the digests, and this thread runs an event loop.
        """
        one = None if session_id is None else self.session(session_id).id
        return self._ageing().age(now, session_id=one, dry_run=dry_run, progress=progress)

    def run_schedule(
        self,
        every: float = 86_400.0,
        *,
        clock: Callable[[], datetime] | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> Schedule[AgeingReport]:
        """Call `age` now and then every `every` seconds, in a thread. To end it, call `stop()` on
        the returned schedule, or close this object. If several processes use the same file, only
        one does the work. `progress` is called in that thread, as in `age`.

        Raises:
            InvalidArgument: `every` is not above 0.
        """
        if not every > 0:  # false for NaN as well
            raise InvalidArgument("every", f"every must be above 0, got {every:g}")
        ageing = self._ageing(clock)
        self._ageings.append(ageing)
        work = partial(ageing.age_in_turn, progress=progress)
        self._schedules.append(Schedule(work, every=every))
        return self._schedules[-1]

    def age_daily(self, on_event: Callable[[Event], None] | None = None) -> None:
        """Age in the background while this object is open, once a day in all processes that use the
        file. The event `MemoryAged` says what was done; `on_event` and the settings' exporters get
        it. `with MemoryManager(file)` calls this. Without a folder for archives, here or in the
        settings, texts stay packed in the database until `age` is called.

        Does nothing for a memory without a file, if the setting `age_automatically` is off, or if a
        model would write the digests. Call `age` then.
        """

        def work(stops: Callable[[], bool]) -> AgeingReport:
            report, why = AgeingReport(complete=False), list[str]()
            try:
                if not self._daily.engine.waits:
                    report = self._daily.age_once_a_day(stops)
            except Exception as error:
                if stops():  # the store may be closed
                    raise
                # An error that is not ours might quote a conversation, so only its type is named.
                why.append(str(error) if isinstance(error, CompactError) else type(error).__name__)
            moved = report.archive or ArchiveReport()
            why += dict.fromkeys(moved.failed.values())
            counts = {"archived": len(moved.archived), "failed": len(moved.failed)}
            if report.written or moved.archived or why:
                with closing(wiring.event_bus(self._settings)) as bus:
                    bus.subscribe(on_event or (lambda _: None))
                    bus.emit(MemoryAged(digests=report.written, problem="; ".join(why), **counts))
            return report

        if self._file and self._settings.age_automatically:
            self._schedules.append(Schedule(work, every=LOOK_AGAIN, delay=FIRST_RUN))

    def importance(self, session_id: str) -> Importance:
        """Return the importance of a session, with each part of the score.

        Raises:
            NotFound: the scope has no such session.
        """
        session = self.session(session_id)
        original = original_of(self._index, session)
        return importance_of(original, session, retention_of(self._settings))

    def digest(self, session_id: str) -> CompressedConversation | None:
        """Return the digest of a session, or None if it has none.

        Raises:
            NotFound: the scope has no such session.
        """
        digest = self._index.digest(self.session(session_id).id)
        return None if digest is None or digest.level is CompressionLevel.FULL else digest

    @cached_property
    def _daily(self) -> MemoryAgeing:
        to_files = bool(self._archive_folder)  # else nobody expects files beside the database
        self._ageings.append(replace(self._ageing(), into_files=to_files))
        return self._ageings[-1]

    def _ageing(self, clock: Callable[[], datetime] | None = None) -> MemoryAgeing:
        return ageing_of(self._store, self._scope, self._settings, clock, self._archives())

    def _archives(self) -> ArchivalManager | None:
        # A memory without a file has no place for archives, unless a folder was given.
        has_place = self._file or (self._archive_folder and self._has_archive)
        return self.archives if has_place else None

    @property
    def _has_archive(self) -> bool:
        return hasattr(self._store, "archive_sessions")
