"""Reports on archived conversations. Their texts are in archive files, not in the database."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

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
