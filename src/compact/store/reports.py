"""Reports of a store: what a backup holds, and what a deletion removed."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

from pydantic import BaseModel, Field


class BackupCounts(NamedTuple):
    """What a database and its archives hold."""

    sessions: int
    messages: int
    """Those of archived sessions included."""
    archives: int


class BackupReport(BaseModel, frozen=True, defer_build=True):
    """A backup that was made, or the store that was made of one."""

    path: str
    """The backup's folder; of a restored store its file."""
    made_at: datetime
    """When the backup was made."""
    sessions: int
    messages: int
    """Those of archived sessions included."""
    archives: int
    files: int
    """That were written; without the manifest."""
    bytes: int
    """Of these files."""


class ForgottenReport(BaseModel, frozen=True, defer_build=True):
    """What was removed of a deleted session, and what is still left of it."""

    session_id: str
    removed: Mapping[str, int] = Field(default_factory=dict)
    """Kind → how many: rows by their tables, entries of the word index, and files."""
    quoted: Mapping[str, int] = Field(default_factory=dict)
    """Other session → how many entries of its log named what was recalled of this one."""
    remains: tuple[str, ...] = ()
    """What was found of it afterwards, as sentences; none where nothing is left."""

    @property
    def is_complete(self) -> bool:
        """Whether nothing is left."""
        return not self.remains
