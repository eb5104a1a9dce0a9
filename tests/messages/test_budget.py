"""Budgets: the numbers of C-7, and that a ceiling and a window are never mixed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from compact.messages.budget import ContextBudget, ContextWindow
from compact.messages.policy import CompactPolicy

NUMBERS = [
    # window, output reserve, buffer, usable, trigger, target
    (4_096, 0, 512, 3_584, 2_867, 2_150),
    (8_192, 0, 1_024, 7_168, 5_734, 4_300),
    (8_192, 2_000, 1_024, 6_192, 5_168, 3_715),
    (8_192, 7_168, 1_024, 1_024, 512, 438),
    (12_000, 0, 1_500, 10_500, 8_400, 5_914),
    (128_000, 0, 1_500, 126_500, 89_600, 50_600),
    (128_000, 16_384, 1_500, 111_616, 89_600, 44_646),
    (1_000_000, 0, 1_500, 998_500, 700_000, 399_400),
]


@pytest.mark.parametrize(("size", "reserve", "buffer", "usable", "trigger", "target"), NUMBERS)
def test_the_numbers(size, reserve, buffer, usable, trigger, target):
    """C-7: usable = window − max(reserve, min(1,500, an eighth)); trigger 70 % of
    the window itself, target 60 % of usable in small windows and 40 % in large ones."""
    window = ContextWindow(size=size, output_reserve=reserve)
    assert (window.buffer, window.usable) == (buffer, usable)
    assert (window.trigger, window.target) == (trigger, target)


def test_an_absolute_cap_on_the_trigger():
    """C-7: lowers the trigger, and the target with it, never raises them."""
    window = ContextWindow(size=128_000, trigger_tokens=20_000)
    assert (window.trigger, window.target) == (20_000, 17_142)
    assert ContextWindow(size=8_192, trigger_tokens=20_000).trigger == 5_734


@given(st.integers(1, 2_000_000), st.integers(0, 2_000_000))
def test_a_window_is_always_in_order(size, reserve):
    """C-7: target ≤ trigger ≤ usable ≤ window, never negative, whatever the reserve. An answer has
    room behind the trigger, and a prompt has room before it.
    """
    window = ContextWindow(size=size, output_reserve=reserve)
    assert 0 <= window.target <= window.trigger <= window.usable <= window.size
    assert window.usable - window.trigger >= min(window.buffer, window.usable // 2)
    assert window.trigger > 0 or window.usable == 0 or size == 1


def test_what_is_left_is_never_negative():
    """C-2: a budget that is overdrawn has nothing left."""
    assert ContextBudget(max_tokens=10, used_tokens=4).available_tokens == 6
    assert ContextBudget(max_tokens=10, used_tokens=14).available_tokens == 0
    assert ContextWindow(size=8_192).budget(7_000).available_tokens == 168


@pytest.mark.parametrize("field", ["trigger_ratio", "target_ratio"])
@pytest.mark.parametrize("value", [0, 1.5, 70])
def test_percentages_are_fractions(field, value):
    """K-10: between 0 and 1; the error names the field."""
    with pytest.raises(ValidationError, match=field):
        CompactPolicy(**{field: value})
