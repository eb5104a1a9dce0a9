"""Times as files write them: ISO form, of which those without a zone are read as UTC."""

from __future__ import annotations

from datetime import UTC, datetime


def time_of(value: object) -> datetime | None:
    """The time, with a zone; None where there is none."""
    try:
        time = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
    return time.replace(tzinfo=UTC) if time is not None and time.tzinfo is None else time
