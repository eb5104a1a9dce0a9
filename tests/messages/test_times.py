"""Times of messages, as people and programs write them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from compact import ContextManager, MemoryManager, Message, compress
from compact.errors import InvalidMessage
from compact.messages.times import TIMES

MARCH = datetime(2024, 3, 9, 16, tzinfo=UTC)
WRITTEN = [
    1_710_000_000,
    1_710_000_000.0,
    1_710_000_000_000,
    1_710_000_000_000_000,
    1_710_000_000_000_000_000,
    "1710000000",
    "1710000000000",
    "1710000000000000000",
    "2024-03-09T16:00:00Z",
    "2024-03-09T18:00:00+02:00",
    "2024-03-09 16:00:00",
    "20240309T160000Z",
    "Sat, 09 Mar 2024 16:00:00 GMT",
    "2024-03-09t16:00:00z",
    "2024-03-09 16:00:00 UTC",
    "2024/03/09 16:00:00",
    "09.03.2024, 16:00",
    "March 9, 2024 4:00 PM",
    "March 9, 2024 4:00pm",
    "2024-03-09 @16h 00m 00s 000ms",
    "2024-03-09@16h00m00s",
    "Saturday, March 9, 2024 at 4:00 PM",
    {"$date": "2024-03-09T16:00:00Z"},
    {"_seconds": 1_710_000_000, "_nanoseconds": 0},
]


def added(**fields: object) -> Message:
    with ContextManager() as ctx:
        return ctx.add_message({"role": "user", "content": "hello", **fields})


@pytest.mark.parametrize("name", TIMES)
@pytest.mark.parametrize("value", WRITTEN)
def test_a_time_is_read_under_any_of_its_names(name: str, value: object) -> None:
    assert added(**{name: value}).timestamp == MARCH


def test_a_fraction_of_a_second_stays() -> None:
    assert added(timestamp=1_710_000_000.25).timestamp.microsecond == 250_000


@pytest.mark.parametrize("format", ["anthropic", "ollama", "responses", "chat_completions"])
def test_each_format_reads_times(format: str) -> None:
    with ContextManager(format=format) as ctx:
        said = ctx.add_message({"role": "user", "content": "hello", "created_at": 1_710_000_000})
    assert said.timestamp == MARCH


@pytest.mark.parametrize("value", [-1, 12.5, True, "soon", [1], 1e300, float("nan")])
def test_what_is_no_time_is_refused_by_name(value: object) -> None:
    with pytest.raises(InvalidMessage, match=r"messages\[0\].created_at"):
        added(created_at=value)


@pytest.mark.parametrize("value", [-1, "soon", [1], "0001-01-01T00:00:00Z", "03/09/2024 4:00 PM"])
def test_memory_refuses_what_is_no_time_too(value: object) -> None:
    with MemoryManager() as memory:
        with pytest.raises(InvalidMessage, match=r"message\.timestamp"):
            memory.add_message("s", "user", "hello", timestamp=value)
        with pytest.raises(InvalidMessage, match=r"message\.timestamp"):
            memory.remember("hello", at=value)  # type: ignore[arg-type]
        assert memory.search("hello").hits == ()


@pytest.mark.parametrize("name", ["ts", "date", "time", "created", "datetime"])
@pytest.mark.parametrize("value", [-1, "soon", "03/04/2024", float("nan")])
def test_what_is_no_duration_either_is_refused(name: str, value: object) -> None:
    with pytest.raises(InvalidMessage, match=rf"\.{name}: .* is no time: give ISO 8601"):
        added(**{name: value})


def test_a_memory_begins_with_its_oldest_message() -> None:
    with MemoryManager() as memory:
        memory.add_message("s", "user", "hello", timestamp=MARCH)
        assert memory.status().first == memory.sessions()[0].created_at == MARCH


@pytest.mark.parametrize("text", ["1726071212345", "1726071212345678901"])
def test_digits_that_look_like_a_day_are_a_number(text: str) -> None:
    assert added(timestamp=text).timestamp.year == 2024


def test_a_duration_in_nanoseconds_is_no_time() -> None:
    assert added(time=5_000_000_000).timestamp.year < 2100


@pytest.mark.parametrize("value", [None, 0, ""])
def test_no_time_is_now(value: object) -> None:
    assert added(timestamp=value).timestamp > MARCH


def test_a_duration_under_a_common_name_is_no_time() -> None:
    assert added(time=3.2).timestamp > MARCH


def test_the_first_name_that_can_be_read_counts() -> None:
    assert added(timestamp=0, date="yesterday", ts=1_710_000_000).timestamp == MARCH


def test_a_list_with_odd_times_is_still_compressed() -> None:
    odd = [{"role": "user", "content": "hello", "timestamp": -1}]
    assert compress(odd, max_tokens=100) == odd


def test_a_time_without_a_zone_is_utc() -> None:
    said = Message(role="user", content="hello", timestamp=datetime(2024, 3, 9, 16))  # noqa: DTZ001
    assert said.timestamp == MARCH
