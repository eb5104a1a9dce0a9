"""Model keys: which model, spoken to how, and where. `ollama:qwen3:8b`, `http://host:8080/v1#model`.

What is known of a model lives in `core.profiles`; who answers under a key, in `compact.wiring`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from compact.core.profiles import profile_of
from compact.core.redaction import without_credentials
from compact.errors import UnknownModel

PROVIDERS = ("openai", "openai-responses", "anthropic", "ollama", "transformers")
"""Who can be named before the colon of a key."""
_SPOKEN: Mapping[str, str] = {
    "openai": "openai",
    "responses": "openai-responses",
    "anthropic": "anthropic",
    "ollama": "ollama",
}
"""What a server of one's own may speak, as it stands before the `+` of an address."""
_PREFIX: Mapping[str, str] = {provider: spoken for spoken, provider in _SPOKEN.items()}
_MAKERS: Mapping[str, str] = {
    "openai": r"(?:ft:)?(?:gpt-(?!oss)|chatgpt-|o\d)",
    "anthropic": r"claude",
}
"""Whose models are asked for by their bare names, where a profile knows them."""
_ADDRESS = re.compile(
    r"(?:(?P<spoken>[a-z-]+)\+)?(?P<url>https?://[^\s#]+)(?:#(?P<name>.*))?", re.IGNORECASE
)
_IS_ADDRESS = re.compile(r"(?:^|[:/+])https?://", re.IGNORECASE)
_BESIDE = frozenset("@?;&")
"""What stands in an address between the server's name and path and what may be a secret."""
_WAYS = (
    "write PROVIDER:NAME (ollama:qwen3:8b, openai:gpt-4o, openai-responses:gpt-5, "
    "anthropic:claude-sonnet-4-5, transformers:FOLDER), the address of a server with the model's "
    "name after a # (http://localhost:8080/v1#model; before it responses+, anthropic+ or ollama+ "
    "where the server speaks so), or the bare name of a well-known model (gpt-4o)"
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
        prefix = "" if self.provider == "openai" else f"{_PREFIX[self.provider]}+"
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
    for provider, pattern in _MAKERS.items():
        if re.match(pattern, text, re.IGNORECASE) and profile_of(text) is not None:
            return ModelKey(provider, text)
    raise UnknownModel(f"{without_credentials(text)!r} names no model that can be asked; {_WAYS}")


def _at_address(text: str) -> ModelKey:
    found = _ADDRESS.fullmatch(text)
    if found is None:
        raise UnknownModel(f"{without_credentials(text)!r} is no address of a server; {_WAYS}")
    spoken, url, name = (found["spoken"] or "openai").lower(), found["url"], found["name"]
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
