"""Default ids and times of messages.

The only place of the core that reads the clock and makes random ids, through context variables.
Tests and reproducible runs set them (`with clock_and_ids.using(clock=…, new_id=…)`).
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime

Clock = Callable[[], datetime]
"""The current time, with a time zone."""

IdFactory = Callable[[], str]
"""A fresh identifier, unique in its session."""


_clock: ContextVar[Clock] = ContextVar("compact_clock", default=lambda: datetime.now(UTC))
_new_id: ContextVar[IdFactory] = ContextVar("compact_new_id", default=lambda: uuid.uuid4().hex)


def now() -> datetime:
    """The current time, with a time zone."""
    return _clock.get()()


def new_id() -> str:
    """A fresh identifier."""
    return _new_id.get()()


@contextmanager
def using(*, clock: Clock | None = None, new_id: IdFactory | None = None) -> Iterator[None]:
    """Within the block, missing times and ids come from these functions."""
    before = _clock.get(), _new_id.get()
    _clock.set(clock or before[0])
    _new_id.set(new_id or before[1])
    try:
        yield
    finally:
        _clock.set(before[0])
        _new_id.set(before[1])
