"""What is known of models: windows and tokenizers, from one table (K-3)."""

from typing import Any

import pytest

from compact import ContextManager, compress, wiring
from compact.core.profiles import PROFILES, profile_of, window_of
from compact.errors import UnknownModel
from compact.providers.tokenizers import NAMES, tokenizer_of_model

KNOWN = [
    ("gpt-4o", 128_000, "o200k"),
    ("openai:gpt-4o-mini", 128_000, "o200k"),
    ("chatgpt-4o-latest", 128_000, "o200k"),
    ("gpt-4.1-nano", 1_047_576, "o200k"),
    ("gpt-4.5-preview", 128_000, "o200k"),
    ("gpt-5", 400_000, "o200k"),
    ("gpt-5-mini", 400_000, "o200k"),
    ("gpt-5-chat-latest", 128_000, "o200k"),
    ("gpt-5.1-chat-latest", 128_000, "o200k"),
    ("o1", 200_000, "o200k"),
    ("o1-mini", 128_000, "o200k"),
    ("o1-preview-2024-09-12", 128_000, "o200k"),
    ("o3-mini", 200_000, "o200k"),
    ("o4-mini", 200_000, "o200k"),
    ("gpt-4", 8_192, "cl100k"),
    ("gpt-4-0613", 8_192, "cl100k"),
    ("gpt-4-32k", 32_768, "cl100k"),
    ("gpt-4-turbo-2024-04-09", 128_000, "cl100k"),
    ("gpt-4-1106-preview", 128_000, "cl100k"),
    ("gpt-4-0125-preview", 128_000, "cl100k"),
    ("gpt-3.5-turbo", 16_385, "cl100k"),
    ("gpt-3.5-turbo-instruct", 4_096, "cl100k"),
    ("claude-2.0", 100_000, "claude"),
    ("claude-2", 100_000, "claude"),
    ("claude-2.1", 200_000, "claude"),
    ("claude-instant-1.2", 100_000, "claude"),
    ("anthropic:claude-sonnet-4-5", 200_000, "claude"),
    ("anthropic/claude-3-5-haiku", 200_000, "claude"),
    ("us.anthropic.claude-3-5-sonnet-20240620-v1:0", 200_000, "claude"),
    ("ft:gpt-4o-mini:org::id", 128_000, "o200k"),
    ("openai/ft:gpt-4o-mini-2024-07-18:org:mine:Ab3", 128_000, "o200k"),
    ("ft:gpt-3.5-turbo:gpt-4o-friends::id", 16_385, "cl100k"),
    ("openrouter/openai/gpt-4o:free", 128_000, "o200k"),
]


@pytest.mark.parametrize(("model", "window", "tokenizer"), KNOWN, ids=[k[0] for k in KNOWN])
def test_a_model_has_its_window_and_its_tokenizer(model, window, tokenizer):
    """K-3: as the providers' model pages say; a fine-tuned model is its base."""
    assert (window_of(model), tokenizer_of_model(model)) == (window, tokenizer)


@pytest.mark.parametrize("model", ["ollama:qwen3:8b", "llama3", "ft:davinci-002:o1::id", ""])
def test_of_the_others_nothing_is_guessed(model):
    """K-3: the errors name the ways out."""
    assert profile_of(model) is None
    with pytest.raises(UnknownModel, match="window="):
        window_of(model)
    with pytest.raises(UnknownModel, match="tokenizer="):
        tokenizer_of_model(model)


def test_a_window_that_its_server_decides_is_not_guessed():
    """K-3: the vocabulary of gpt-oss is known, its window is the server's."""
    assert tokenizer_of_model("ollama:gpt-oss:20b") == "o200k"
    with pytest.raises(UnknownModel, match="window="):
        window_of("ollama:gpt-oss:20b")


def test_every_tokenizer_in_the_table_exists():
    """K-3: the table is data in the core; the tokenizers are the providers'."""
    assert {row.tokenizer for row in PROFILES} <= set(NAMES)


def test_an_unknown_model_with_a_window_is_estimated():
    """K-3, C-5: a local model works as soon as its window is said, by an estimate that says so."""
    ctx = ContextManager(model="ollama:qwen3:8b", window=8192)
    assert ctx.window.size == 8192
    assert ctx.estimate_tokens("x" * 30) == 10
    assert not ctx.history.counter.exact
    exact = ContextManager(model="ollama:qwen3:8b", window=8192, tokenizer="o200k")
    assert exact.history.counter.exact
    assert ContextManager(model="ft:gpt-4o-mini:org::id").history.counter.exact
    with pytest.raises(UnknownModel, match="window="):
        ContextManager(model="ollama:qwen3:8b")


def test_compress_does_not_estimate_unasked():
    """K-3: a mistyped model is an error that names tokenizer=."""
    with pytest.raises(UnknownModel, match="tokenizer="):
        compress([{"role": "user", "content": "x"}], max_tokens=100, model="gtp-4o")
    assert not wiring.token_counter("anthropic", model="x", otherwise="chars").exact


@pytest.mark.parametrize("window", [0, -1])
def test_a_window_below_one_is_refused(window):
    """C-5: it was 8,192 without a word."""
    with pytest.raises(ValueError, match="window must be at least 1"):
        ContextManager(window=window)
    with pytest.raises(ValueError, match="window must be at least 1"):
        ContextManager(model="gpt-4o", window=window)


def test_a_window_that_is_no_whole_number_is_refused():
    """C-5: by its name."""
    wrong: Any = "8000"
    with pytest.raises(TypeError, match="window must be a whole number"):
        ContextManager(window=wrong)
