"""Model keys: what a person writes to name a model."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compact.errors import UnknownModel
from compact.models.model_keys import ModelKey, parse_key

WRITTEN = {
    "ollama:qwen3:8b": ModelKey("ollama", "qwen3:8b"),
    "ollama/hf.co/org/model:Q4_K_M": ModelKey("ollama", "hf.co/org/model:Q4_K_M"),
    "openai:gpt-4o": ModelKey("openai", "gpt-4o"),
    "openai/gpt-4o": ModelKey("openai", "gpt-4o"),
    " OpenAI:gpt-4o ": ModelKey("openai", "gpt-4o"),
    "openai-responses:gpt-5": ModelKey("openai-responses", "gpt-5"),
    "anthropic:claude-sonnet-4-5": ModelKey("anthropic", "claude-sonnet-4-5"),
    "transformers:models/tiny": ModelKey("transformers", "models/tiny"),
    "gpt-4o": ModelKey("openai", "gpt-4o"),
    "o3-mini": ModelKey("openai", "o3-mini"),
    "ft:gpt-4o-mini:org::id": ModelKey("openai", "ft:gpt-4o-mini:org::id"),
    "claude-sonnet-4-5": ModelKey("anthropic", "claude-sonnet-4-5"),
    "http://host:8080/v1#model": ModelKey("openai", "model", "http://host:8080/v1"),
    "http://host:8080/v1/#model": ModelKey("openai", "model", "http://host:8080/v1"),
    "https://host/v1#org/model:free": ModelKey("openai", "org/model:free", "https://host/v1"),
    "responses+http://host/v1#m": ModelKey("openai-responses", "m", "http://host/v1"),
    "anthropic+http://host#m": ModelKey("anthropic", "m", "http://host"),
    "ollama+http://host:11434#qwen3:8b": ModelKey("ollama", "qwen3:8b", "http://host:11434"),
}


@pytest.mark.parametrize("text", WRITTEN)
def test_a_key_says_who_is_asked_and_where(text: str) -> None:
    """Providers, addresses and well-known bare names; as text again it means the same (FR-14)."""
    key = parse_key(text)
    assert key == WRITTEN[text]
    assert parse_key(str(key)) == key


@pytest.mark.parametrize(
    "text",
    ["", "qwen3:8b", "gpt-oss:20b", "gpt-nothing", "openai:", "mistral/large", "ftp://host#m",
     "grpc+http://host#m", "http://#m"],
)  # fmt: skip
def test_what_means_no_model_is_told_how_keys_are_written(text: str) -> None:
    """The error names every way there is (FR-6)."""
    with pytest.raises(UnknownModel) as refused:
        parse_key(text)
    for way in ("ollama:qwen3:8b", "anthropic:", "transformers:", "http://localhost:8080/v1#model"):
        assert way in str(refused.value)


def test_an_address_without_a_model_is_told_where_to_put_it() -> None:
    """The sentence shows the very address with its # (FR-6)."""
    for text in ("http://host:8080/v1", "http://host:8080/v1#", "ollama+http://host:8080/v1# "):
        with pytest.raises(UnknownModel, match="http://host:8080/v1#model"):
            parse_key(text)


def test_an_address_never_holds_a_password() -> None:
    """Keys are shown and kept, so what they hold is no secret; the refusal does not repeat it
    (FR-6).
    """
    with pytest.raises(UnknownModel, match="before the @") as refused:
        parse_key("http://me:opensesame@host/v1#m")
    assert "opensesame" not in str(refused.value)


@given(
    st.builds(
        ModelKey,
        st.sampled_from(["openai", "openai-responses", "anthropic", "ollama"]),
        st.text("abcXYZ019:/._-#", min_size=1),
        st.none() | st.sampled_from(["http://host:1", "https://a.b/v1", "http://[::1]:8080/v1"]),
    )
)
def test_every_key_comes_back_from_its_text(key: ModelKey) -> None:
    """What is stored as text means the same when it is read (FR-14)."""
    assert parse_key(str(key)) == key
