"""The table of providers: one record for each, which names its adapter.

To add a provider, add a record here and a file in `providers`. An extra in `pyproject.toml` names
the client's package. If the provider has its own wire format, also add a file in
`messages.formats`, and list it in `messages.formats.known` and `messages.formats.wire_safe`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """A service or program that serves models."""

    name: str
    """The provider's name: the part of a key before the colon."""
    adapter: str
    """The module and the class of the adapter, relative to `compact.models.providers`."""
    example: str
    """The name of a model, used as an example in the error text about keys."""
    format: str = "chat_completions"
    """The wire format of the provider's prompts. It also decides how tokens are counted."""
    spoken: str | None = None
    """The prefix before the `+` in a server's address. None if a key cannot contain an address."""
    makes: str | None = None
    """A pattern of model names that need no provider in the key, if a profile describes them."""
    key: str = ""
    """The environment variable that holds the API key."""
    address: str = ""
    """The environment variable that holds the address to which the API key belongs."""
    own: str = ""
    """The provider's own address. The API key belongs to it if `address` is not set."""
    default: str = ""
    """The address that is used if a key names no server. If it is empty, `own` is used."""
    offered: str = ""
    """The model key that the chat offers if the API key is set."""
    serves_large: bool = False
    """Whether a model of unknown size counts as a large one."""
    writes: bool = True
    """Whether the provider's models can write summaries. An echo model cannot."""


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
