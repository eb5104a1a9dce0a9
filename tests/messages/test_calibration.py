"""What usage and refusals teach: a ratio of the tokenizer, limits of windows."""

from __future__ import annotations

import pytest

from compact.messages.overflow import ASSUMED, HIGHEST, LEAST_LIMIT, Calibration, OverflowRefusal

SIZE = 32_768


def refused(
    counted: int,
    tokens: int | None,
    limit: int | None,
    *,
    at_least: bool = False,
    known: Calibration | None = None,
    size: int = SIZE,
) -> Calibration:
    """What is known after a refusal."""
    refusal = OverflowRefusal(tokens, limit, at_least)
    return (known or Calibration()).after_overflow(counted, refusal, size=size, exact=True)


def test_a_limit_belongs_to_the_window_it_was_learned_for() -> None:
    """Another window is another model or server: it keeps its size (FR-14)."""
    known = refused(4_500, 4_500, 4_096)
    assert known.window(SIZE) == 4_096
    assert known.window(128_000) == 128_000
    assert known.window(2_048) == 2_048
    known = refused(90_000, 90_000, 64_000, known=known, size=128_000)
    assert (known.window(SIZE), known.window(128_000)) == (4_096, 64_000)


def test_the_newest_word_on_a_window_counts() -> None:
    """A server that was started again with more room is believed, and one that names the whole
    window takes its limit back (FR-14)."""
    known = refused(4_500, 4_500, 4_096)
    assert refused(9_000, 9_000, 8_192, known=known).window(SIZE) == 8_192
    assert refused(40_000, 40_000, SIZE, known=known).limits == {}
    assert refused(4_500, 4_500, None, known=known).window(SIZE) == 4_096


def test_a_limit_that_no_window_has_is_no_limit() -> None:
    """vLLM has named what was left of the window beside the answer: 3 tokens (FR-14)."""
    assert refused(4_500, 4_500, 3).limits == {}
    assert refused(4_500, 4_500, LEAST_LIMIT).limits == {SIZE: LEAST_LIMIT}


def test_the_tokens_of_a_refused_prompt_teach_the_ratio() -> None:
    """And those that we counted alike teach nothing (FR-3)."""
    assert refused(5_000, 7_500, 4_096).ratio == 1.5
    assert refused(5_206, 5_206, 8_192).ratio == 1.0
    assert refused(1_000, 900_000, 8_192).ratio == HIGHEST


def test_a_least_number_can_only_raise_the_ratio() -> None:
    """A server that stops counting at its limit says nothing of how much less it was (FR-14)."""
    known = Calibration(ratio=1.5)
    assert refused(5_000, 5_100, 4_096, known=known, at_least=True).ratio == 1.5
    assert refused(5_000, 5_100, 4_096, known=known).ratio < 1.5
    assert refused(5_000, 10_000, 4_096, known=known, at_least=True).ratio == 2.0


def test_a_refusal_without_tokens_raises_the_ratio_unless_its_limit_explains_it() -> None:
    """A smaller window than was said is no error of ours in counting (FR-14)."""
    assert refused(5_000, None, None).ratio == pytest.approx(ASSUMED)
    assert refused(5_000, None, 8_192).ratio == pytest.approx(ASSUMED)
    assert refused(20_000, None, 8_192).ratio == 1.0


def test_it_is_the_same_when_it_comes_back_from_a_store() -> None:
    """JSON has no numbers as names (FR-3)."""
    known = refused(4_500, 9_000, 4_096)
    assert Calibration.model_validate_json(known.model_dump_json()) == known
    assert Calibration.model_validate(known.model_dump(mode="json")) == known
