"""Model keys say which model to use, through which API and at which address.

Examples are `ollama:qwen3:8b` and `http://host:8080/v1#model`. `models.profiles` holds the facts
about each model. `compact.wiring` builds the object that asks the model.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from compact.errors import UnknownModel
from compact.models.profiles import profile_of
from compact.models.provider_table import PROVIDERS
from compact.patterns import regex
from compact.secrets.redaction import without_credentials

DEFAULT = "openai"
"""The API of an address without a prefix such as `anthropic+`. Most servers offer it."""
_SPOKEN = {p.spoken: p.name for p in PROVIDERS.values() if p.spoken}
_ADDRESS = regex(
    r"(?:(?P<spoken>[a-z-]+)\+)?(?P<url>https?://[^\s#]+)(?:#(?P<name>.*))?", re.IGNORECASE
)
_IS_ADDRESS = regex(r"(?:^|[:/+])https?://", re.IGNORECASE)
_SEPARATORS = frozenset("@?;&")
"""Characters that may separate a password or a token from the rest of an address."""
_EXAMPLES = ", ".join(f"{p.name}:{p.example}" for p in PROVIDERS.values() if p.writes)
_WAYS = (
    f"write PROVIDER:NAME ({_EXAMPLES}; echo:4k answers offline), the address of a server with the "
    "model's name after a # (http://localhost:8080/v1#model; before it responses+, anthropic+ or "
    "ollama+ where the server speaks so), or the bare name of a well-known model (gpt-4o)"
)


@dataclass(frozen=True, slots=True)
class ModelKey:
    """A model's key, split into its parts. `str` returns a key with the same meaning."""

    provider: str
    """The provider's name in `PROVIDERS`."""
    name: str
    """The provider's name for the model. For `transformers` it may be a folder."""
    base_url: str | None = None
    """The server's address. None means the provider's own server."""

    def __str__(self) -> str:
        if self.base_url is None:
            return f"{self.provider}:{self.name}"
        prefix = "" if self.provider == DEFAULT else f"{PROVIDERS[self.provider].spoken}+"
        return f"{prefix}{self.base_url}#{self.name}"


def parse_key(text: str) -> ModelKey:
    """Parse a model key. `openai/gpt-4o` means the same as `openai:gpt-4o`.

    Raises:
        UnknownModel: the text is not a key. The error says how to write keys.
    """
    text = text.strip()
    if _IS_ADDRESS.search(text):
        return _at_address(text)
    for separator in (":", "/"):
        prefix, _, name = text.partition(separator)
        if prefix.lower() in PROVIDERS and name.strip():
            return ModelKey(prefix.lower(), name.strip())
    for provider in PROVIDERS.values():
        if provider.makes and re.match(provider.makes, text, re.IGNORECASE) and profile_of(text):
            return ModelKey(provider.name, text)
    raise UnknownModel(f"{without_credentials(text)!r} names no model that can be asked; {_WAYS}")


def is_of_other(model: str, wire: str) -> bool:
    """Return whether a model is surely not served by the makers of this wire format."""
    try:
        key = parse_key(model)
    except UnknownModel:
        return False
    makers = {p.key for p in PROVIDERS.values() if p.format == wire}
    return key.base_url is not None or PROVIDERS[key.provider].key not in makers


def format_for(model: str | None) -> str:
    """Return the wire format of the model's maker. If the maker is unknown, it is the default."""
    for provider in PROVIDERS.values():
        if provider.makes and re.search(provider.makes, model or "", re.IGNORECASE):
            return provider.format
    return PROVIDERS[DEFAULT].format


def _at_address(text: str) -> ModelKey:
    match = _ADDRESS.fullmatch(text)
    if match is None:
        raise UnknownModel(f"{without_credentials(text)!r} is no address of a server; {_WAYS}")
    spoken, url, name = (match["spoken"] or DEFAULT).lower(), match["url"], match["name"]
    if not _SEPARATORS.isdisjoint(url):
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
