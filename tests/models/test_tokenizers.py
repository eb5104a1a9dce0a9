"""Tokenizers: exact where they say so, honest where they do not (K-3)."""

import importlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compact.errors import UnknownModel
from compact.messages.tokens import TokenCounter
from compact.models.providers import tokenizers
from compact.testing import SAMPLES, check_token_estimator

KNOWN = {  # counted with tiktoken 0.14 and the published vocabularies
    "o200k": {"hello world": 2, "tiktoken is great!": 6, "お誕生日おめでとう": 8, "2 + 2 = 4": 7},
    "cl100k": {"hello world": 2, "tiktoken is great!": 6, "お誕生日おめでとう": 9, "2 + 2 = 4": 7},
}


@pytest.mark.parametrize("name", tokenizers.NAMES)
def test_every_tokenizer_keeps_the_promises(name: str) -> None:
    """One conformance suite for all of them (K-3)."""
    check_token_estimator(tokenizers.tokenizer(name))


@pytest.mark.parametrize("name", KNOWN)
def test_known_counts(name: str) -> None:
    """Counts that others have published (K-3)."""
    estimator = tokenizers.tokenizer(name)
    assert {text: estimator.count(text) for text in KNOWN[name]} == KNOWN[name]


@pytest.mark.parametrize("name", ["gpt-4", "openai:gpt-4", "cl100k_base", "cl100k"])
def test_a_model_names_its_vocabulary(name: str) -> None:
    """K-3: offline, by the names that people know."""
    estimator = tokenizers.TiktokenEstimator(name)
    assert estimator.name == "cl100k"
    assert estimator.count("お誕生日おめでとう") == 9
    assert tokenizers.TiktokenEstimator("gpt-4o-mini").count("お誕生日おめでとう") == 8


def test_a_model_of_another_tokenizer_has_no_vocabulary_of_openai() -> None:
    """K-3: counts that would not be exact are refused."""
    with pytest.raises(UnknownModel, match="tokenizer 'claude'"):
        tokenizers.TiktokenEstimator("claude-sonnet-4-5")
    with pytest.raises(UnknownModel, match="nonesuch"):
        tokenizers.TiktokenEstimator("nonesuch")


LEGACY = "ignore:open_binary is deprecated:DeprecationWarning"  # of bpe-openai, not of ours


@pytest.mark.filterwarnings(LEGACY)
@pytest.mark.parametrize("name", ["o200k", "cl100k"])
def test_the_fallback_counts_the_same(name: str) -> None:
    """bpe-openai, which newer Pythons use, equals rs-bpe token for token."""
    fallback = tokenizers._fallback_vocabulary(name)
    first = tokenizers.tokenizer(name)
    for sample in SAMPLES:
        if "\ud800" not in sample:
            assert fallback(sample) == first.count(sample), sample[:30]


@pytest.mark.filterwarnings(LEGACY)
def test_the_fallback_is_taken_where_rs_bpe_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seen to happen: without rs-bpe the same counts come from the other wheel."""
    original = importlib.import_module

    def without(name: str, package: str | None = None) -> object:
        if name.startswith("rs_bpe"):
            raise ModuleNotFoundError(name)
        return original(name, package)

    monkeypatch.setattr(importlib, "import_module", without)
    tokenizers._vocabulary.cache_clear()
    try:
        assert tokenizers.TiktokenEstimator("o200k").count("hello world") == 2
    finally:
        monkeypatch.undo()
        tokenizers._vocabulary.cache_clear()


def test_estimates_say_so_and_lie_above() -> None:
    """An estimate is labelled and has a margin; the claude one lies above o200k."""
    claude, exact = tokenizers.tokenizer("claude"), tokenizers.tokenizer("o200k")
    assert exact.exact
    assert not claude.exact
    assert claude.margin > 0
    assert claude.count("hello world " * 100) > exact.count("hello world " * 100)


def test_unknown_names_are_refused_with_the_known_ones() -> None:
    """The error names what there is."""
    with pytest.raises(UnknownModel, match="o200k"):
        tokenizers.tokenizer("llama")
    with pytest.raises(UnknownModel, match="name a tokenizer"):
        tokenizers.tokenizer_of_model("nonesuch")
    assert tokenizers.tokenizer_of_model("openai:gpt-4o-mini") == "o200k"
    assert tokenizers.tokenizer_of_model("gpt-4") == "cl100k"
    assert tokenizers.tokenizer_of_model("anthropic/claude-sonnet-4-5") == "claude"


PIECES = ("word", "the ", " a", " ", "  ", "\n", "\r\n", "\t", "A", "Ab", "é", "cafe\u0301", "漢字",
          "1", "23 ", "don't", "'s", "!", "/", "//\n", "(x)", "\u00a0", "🙂", "\n\n")  # fmt: skip


@pytest.mark.parametrize("name", tokenizers.VOCABULARIES)
@given(parts=st.lists(st.sampled_from(PIECES), max_size=40))
def test_slices_count_what_the_whole_counts(name: str, parts: list[str]) -> None:
    """Cut at every place where one may cut (FR-1)."""
    text, estimator = "".join(parts), tokenizers.TiktokenEstimator(name)
    whole = estimator.count(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tokenizers, "CHUNK", 1)
        assert "".join(tokenizers.slices(text)) == text
        assert estimator.count(text) == whole


@pytest.mark.parametrize("name", tokenizers.VOCABULARIES)
@given(parts=st.lists(st.sampled_from((*PIECES, "- ", "## ", "\n  ", ".\n")), max_size=40))
def test_lines_count_what_the_whole_counts(name: str, parts: list[str]) -> None:
    """So that a line is counted once, in whatever text it stands (FR-1)."""
    text, estimator = "".join(parts), tokenizers.TiktokenEstimator(name)
    lines = estimator.lines(text)
    assert "".join(lines) == text
    assert sum(map(estimator.count, lines)) == estimator.count(text)
    assert TokenCounter(estimator).composed(text) == estimator.count(text)


def test_a_long_text_is_counted_in_slices() -> None:
    """So that other threads run between; what can be cut nowhere is one slice (NFR-1)."""
    long = "the quick brown fox " * 20_000
    assert max(map(len, tokenizers.slices(long))) < tokenizers.CHUNK + 20
    assert tokenizers.slices("x" * 200_000) == ["x" * 200_000]


MIXED = st.lists(
    st.sampled_from(
        ["harbour", "Ü", "é", " ", "  ", "\n", "字", "😀", "AB", "9", "…", "\t", "Straße"]
    ),
    max_size=40,
).map("".join)
SEAM = 64
"""Tokens by which the words after an accent may grow."""


@given(MIXED, MIXED, st.integers(0, 400))
def test_an_estimate_of_characters_adds_up(first: str, second: str, more: int) -> None:
    """An accent changes the count of the words beside it, not that of a whole text."""
    count = tokenizers.NoopEstimator().count
    second += "the quay " * more
    whole = count(first + second)
    assert max(count(first), count(second)) - 1 <= whole <= count(first) + count(second) + SEAM
    assert count(f"{first}\n{second}") == count(first) + 1 + count(second)
