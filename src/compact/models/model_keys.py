"""Model keys: which model, spoken to how, and where. `ollama:qwen3:8b`, `http://host:8080/v1#model`.

What is known of a model lives in `models.profiles`; who answers under a key, in `compact.wiring`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from compact.errors import UnknownModel
from compact.models.profiles import profile_of
from compact.patterns import regex
from compact.secrets.redaction import without_credentials


@dataclass(frozen=True, slots=True)
class Provider:
    """Who answers for models. A provider is one record of `PROVIDERS` and one adapter in
    `providers`; a client's package is an extra of its name, an example of its keys stands in
    `_WAYS`, and `_VENDOR` of `models.profiles` has its name where it serves large models. A wire
    format of its own is a file of `core.formats`, named in `known.FORMATS` and `wire_safe.SERVED`.
    """

    name: str
    """What stands before the colon of a key."""
    adapter: str
    """The chat model's module and class below `compact.models.providers`."""
    format: str
    """The wire format of its prompts, which says how tokens are counted."""
    spoken: str | None = None
    """What stands before the `+` of an address of one's own; None for what has no server."""
    makes: str | None = None
    """A pattern of the models that are asked for by bare names, where a profile knows them."""
    key: str = ""
    """The variable of the environment that holds the key."""
    address: str = ""
    """The variable that says where the key belongs."""
    own: str = ""
    """The provider's own address, where the key belongs without that variable."""
    usual: str = ""
    """Who is asked where no address is named; the own address where it is empty."""
    writes: bool = True
    """Whether its models can write at all: an echo cannot."""


_OPENAI = ("OPENAI_API_KEY", "OPENAI_BASE_URL", "https://api.openai.com/v1")
_ANTHROPIC = ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "https://api.anthropic.com")
_OLLAMA = ("OLLAMA_API_KEY", "OLLAMA_HOST", "https://ollama.com", "http://127.0.0.1:11434")
_GPT = r"(?:ft:)?(?:gpt-(?!oss)|chatgpt-|o\d)"

PROVIDERS: Mapping[str, Provider] = {
    provider.name: provider
    for provider in (
        Provider("openai", "openai_chat:OpenAIChat", "chat_completions", "openai", _GPT, *_OPENAI),
        Provider(
            "openai-responses",
            "openai_responses:OpenAIResponses",
            "responses",
            "responses",
            None,
            *_OPENAI,
        ),
        Provider(
            "anthropic",
            "anthropic_messages:AnthropicMessages",
            "anthropic",
            "anthropic",
            "claude",
            *_ANTHROPIC,
        ),
        Provider("ollama", "ollama_chat:OllamaChat", "ollama", "ollama", None, *_OLLAMA),
        Provider("transformers", "transformers_chat:TransformersChat", "chat_completions"),
        Provider("echo", "echo_chat:EchoChat", "chat_completions", writes=False),
    )
}
"""All providers, by name."""
DEFAULT = "openai"
"""Whose API most servers speak: it needs no name before an address."""
_SPOKEN: Mapping[str, str] = {p.spoken: p.name for p in PROVIDERS.values() if p.spoken}
_ADDRESS = regex(
    r"(?:(?P<spoken>[a-z-]+)\+)?(?P<url>https?://[^\s#]+)(?:#(?P<name>.*))?", re.IGNORECASE
)
_IS_ADDRESS = regex(r"(?:^|[:/+])https?://", re.IGNORECASE)
_BESIDE = frozenset("@?;&")
"""What stands in an address between the server's name and path and what may be a secret."""
_WAYS = (
    "write PROVIDER:NAME (ollama:qwen3:8b, openai:gpt-4o, openai-responses:gpt-5, "
    "anthropic:claude-sonnet-4-5, transformers:FOLDER; echo:4k answers offline), the address of a "
    "server with the model's name after a # (http://localhost:8080/v1#model; before it responses+, "
    "anthropic+ or ollama+ where the server speaks so), or the bare name of a well-known model "
    "(gpt-4o)"
)


@dataclass(frozen=True, slots=True)
class ModelKey:
    """A model's key, taken apart; as text it is a key that means the same."""

    provider: str
    """How the model is spoken to, one of `PROVIDERS`."""
    name: str
    """What the provider calls the model; a folder for `transformers`."""
    base_url: str | None = None
    """The server's address; None for the provider's own."""

    def __str__(self) -> str:
        if self.base_url is None:
            return f"{self.provider}:{self.name}"
        prefix = "" if self.provider == DEFAULT else f"{PROVIDERS[self.provider].spoken}+"
        return f"{prefix}{self.base_url}#{self.name}"


def parse_key(text: str) -> ModelKey:
    """The key that a text means; `openai/gpt-4o` is as good as `openai:gpt-4o`.

    Raises:
        UnknownModel: it means nothing; the text names the ways to write one.
    """
    text = text.strip()
    if _IS_ADDRESS.search(text):
        return _at_address(text)
    for separator in (":", "/"):
        provider, found, name = text.partition(separator)
        if found and provider.lower() in PROVIDERS and name.strip():
            return ModelKey(provider.lower(), name.strip())
    for each in PROVIDERS.values():
        if each.makes and re.match(each.makes, text, re.IGNORECASE) and profile_of(text):
            return ModelKey(each.name, text)
    raise UnknownModel(f"{without_credentials(text)!r} names no model that can be asked; {_WAYS}")


def is_of_other(model: str, wire: str) -> bool:
    """Whether the model of that key is surely not of those who made a wire format."""
    try:
        key = parse_key(model)
    except UnknownModel:
        return False
    makers = {p.key for p in PROVIDERS.values() if p.format == wire}
    return key.base_url is not None or PROVIDERS[key.provider].key not in makers


def format_for(model: str | None) -> str:
    """The wire format of a session that names this model and no format: its maker's, if known."""
    for each in PROVIDERS.values():
        if each.makes and re.search(each.makes, model or "", re.IGNORECASE):
            return each.format
    return PROVIDERS[DEFAULT].format


def _at_address(text: str) -> ModelKey:
    found = _ADDRESS.fullmatch(text)
    if found is None:
        raise UnknownModel(f"{without_credentials(text)!r} is no address of a server; {_WAYS}")
    spoken, url, name = (found["spoken"] or DEFAULT).lower(), found["url"], found["name"]
    if not _BESIDE.isdisjoint(url):
        raise UnknownModel(
            "the address may hold a password, and keys are shown and kept: leave out what stands "
            "before the @ or after one of ? ; &, and give it to chat_model as api_key, or in the "
            "environment"
        )
    if spoken not in _SPOKEN:
        raise UnknownModel(f"{without_credentials(text)!r}: no server speaks {spoken!r}; {_WAYS}")
    if not name or not name.strip():
        raise UnknownModel(
            f"{without_credentials(text)!r} names no model: put it after a #, as {url}#model"
        )
    return ModelKey(_SPOKEN[spoken], name.strip(), url.rstrip("/"))
