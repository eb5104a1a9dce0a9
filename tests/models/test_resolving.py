"""One policy of what a person set, the model, its tier, the summarizer (FR-11, FR-13, FR-14)."""

from typing import NamedTuple

import pytest

from compact.errors import UnknownModel
from compact.messages.policy import CompactPolicy, TierSettings
from compact.models.effective_settings import Setting
from compact.models.profiles import shipped

BOOK = shipped()


class Found(NamedTuple):
    size: int
    policy: CompactPolicy


def of(model=None, window=None, policy=None, **more):
    setting = Setting(BOOK, model, **more)
    size = setting.size(window)
    return Found(size, setting.policy(policy or CompactPolicy(), size))


def test_without_a_model_the_size_is_what_was_given():
    assert of().size == 8_192
    assert of(window=5_000).size == 5_000
    assert of(window=5_000).policy == CompactPolicy()


def test_a_local_server_is_told_what_the_row_says():
    """(FR-14) 6,963 for 8,192: read, never computed; the tier follows from the size."""
    found = of("ollama:llama3.2:3b", 8_192, tiers={2: TierSettings(trigger_ratio=0.6)})
    assert (found.size, found.policy.trigger_ratio) == (6_963, 0.6)


def test_a_local_server_is_never_set_up_for_more_than_was_asked_for():
    assert of("ollama:llama3.2:3b", 10_000).size == 10_000
    assert of("ollama:nobody-knows-it", 8_192).size == 5_734


def test_elsewhere_a_given_size_counts_more_than_the_models():
    assert of("gpt-4o").size == 128_000
    assert of("gpt-4o", 20_000).size == 20_000
    assert of("my-own-model", 9_000).size == 9_000


def test_nothing_known_and_no_size_is_an_error():
    with pytest.raises(UnknownModel, match="window="):
        of("my-own-model")


def test_an_answer_has_room_by_model_unless_a_person_set_it():
    """(FR-13) Reasoning models think before they answer."""
    plain, thinking = of("gpt-4o").policy, of("o3").policy
    assert 0 < plain.output_reserve < thinking.output_reserve
    own = CompactPolicy(output_reserve=777)
    assert of("o3", policy=own).policy.output_reserve == 777


def test_a_small_summarizer_is_asked_for_less():
    """(FR-13) Level and cap of a new checkpoint follow from who writes it."""
    small = of(window=8_192, summarizer="ollama:llama3.2:3b").policy
    large = of(window=8_192, summarizer="openai:gpt-4o").policy
    assert (small.new_level, small.level_share) == ("moderate", 0.8)
    assert (large.new_level, large.level_share) == ("detailed", 1.0)


def test_what_a_person_set_of_the_writing_counts_more():
    own = CompactPolicy(level_share=0.5)
    found = of(window=8_192, summarizer="ollama:llama3.2:3b", policy=own).policy
    assert (found.new_level, found.level_share) == ("detailed", 0.5)


def test_trust_fades_with_every_compression():
    """(FR-13)"""
    small = Setting(BOOK, "ollama:qwen2.5:1.5b")
    scores = [small.reliability(n) for n in range(4)]
    assert all(scores)
    assert [round(s.score, 4) for s in scores if s] == [0.3, 0.27, 0.243, 0.2187]
    assert [bool(s.warning) for s in scores if s] == [False, False, False, True]
    assert Setting(BOOK).reliability(9) is None
