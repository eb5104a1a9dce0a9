"""Tiers of windows: budgets of system prompts, thresholds by tier (FR-11)."""

import pytest
from pydantic import ValidationError

from compact.messages.policy import NUMBERS, TIERS, CompactPolicy, TierSettings, tier_of
from compact.models.profiles import shipped


def test_the_tier_is_the_sizes_not_the_servers():
    """FR-11, FR-14: 8k is tier 2, though its server is told 6,963, and 4k is tier 1."""
    book = shipped()
    numbers = [
        tier_of(book.sizing("ollama:llama3.2:3b", size).size).number
        for size in (4096, 8192, 16384, 32768, 65536, 131072)
    ]
    assert numbers == [1, 2, 3, 4, 5, 5]
    assert tuple(each.number for each in TIERS) == NUMBERS


def test_a_tier_may_have_thresholds_of_its_own():
    """FR-11: what is set counts for that tier only, the rest of the policy stays."""
    own = {1: TierSettings(trigger_ratio=0.6, prompt_tokens=250), 3: TierSettings(target_ratio=0.2)}
    policy = CompactPolicy(keep_tool_pairs=9, trigger_ratio=0.8)
    small = tier_of(4_000, own)
    assert small.prompt_tokens == 250
    assert small.applied(policy) == policy.model_copy(update={"trigger_ratio": 0.6})
    middle = tier_of(16_000, own)
    assert middle.prompt_tokens == 1_000
    assert middle.applied(policy) == policy.model_copy(update={"target_ratio": 0.2})
    assert tier_of(8_000, own).applied(policy) is policy


@pytest.mark.parametrize(
    "wrong",
    [{"trigger_ratio": 70}, {"trigger_ratio": True}, {"prompt_tokens": 0}, {"keep_tool_pairs": 3}],
)
def test_a_wrong_threshold_is_refused(wrong):
    """FR-11, K-10."""
    with pytest.raises(ValidationError, match=next(iter(wrong))):
        TierSettings(**wrong)
