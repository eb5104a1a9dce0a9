"""Reads times of messages, as people and programs write them."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from compact.errors import InvalidMessage

TIME_ONLY = (
    "timestamp",
    "created_at",
    "createdAt",
    "create_time",
    "createTime",
    "sent_at",
    "sentAt",
)
"""Fields that hold only times. The other names are also used for durations and other values."""
TIMES = (*TIME_ONLY, "created", "datetime", "date", "time", "ts")
"""Fields of a message that may hold its time. The first field that can be read counts."""
_ANY = frozenset(TIMES)
FIRST_YEAR, LAST_YEAR = 1973, 2099
"""Years in which a message's time must lie. Other numbers are durations or errors."""
_SCALES = ((1e17, 1e9), (1e14, 1e6), (1e11, 1e3), (0, 1))
"""Pairs (lowest number, units per second) for numbers since 1970: nanoseconds, microseconds,
milliseconds, seconds. The sizes do not overlap for plausible years."""
_FORMS = (
    "%Y-%m-%d @%HH %MM %SS %fMS",  # a chat program writes these two
    "%Y-%m-%d@%HH%MM%SS",
    *(
        f"{day} {time}"
        for day in ("%d.%m.%Y", "%Y/%m/%d", "%B %d %Y", "%b %d %Y", "%d %B %Y", "%A %B %d %Y")
        for time in ("%H:%M", "%H:%M:%S", "%I:%M %p", "%I:%M%p", "%I:%M:%S %p")
    ),
)
"""Dates and times that people write. `03/09/2024` is not one: it may be of March or of September.
"""
_WRAPPED = ("$date", "_seconds", "seconds")
"""The key of the time in objects of MongoDB, Firestore and Protobuf."""


def time_of(value: object) -> datetime | None:
    """Return a time, from ISO 8601, the form of e-mails (RFC 5322), or a number of seconds,
    milliseconds, microseconds or nanoseconds since 1970, also as text, or as people write it:
    `09.03.2024, 16:00`, `March 9, 2024 4:00 PM`. A time without a zone is UTC. The objects of
    document stores, such as `{"$date": …}`, count too. None for other values.
    """
    if isinstance(value, Mapping):
        held = next((value[name] for name in _WRAPPED if name in value), None)
        if isinstance(held, Mapping):  # MongoDB's `{"$date": {"$numberLong": …}}`, and no deeper
            held = held.get("$numberLong")
        return None if isinstance(held, Mapping) else time_of(held)
    try:
        if isinstance(value, datetime):
            return _aware(value)
        if isinstance(value, str):
            return _written(value.strip())
        if isinstance(value, int | float) and not isinstance(value, bool):
            per_second = next(per_second for least, per_second in _SCALES if value > least)
            return datetime.fromtimestamp(value / per_second, UTC)
    except (ValueError, OverflowError, OSError, StopIteration):
        pass
    return None


def _written(text: str) -> datetime | None:
    text = " ".join(text.upper().removesuffix("UTC").replace(" AT ", " ").split())
    digits = text.replace(".", "", 1)
    if digits.isdecimal() and len(digits) > len("20260309"):
        return time_of(float(text))  # ISO 8601 would read a day and an hour in it
    try:
        return _aware(datetime.fromisoformat(text))
    except ValueError:
        pass
    if digits.isdecimal():
        return time_of(float(text))
    for form in _FORMS:
        with suppress(ValueError):
            return _aware(datetime.strptime(text.replace(",", ""), form))  # noqa: DTZ007
    return None if text.endswith(("AM", "PM")) else _aware(parsedate_to_datetime(text))


def _aware(time: datetime) -> datetime:
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time


def time_in(raw: Mapping[str, Any]) -> datetime | None:
    """Return the time in a message's dictionary. Return None if it has no readable time."""
    if _ANY.isdisjoint(raw):
        return None
    times = (time_of(raw[name]) for name in TIMES if name in raw)
    return next((time for time in times if time and FIRST_YEAR <= time.year <= LAST_YEAR), None)


def unread_time(raw: Mapping[str, Any]) -> str:
    """Return the name of the field that holds a time which cannot be read; empty if there is none.
    Zero and empty values are no time, and neither are numbers that may be a duration, in fields
    that can hold one.
    """
    if _ANY.isdisjoint(raw) or time_in(raw) is not None:
        return ""
    every = (name for name in TIMES if raw.get(name))
    return next((n for n in every if n in TIME_ONLY or not _may_be_other(raw[n])), "")


def _may_be_other(value: object) -> bool:
    try:
        return not isinstance(value, str | int | float) or float(value) >= 0
    except (ValueError, OverflowError):
        return False


def check_time(raw: Mapping[str, Any], path: str) -> None:
    """Refuse a message whose time cannot be read (see `unread_time`).

    Raises:
        InvalidMessage: naming the field.
    """
    if name := unread_time(raw):
        raise InvalidMessage(
            f"{path}.{name}",
            f"{raw[name]!r:.60} is no time: give ISO 8601, such as 2026-03-09T16:00:00Z, or "
            "seconds since 1970",
        )


Times = tuple[int, int, int]
"""Three times in seconds: the earliest and the latest plausible time of a message, and between them
the time from which messages are not old."""
