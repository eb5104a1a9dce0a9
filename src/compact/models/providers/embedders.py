"""Embedders: Ollama, servers with OpenAI's API, sentence-transformers, and an application's
functions.

`embedder` finds one by name. Clients of the vendors are imported when they are first needed.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeVar, cast

from compact.errors import (
    ContextOverflow,
    InvalidArgument,
    InvalidInput,
    ModelFailed,
    ModelRefused,
    UnknownModel,
)
from compact.messages.characters import carried
from compact.messages.protocols import CutsTexts, Embedder
from compact.models.model_keys import ModelKey, parse_key
from compact.models.providers.clients import http_client, package
from compact.models.providers.failures import mapped, reading
from compact.models.providers.minilm import MODEL, MiniLM
from compact.models.providers.ollama_chat import ollama_client
from compact.models.providers.openai_chat import client_settings
from compact.text.embedding import Numbers, cut

T = TypeVar("T")
Vectors = Sequence[Numbers]
TIMEOUT = 120.0
"""Longest time for one answer, in seconds. It is long because a server may first load its model."""
_PREFIXES: Mapping[str, tuple[str, str]] = {
    "nomic-embed-text": ("search_document: ", "search_query: "),
    "mxbai-embed-large": ("", "Represent this sentence for searching relevant passages: "),
    "snowflake-arctic-embed": ("", "Represent this sentence for searching relevant passages: "),
    "multilingual-e5": ("passage: ", "query: "),
}
"""Start of a model's name → the prefixes of documents and of questions. The models' documentation
requires the prefixes, and the models' files in Ollama do not add them."""


def prefixes_of(model: str) -> tuple[str, str]:
    """Return the prefixes that a model needs before documents and before questions."""
    own = model.rpartition("/")[2]
    return next((pair for name, pair in _PREFIXES.items() if own.startswith(name)), ("", ""))


class ServedEmbedder(ABC):
    """An embedder behind a server.

    `prefixes` are put before documents and before questions; the default is the model's own.
    `timeout` is in seconds, for one answer.
    """

    def __init__(
        self,
        key: ModelKey,
        *,
        api_key: str | None = None,
        prefixes: tuple[str, str] | None = None,
        timeout: float = TIMEOUT,
    ) -> None:
        self.name = str(key)
        self._key = key
        self._api_key = api_key
        self._timeout = timeout
        self._prefixes = prefixes_of(key.name) if prefixes is None else prefixes

    @cached_property
    def dimensions(self) -> int:
        """How many numbers each vector has. The model is asked once.

        Raises:
            ModelFailed: it cannot be asked.
        """
        vectors = self.embed(["dimensions"])
        with reading(self.name):
            return len(vectors[0])

    @cached_property
    def version(self) -> str:
        """The server's digest of the model's weights, and the prefixes."""
        with mapped(self.name):
            return "|".join((self._weights(), *self._prefixes))

    def embed(self, texts: Sequence[str], *, query: bool = False) -> Vectors:
        """Return the vector of each text.

        Raises:
            InvalidInput: a text is longer than the model's window.
            ModelFailed: the model cannot be asked, or its answer cannot be used.
        """
        before = self._prefixes[query]
        given = [before + carried(text) for text in texts]
        if not given:
            return []
        try:
            with mapped(self.name):
                answer = self._asked(given)
        except ContextOverflow as error:
            raise InvalidInput(f"{self.name} does not read all of a text: {error}") from error
        with reading(self.name):
            vectors: Vectors = self._vectors_in(answer)
            if len(vectors) != len(given):
                raise InvalidInput(f"{len(vectors)} vectors for {len(given)} texts")
            return vectors

    @cached_property
    def _client(self) -> Any:  # noqa: ANN401 - of a package that may be missing
        return self._new_client()

    @abstractmethod
    def _new_client(self) -> Any:  # noqa: ANN401 - as above
        """Make a client of the vendor's package."""

    @abstractmethod
    def _asked(self, texts: list[str]) -> Any:  # noqa: ANN401 - any JSON value
        """Return the server's answer."""

    @abstractmethod
    def _vectors_in(self, answer: Any) -> list[list[float]]:  # noqa: ANN401 - as above
        """Return the vectors in an answer, in the order of the texts."""

    def _weights(self) -> str:
        """Return a digest of the model's weights. It is empty if the server reports none."""
        return ""


class OpenAIEmbedder(ServedEmbedder):
    """An embedder behind OpenAI's `/embeddings`, or behind a server with the same API."""

    def _new_client(self) -> Any:  # noqa: ANN401 - as above
        vendor = package("openai", model=self.name)
        url = self._key.base_url or os.environ.get("OPENAI_BASE_URL")
        settings = client_settings(self._key, url, self._api_key, self._timeout)
        return vendor.OpenAI(**settings, http_client=http_client(vendor.DefaultHttpxClient))

    def _asked(self, texts: list[str]) -> Any:  # noqa: ANN401 - as above
        body = {"model": self._key.name, "input": texts, "encoding_format": "float"}
        return self._client.post("/embeddings", body=body, cast_to=object)

    def _vectors_in(self, answer: Any) -> list[list[float]]:  # noqa: ANN401 - as above
        rows = sorted(answer["data"], key=lambda row: row["index"])
        return [row["embedding"] for row in rows]


class OllamaEmbedder(ServedEmbedder):
    """An embedder behind Ollama's `/api/embed`. A text that is too long is refused, not cut."""

    def _new_client(self) -> Any:  # noqa: ANN401 - as above
        vendor = package("ollama", model=self.name)
        return ollama_client(vendor.Client, self._key.base_url, self._api_key, self._timeout)

    def _sent(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:  # noqa: ANN401 - as above
        # the package has no public way to get the raw JSON
        return self._client._request(dict, method, path, json=body)

    def _asked(self, texts: list[str]) -> Any:  # noqa: ANN401 - as above
        body = {"model": self._key.name, "input": texts, "truncate": False}
        return self._sent("POST", "/api/embed", body)

    def _vectors_in(self, answer: Any) -> list[list[float]]:  # noqa: ANN401 - as above
        return list(answer["embeddings"])

    def _weights(self) -> str:
        named = self._key.name if ":" in self._key.name else f"{self._key.name}:latest"
        rows = self._sent("GET", "/api/tags").get("models") or []
        row: Mapping[str, Any] = next((row for row in rows if row.get("name") == named), {})
        return str(row.get("digest") or "")[:12]


class SentenceTransformersEmbedder:
    """A model of the package sentence-transformers, given by name, by folder, or as a loaded model.

    A model given by name is loaded on first use. `version` distinguishes its weights from others
    with the same name.
    """

    def __init__(self, model: Any, *, name: str | None = None, version: str = "") -> None:  # noqa: ANN401 - of a package that may be missing
        called = model if isinstance(model, str) else name or type(model).__name__
        self.name = f"sentence-transformers:{called}"
        self.version = version
        self._given = model

    @cached_property
    def _model(self) -> Any:  # noqa: ANN401 - as above
        if not isinstance(self._given, str):
            return self._given
        try:
            from sentence_transformers import SentenceTransformer
        except ImportError:
            how = "pip install sentence-transformers"
            raise ModelRefused(f"{self.name} needs a package: {how}", model=self.name) from None
        with mapped(self.name):
            return SentenceTransformer(self._given)

    @cached_property
    def dimensions(self) -> int:
        """How many numbers each vector has."""
        return int(self._model.get_sentence_embedding_dimension())

    def embed(self, texts: Sequence[str], *, query: bool = False) -> Vectors:
        """Return the vector of each text.

        Raises:
            InvalidInput: a text is longer than the model's window; `pieces` cuts it.
        """
        given = [carried(text) for text in texts]
        if too_long := [text for text in given if not self._fits(text)]:
            window = self._model.max_seq_length
            raise InvalidInput(f"{self.name} reads {window} tokens: {too_long[0][:80]!r} has more")
        if not given:
            return []
        kind = "encode_query" if query else "encode_document"
        encode = getattr(self._model, kind, None) or self._model.encode
        with mapped(self.name):
            return cast("Vectors", encode(given, show_progress_bar=False))

    def pieces(self, text: str) -> list[str]:
        """Return the text in pieces that fit the model's window. Neighbouring pieces overlap."""
        return fitting(carried(text), self._fits)

    def _fits(self, text: str) -> bool:
        window = self._model.max_seq_length
        if not window:
            return True
        tokens = self._model.tokenizer(text, truncation=False, verbose=False)["input_ids"]
        return len(tokens) <= int(window)


class FunctionEmbedder:
    """An embedder made of a function from texts to vectors.

    `fits` says whether the function reads the whole of a text. A text that does not fit is cut.
    Without `fits`, texts are cut to a thousand characters.
    """

    def __init__(
        self,
        function: Callable[[Sequence[str]], Vectors],
        *,
        name: str | None = None,
        version: str = "",
        fits: Callable[[str], bool] | None = None,
    ) -> None:
        self.name = name or str(getattr(function, "__qualname__", type(function).__name__))
        self.version = version
        self._function = function
        self._fits = fits or (lambda _: True)

    @cached_property
    def dimensions(self) -> int:
        """How many numbers each vector has. The function is called once.

        Raises:
            ModelFailed: the function raised something.
        """
        with mapped(self.name):
            return len(self._function(["dimensions"])[0])

    def embed(self, texts: Sequence[str], *, query: bool = False) -> Vectors:
        """Return each text's vector. Questions are embedded like all other texts.

        Raises:
            ModelFailed: the function raised something.
        """
        with mapped(self.name):
            return self._function(list(texts)) if len(texts) else []

    def pieces(self, text: str) -> list[str]:
        """Return the text in pieces that the function reads whole. Neighbouring pieces overlap."""
        return fitting(text, self._fits)


def fitting(text: str, fits: Callable[[str], bool]) -> list[str]:
    """Return the text in pieces that fit, each of at most a thousand characters. A piece that does
    not fit is halved, down to one character.
    """
    pieces = cut(text)
    while not all(len(piece) < 2 or fits(piece) for piece in pieces):
        pieces = [
            part
            for piece in pieces
            for part in ([piece] if len(piece) < 2 or fits(piece) else cut(piece, len(piece) // 2))
        ]
    return pieces


# --- by name ---

MINILM, SENTENCE_TRANSFORMERS = "minilm", "sentence-transformers"
"""Names of embedders that run in this process. They are the part of a name before the colon."""
_SERVED: Mapping[str, type[ServedEmbedder]] = {"ollama": OllamaEmbedder, "openai": OpenAIEmbedder}
"""Provider in a model's key → the class of its embedder behind a server."""


def embedder(
    chosen: str | Embedder | Callable[..., Any], *, api_key: str | None = None
) -> Embedder:
    """Return the embedder with a name.

    Names are `minilm` (all-MiniLM-L6-v2 in this process), `minilm:FOLDER` for other weights,
    `minilm-int8` or `minilm:FOLDER-int8` for weights in bytes, `ollama:nomic-embed-text`,
    `openai:text-embedding-3-small`, `http://host:8080/v1#model` and `sentence-transformers:NAME`. A
    function from texts to vectors becomes an embedder, and an embedder is returned unchanged.

    Raises:
        UnknownModel: there is no embedder of that name.
        InvalidArgument: `api_key` is given for an embedder that needs none.
    """
    here = (MINILM, SENTENCE_TRANSFORMERS)
    if isinstance(chosen, str) and chosen.partition(":")[0] not in here:
        return _served_embedder(chosen, api_key)
    if api_key is not None:
        raise InvalidArgument("api_key", "api_key is for a server, and this runs in this process")
    if isinstance(chosen, str):
        kind, _, name = chosen.partition(":")
        return _minilm(name) if kind == MINILM else SentenceTransformersEmbedder(name)
    if isinstance(chosen, Embedder):
        return chosen
    return FunctionEmbedder(chosen)


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


# --- with failures of one kind ---


class TypedEmbedder:
    """Wraps an embedder, and raises all its failures as `ModelFailed`. It is given itself or by
    name.

    If a question is longer than the embedder's window, only its first piece is embedded. No server
    is asked before the first use.

    Raises:
        UnknownModel: there is no embedder of that name.
    """

    def __init__(self, chosen: str | Embedder) -> None:
        self._own = embedder(chosen) if isinstance(chosen, str) else chosen

    @property
    def name(self) -> str:
        """The model's key."""
        return self._own.name

    @property
    def version(self) -> str:
        """A text that changes when new vectors cannot be compared with old ones."""
        return self._asked(lambda: self._own.version)

    @property
    def dimensions(self) -> int:
        """How many numbers each vector has."""
        return self._asked(lambda: self._own.dimensions)

    def embed(self, texts: Sequence[str], *, query: bool = False) -> Sequence[Numbers]:
        """Return the vector of each text.

        Raises:
            InvalidInput: a document is longer than the model's window.
            ModelFailed: the model cannot be asked, or its answer cannot be used.
        """
        if not query:
            with mapped(self.name):
                return self._own.embed(texts)
        first = [next(iter(self.pieces(text)), text) for text in texts]
        vectors = self._asked(lambda: self._own.embed(first, query=True))
        with reading(self.name):
            if [len(row) for row in vectors] != [self.dimensions] * len(first):
                raise InvalidInput(f"not one vector of {self.dimensions} numbers for each text")
        return vectors

    def pieces(self, text: str) -> list[str]:
        """Return the text in pieces that the model reads whole."""
        own = self._own
        return self._asked(lambda: own.pieces(text) if isinstance(own, CutsTexts) else cut(text))

    def _asked(self, work: Callable[[], T]) -> T:
        try:
            with mapped(self.name):
                return work()
        except InvalidInput as error:
            raise ModelFailed(f"{self.name}: {error}", model=self.name) from error
