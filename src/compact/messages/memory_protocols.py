"""The ports of memory: what searching, ageing and archiving ask of a store beyond `SessionStore`.

A store that lacks one lacks what stands on it, and whoever asks is told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from datetime import datetime

    from compact.messages.messages import Message
    from compact.messages.sessions import Entry, Session
    from compact.store.reports import BackupCounts, ForgottenReport
    from compact.store.whole_session import WholeSession
    from compact.text.archived import ArchivedConversation, ArchiveFault, ArchiveReport
    from compact.text.digests import CompressedConversation, DigestNote, Lease
    from compact.text.turns import Keys, TurnTable


class TurnIndex(Protocol):
    """What a search over many sessions asks of a store. Messages go by keys: whole numbers that
    follow each other within a branch.
    """

    def turns(self, scope: str | None) -> TurnTable:
        """The messages of a scope's sessions, or of all sessions, the index having caught up as far
        as it can. What was returned before may be returned again while nothing has changed.
        """
        ...

    def holding(
        self, names: Sequence[Sequence[str]], within: Sequence[tuple[int, int]] = ()
    ) -> list[Keys]:
        """For each name, the messages that hold all its words, by their stems; within ranges of
        keys, both ends included, where a few are given.
        """
        ...

    def important(self, least: float) -> Keys:
        """The messages whose stored importance is at least that."""
        ...

    def told(
        self, keys: Sequence[int], sessions: Sequence[str]
    ) -> tuple[dict[int, Message], dict[str, str | None]]:
        """The messages of these keys, and the titles of these sessions; none of what is not there
        any more.
        """
        ...


class IndexUpkeep(Protocol):
    """How an index is brought up to date before anybody searches."""

    def catch_up(self, progress: Callable[[int, int], None] | None = None) -> bool:
        """Index what was stored since; whether that could be done. `progress` is told after each
        batch how many messages are done, and of how many.
        """
        ...

    def unindexed(self) -> int:
        """How many messages are in no index yet."""
        ...


class DigestStore(Protocol):
    """What age leaves of sessions: at most one digest of each, beside its messages."""

    def digest(self, session_id: str) -> CompressedConversation | None:
        """The session's digest, if it has one."""
        ...

    def digest_notes(self, scope: str | None) -> dict[str, DigestNote]:
        """What is known of the digests of a scope's sessions, or of all, by the sessions' ids."""
        ...

    def keep_digest(
        self,
        session_id: str,
        digest: CompressedConversation | None,
        *,
        chain: bytes,
        lease: Lease | None = None,
    ) -> None:
        """Put a digest, or None, in the place of the session's own, durably.

        Raises:
            Superseded: `chain` is not the hash of the branch in force any more, so that other
                messages are there; or somebody else has the lease by now.
        """
        ...

    def stored_bytes(self, session_id: str) -> int:
        """Bytes of the messages of the session's branch in force, without indexes."""
        ...


class Leases(Protocol):
    """Who of several processes does a piece of work."""

    def hold_lease(self, lease: Lease, *, now: datetime, until: datetime) -> bool:
        """Take or renew a lease; False where somebody else holds it beyond `now`."""
        ...

    def release_lease(self, lease: Lease) -> None:
        """Let go of a lease; nothing where somebody else has it by now."""
        ...


class SessionArchive(Protocol):
    """What a store does with sessions whose messages lie in files, and no longer in it."""

    def archive_sessions(
        self,
        wanted: Iterable[tuple[str, str | None]],
        *,
        folder: str,
        now: datetime,
        kms_key: str | None = None,
    ) -> ArchiveReport:
        """Move the messages of sessions into files, in a folder or below `s3://BUCKET/PREFIX`,
        there sealed by a KMS key where one is given; `wanted` is each with what it says in short.
        Nothing of a session is removed before its files are kept and were read back.
        """
        ...

    def restore_session(self, session_id: str) -> None:
        """Store the messages of an archived session again, every byte of them.

        Raises:
            NotFound: there is no such session.
            StoreDamaged: its archive is missing, or is not what was written.
        """
        ...

    def archived_sessions(
        self, *, scope: str | None = None, query: str | None = None, most: int | None = None
    ) -> list[ArchivedConversation]:
        """What is archived of a scope, or of all; with a query those at most that share words with
        it in what they say in short, the best first.
        """
        ...

    def archive_faults(
        self, *, scope: str | None = None, progress: Callable[[int, int], None] | None = None
    ) -> list[ArchiveFault]:
        """What is wrong with the files of a scope's archived sessions, or of all. `progress` is
        told how many archives are done, and of how many.
        """
        ...


@runtime_checkable
class BlobStore(Protocol):
    """Whole files under names such as `2026/05/roof.json`, in a folder, a bucket or elsewhere. Safe
    from many threads and processes.
    """

    def put(self, name: str, data: bytes, *, replaces: bool = False) -> None:
        """Keep data under a name: all of it, or as if the call had not been. When this returns,
        they last. Of several that put under one name at once, one does, unless they replace.

        Raises:
            FileExistsError: something is kept under that name, and `replaces` is off.
            StoreFailed: the data could not be kept.
        """
        ...

    def get(self, name: str) -> bytes:
        """What is kept under a name.

        Raises:
            FileNotFoundError: nothing is.
            StoreFailed: it cannot be read now, or not with this key.
            StoreDamaged: it is not what was put there.
        """
        ...

    def delete(self, name: str) -> None:
        """Remove what is kept under a name; nothing where nothing is.

        Raises:
            StoreFailed: it could not be removed.
        """
        ...

    def address(self, name: str) -> str:
        """Where that is, for people."""
        ...


class SessionBackup(Protocol):
    """Copying a store while it is in use."""

    def copy_into(
        self, file: str, archive: str, *, progress: Callable[[int, int], None] | None = None
    ) -> BackupCounts:
        """Copy the database to a new file, and the archives of its sessions into a new folder
        beside that. `progress` is told how many bytes are done, and of how many.

        Raises:
            StoreFailed: something of these names is there already, or cannot be read or written.
            StoreDamaged: an archive is missing or altered.
        """
        ...


class SessionTransfer(Protocol):
    """Sessions that come into a store from elsewhere, each step all or nothing."""

    def put_session(self, whole: WholeSession) -> Session:
        """Store a new session with everything that belongs to it; it as it stands then.

        Raises:
            Superseded: there is a session of that id.
            InvalidInput: another session has a branch or a projection of one of its ids.
        """
        ...

    def add_from_source(
        self,
        branch_id: str,
        entries: Sequence[Entry],
        *,
        expected: int,
        metadata: Mapping[str, Any],
    ) -> None:
        """Append what the source of a session has more, and put this metadata beside its own.

        Raises:
            Superseded: the branch does not have `expected` messages any more.
        """
        ...


class SessionForgetting(Protocol):
    """Deleting a session everywhere, with proof."""

    def forget_session(self, session_id: str, *, copies: Sequence[str] = ()) -> ForgottenReport:
        """Delete a session, what other sessions of its scope quote of it, and folders of copies
        that compressions left behind; then look for what is left.

        Raises:
            NotFound: there is no such session.
        """
        ...


@runtime_checkable
class CopiesInFolders(Protocol):
    """A `StorageAdapter` that keeps what it has of a session in a folder."""

    def place_of(self, session_id: str) -> str:
        """The folder of a session, whether it is there or not."""
        ...


@runtime_checkable
class ForgetsCopies(Protocol):
    """A `StorageAdapter` that can delete what it has of a session."""

    def forget(self, session_id: str) -> int:
        """Delete all that is kept of a session; how many things that was.

        Raises:
            StoreFailed: something could not be deleted.
        """
        ...
