"""Reports about conversations whose messages are in archive files, no longer in the database."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from pydantic import BaseModel, Field


class ArchivedConversation(BaseModel, frozen=True, defer_build=True):
    """A conversation whose originals are in the archive."""

    session_id: str
    scope: str
    title: str | None
    tags: tuple[str, ...] = ()
    begun: datetime
    ended: datetime
    """The time of its last message."""
    archived_at: datetime
    messages: int
    """Messages of all branches."""
    tokens: int
    """Counted tokens of all branches."""
    digest: str | None
    file: str
    """The file that describes it. The originals lie beside it."""
    bytes: int
    """Size of the originals on disk."""


class ArchiveReport(BaseModel, frozen=True, defer_build=True):
    """The result of archiving."""

    archived: tuple[ArchivedConversation, ...] = ()
    """Conversations that are in the archive now, also those archived before."""
    failed: Mapping[str, str] = Field(default_factory=dict)
    """Session → why archiving it failed. Nothing of it was removed."""
    kept: Mapping[str, str] = Field(default_factory=dict)
    """Session that is old enough → why it stays: some sessions are kept whole at any age."""
    bytes_before: int = 0
    """Size of the database before archiving."""
    bytes_after: int = 0
    """Its size after archiving."""


class ArchiveFault(BaseModel, frozen=True, defer_build=True):
    """A fault of an archive."""

    session_id: str
    file: str
    what: str
