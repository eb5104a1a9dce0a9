"""What is told of a session that was deleted everywhere."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel, Field


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
