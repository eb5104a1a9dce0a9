"""Tokenizers: exact counts for OpenAI's vocabularies, estimates for other models.

- `o200k` and `cl100k` are exact and work offline. Their vocabularies come with the package rs-bpe,
  or with bpe-openai on Pythons that have no wheel of rs-bpe. Both count like tiktoken; a test
  compares them.
- `claude` is an estimate, because Anthropic publishes no tokenizer. In recorded sessions, usage
  grew by 1.01 to 1.23 times the o200k tokens of the text, plus the framing in `messages.tokens`
  (docs/evidence.md). The estimate is higher, so a prompt that fits by the estimate really fits.
- `chars` is an estimate for unknown models. It is higher than every tokenizer that was tried.
- A name that ends in `.json` is the file of a model's own tokenizer, such as those of Hugging Face.

`models.profiles` names the tokenizer of each model.
"""

from __future__ import annotations

import importlib
import math
import os
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

from compact.errors import UnknownModel, unreadable
from compact.messages.characters import carried
from compact.messages.tokens import Framing
from compact.models.profiles import profile_of
from compact.patterns import regex
from compact.secrets.redaction import without_credentials

VOCABULARIES = ("o200k", "cl100k")
CLAUDE_TYPICAL, CLAUDE_LARGEST = 1.15, 1.30
"""Claude tokens per o200k token: the typical ratio, and the ratio that is used (decision 001). A
larger ratio undercounts less often, but leaves more of a window unused."""
CHUNK = 65_536
"""Roughly how many characters are counted at once. Other threads wait 5 ms for 64 KB. Smaller
slices need more calls."""


class TiktokenEstimator:
    """Exact counts by an OpenAI vocabulary. Special tokens count as plain text.

    `model` is the vocabulary's name (`o200k` or `cl100k`, with or without `_base`), or a model that
    uses it (`gpt-4`).

    Raises:
        UnknownModel: the model is unknown, or has another tokenizer, which the text names.
    """

    exact = True
    margin = 0.0
    is_pure = True

    def __init__(self, model: str = "o200k") -> None:
        self.name = _vocabulary_of(model)
        self._count = _vocabulary(self.name)

    def count(self, text: str) -> int:
        """Return how many tokens the text has. Half a surrogate pair counts as the replacement
        character that is sent for it.
        """
        if len(text) <= CHUNK and text.isascii():
            return self._count(text)
        if not text.isascii():
            # count a copy: the original would keep its UTF-8 form in memory
            text = text[:1] + text[1:]
        try:
            # a loop lets other threads run
            return sum(self._count(piece) for piece in slices(text))
        except UnicodeEncodeError:
            return self._count(carried(text))

    @staticmethod
    def lines(text: str) -> list[str]:
        """Return the text in pieces whose counts add up to the count of the text.

        Each line is a piece. A blank line, or one that begins with a slash, is joined to the line
        before, because OpenAI's vocabularies have tokens that span these line breaks.
        """
        first, *rest = text.split("\n")
        pieces = [first]
        for line in rest:
            pieces[-1] += "\n"
            if line.startswith("/") or not line.strip():
                pieces[-1] += line
            else:
                pieces.append(line)
        return pieces


_SAME_COUNT = regex(r"[a-z](?= [a-z])|\n(?=[A-Za-z])")
"""Where to cut a text without changing its count: the vocabularies begin a new word there."""


def slices(text: str) -> list[str]:
    """Return the text in slices whose counts add up to the count of the text.

    All slices but the last have at least `CHUNK` characters. A text without a place to cut is one
    slice.
    """
    cuts = [0]
    while len(text) - cuts[-1] > CHUNK:
        place = _SAME_COUNT.search(text, cuts[-1] + CHUNK)
        if place is None:
            break
        cuts.append(place.end())
    return [text[start:end] for start, end in pairwise([*cuts, len(text)])]


class ClaudeEstimator:
    """An estimate for Anthropic's models: 1.30 times the o200k count. Recorded usage was lower."""

    name = "claude"
    exact = False
    is_pure = True
    margin = CLAUDE_LARGEST / CLAUDE_TYPICAL - 1
    """How much larger the estimate is than a typical count, as a share."""

    def __init__(self) -> None:
        self._base = TiktokenEstimator("o200k")

    def count(self, text: str) -> int:
        """Return the estimated tokens of the text, including the margin."""
        return math.ceil(self._base.count(text) * CLAUDE_LARGEST)


class NoopEstimator:
    """A high estimate for any script, without a vocabulary.

    - Up to six letters of a word count as one token, and so do up to two capitals.
    - After an accented letter, up to three letters count as one token. This holds for 96 characters
      or to the end of the line, because such a text is not English.
    - A digit, a punctuation mark or a line break counts as one token.
    - A character of another script counts as one token less than its UTF-8 bytes: one in Cyrillic,
      two in Chinese. An emoji counts as four, because small vocabularies have no token for it.

    So lines have the same count alone and together. A text has at most a few tokens more than its
    parts together.
    """

    name = "chars"
    exact = False
    is_pure = True
    margin = 0.33

    def count(self, text: str) -> int:
        """Return the estimated tokens of the text, including the margin."""
        if text.isascii():
            return len(_PIECE.findall(text))
        size = len(text.encode("utf-8", "replace")) - len(text) + len(_RARE.findall(text))
        for i, span in enumerate(_FOREIGN.split(text)):
            plain = span.encode("ascii", "ignore").decode("ascii")
            size += len((_SHORT_PIECE if i % 2 else _PIECE).findall(plain))
        return size


_PIECE = regex(r"[A-Z]?[a-z]{1,5}|[A-Z]{1,2}|[^A-Za-z \t]| {2,}|\t+")
_SHORT_PIECE = regex(r"[A-Z]?[a-z]{1,2}|[A-Z]{1,2}|[^A-Za-z \t]| {2,}|\t+")
_FOREIGN = regex("((?:[\u00c0-\u024f][^\n\u00c0-\u024f]{0,96})+)")
"""An accented letter and the 96 characters after it. A longer reach would count German better,
which has about one umlaut in 60 letters. But then a growing text would change its count more
often."""
_RARE = regex("[\U00010000-\U0010ffff]")


CHATML_FRAMING = Framing(
    "an estimate: ChatML, and the tool texts of Qwen 2.5's chat template",
    per_message=5,
    per_call=12,
    names=1,
    per_parallel=0,
    schemas="json",
    per_schemas=120,
)
"""The framing of most open models' chat templates. Only a model's server knows its real framing."""


class HuggingFaceEstimator:
    """Exact counts by a model's own `tokenizer.json`.

    Local servers (llama.cpp, vLLM, Ollama) count by the same vocabulary. Control tokens count as
    plain text, because they are sent so (`messages.characters`). The file's settings for
    truncation, padding and special tokens at the ends are ignored. `framing` holds the tokens that
    the model's chat template adds.

    Raises:
        UnknownModel: the file cannot be read or is no tokenizer, or the package `tokenizers` is
            missing. The text says which.
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
        """Return how many tokens the text has. Half a surrogate pair counts as the replacement
        character that is sent for it.
        """
        from compact.messages.characters import defused

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
    except Exception as error:  # noqa: BLE001  # the package raises nothing narrower
        raise UnknownModel(f"{path} is no tokenizer of Hugging Face: {error}") from None
    return read


_TOKENIZERS: dict[str, Callable[[], TiktokenEstimator | ClaudeEstimator | NoopEstimator]] = {
    "o200k": lambda: TiktokenEstimator("o200k"),
    "cl100k": lambda: TiktokenEstimator("cl100k"),
    "claude": ClaudeEstimator,
    "chars": NoopEstimator,
}
NAMES = tuple(_TOKENIZERS)


@cache
def tokenizer(
    name: str,
) -> TiktokenEstimator | ClaudeEstimator | NoopEstimator | HuggingFaceEstimator:
    """Return the tokenizer with this name, or the tokenizer in a file `tokenizer.json`.

    Raises:
        UnknownModel: there is no such tokenizer, or the file is faulty. The text lists the known
            names, or names the fault.
    """
    if name.endswith(".json"):
        return HuggingFaceEstimator(name)
    try:
        return _TOKENIZERS[name]()
    except KeyError:
        raise UnknownModel(
            f"no tokenizer named {without_credentials(name)!r}; there are {', '.join(NAMES)}"
        ) from None


def tokenizer_of_model(model: str) -> str:
    """Return the tokenizer's name for a model key such as `openai:gpt-4o`.

    Raises:
        UnknownModel: the model is unknown. The text asks for the name of a tokenizer.
    """
    profile = profile_of(model)
    if profile is not None:
        return profile.tokenizer
    raise UnknownModel(
        f"no tokenizer is known for the model {without_credentials(model)!r}; "
        f"name a tokenizer (one of {', '.join(NAMES)})"
    )


def _vocabulary_of(model: str) -> str:
    name = model.removesuffix("_base")
    if name in VOCABULARIES:
        return name
    if (name := tokenizer_of_model(model)) in VOCABULARIES:
        return name
    raise UnknownModel(
        f"{model!r} has none of OpenAI's vocabularies: it is counted by the tokenizer {name!r}"
    )


@cache
def _vocabulary(name: str) -> Callable[[str], int]:
    try:
        encoding: Any = getattr(importlib.import_module("rs_bpe.bpe").openai, f"{name}_base")()
    except ModuleNotFoundError:
        return _fallback_vocabulary(name)
    return encoding.count  # type: ignore[no-any-return]  # the extension module carries no types


def _fallback_vocabulary(name: str) -> Callable[[str], int]:
    module: Any = importlib.import_module("bpe_openai")
    encoding = module.get_encoding(f"{name}_base")

    def count(text: str) -> int:
        most = 16 * CHUNK  # bpe-openai refuses much longer texts
        pieces = [text[i : i + most] for i in range(0, len(text), most)]
        return sum(len(encoding.encode_ordinary(piece)) for piece in pieces)

    return count
