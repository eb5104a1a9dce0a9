"""`ArchivalManager`: moves old conversations into files, and restores them whole.

    archives = ArchivalManager("chat.db")
    archives.archive_conversations()          # those without a new message for 90 days
    archives.restore_conversation("harbour")  # every byte of it

Each conversation becomes a file below `chat-archive/YYYY/MM/`, or an object in S3. The file is what
`sessions export` writes, compressed; `sessions import` reads it. Reading, searching and continuing
an archived session work as before: its words and vectors stay in the index, and its texts are read
from the file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from functools import cached_property, partial
from pathlib import Path
from typing import Self, cast

from compact import wiring
from compact.config import CompactConfig
from compact.errors import InvalidArgument, NotFound, StoreFailed, Superseded
from compact.memory.compression_engine import (
    CompressionEngine,
    digest_of,
    fingerprint_of,
    importance_of,
    original_of,
    retention_of,
)
from compact.memory.retention import MARKED, RESTORED, days_unused, sensible
from compact.memory.searching import Ranked, ranked
from compact.messages import clock_and_ids
from compact.messages.calls import named
from compact.messages.codec import instant
from compact.messages.protocols import CopiesInFolders, ForgetsCopies, SessionStore
from compact.messages.sessions import DEFAULT_SCOPE, Session
from compact.text.archived import ArchivedConversation, ArchiveFault, ArchiveReport, ForgottenReport
from compact.text.digests import CompressionLevel
from compact.text.found import SearchFilter
from compact.text.terms import looked_for

MOST_HITS = 1_000
"""How many messages a search in archived conversations looks at."""
DAYS = 90
"""A conversation without a new message for this many days is archived, by default."""


class ArchivalManager:
    """The archive of one scope's conversations. `path` is a store's file or an open store.

    `folder` is where files are written: a folder, or `s3://BUCKET/PREFIX`. The default is
    `NAME-archive` next to the store's file. Objects in S3 are encrypted with `kms_key`, if given;
    boto3 finds the credentials. `settings` say which conversations are kept whole, and what writes
    digests.

    Raises:
        StoreFailed, StoreDamaged: the file cannot be opened.
        InvalidArgument: the store has no archive, or the address names no bucket.
    """

    def __init__(
        self,
        path: str | Path | SessionStore,
        *,
        folder: str | Path | None = None,
        kms_key: str | None = None,
        scope: str = DEFAULT_SCOPE,
        settings: CompactConfig | None = None,
    ) -> None:
        self._scope, self._settings = named("scope", scope), settings or CompactConfig()
        self._store = wiring.session_store(path)
        self._owns_store = isinstance(path, str | Path)
        if not hasattr(self._store, "archive_sessions"):
            raise InvalidArgument(
                "path",
                "an archive needs a store in a file: a file's name. A server keeps all texts",
            )
        self._archive = cast("wiring.SQLiteManager", self._store)
        self._folder = None if folder is None else wiring.archive_place(folder)
        self._kms_key = kms_key

    @property
    def folder(self) -> str:
        """Where the files are written: a folder, or an address in S3.

        Raises:
            InvalidArgument: the store is in memory and no folder was given.
        """
        if self._folder is not None:
            return self._folder
        name = getattr(self._store, "path", ":memory:")
        if name == ":memory:":
            raise InvalidArgument(
                "folder", "a store in memory archives into a folder that is given"
            )
        file = Path(name)
        return str(file.with_name(f"{file.stem}-archive"))

    def close(self) -> None:
        """Close the store, if this object opened it."""
        if self._owns_store:
            self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def archive_conversations(
        self,
        ids: Sequence[str] | None = None,
        *,
        older_than_days: int = DAYS,
        now: datetime | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> ArchiveReport:
        """Move the texts of conversations into files: those named in `ids`, else all without a new
        message for `older_than_days`. Without `ids`, important conversations are not archived until
        `MemoryManager.age` finds them old enough; the report says why. A conversation without a
        digest gets one first.

        Texts are removed only after the file was written, synced, read back and compared. If
        archiving a conversation fails, it loses nothing. You may repeat the call at any time, even
        after a crash. `progress` is called with the number done and the total.

        Raises:
            NotFound: the scope has no conversation with one of the ids; nothing was archived.
            StoreFailed: the store cannot be used.
            BlockingCallInLoop: a model writes digests, and this thread runs an event loop.
        """
        at, tell = now or clock_and_ids.now(), progress or (lambda *_: None)
        kept, failed = dict[str, str](), dict[str, str]()
        moved = self.moved()
        archived = {name for name, is_archived in moved.items() if is_archived}
        if ids is None:
            wanted = [
                each
                for each in self._store.sessions(scope=self._scope)
                if each.id not in archived
                and each.branch.messages
                and self._is_older(each, older_than_days, at)
            ]
        else:
            wanted = [self._session(each) for each in dict.fromkeys(ids)]

        def with_digests() -> Iterator[str]:
            for done, each in enumerate(wanted):
                tell(done, len(wanted))
                try:
                    if ids is None and (why := self._reason(each)):
                        kept[each.id] = why
                        continue
                    if each.id not in archived:
                        self._digest(each)
                except (StoreFailed, Superseded, NotFound) as error:
                    failed[each.id] = str(error)
                    continue
                yield each.id

        report = self._archive.archive_sessions(
            with_digests(), folder=self.folder, now=at, kms_key=self._kms_key
        )
        here = {each.id for each in self._store.sessions(scope=self._scope)}  # others were deleted
        failed = {name: why for name, why in {**failed, **report.failed}.items() if name in here}
        return report.model_copy(update={"kept": kept, "failed": failed})

    def _is_older(self, session: Session, days: int, now: datetime) -> bool:
        with suppress(NotFound):  # it was deleted meanwhile
            texts = self._archive.stored_texts(session.id, sensible(now))
            return days_unused(session, now, texts[1]) > days
        return False

    def _reason(self, session: Session) -> str:
        """Return why a session is left to age by itself; an empty string if it is not."""
        if session.metadata.get("important"):
            return MARKED
        retention = retention_of(self._settings)
        return retention.reason(
            importance_of(original_of(self._store, session), session, retention)
        )

    def _digest(self, session: Session) -> None:
        """Write the session's digest, unless an up-to-date one is stored."""
        store = self._archive
        chain = self._store.chain(session.branch.id, session.branch.messages)
        fingerprint = fingerprint_of(self._engine, chain)
        stored = store.digest(session.id)
        is_known = stored is not None and stored.fingerprint == fingerprint
        only_metadata = stored is not None and stored.level is CompressionLevel.METADATA
        if stored is None or not is_known or not (stored.text or only_metadata):
            score = stored.score if stored is not None and is_known else None
            original = original_of(self._store, session)
            written = digest_of(self._engine, original, CompressionLevel.SUMMARY)
            stored = written.model_copy(update={"score": score, "fingerprint": fingerprint})
            store.keep_digest(session.id, stored, chain=chain)

    @cached_property
    def _engine(self) -> CompressionEngine:
        return CompressionEngine(self._store, settings=self._settings)

    def restore_conversation(self, session_id: str, *, now: datetime | None = None) -> Session:
        """Move all texts of a conversation back into the database. Return the session. Its age is
        counted from now on.

        Raises:
            NotFound: the scope has no such conversation.
            StoreDamaged: the archive is missing or was changed; it stays as it is.
        """
        self._session(session_id)
        self._archive.restore_session(session_id)
        session = self._session(session_id)
        used = {RESTORED: (now or clock_and_ids.now()).isoformat()}
        return self._store.describe(
            session_id, title=session.title, metadata={**session.metadata, **used}
        )

    def list_archived(self) -> list[ArchivedConversation]:
        """Return the archived conversations, the one with the newest message first."""
        archived = self._archive.archived_sessions(scope=self._scope)
        return sorted(archived, key=lambda each: instant(each.ended), reverse=True)

    def search_archived(self, query: str, *, limit: int = 10) -> list[ArchivedConversation]:
        """Return archived conversations whose messages, title or tags share words with the query.
        The best match comes first; at most `limit`.
        """
        archived = tuple(name for name, is_archived in self.moved().items() if is_archived)
        if not archived or limit <= 0:
            return []
        only = SearchFilter(sessions=archived)
        best = ranked(self._archive, self._scope, query, most=MOST_HITS, only=only)
        return self.archived_among(best, query)[:limit]

    def archived_among(self, best: Ranked, query: str) -> list[ArchivedConversation]:
        """Return the archived conversations among a search's results, best first. Then those whose
        title or tags share words with the query.
        """
        numbers = dict.fromkeys(best.turns.where(place)[0] for place in best.places)
        words = [piece for name in looked_for(query) for piece in name]
        named = self._archive.archived_named(words, scope=self._scope)
        names = [*(best.turns.sessions[number] for number in numbers), *named]
        found = self._archive.archived_sessions(scope=self._scope, names=dict.fromkeys(names))
        return sorted(found, key=lambda each: names.index(each.session_id))

    def moved(self) -> dict[str, bool]:
        """Return the conversations that have all their texts in their file. The value is True if
        the file is in the archive, and False if it is packed in the database.
        """
        return self._archive.moved_sessions(scope=self._scope)

    def pack(self, ids: Iterable[str], *, now: datetime, older_than: int | None = None) -> None:
        """Pack the texts of conversations in the database. One that fails is left as it is. Ids
        that are not in the scope are skipped. With `older_than`, only messages older than that many
        days are packed.
        """
        times = None if older_than is None else sensible(now, older_than)
        here = {each.id for each in self._store.sessions(scope=self._scope)}
        own = (each for each in ids if each in here)
        self._archive.pack_sessions(own, now=now, times=times)

    def verify(self, progress: Callable[[int, int], None] | None = None) -> list[ArchiveFault]:
        """Return which archive files are missing, changed or unreadable. Changes nothing.
        `progress` is called with the number of archives checked and their total.
        """
        return self._archive.archive_faults(scope=self._scope, progress=progress)

    def _session(self, session_id: str) -> Session:
        session = self._store.session(session_id)
        if session.scope != self._scope:
            raise NotFound(f"no session {session_id!r} in scope {self._scope!r}")
        return session


# --- deleting -------------------------------------------------------------------------------------


def forget(store: SessionStore, session_id: str, settings: CompactConfig) -> ForgottenReport:
    """Delete a session with its archive, and report whether anything is left.

    Copies in a folder are deleted after the session. If the process dies in between, the next
    opening of the store deletes them. Copies elsewhere are deleted first: if that fails, the
    session still exists.

    Raises:
        NotFound: there is no such session.
        StoreFailed: the session or its copies could not be deleted.
        ImportError: a package that the archive needs is not installed.
    """
    forgetting = cast("wiring.SQLiteManager", store)
    return _with_copies([session_id], settings, partial(forgetting.forget_session, session_id))


def forget_scope(store: SessionStore, scope: str, settings: CompactConfig) -> ForgottenReport:
    """Delete all sessions of a scope, like `forget`.

    Raises:
        StoreFailed: the sessions or copies could not be deleted.
        ImportError: a package that the archive needs is not installed.
    """
    names = [each.id for each in store.sessions(scope=scope)]
    forgetting = cast("wiring.SQLiteManager", store)
    return _with_copies(names, settings, partial(forgetting.forget_scope, scope))


def _with_copies(
    names: Sequence[str], settings: CompactConfig, delete: Callable[..., ForgottenReport]
) -> ForgottenReport:
    kept = wiring.storage_adapter(settings.archive, kms_key=settings.archive_kms_key)
    folders: tuple[str, ...] = ()
    removed = 0
    if isinstance(kept, CopiesInFolders):
        folders = tuple(map(kept.place_of, names))
    elif isinstance(kept, ForgetsCopies):
        removed = sum(map(kept.forget, names))
    report = delete(copies=folders)
    if not removed:
        return report
    return report.model_copy(update={"removed": {**report.removed, "copies": removed}})
