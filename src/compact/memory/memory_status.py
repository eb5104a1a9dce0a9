"""How a memory stands: what it holds, how old that has become, and what is still to be done."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from pydantic import BaseModel, Field

from compact.text.digests import CompressionLevel


class MemoryStatus(BaseModel, frozen=True, defer_build=True):
    """What a memory holds of one scope; the file may hold other scopes as well."""

    scope: str
    sessions: int = 0
    messages: int = 0
    """Of the branches in force, archived ones included."""
    important: int = 0
    """Sessions that somebody marked so."""
    first: datetime | None = None
    """When its oldest session began; None where there is none."""
    last: datetime | None = None
    """The time of its newest message."""
    levels: Mapping[CompressionLevel, int] = Field(default_factory=dict)
    """Level → sessions that have it by their digest."""
    archived: int = 0
    """Sessions whose originals are in the archive."""
    archive_bytes: int = 0
    """Of those originals, as they are kept."""
    archive_folder: str | None = None
    """Where archives go; None where a memory without a file was given no folder."""
    file_bytes: int | None = None
    """Of the whole database and its log; None of one in memory."""
    unindexed: int = 0
    """Messages of all scopes that the next search indexes first."""
    unembedded: int | None = None
    """Messages of all scopes without a vector; None where there is no embedder, or where it cannot
    be asked."""
    embedder: str | None = None
    """Whose vectors a search uses."""
    embedder_failed: str | None = None
    """Why the embedder cannot be asked; None where it can."""
