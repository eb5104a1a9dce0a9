"""How far a context can be trusted, and how a model of some size writes (FR-13)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compact.messages.reliability import reliability_of

GRADES = [
    *((70, 0, "excellent"), (70, 1, "excellent"), (70, 2, "good"), (70, 4, "moderate")),
    *((30, 0, "excellent"), (13, 0, "good"), (13, 1, "moderate"), (7, 0, "moderate")),
    *((7, 1, "low"), (7, 3, "critical"), (3, 0, "critical")),
]


@pytest.mark.parametrize(("billions", "times", "grade"), GRADES)
def test_a_score_has_a_name(billions, times, grade):
    """FR-13: from .85 excellent, .70 good, .50 moderate, .40 low."""
    assert reliability_of(billions, times).grade == grade


def test_no_session_was_compressed_a_negative_number_of_times():
    with pytest.raises(ValueError, match="-1 times"):
        reliability_of(7, -1)


@given(st.floats(0.05, 2000), st.integers(0, 1000))
def test_trust_only_falls(billions, times):
    """FR-13: with each compression, and never outside of 0 to 1."""
    now, later = reliability_of(billions, times), reliability_of(billions, times + 1)
    assert 0 <= later.score < now.score <= 1
