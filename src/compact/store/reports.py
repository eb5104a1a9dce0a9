"""Reports of a store: what a backup holds, and what a deletion removed."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

from pydantic import BaseModel, Field


class BackupCounts(NamedTuple):
    """Contents of a database with its archives."""

    sessions: int
    messages: int
    """Archived ones included."""
    archives: int


class BackupReport(BaseModel, frozen=True, defer_build=True):
    """A backup that was made, or a store restored from one."""

    path: str
    """The backup's folder; of a restored store its file."""
    made_at: datetime
    """When the backup was made."""
    sessions: int
    messages: int
    """Archived ones included."""
    archives: int
    files: int
    """Files written, without the manifest."""
    bytes: int
    """Bytes of these files."""


class ForgottenReport(BaseModel, frozen=True, defer_build=True):
    """What was removed of a deleted session, and what remains."""

    session_id: str
    removed: Mapping[str, int] = Field(default_factory=dict)
    """Kind → count: rows by table, entries of the word index, files."""
    quoted: Mapping[str, int] = Field(default_factory=dict)
    """Other session → log entries that named recalled turns of this one."""
    remains: tuple[str, ...] = ()
    """Remains found after the deletion, as sentences."""

    @property
    def is_complete(self) -> bool:
        """Whether nothing remains."""
        return not self.remains
