"""Imports conversations from files into a store, each completely or not at all.

A session's metadata has the digest of its source file. So a stored conversation is recognized, and
an interrupted migration can continue. If a file has grown, only its new messages are added. Nothing
else in the store changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import sha256
from itertools import chain, count
from pathlib import Path
from typing import Any, cast, get_args

from compact import wiring
from compact.config import CompactConfig
from compact.errors import CompactError, InvalidArgument, InvalidTranscript, StoreFailed
from compact.exchange import importing, manifest, sources, stored_sources
from compact.exchange.manifest import Manifest, MigratedConversation, MigrationReport, Outcome
from compact.exchange.sources import FoundConversation, SourceFile
from compact.exchange.stored_sources import MARK, StoredSources
from compact.files import named_path
from compact.memory.archival_manager import forget
from compact.memory.backup import make_backup
from compact.messages import clock_and_ids
from compact.messages.calls import named
from compact.messages.goals import Goal
from compact.messages.messages import Message
from compact.messages.protocols import SessionStore, SessionTransfer
from compact.messages.sessions import DEFAULT_SCOPE, Branch, Entry, Purpose, Session, Snapshot
from compact.models.effective_settings import DEFAULT_WINDOW
from compact.store.session_file import SessionFile
from compact.store.whole_session import WholeSession

Progress = Callable[[int, int], None]
"""Called with the number of files that are done, and the number of all files."""
LEGACY_SESSION = "legacy_session"
"""The name of the transcript format whose sessions have snapshot files."""
SHOWN_OF_DIGEST = 6
"""How many characters of the file's digest are appended to a session id that is taken."""


def migrate(
    paths: str | Path | Sequence[str | Path],
    *,
    store: str | Path | SessionStore,
    scope: str = DEFAULT_SCOPE,
    dry_run: bool = False,
    settings: CompactConfig | None = None,
    progress: Progress | None = None,
) -> MigrationReport:
    """Import the conversations of files and of whole folders, in any known format.

    Each conversation becomes one session, completely or not at all. It is read back and compared. A
    conversation that is stored already is left as it is. If its file has grown, the new messages
    are added. With `dry_run` nothing is changed. Before the first change the store is copied into
    `migrations/TIME/backup` next to it. `migrations/TIME/manifest.json` lists what was done.

    Raises:
        InvalidArgument: no path was given, or the store is not a file.
        StoreFailed: the store cannot be read or written. What was stored is kept; run the migration
            again to continue.
    """
    named("scope", scope)
    wanted = [paths] if isinstance(paths, str | Path) else list(paths)
    if not wanted or "" in wanted:
        raise InvalidArgument("paths", "paths: name at least one file or folder")
    opened = wiring.session_store(store)
    with nullcontext() if opened is store else closing(opened):
        file = getattr(opened, "path", None)
        if not dry_run and (file is None or file == ":memory:"):
            raise InvalidArgument("store", "a migration needs a store in a file")
        run = _Migration(opened, settings or CompactConfig(), scope, dry_run, file)
        return run.over([named_path(each) for each in wanted], progress)


def migrate_data(
    data: bytes,
    *,
    store: str | Path | SessionStore,
    scope: str = DEFAULT_SCOPE,
    settings: CompactConfig | None = None,
    only: str | None = None,
) -> MigratedConversation:
    """Import the first conversation in these bytes, like `migrate`, but without a backup and a
    manifest. With `only`, the conversation must have this format.

    Raises:
        StoreFailed: the store cannot be read or written.
    """
    opened = wiring.session_store(store)
    with nullcontext() if opened is store else closing(opened):
        run = _Migration(opened, settings or CompactConfig(), scope, dry_run=False, file=None)
        found = next(sources.conversations_of(SourceFile(Path("data"), is_named=True), data))
        if only is not None and found.format not in (None, only):
            return _done(found, "broken", f"{found.format}, and not {only}")
        return run.one(found)


@dataclass(slots=True)
class _Migration:
    store: SessionStore
    settings: CompactConfig
    scope: str
    dry_run: bool
    file: str | None
    id: str = ""
    folder: Path | None = None
    backup: Path | None = None
    stored: StoredSources = field(init=False)
    touched: set[str] = field(default_factory=set)
    """Sessions that an earlier conversation of this run became or matched."""
    planned: dict[str, list[bytes]] = field(default_factory=dict)
    """Session id → the chain hashes of the messages of a session that a dry run would create."""
    owners: dict[str, WholeSession] = field(default_factory=dict)
    """The sessions of a dry run that may own snapshots."""
    snapshots: list[SourceFile] = field(default_factory=list)
    """Snapshot files. They are read after all sessions are stored."""
    done: list[MigratedConversation] = field(default_factory=list)
    tick: Callable[[], None] = field(default=lambda: None)
    """Called before each conversation."""

    def __post_init__(self) -> None:
        self.stored = StoredSources(self.store, self.scope)

    def over(self, paths: Sequence[Path], progress: Progress | None) -> MigrationReport:
        """Migrate the conversations in these files."""
        files = list(sources.files_of(paths, without=self._own_files()))
        state: manifest.State = "stopped"
        self.id = f"{clock_and_ids.now():%Y%m%d-%H%M%S}"
        try:
            for number, source in enumerate(files):
                if progress is not None:
                    self.tick = partial(progress, number, len(files))
                self.done.extend(self._file(source))
            for source in self.snapshots:
                self.done.extend(self._file(source, takes_snapshots=True))
            state = "done"
        finally:
            if self.folder is not None:
                states = stored_sources.states_of(self.store)
                manifest.write(self.folder, Manifest(state, self.report(), states))
        return self.report()

    def report(self) -> MigrationReport:
        """Return a report of what was done so far."""
        return MigrationReport(
            id=self.id,
            made_at=clock_and_ids.now(),
            store=self.file,
            scope=self.scope,
            dry_run=self.dry_run,
            folder=None if self.folder is None else str(self.folder),
            backup=None if self.backup is None else str(self.backup),
            conversations=tuple(self.done),
        )

    def _own_files(self) -> list[Path]:
        if self.file is None:
            return []
        path = named_path(self.file).absolute()
        beside = [Path(f"{path}{ending}") for ending in ("", "-wal", "-shm", "-journal")]
        return [*beside, manifest.folder_of(self.file)]

    # --- one conversation -------------------------------------------------------------------------

    def _file(
        self, source: SourceFile, *, takes_snapshots: bool = False
    ) -> Iterator[MigratedConversation]:
        self.tick()
        for found in sources.conversations_in(source):
            self.tick()
            if found.format == LEGACY_SNAPSHOT and not takes_snapshots:
                self.snapshots.append(source)
                return
            yield self.one(found)

    def one(self, found: FoundConversation) -> MigratedConversation:
        """Migrate one conversation."""
        try:
            done = self._conversation(found)
            self.touched.update(filter(None, [done.session_id]))
            return done
        except StoreFailed:
            raise
        except CompactError as error:
            return _done(found, "broken", _reason(error))

    def _conversation(self, found: FoundConversation) -> MigratedConversation:
        read = found.read
        if isinstance(read, InvalidTranscript):
            return _done(found, "unknown" if read.is_foreign else "broken", _reason(read))
        session_id = self.stored.with_content(found.sha256, found.number)
        if session_id is not None:
            return _done(found, "there", session_id=session_id)
        if found.format == LEGACY_SNAPSHOT:
            return self._snapshot(found, read)
        return self._known_before(found, read) or self._add(found, read)

    def _known_before(
        self, found: FoundConversation, read: SessionFile
    ) -> MigratedConversation | None:
        """Return the outcome if the store has the conversation in some form. Otherwise None."""
        differs = None
        for session, how, is_own in self._compared(found, read):
            if how in ("same", "behind"):
                more = "" if how == "same" else "the session has more messages"
                return _done(found, "there", more, session_id=session.id)
            if how == "grown" and read.whole is None:
                return self._grow(found, read, session)
            if how == "grown":
                reason = "an export with more than the session; `sessions import --as ID` takes it"
                return _done(found, "differs", reason, session_id=session.id)
            if is_own:
                reason = "its file has another past by now: the session stays as it is"
                differs = _done(found, "differs", reason, session_id=session.id)
        return differs

    def _compared(
        self, found: FoundConversation, read: SessionFile
    ) -> Iterator[tuple[Session, stored_sources.Compared, bool]]:
        """Yield the sessions that the conversation may be, and how it compares with each. The third
        value tells whether the session surely came from this conversation.
        """
        links, own = stored_sources.links_of(read.messages), found.own_id
        sure, perhaps = ([], []) if own else self.stored.begun_alike(read.messages)
        from_place = self.stored.from_place(found.source.path, found.number)
        named = [read.session.id, from_place] if own or found.is_alone else []
        of_account = own is not None and not found.is_alone
        for candidate in dict.fromkeys(filter(None, (*named, *sure, *perhaps))):
            session = self._in_scope(candidate)
            if session is None or (candidate in perhaps and candidate in self.touched):
                continue
            have = session.branch.messages
            how = stored_sources.compared(have, self._link_after(session), links)
            if how == "same" or candidate not in perhaps or min(have, len(links)) > 1:
                is_known = candidate == from_place or (of_account and MARK in session.metadata)
                yield session, how, is_known and own in (None, candidate) and candidate in named

    def _in_scope(self, session_id: str) -> Session | None:
        """Return a session of the scope, or one that a dry run would create, or None."""
        if session_id in self.planned:
            messages = len(self.planned[session_id])
            branch = Branch(id=session_id, session_id=session_id, messages=messages)
            return Session(id=session_id, scope=self.scope, branch=branch)
        session = stored_sources.session_in(self.store, session_id)
        return None if session is None or session.scope != self.scope else session

    def _link_after(self, session: Session) -> Callable[[int], bytes]:
        """Return a function from a number of messages to the chain hash after them."""
        planned = self.planned.get(session.id)
        if planned is not None:
            return lambda count: planned[count - 1]
        return partial(self.store.chain, session.branch.id)

    def _add(self, found: FoundConversation, read: SessionFile) -> MigratedConversation:
        name = self._free_id(read.session.id, found)
        ready = importing.as_new(read, self.store, self.settings, session_id=name, scope=self.scope)
        metadata = {**ready.session.metadata, MARK: _mark(found)}
        ready = replace(ready, session=ready.session.model_copy(update={"metadata": metadata}))
        if self.dry_run:
            self.planned[name] = stored_sources.links_of(read.messages)
            if found.format == LEGACY_SESSION:
                self.owners[name] = ready
        else:
            self._begin()
            importing.put(self.store, ready)
            self._check(ready.session, read)
        self.stored.add(metadata, name)
        entries = ready.line(ready.session.branch.id)
        added = sum(len(part.entries) for part in ready.parts)
        done = _done(found, "new", session_id=name)
        return done.model_copy(update={"tokens": _tokens(entries), "added": added})

    def _grow(
        self, found: FoundConversation, read: SessionFile, session: Session
    ) -> MigratedConversation:
        branch, have = session.branch, session.branch.messages
        settings = self.settings
        if session.tokenizer:
            settings = settings.model_copy(update={"tokenizer": session.tokenizer})
        entries = (
            importing.as_new(read, self.store, settings, session_id=session.id, scope=self.scope)
            .parts[0]
            .entries
        )
        if not self.dry_run:
            self._begin()
            metadata = {MARK: _mark(found)}
            into = cast("SessionTransfer", self.store)
            into.add_from_source(branch.id, entries[have:], expected=have, metadata=metadata)
            wrong = stored_sources.stored_as_read(self.store, branch.id, read.messages, start=have)
            if wrong is not None:
                raise StoreFailed(f"session {session.id!r}: {wrong}")
            self.stored.add(metadata, session.id)
        elif session.id in self.planned:
            self.planned[session.id] = stored_sources.links_of(read.messages)
        done = _done(found, "grown", session_id=session.id)
        more = {"tokens": _tokens(entries), "added": len(entries) - have, "branch_id": branch.id}
        return done.model_copy(update=more)

    def _snapshot(self, found: FoundConversation, read: SessionFile) -> MigratedConversation:
        """Make the file a snapshot of its session. If the session is missing or has other messages,
        the file becomes a session of its own.
        """
        owner = found.own_id or ""
        session, history = self._history_of(owner)
        window = self.settings.window()
        snapshot = None
        if session is not None:
            size = window.size if window else DEFAULT_WINDOW
            snapshot = as_snapshot(read, session, history, size)
        if session is None or snapshot is None:
            return self._apart(found, read, owner, is_there=session is not None)
        done = _done(found, "snapshot", session_id=owner)
        done = done.model_copy(update={"snapshot_id": snapshot.id})
        if not self.dry_run:
            if any(each.id == snapshot.id for each in self.store.snapshots(owner)):
                return done.model_copy(update={"outcome": "there"})
            self._begin()
            note = {"path": found.source.path.name, **read.session.metadata}
            self.store.note(owner, f"{SNAPSHOT_NOTE}{snapshot.id}", note)
            self.store.save_snapshot(snapshot)
        return done

    def _apart(
        self, found: FoundConversation, read: SessionFile, owner: str, *, is_there: bool
    ) -> MigratedConversation:
        name = f"{owner or 'session'}-{sources.base_of(found.source.path)}"
        apart = replace(read, session=read.session.model_copy(update={"id": name}))
        done = self._known_before(replace(found, own_id=name), apart) or self._add(found, apart)
        if done.outcome != "new":
            return done
        why = f"its messages are not those of session {owner!r}"
        why = why if is_there else f"its session {owner!r} is not there"
        return done.model_copy(update={"reason": f"{why}: a session of its own"})

    def _history_of(self, session_id: str) -> tuple[Session | None, list[Message]]:
        if session_id in self.owners:
            whole = self.owners[session_id]
            return whole.session, [e.message for e in whole.line(whole.session.branch.id)]
        session = None if session_id in self.planned else self._in_scope(session_id)
        if session is None:
            return None, []
        entries = self.store.read(session.branch.id, 0, session.branch.messages)
        return session, [entry.message for entry in entries]

    def _free_id(self, wanted: str, found: FoundConversation) -> str:
        """Return the wanted id. If it is taken, a part of the file's digest is appended."""
        if not self._is_taken(wanted):
            return wanted
        cut = wanted[: importing.LONGEST_ID - SHOWN_OF_DIGEST - 1]
        own = f"{cut}-{found.sha256[:SHOWN_OF_DIGEST]}"
        names = chain([own], (f"{own}-{number}" for number in count(2)))
        return next(name for name in names if not self._is_taken(name))

    def _is_taken(self, name: str) -> bool:
        return name in self.planned or stored_sources.session_in(self.store, name) is not None

    def _begin(self) -> None:
        """Back up the store and write the manifest, if this is the first change."""
        if self.folder is not None or self.file is None:
            return
        folder = manifest.new_folder(self.file, self.id)
        self.id = folder.name
        make_backup(self.store, folder / manifest.BACKUP, self.settings)
        self.folder, self.backup = folder, folder / manifest.BACKUP
        manifest.write(folder, Manifest("running", self.report()))

    def _check(self, session: Session, read: SessionFile) -> None:
        """Read a new session back. If it differs from the file, delete it and raise an error."""
        wrong = stored_sources.stored_as_read(self.store, session.branch.id, read.messages)
        if wrong is not None:
            forget(self.store, session.id, self.settings)
            reason = f"{wrong}; nothing of it was kept"
            raise InvalidTranscript(str(read.session.metadata.get("source", "")), reason)


def _done(
    found: FoundConversation, outcome: Outcome, reason: str = "", *, session_id: str | None = None
) -> MigratedConversation:
    read = None if isinstance(found.read, InvalidTranscript) else found.read
    return MigratedConversation(
        path=str(found.source.path),
        outcome=outcome,
        reason=reason,
        format=found.format,
        sha256=found.sha256,
        conversation=found.number,
        session_id=session_id,
        title=None if read is None else read.session.title,
        messages=0 if read is None else len(read.messages),
        notes=found.notes,
    )


def _mark(found: FoundConversation) -> Mapping[str, Any]:
    return stored_sources.mark_of(found.sha256, found.number, found.source.path)


def _tokens(entries: Sequence[Entry]) -> int:
    return sum(entry.tokens or 0 for entry in entries)


def _reason(error: CompactError) -> str:
    """Return the error's text without the file's name, which a report has in another field."""
    if isinstance(error, InvalidTranscript):
        return error.reason if error.line is None else f"line {error.line}: {error.reason}"
    return str(error)


def failed(report: MigrationReport, paths: Sequence[str]) -> list[MigratedConversation]:
    """Return the conversations that could not be migrated, and named files without a
    conversation.
    """
    named = {str(named_path(path)) for path in paths}
    named -= {each.path for each in report.conversations if each.outcome != "unknown"}
    return [
        each
        for each in report.conversations
        if each.outcome in ("broken", "differs")
        or (each.outcome == "unknown" and each.path in named)
    ]


# --- snapshots of the older program ---------------------------------------------------------------

LEGACY_SNAPSHOT = "legacy_snapshot"
"""The name of the transcript format of such files."""
SNAPSHOT_NOTE = "legacy snapshot:"
"""Prefix of the name of the note that keeps the file's contents. The snapshot's id follows."""
_BEGINNING = 100
"""How many characters of a user's message such files contain, if the message was archived."""
_ENDED = frozenset(("completed", "done", "achieved"))
"""Status words that mean a finished goal in the other program's snapshot files."""


def as_snapshot(
    read: SessionFile, session: Session, history: Sequence[Message], window: int
) -> Snapshot | None:
    """Return the snapshot in a file, for a session with this history. Return None if the history
    does not contain the file's messages in the same order.
    """
    at = _position(read.messages, history)
    if at is None:
        return None
    record = read.session.metadata.get(importing.RECORD, {})
    purpose = record.get("purpose")
    own = record.get("id") or record.get("snapshotId")
    note = record.get("summary") or record.get("description") or f"{own}, of an older program"
    return Snapshot(
        id=f"sn-{sha256(f'{session.id} {own}'.encode()).hexdigest()[:12]}",
        session_id=session.id,
        branch_id=session.branch.id,
        purpose=purpose if purpose in get_args(Purpose) else "recovery",
        note=str(note),
        at=at,
        window=window,
        goals=tuple(goals_in(record)),
        created_at=read.messages[-1].timestamp,
    )


def _position(messages: Sequence[Message], history: Sequence[Message]) -> int | None:
    """Return the position after the last of these messages and its tool results, or None."""
    at = 0
    for role, text in _texts(messages):
        while at < len(history) and not _says(history[at], role, text):
            at += 1
        if at == len(history):
            return None
        at += 1
    while 0 < at < len(history) and history[at].role == "tool":
        at += 1
    return at or None


def _says(message: Message, role: str, text: str) -> bool:
    own = message.text.strip()
    is_beginning = len(text) >= _BEGINNING and own.startswith(text.rstrip(".…"))
    return message.role == role and (own == text or is_beginning)


def _texts(messages: Sequence[Message]) -> Iterator[tuple[str, str]]:
    for message in messages:
        is_talk = message.role in ("user", "assistant") and message.metadata.source != "checkpoint"
        if is_talk and message.text.strip():
            yield message.role, message.text.strip()


def goals_in(record: Mapping[str, Any]) -> Iterator[Goal]:
    """Yield those goals of a file that have a text."""
    for name in ("conversationState", "state", "context"):
        if isinstance(inner := record.get(name), dict):
            record = {**record, **inner}
    stack = record.get("goalStack")
    if isinstance(stack, dict):
        listed = [stack.get("activeGoal"), *(stack.get("goals") or ())]
        record = {"goals": [each for each in listed if each], **record}
    rows = record.get("goals")
    for row in rows if isinstance(rows, list) else ():
        value = row if isinstance(row, dict) else {"text": row}
        text = next((value[k] for k in ("description", "text", "title") if value.get(k)), None)
        if isinstance(text, str) and text.strip():
            yield Goal(text=text, status="done" if value.get("status") in _ENDED else "active")
