"""Default ids and times of messages.

Only this module of the core reads the clock and makes random ids, through context variables. Tests
and reproducible runs set them (`with clock_and_ids.using(clock=…, new_id=…)`).
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime

Clock = Callable[[], datetime]
"""Returns the current time, with a time zone."""

IdFactory = Callable[[], str]
"""Returns a new id, unique in its session."""


_clock: ContextVar[Clock] = ContextVar("compact_clock", default=lambda: datetime.now(UTC))
_new_id: ContextVar[IdFactory] = ContextVar("compact_new_id", default=lambda: uuid.uuid4().hex)


def now() -> datetime:
    """Return the current time, with a time zone."""
    return _clock.get()()


def new_id() -> str:
    """Return a new id."""
    return _new_id.get()()


@contextmanager
def using(*, clock: Clock | None = None, new_id: IdFactory | None = None) -> Iterator[None]:
    """Use these functions for default times and ids within the block."""
    before = _clock.get(), _new_id.get()
    _clock.set(clock or before[0])
    _new_id.set(new_id or before[1])
    try:
        yield
    finally:
        _clock.set(before[0])
        _new_id.set(before[1])
