"""What is told of conversations whose messages lie in files, and no longer in the database."""

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
    """Of all its branches."""
    tokens: int
    """Of all its branches, as far as they were counted."""
    digest: str | None
    """What it says in short."""
    file: str
    """Where it is described; the originals lie beside it."""
    bytes: int
    """Of the originals, as they are kept."""


class ArchiveReport(BaseModel, frozen=True, defer_build=True):
    """What became of conversations that were to be archived."""

    archived: tuple[ArchivedConversation, ...] = ()
    """Those that are in the archive now, those that were there before included."""
    failed: Mapping[str, str] = Field(default_factory=dict)
    """Session → why it is not: nothing of it was removed."""
    kept: Mapping[str, str] = Field(default_factory=dict)
    """Session that is old enough → why it stays nevertheless: it is kept whole whatever its age."""
    bytes_before: int = 0
    """Of the database."""
    bytes_after: int = 0


class ArchiveFault(BaseModel, frozen=True, defer_build=True):
    """Something that is wrong with an archive."""

    session_id: str
    file: str
    what: str
