"""Embedders by their names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from compact.errors import InvalidArgument, UnknownModel
from compact.messages.protocols import Embedder
from compact.models.model_keys import parse_key
from compact.models.providers.embedders import (
    FunctionEmbedder,
    OllamaEmbedder,
    OpenAIEmbedder,
    SentenceTransformersEmbedder,
    ServedEmbedder,
)
from compact.models.providers.minilm import MODEL, MiniLM

MINILM, SENTENCE_TRANSFORMERS = "minilm", "sentence-transformers"
"""Embedders that run in this process; their names stand before a colon."""
_SERVED: Mapping[str, type[ServedEmbedder]] = {"ollama": OllamaEmbedder, "openai": OpenAIEmbedder}
"""Who embeds behind a server, by the provider of a model's key."""


def embedder(
    chosen: str | Embedder | Callable[..., Any], *, api_key: str | None = None
) -> Embedder:
    """The embedder of that name: `minilm` (all-MiniLM-L6-v2 in this process; `minilm:FOLDER` of
    other weights, `-int8` behind either in bytes), `ollama:nomic-embed-text`,
    `openai:text-embedding-3-small`, `http://host:8080/v1#model`, `sentence-transformers:NAME`. A
    function of texts that gives their vectors becomes one; an embedder is taken as it is.

    Raises:
        UnknownModel: the name means nothing.
        InvalidArgument: an `api_key` for an embedder that is asked without one.
    """
    if isinstance(chosen, str) and not _runs_here(chosen):
        return _served_embedder(chosen, api_key)
    if api_key is not None:
        raise InvalidArgument("api_key", "api_key is for a server, and this runs in this process")
    if isinstance(chosen, str):
        kind, _, name = chosen.partition(":")
        return _minilm(name) if kind == MINILM else _sentence_transformers(name)
    if isinstance(chosen, Embedder):
        return chosen
    return FunctionEmbedder(chosen)


def _runs_here(name: str) -> bool:
    return name.partition(":")[0] in (MINILM, SENTENCE_TRANSFORMERS)


def _served_embedder(key: str, api_key: str | None) -> Embedder:
    named = parse_key(key)
    if named.provider not in _SERVED:
        raise UnknownModel(
            f"{named} embeds nothing; there are minilm, ollama:NAME, openai:NAME, "
            "http://HOST/v1#NAME and sentence-transformers:NAME"
        )
    return _SERVED[named.provider](named, api_key=api_key)


def _minilm(name: str) -> Embedder:
    name, is_int8 = name.removesuffix("-int8"), name.endswith("-int8")
    folder = None if name in ("", MODEL) else name
    return MiniLM(folder, precision="int8" if is_int8 else "fp32")


def _sentence_transformers(name: str) -> Embedder:
    return SentenceTransformersEmbedder(name)
