"""The ports of memory: what search, ageing and archiving need from a store beyond `SessionStore`.

If a store lacks a port, the feature that needs the port raises an error that says so.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, runtime_checkable

if TYPE_CHECKING:
    from datetime import datetime

    from compact.messages.sessions import Entry, Session
    from compact.store.whole_session import WholeSession
    from compact.text.archived import (
        ArchivedConversation,
        ArchiveFault,
        ArchiveReport,
        BackupCounts,
        ForgottenReport,
    )
    from compact.text.digests import CompressedConversation, DigestNote, Lease
    from compact.text.found import Told
    from compact.text.turns import Keys, TurnTable


class TurnIndex(Protocol):
    """What search over many sessions needs from a store. Messages are identified by keys: whole
    numbers that are consecutive within a branch.
    """

    def turns(self, scope: str | None) -> TurnTable:
        """Return the messages of a scope's sessions, or of all sessions. First bring the index up
        to date as far as possible. An earlier result may be returned again if nothing has changed.
        """

    def holding(
        self,
        names: Sequence[Sequence[str]],
        within: Sequence[tuple[int, int]] = (),
        most: int | None = None,
    ) -> list[Keys]:
        """Return, for each name, the messages that contain all its words, compared by their stems.
        `within` limits them to ranges of keys, both ends included. A name found in more than `most`
        messages gets no messages.
        """

    def important(self, least: float) -> Keys:
        """Return the messages whose stored importance is at least `least`."""

    def told(self, keys: Sequence[int], sessions: Sequence[str]) -> Told:
        """Return the messages with these keys, the titles of these sessions, and why archives could
        not be read. Missing messages and titles are left out.
        """


class IndexUpkeep(Protocol):
    """Brings an index up to date before a search."""

    def catch_up(self, progress: Callable[[int, int], None] | None = None) -> bool:
        """Index what was stored since; return whether that worked. `progress` is called after each
        batch with the number of messages done and the total.
        """

    def unindexed(self) -> int:
        """Return how many messages are not indexed yet."""


Times: TypeAlias = tuple[int, int, int]
"""Three times: the earliest that is plausible for a message, the start of what is not old, and the
latest that is plausible."""


class DigestStore(Protocol):
    """Keeps what ageing leaves of sessions: at most one digest each, next to the messages."""

    def digest(self, session_id: str) -> CompressedConversation | None:
        """Return the session's digest, if there is one."""

    def digest_notes(self, scope: str | None) -> dict[str, DigestNote]:
        """Return facts about the digests of a scope's sessions, or of all, by session id."""

    def keep_digest(
        self,
        session_id: str,
        digest: CompressedConversation | None,
        *,
        chain: bytes,
        lease: Lease | None = None,
    ) -> None:
        """Store a session's digest durably instead of the earlier one. None removes the digest.

        Raises:
            Superseded: the active branch has other messages by now (`chain` is not its hash), or
                another process has the lease.
        """

    def stored_texts(self, session_id: str, times: Times) -> tuple[int, int | None, bool]:
        """Return three facts about the active branch's messages: their bytes without indexes, their
        latest plausible time, and whether packing the old ones is worthwhile.
        """


class Leases(Protocol):
    """Decides which of several processes does a piece of work."""

    def hold_lease(self, lease: Lease, *, now: datetime, until: datetime) -> bool:
        """Take or renew a lease. Return False if another process holds it beyond `now`."""

    def release_lease(self, lease: Lease) -> None:
        """Release a lease. Do nothing if another process has it by now."""


class SessionArchive(Protocol):
    """Sessions whose texts were moved into files. Their words and vectors stay in the index."""

    def archive_sessions(
        self, wanted: Iterable[str], *, folder: str, now: datetime, kms_key: str | None = None
    ) -> ArchiveReport:
        """Move the texts of sessions into files, in a folder or below `s3://BUCKET/PREFIX`, there
        sealed by a KMS key if one is given. Texts are removed only after their files were written
        and read back.
        """

    def pack_sessions(
        self, wanted: Iterable[str], *, now: datetime, times: Times | None = None
    ) -> dict[str, str]:
        """Move the texts of sessions into compressed files in the database; with `times`, only
        those that are old. Archived sessions stay where they are. Return why a session was not
        packed, by session.
        """

    def moved_sessions(self, *, scope: str | None = None) -> dict[str, bool]:
        """Return the sessions whose texts are all in files, of a scope or of all scopes. True means
        that the file is in the archive, false that it is inside the store.
        """

    def restore_session(self, session_id: str) -> None:
        """Store the texts of a session again, byte for byte.

        Raises:
            NotFound: there is no such session.
            StoreDamaged: the archive is missing, or is not what was written.
        """

    def archived_sessions(
        self, *, scope: str | None = None, names: Collection[str] | None = None
    ) -> list[ArchivedConversation]:
        """Return the archived sessions of a scope, or of all scopes; with `names` only those."""

    def archived_named(self, words: Sequence[str], *, scope: str | None = None) -> list[str]:
        """Return the archived sessions of a scope, or of all scopes, whose title or tags have one
        of these words.
        """

    def archive_faults(
        self, *, scope: str | None = None, progress: Callable[[int, int], None] | None = None
    ) -> list[ArchiveFault]:
        """Return the damage in the archive files of a scope, or of all scopes. `progress` is called
        with the number of archives done and the total.
        """


@runtime_checkable
class BlobStore(Protocol):
    """Keeps whole files under names such as `2026/05/roof.json`, in a folder, a bucket or
    elsewhere. It is safe to use from many threads and processes.
    """

    def put(self, name: str, data: bytes, *, replaces: bool = False) -> None:
        """Keep data under a name, all or nothing. The data are durable when this returns. If
        several callers use one name at once, one succeeds, unless they replace.

        Raises:
            FileExistsError: something is kept under that name, and `replaces` is off.
            FileNotFoundError: another caller deleted that name meanwhile.
            StoreFailed: the data could not be kept.
        """

    def get(self, name: str) -> bytes:
        """Return the data under a name.

        Raises:
            FileNotFoundError: there are none.
            StoreFailed: the data cannot be read now, or not with this key.
            StoreDamaged: the data are not what was put there.
        """

    def delete(self, name: str) -> None:
        """Remove the data under a name. Do nothing if there are none.

        Raises:
            StoreFailed: the data could not be removed.
        """

    def address(self, name: str) -> str:
        """Return where the data are, for people to read."""


class SessionBackup(Protocol):
    """Copies a store while it is in use."""

    def copy_into(
        self, file: str, archive: str, *, progress: Callable[[int, int], None] | None = None
    ) -> BackupCounts:
        """Copy the database to a new file, and its sessions' archives to a new folder next to the
        file. `progress` is called with the number of bytes done and the total.

        Raises:
            StoreFailed: the file or folder exists already, or something cannot be read or written.
            StoreDamaged: an archive is missing or altered.
        """


class SessionTransfer(Protocol):
    """Brings sessions from elsewhere into a store. Each step is all or nothing."""

    def put_session(self, whole: WholeSession) -> Session:
        """Store a new session with everything that belongs to it. Return the stored session.

        Raises:
            Superseded: a session with that id exists.
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
        """Append what a session's source has in addition, and merge this metadata into the
        session's own.

        Raises:
            Superseded: the branch does not have `expected` messages any more.
        """


class SessionForgetting(Protocol):
    """Deletes sessions everywhere, with proof."""

    def forget_session(self, session_id: str, *, copies: Sequence[str] = ()) -> ForgottenReport:
        """Delete a session, quotes from it in other sessions of its scope, and folders of copies
        that compressions made. Then search for remains.

        Raises:
            NotFound: there is no such session.
        """

    def forget_scope(self, scope: str, *, copies: Sequence[str] = ()) -> ForgottenReport:
        """Delete all sessions of a scope in the same way, all or none of them."""


@runtime_checkable
class CopiesInFolders(Protocol):
    """A `StorageAdapter` that keeps its copies of a session in one folder."""

    def place_of(self, session_id: str) -> str:
        """Return the folder of a session. It need not exist."""


@runtime_checkable
class ForgetsCopies(Protocol):
    """A `StorageAdapter` that can delete its copies of a session."""

    def forget(self, session_id: str) -> int:
        """Delete everything kept of a session. Return how many things were deleted.

        Raises:
            StoreFailed: something could not be deleted.
        """
