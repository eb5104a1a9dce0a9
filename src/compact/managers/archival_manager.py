"""`ArchivalManager`: conversations that are old go into files, and come back whole.

    archives = ArchivalManager("chat.db")
    archives.archive_conversations()          # those without a new message for 90 days
    archives.restore_conversation("harbour")  # every byte of it

Each is two files below `chat-archive/YYYY/MM/`: one that a person can read, and the originals. A
session that is archived is still listed, read and recalled from; whoever goes on with it restores
it. A search of memory does not find its messages: `search_archived` finds what it says in short.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Self, cast

from compact import wiring
from compact.core import clock_and_ids
from compact.core.archived import ArchivedConversation, ArchiveFault, ArchiveReport
from compact.core.calls import checked_methods
from compact.core.codec import instant
from compact.core.memory_protocols import DigestStore, SessionArchive
from compact.core.protocols import SessionStore
from compact.core.sessions import DEFAULT_SCOPE, Session
from compact.errors import InvalidArgument, NotFound

DAYS = 90
"""Without a new message, after which a conversation is archived unless other days are given."""
Digest = Callable[[SessionStore, Session], str | None]
"""What a conversation says in short, or None."""


def digest_of(store: SessionStore, session: Session) -> str | None:
    """What a conversation says in short: the digest that stands beside it, else its newest
    checkpoint.
    """
    digest = cast("DigestStore", store).digest(session.id) if hasattr(store, "digest") else None
    if digest is not None and digest.text:
        return digest.text
    checkpoints = store.checkpoints(session.id)
    return checkpoints[-1].summary if checkpoints else None


@checked_methods
class ArchivalManager:
    """The archive of the conversations of one scope and no others, in the file of a store, or in a
    store that is open already. `folder` is where files go: by default `NAME-archive` beside the
    file. `digest` says what a conversation says in short.

    Raises:
        StoreFailed, StoreDamaged: the file cannot be opened.
        InvalidArgument: the store keeps no archive.
    """

    def __init__(
        self,
        path: str | Path | SessionStore,
        *,
        folder: str | Path | None = None,
        scope: str = DEFAULT_SCOPE,
        digest: Digest = digest_of,
    ) -> None:
        self._store = wiring.session_store(path)
        self._owns_store = isinstance(path, str | Path)
        self._scope, self._digest = scope, digest
        if not hasattr(self._store, "archive_sessions"):
            raise InvalidArgument("path", "an archive needs a store in a file: a file's name")
        self._archive = cast("SessionArchive", self._store)
        self._folder = None if folder is None else Path(folder)

    @property
    def folder(self) -> Path:
        """Where files go.

        Raises:
            InvalidArgument: the store is in memory, and no folder was given.
        """
        if self._folder is not None:
            return self._folder
        name = getattr(self._store, "path", ":memory:")
        if name == ":memory:":
            raise InvalidArgument(
                "folder", "a store in memory archives into a folder that is given"
            )
        file = Path(name)
        return file.with_name(f"{file.stem}-archive")

    def close(self) -> None:
        """Let go of the file, if it was opened here."""
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
    ) -> ArchiveReport:
        """Move the messages of conversations into files: of those that are named, else of those
        without a new message for so many days that are not marked important. Nothing is removed
        before both files were written, synced, read back and compared; of a conversation that
        fails, nothing is removed at all. May be called again at any time, after a crash too.

        Raises:
            NotFound: the scope has no conversation of a name; nothing was archived.
            StoreFailed: the store cannot be used.
        """
        at = now or clock_and_ids.now()
        if ids is None:
            wanted = self._old(at - timedelta(days=older_than_days))
        else:
            wanted = [self._session(each) for each in dict.fromkeys(ids)]
        told = {each.id: self._digest(self._store, each) for each in wanted}
        return self._archive.archive_sessions(told, folder=str(self.folder), now=at)

    def _old(self, before: datetime) -> list[Session]:
        archived = {each.session_id for each in self.list_archived()}
        return [
            each
            for each in self._store.sessions(scope=self._scope)
            if each.id not in archived
            and each.branch.messages
            and not each.metadata.get("important")
            and instant(each.updated_at) < instant(before)
        ]

    def restore_conversation(self, session_id: str) -> Session:
        """Bring every message of a conversation back into the database; it as it stands then. Its
        words are indexed again, and its vectors are pending.

        Raises:
            NotFound: the scope has no such conversation.
            StoreDamaged: its archive is missing or altered; it stays as it is.
        """
        self._session(session_id)
        self._archive.restore_session(session_id)
        return self._session(session_id)

    def list_archived(self) -> list[ArchivedConversation]:
        """The conversations that are archived, the one with the newest message first."""
        found = self._archive.archived_sessions(scope=self._scope)
        return sorted(found, key=lambda each: instant(each.ended), reverse=True)

    def search_archived(self, query: str, *, limit: int = 10) -> list[ArchivedConversation]:
        """The archived conversations whose title, tags or digest share words with a question, the
        best by BM25 first.
        """
        most = max(0, limit)
        return self._archive.archived_sessions(scope=self._scope, query=query, most=most)

    def verify(self) -> list[ArchiveFault]:
        """What is wrong with the files: missing, altered, not to be read. Nothing is changed."""
        return self._archive.archive_faults(scope=self._scope)

    def _session(self, session_id: str) -> Session:
        found = self._store.session(session_id)
        if found.scope != self._scope:
            raise NotFound(f"no session {session_id!r} in scope {self._scope!r}")
        return found
