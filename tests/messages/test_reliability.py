"""How far a context can be trusted, and how a model of some size writes (FR-13)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compact.messages.checkpoints import SHARES
from compact.messages.reliability import reliability_of, writing_of

FACTORS = [
    *((405, 0.95), (70.6, 0.95), (70, 0.95), (69.9, 0.85), (30, 0.85), (29.9, 0.70), (13, 0.70)),
    *((12.9, 0.50), (7, 0.50), (6.9, 0.30), (0.1, 0.30)),
]


@pytest.mark.parametrize(("billions", "factor"), FACTORS)
def test_the_score_is_a_factor_times_nine_tenths_per_compression(billions, factor):
    """FR-13."""
    assert reliability_of(billions, 0).score == factor
    assert reliability_of(billions, 3).score == pytest.approx(factor * 0.729)


GRADES = [
    *((70, 0, "excellent"), (70, 1, "excellent"), (70, 2, "good"), (70, 4, "moderate")),
    *((30, 0, "excellent"), (13, 0, "good"), (13, 1, "moderate"), (7, 0, "moderate")),
    *((7, 1, "low"), (7, 3, "critical"), (3, 0, "critical")),
]


@pytest.mark.parametrize(("billions", "times", "grade"), GRADES)
def test_a_score_has_a_name(billions, times, grade):
    """FR-13: from .85 excellent, .70 good, .50 moderate, .40 low."""
    assert reliability_of(billions, times).grade == grade


@pytest.mark.parametrize(
    ("billions", "after"),
    [
        *((1, 3), (3, 3), (3.2, 3), (4, 5), (7, 5), (7.6, 5), (8, 7), (13.0, 7), (13.9, 7)),
        *((14, 10), (70.6, 10)),
    ],
)
def test_a_person_is_warned_in_time(billions, after):
    """FR-13: after 3, 5, 7, 10 compressions, by the size as people name it: 3.2 is a 3B."""
    assert reliability_of(billions, after - 1).warning is None
    warning = reliability_of(billions, after).warning
    assert warning is not None
    assert f"compressed {after} times" in warning
    assert "new session" in warning


def test_no_session_was_compressed_a_negative_number_of_times():
    with pytest.raises(ValueError, match="-1 times"):
        reliability_of(7, -1)


@given(st.floats(0.05, 2000), st.integers(0, 1000))
def test_trust_only_falls(billions, times):
    """FR-13: with each compression, and never outside of 0 to 1."""
    now, later = reliability_of(billions, times), reliability_of(billions, times + 1)
    assert 0 <= later.score < now.score <= 1


def test_a_small_summarizer_is_asked_for_less():
    """FR-13: level and cap of a new checkpoint by the summarizer's size."""
    sizes = (0.5, 6.9, 7, 12, 13, 29, 30, 400)
    shares = [SHARES[writing_of(n).level] * writing_of(n).share for n in sizes]
    assert shares == sorted(shares)
    assert shares[0] == pytest.approx(0.4 * SHARES["detailed"])
    assert shares[-1] == SHARES["detailed"]
    assert [writing_of(n).level for n in (3, 7)] == ["moderate", "detailed"]
