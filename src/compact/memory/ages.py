"""How old a conversation may be for each level, in whole days since its last activity (A-2)."""

from __future__ import annotations

from datetime import datetime
from typing import Self

from pydantic import BaseModel, Field, model_validator

from compact.messages.codec import instant
from compact.messages.sessions import Session
from compact.text.digests import CompressionLevel

DAY = 86_400_000_000
"""Microseconds."""
RESTORED = "restored_at"
"""The name in a session's metadata of when it came back from the archive."""


class Ages(BaseModel, frozen=True, defer_build=True):
    """The last day of each level. The defaults are a choice, not a measurement (A-2)."""

    full: int = Field(default=7, ge=0)
    """Days up to which every word is at hand."""
    key_points: int = Field(default=30, ge=0)
    """Days up to which a digest holds 60 to 70 % of the tokens."""
    summary: int = Field(default=90, ge=0)
    """Days up to which the originals stay beside a digest of 30 to 40 %."""
    archived: int = Field(default=364, ge=0)
    """Days up to which there is a digest; of what is older, only what is known about it."""

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if not self.full <= self.key_points <= self.summary <= self.archived:
            raise ValueError("each level's last day should be no earlier than the one before it")
        return self

    def level(self, age_days: float) -> CompressionLevel:
        """The level that is due at an age. A day that is not over does not count; what is dated in
        the future has no age.
        """
        days = int(max(0.0, age_days))
        if days <= self.full:
            return CompressionLevel.FULL
        if days <= self.key_points:
            return CompressionLevel.KEY_POINTS
        if days <= self.summary:
            return CompressionLevel.SUMMARY
        return CompressionLevel.ARCHIVED if days <= self.archived else CompressionLevel.METADATA


def active_at(session: Session) -> datetime:
    """When a session was last used: the time of its newest message, or of its coming back from the
    archive by hand, which is a use as well.
    """
    try:
        restored = datetime.fromisoformat(session.metadata.get(RESTORED, ""))
    except (TypeError, ValueError):  # there is none; or it is somebody else's
        return session.updated_at
    return max(session.updated_at, restored, key=instant)


def days_between(earlier: datetime, later: datetime) -> float:
    """Days from one time to another, with their part of a day; a time without a zone is UTC."""
    return (instant(later) - instant(earlier)) / DAY
