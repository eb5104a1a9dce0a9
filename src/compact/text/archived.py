"""Reports on archived conversations. Their texts are in archive files, not in the database.

What a store reports: the content of a backup, and what a deletion removed.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

from pydantic import BaseModel, Field


class ArchivedConversation(BaseModel, frozen=True, defer_build=True):
    """A conversation whose texts are in the archive."""

    session_id: str
    scope: str
    title: str | None
    tags: tuple[str, ...] = ()
    begun: datetime
    ended: datetime
    """The time of the conversation's last message."""
    archived_at: datetime
    messages: int
    """Number of archived messages in all branches."""
    tokens: int
    """Number of their counted tokens."""
    digest: str | None
    file: str
    """The file with the whole conversation. `sessions import` reads it."""
    bytes: int
    """Size of the file, in bytes."""


class ArchiveReport(BaseModel, frozen=True, defer_build=True):
    """The result of archiving."""

    archived: tuple[ArchivedConversation, ...] = ()
    """Conversations that are in the archive now, including those that were archived before."""
    failed: Mapping[str, str] = Field(default_factory=dict)
    """Session → why archiving failed. No text of such a session was removed."""
    kept: Mapping[str, str] = Field(default_factory=dict)
    """Session that is old enough to archive → why it stays: what is important ages slower."""
    bytes_before: int = 0
    """Size of the database before archiving."""
    bytes_after: int = 0
    """Size of the database after archiving."""


class ArchiveFault(BaseModel, frozen=True, defer_build=True):
    """Something that is wrong with an archive file."""

    session_id: str
    file: str
    what: str


# --- reports --------------------------------------------------------------------------------------


class BackupCounts(NamedTuple):
    """How much a database and its archives hold."""

    sessions: int
    messages: int
    """Includes archived messages."""
    archives: int


class BackupReport(BaseModel, frozen=True, defer_build=True):
    """Describes a new backup, or a store that was restored from a backup."""

    path: str
    """The backup's folder. For a restored store, the store's file."""
    made_at: datetime
    """When the backup was made."""
    sessions: int
    messages: int
    """Includes archived messages."""
    archives: int
    files: int
    """How many files were written, not counting the manifest."""
    bytes: int
    """Size of the written files in bytes."""


class ForgottenReport(BaseModel, frozen=True, defer_build=True):
    """What a deletion removed of one session or of a whole scope, and what it left."""

    session_id: str | None = None
    """The deleted session; None if a whole scope was deleted."""
    scope: str | None = None
    """The deleted scope; None if only one session was deleted."""
    removed: Mapping[str, int] = Field(default_factory=dict)
    """Kind → how many were removed. Kinds are tables, the word index and files."""
    quoted: Mapping[str, int] = Field(default_factory=dict)
    """Other session → how many of its log entries named recalled turns of the deleted session."""
    remains: tuple[str, ...] = ()
    """What was still found after the deletion, as sentences."""

    @property
    def is_complete(self) -> bool:
        """Whether nothing remains."""
        return not self.remains
