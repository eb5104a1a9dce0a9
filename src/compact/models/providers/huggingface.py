"""Exact counts by a model's own `tokenizer.json`, the file that models of Hugging Face come with.

Local servers (llama.cpp, vLLM, Ollama) count by the same vocabulary. The package `tokenizers`,
which reads the file, is imported when it is first needed.
"""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import Any

from compact.errors import UnknownModel, unreadable
from compact.messages.characters import carried
from compact.messages.control_tokens import defused
from compact.messages.tokens import Framing
from compact.secrets.redaction import without_credentials

CHATML_FRAMING = Framing(
    "an estimate: ChatML, and the tool texts of Qwen 2.5's chat template",
    per_message=5,
    per_call=12,
    names=1,
    per_parallel=0,
    schemas="json",
    per_schemas=120,
)
"""For templates like those of most open models; what a template really adds, only its server knows.
"""


class HuggingFaceEstimator:
    """Exact counts of the vocabulary in a `tokenizer.json`. Control tokens count as what is sent
    of them (`messages.control_tokens`): plain text.

    `framing` is what the model's chat template adds around texts.

    What the file says of cutting and padding texts, and of marks at their ends, is left out: those
    are no tokens of a text.

    Raises:
        UnknownModel: the file cannot be read, is no tokenizer, or `tokenizers` is not installed;
            the text says which.
    """

    exact = True
    margin = 0.0

    def __init__(self, path: str | os.PathLike[str], *, framing: Framing = CHATML_FRAMING) -> None:
        self.name = os.fspath(path)
        self.framing = framing
        read: Any = _read(Path(path))
        read.encode_special_tokens = True
        read.no_truncation()
        read.no_padding()
        self._tokenizer = read

    def count(self, text: str) -> int:
        """Tokens of the text. A lone surrogate counts as the replacement character it is sent
        as.
        """
        text = carried(defused(text))
        return len(self._tokenizer.encode(text, add_special_tokens=False))


def _read(path: Path) -> object:
    try:
        module: Any = importlib.import_module("tokenizers")
    except ModuleNotFoundError:
        raise UnknownModel(
            f"counting by {without_credentials(str(path))} needs the package tokenizers, which is "
            "not installed: pip install tokenizers"
        ) from None
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise UnknownModel(
            f"the tokenizer {without_credentials(str(path))}: {unreadable(error)}"
        ) from None
    try:
        read: object = module.Tokenizer.from_str(text)
    except Exception as error:  # noqa: BLE001  # the package raises bare Exception, nothing narrower
        raise UnknownModel(f"{path} is no tokenizer of Hugging Face: {error}") from None
    return read
