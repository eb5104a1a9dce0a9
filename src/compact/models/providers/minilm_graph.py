"""The network of all-MiniLM-L6-v2 as an ONNX graph, made from its weights.

A BERT of six layers, as in "MiniLM" (Wang and others, 2020), whose tokens' vectors are averaged and
made of length 1, as sentence-transformers does. Names of weights are those of the file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Precision = Literal["fp32", "int8"]
Weights = Mapping[str, NDArray[np.float32]]
LAYERS, HEADS, WIDTH = 6, 12, 384
"""Of all-MiniLM-L6-v2; the width is that of its vectors, too."""
_EPSILON = 1e-12
"""Of its layer norms, as its configuration says."""
_HIDDEN = -1e9
"""Added to the score of what is padding, so that its share is none."""
_OPSET, _IR = 17, 8
"""Of ONNX: the first that knows layer norms, and a format that older runtimes read, too."""


def read_weights(file: Path) -> Weights:
    """The weights in a file of safetensors: a length, a table in JSON, and the numbers.

    Raises:
        ValueError: it is no such file, or its numbers are of another type.
    """
    data = file.read_bytes()
    size = int.from_bytes(data[:8], "little")
    if size > len(data) - 8:
        raise ValueError("it is cut off")
    table = json.loads(data[8 : 8 + size])
    found: dict[str, NDArray[np.float32]] = {}
    for name, told in table.items():
        if name == "__metadata__" or told["dtype"] == "I64":
            continue
        if told["dtype"] != "F32":
            raise ValueError(f"{name} is of the type {told['dtype']}, not F32")
        start, stop = (8 + size + each for each in told["data_offsets"])
        found[name] = np.frombuffer(data[start:stop], "<f4").reshape(told["shape"])
    return found


def graph_of(weights: Weights, precision: Precision) -> bytes:
    """The network, in ONNX: `ids` and `mask` go in, a row for each text comes out."""
    return _Graph(weights, precision).made()


class _Graph:
    """A graph that is being put together; each method adds to it, and names what it gives."""

    def __init__(self, weights: Weights, precision: Precision) -> None:
        import onnx

        self._onnx: Any = onnx
        self._weights = weights
        self._precision = precision
        self._nodes: list[Any] = []
        self._constants: list[Any] = []

    def made(self) -> bytes:
        """The whole graph."""
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
        """The vectors of tokens at their positions."""
        words = self._constant(self._weights["embeddings.word_embeddings.weight"])
        kind = self._weights["embeddings.token_type_embeddings.weight"][0]
        places = self._constant(self._weights["embeddings.position_embeddings.weight"] + kind)
        length = self._add("Gather", self._add("Shape", "ids"), self._integer(1))
        positions = self._add("Range", self._integer(0), length, self._integer(1))
        tokens = self._add("Gather", words, "ids")
        summed = self._add("Add", tokens, self._add("Gather", places, positions))
        return self._norm(summed, "embeddings.LayerNorm")

    def _layer(self, state: str, bias: str, name: str) -> str:
        """One layer: attention, then two linear steps; each is added to what went in."""
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
        """The mean of the tokens that are no padding, of length 1."""
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
        """A product with a weight in bytes, whose every column has a scale of its own: with one for
        all of it, vectors come out .906 near the exact ones instead of .984.
        """
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
