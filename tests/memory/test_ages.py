"""Which level is due at which age (A-2)."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from compact.memory.retention import Ages, days_between
from compact.text.digests import CompressionLevel

FULL, KEY_POINTS, SUMMARY, ARCHIVED, METADATA = CompressionLevel


@pytest.mark.parametrize(
    ("days", "level"),
    [
        (-3, FULL), (0, FULL), (7, FULL), (7.9, FULL),
        (8, KEY_POINTS), (30.99, KEY_POINTS),
        (31, SUMMARY), (90, SUMMARY), (90.5, SUMMARY),
        (91, ARCHIVED), (364.9, ARCHIVED),
        (365, METADATA), (40_000, METADATA),
    ],
)  # fmt: skip
def test_each_level_ends_with_its_last_day(days: float, level: CompressionLevel) -> None:
    assert Ages().level(days) is level


@given(st.lists(st.integers(0, 900), min_size=4, max_size=4), st.floats(-10, 1_000))
def test_an_older_conversation_is_never_at_an_earlier_level(days: list[int], age: float) -> None:
    full, key_points, summary, archived = sorted(days)
    ages = Ages(full=full, key_points=key_points, summary=summary, archived=archived)
    order = list(CompressionLevel)
    assert order.index(ages.level(age)) <= order.index(ages.level(age + 1))


def test_levels_in_the_wrong_order_are_refused() -> None:
    with pytest.raises(ValidationError, match="no earlier"):
        Ages(full=40)


def test_days_are_counted_across_zones_and_without_one() -> None:
    noon = datetime(2026, 3, 1, 12, tzinfo=UTC)
    east = datetime(2026, 3, 1, 14, tzinfo=timezone(timedelta(hours=2)))
    assert days_between(noon, east) == 0
    assert days_between(noon.replace(tzinfo=None), noon + timedelta(hours=36)) == 1.5
