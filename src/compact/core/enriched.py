"""What enriching a memory did. A pure value."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel, Field


class EnrichedReport(BaseModel, frozen=True, defer_build=True):
    """Which sessions were given titles and topics."""

    titles: Mapping[str, str] = Field(default_factory=dict)
    """Session → its new title."""
    enriched: int = 0
    """How many sessions were looked at because they had changed."""
    failed: Mapping[str, str] = Field(default_factory=dict)
    """Session → why the model gave it no title; it has one of the person's words then."""
