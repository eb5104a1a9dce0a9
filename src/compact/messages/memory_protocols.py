"""The ports of memory: what search, ageing and archiving need of a store beyond `SessionStore`.

If a store lacks a port, the feature that needs it raises an error that says so.
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
    """What search over many sessions needs of a store. Messages are named by keys: whole numbers
    that are consecutive within a branch.
    """

    def turns(self, scope: str | None) -> TurnTable:
        """The messages of a scope's sessions, or of all. The index catches up first, as far as it
        can. An earlier result may be returned again if nothing has changed.
        """

    def holding(
        self, names: Sequence[Sequence[str]], within: Sequence[tuple[int, int]] = ()
    ) -> list[Keys]:
        """For each name, the messages that hold all its words, by their stems. `within` limits them
        to ranges of keys, both ends included.
        """

    def important(self, least: float) -> Keys:
        """The messages whose stored importance is at least `least`."""

    def told(
        self, keys: Sequence[int], sessions: Sequence[str]
    ) -> tuple[dict[int, Message], dict[str, str | None]]:
        """The messages of these keys and the titles of these sessions, except missing ones."""


class IndexUpkeep(Protocol):
    """Brings an index up to date before a search."""

    def catch_up(self, progress: Callable[[int, int], None] | None = None) -> bool:
        """Index what was stored since; returns whether that worked. `progress` gets the number of
        messages done and the total, after each batch.
        """

    def unindexed(self) -> int:
        """How many messages are not indexed yet."""


class DigestStore(Protocol):
    """What ageing leaves of sessions: at most one digest each, beside the messages."""

    def digest(self, session_id: str) -> CompressedConversation | None:
        """The session's digest, if it has one."""

    def digest_notes(self, scope: str | None) -> dict[str, DigestNote]:
        """Facts of the digests of a scope's sessions, or of all, by session id."""

    def keep_digest(
        self,
        session_id: str,
        digest: CompressedConversation | None,
        *,
        chain: bytes,
        lease: Lease | None = None,
    ) -> None:
        """Replace the session's digest durably; None removes it.

        Raises:
            Superseded: the branch in force has other messages by now (`chain` is not its hash), or
                another process has the lease.
        """

    def stored_bytes(self, session_id: str) -> int:
        """Bytes of the messages of the session's branch in force, without indexes."""


class Leases(Protocol):
    """Decides which of several processes does a piece of work."""

    def hold_lease(self, lease: Lease, *, now: datetime, until: datetime) -> bool:
        """Take or renew a lease. False if another process holds it beyond `now`."""

    def release_lease(self, lease: Lease) -> None:
        """Release a lease. Nothing happens if another process has it by now."""


class SessionArchive(Protocol):
    """Sessions whose messages were moved from the store into files."""

    def archive_sessions(
        self,
        wanted: Iterable[tuple[str, str | None]],
        *,
        folder: str,
        now: datetime,
        kms_key: str | None = None,
    ) -> ArchiveReport:
        """Move the messages of sessions into files, in a folder or below `s3://BUCKET/PREFIX`,
        there sealed by a KMS key if one is given. `wanted` pairs each session id with a short
        description. Messages are removed only after their files were written and read back.
        """

    def restore_session(self, session_id: str) -> None:
        """Store the messages of an archived session again, byte for byte.

        Raises:
            NotFound: there is no such session.
            StoreDamaged: its archive is missing, or is not what was written.
        """

    def archived_sessions(
        self, *, scope: str | None = None, query: str | None = None, most: int | None = None
    ) -> list[ArchivedConversation]:
        """The archived sessions of a scope, or of all. With a query, only those whose description
        shares words with it, best first.
        """

    def archive_faults(
        self, *, scope: str | None = None, progress: Callable[[int, int], None] | None = None
    ) -> list[ArchiveFault]:
        """Damage in the files of a scope's archived sessions, or of all. `progress` gets the number
        of archives done and the total.
        """


@runtime_checkable
class BlobStore(Protocol):
    """Whole files under names such as `2026/05/roof.json`, in a folder, a bucket or elsewhere. Safe
    to use from many threads and processes.
    """

    def put(self, name: str, data: bytes, *, replaces: bool = False) -> None:
        """Keep data under a name, all or nothing. The data are durable when this returns. If
        several callers put under one name at once, one succeeds, unless they replace.

        Raises:
            FileExistsError: something is kept under that name, and `replaces` is off.
            StoreFailed: the data could not be kept.
        """

    def get(self, name: str) -> bytes:
        """The data under a name.

        Raises:
            FileNotFoundError: nothing is.
            StoreFailed: it cannot be read now, or not with this key.
            StoreDamaged: it is not what was put there.
        """

    def delete(self, name: str) -> None:
        """Remove the data under a name. Nothing happens if there are none.

        Raises:
            StoreFailed: it could not be removed.
        """

    def address(self, name: str) -> str:
        """The place of that data, for people."""


class SessionBackup(Protocol):
    """Copies a store while it is in use."""

    def copy_into(
        self, file: str, archive: str, *, progress: Callable[[int, int], None] | None = None
    ) -> BackupCounts:
        """Copy the database to a new file, and the archives of its sessions into a new folder
        beside it. `progress` gets the number of bytes done and the total.

        Raises:
            StoreFailed: something of these names is there already, or cannot be read or written.
            StoreDamaged: an archive is missing or altered.
        """


class SessionTransfer(Protocol):
    """Brings sessions from elsewhere into a store. Each step is all or nothing."""

    def put_session(self, whole: WholeSession) -> Session:
        """Store a new session with everything that belongs to it; returns the stored session.

        Raises:
            Superseded: there is a session of that id.
            InvalidInput: another session has a branch or a projection of one of its ids.
        """

    def add_from_source(
        self,
        branch_id: str,
        entries: Sequence[Entry],
        *,
        expected: int,
        metadata: Mapping[str, Any],
    ) -> None:
        """Append what the source of a session has beyond it, and add this metadata to the session's
        own.

        Raises:
            Superseded: the branch does not have `expected` messages any more.
        """


class SessionForgetting(Protocol):
    """Deletes a session everywhere, with proof."""

    def forget_session(self, session_id: str, *, copies: Sequence[str] = ()) -> ForgottenReport:
        """Delete a session, quotes of it in other sessions of its scope, and folders of copies that
        compressions left. Then search for remains.

        Raises:
            NotFound: there is no such session.
        """


@runtime_checkable
class CopiesInFolders(Protocol):
    """A `StorageAdapter` that keeps its copies of a session in one folder."""

    def place_of(self, session_id: str) -> str:
        """The folder of a session. It need not exist."""


@runtime_checkable
class ForgetsCopies(Protocol):
    """A `StorageAdapter` that can delete its copies of a session."""

    def forget(self, session_id: str) -> int:
        """Delete everything kept of a session; returns how many things were deleted.

        Raises:
            StoreFailed: something could not be deleted.
        """
