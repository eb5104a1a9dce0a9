"""What is told of a backup: what is in it, and where it lies."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from pydantic import BaseModel


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
