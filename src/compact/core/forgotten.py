"""What is told of a session that was deleted everywhere."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel, Field


class ForgottenReport(BaseModel, frozen=True, defer_build=True):
    """The proof that a session is deleted: what was removed, and what a search for it still found
    afterwards.
    """

    session_id: str
    removed: Mapping[str, int] = Field(default_factory=dict)
    """Kind → how many: rows by their tables, entries of the word index, and files."""
    quoted: Mapping[str, int] = Field(default_factory=dict)
    """Other session → how many entries of its log named what was recalled of this one."""
    bytes_before: int = 0
    """Of the database with its log, and of the files that went."""
    bytes_after: int = 0
    looked_through: tuple[str, ...] = ()
    """The files that were searched for it afterwards, byte by byte."""
    remains: tuple[str, ...] = ()
    """What the search found, as sentences; none where nothing is left."""

    @property
    def is_complete(self) -> bool:
        """Whether nothing is left."""
        return not self.remains

    @property
    def bytes_returned(self) -> int:
        """To the file system."""
        return max(0, self.bytes_before - self.bytes_after)
