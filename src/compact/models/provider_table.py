"""Providers: one record for each, which names its adapter.

A new provider is one record here and one file in `providers`. An extra in `pyproject.toml` has the
name of its client's package. A wire format of its own is a file in `messages.formats`, listed in
`messages.formats.known` and `messages.formats.wire_safe`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """Who serves models."""

    name: str
    """The part of a key before the colon."""
    adapter: str
    """Module and class of the chat model, below `compact.models.providers`."""
    example: str
    """The name of a model, for the error text that says how keys are written."""
    format: str = "chat_completions"
    """The wire format of its prompts. It decides how tokens are counted."""
    spoken: str | None = None
    """The part of a server's address before the `+`; None where there is no server to name."""
    makes: str | None = None
    """A pattern of the models that need no provider's name, if a profile lists them."""
    key: str = ""
    """The environment variable that holds the API key."""
    address: str = ""
    """The environment variable that holds the address which the API key is for."""
    own: str = ""
    """The provider's own address, which the key is for where that variable is not set."""
    default: str = ""
    """The address of a key that names no server; empty for the provider's own."""
    offered: str = ""
    """The key of a model that the chat offers where the API key is set."""
    serves_large: bool = False
    """Whether a model of unknown size counts as a large one."""
    writes: bool = True
    """Whether its models can write summaries: an echo cannot."""


PROVIDERS: Mapping[str, Provider] = {
    provider.name: provider
    for provider in (
        Provider(
            name="openai",
            adapter="openai_chat:OpenAIChat",
            example="gpt-4o",
            spoken="openai",
            makes=r"(?:ft:)?(?:gpt-(?!oss)|chatgpt-|o\d)",
            offered="openai:gpt-4o-mini",
            serves_large=True,
            key="OPENAI_API_KEY",
            address="OPENAI_BASE_URL",
            own="https://api.openai.com/v1",
        ),
        Provider(
            name="openai-responses",
            adapter="openai_responses:OpenAIResponses",
            example="gpt-5",
            format="responses",
            spoken="responses",
            serves_large=True,
            key="OPENAI_API_KEY",
            address="OPENAI_BASE_URL",
            own="https://api.openai.com/v1",
        ),
        Provider(
            name="anthropic",
            adapter="anthropic_messages:AnthropicMessages",
            example="claude-sonnet-4-5",
            format="anthropic",
            spoken="anthropic",
            makes="claude",
            key="ANTHROPIC_API_KEY",
            address="ANTHROPIC_BASE_URL",
            own="https://api.anthropic.com",
            offered="anthropic:claude-sonnet-4-5",
            serves_large=True,
        ),
        Provider(
            name="ollama",
            adapter="ollama_chat:OllamaChat",
            example="qwen3:8b",
            format="ollama",
            spoken="ollama",
            key="OLLAMA_API_KEY",
            address="OLLAMA_HOST",
            own="https://ollama.com",
            default="http://127.0.0.1:11434",
        ),
        Provider(
            name="transformers", adapter="transformers_chat:TransformersChat", example="FOLDER"
        ),
        Provider(name="echo", adapter="echo_chat:EchoChat", example="4k", writes=False),
    )
}
