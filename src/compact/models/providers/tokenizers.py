"""Tokenizers: exact OpenAI counts offline, and honest estimates for the others.

`o200k` and `cl100k` are exact, from vocabularies inside the installed wheel: rs-bpe, or bpe-openai
on Pythons that rs-bpe has no wheel for (both equal tiktoken token for token; a test compares).
`claude` is an estimate: Anthropic publishes no tokenizer. Between two calls of recorded sessions,
usage grew by 1.01 to 1.23 times the o200k tokens of the text, and by framing that is counted in
`messages.tokens` (docs/evidence.md); the estimate lies above, so that what fits by it fits. `chars`
is for models about which nothing is known: above every tokenizer that was tried, by script. A name
that ends in `.json` is the file of a model's own tokenizer (`models.providers.tokenizers`). Which
model calls for which: `models.profiles`.
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
from compact.messages.control_tokens import defused
from compact.messages.tokens import Framing
from compact.models.profiles import profile_of
from compact.patterns import regex
from compact.secrets.redaction import without_credentials

VOCABULARIES = ("o200k", "cl100k")
CLAUDE_TYPICAL, CLAUDE_LARGEST = 1.15, 1.30
"""Tokens of Claude for one of o200k: what is typical, which the margin is told by, and what is
counted (decision 001). More of the latter undercounts less and leaves more of a window unused."""
CHUNK = 65_536
"""Characters that are counted at once, about; between two slices other threads run. More holds them
up longer, 5 ms for each 64 KB; fewer costs calls."""


class TiktokenEstimator:
    """Exact counts of an OpenAI vocabulary, named by itself (`o200k` or `cl100k`, with `_base` or
    without) or by a model that has it (`gpt-4`); special tokens count as plain text.

    Raises:
        UnknownModel: nothing is known of the model, or it has another tokenizer; names that one.
    """

    exact = True
    margin = 0.0
    is_pure = True

    def __init__(self, model: str = "o200k") -> None:
        self.name = _vocabulary_of(model)
        self._count = _vocabulary(self.name)

    def count(self, text: str) -> int:
        """Tokens of the text. A lone surrogate counts as the replacement character it is sent
        as.
        """
        if len(text) <= CHUNK and text.isascii():
            return self._count(text)
        if not text.isascii():
            text = text[:1] + text[1:]  # a copy: the original would keep its UTF-8 form with it
        try:
            return sum(self._count(piece) for piece in slices(text))  # a loop lets threads in
        except UnicodeEncodeError:
            return self._count(carried(text))

    @staticmethod
    def lines(text: str) -> list[str]:
        """The text in pieces that count the same. A line begins one unless it is blank, or begins
        with a slash: OpenAI's vocabularies take line ends together with those.
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
"""Where a text can be cut and OpenAI's vocabularies count its parts as they count the whole: each
begins a word anew there."""


def slices(text: str) -> list[str]:
    """The text in slices of at least `CHUNK` characters, but for the last, that count the same; as
    it is where it can be cut nowhere.
    """
    cuts = [0]
    while len(text) - cuts[-1] > CHUNK:
        found = _SAME_COUNT.search(text, cuts[-1] + CHUNK)
        if found is None:
            break
        cuts.append(found.end())
    return [text[start:end] for start, end in pairwise([*cuts, len(text)])]


class ClaudeEstimator:
    """An estimate for Anthropic's models: o200k counts times 1.30, above all growth seen in
    recorded usage.
    """

    name = "claude"
    exact = False
    is_pure = True
    margin = CLAUDE_LARGEST / CLAUDE_TYPICAL - 1
    """The share by which the estimate lies above a typical count."""

    def __init__(self) -> None:
        self._base = TiktokenEstimator("o200k")

    def count(self, text: str) -> int:
        """Estimated tokens of the text, margin included."""
        return math.ceil(self._base.count(text) * CLAUDE_LARGEST)


class NoopEstimator:
    """An estimate that needs no vocabulary, and is high whatever the script.

    Six letters of a word take a token, three from a letter with an accent on (in its line, for 96
    characters), as it is no English then, and two capitals; digits, marks and line ends take one
    each. A character of another script takes one less than its UTF-8 bytes (Cyrillic one, Chinese
    two), a smiley four: small vocabularies have no token for it. So lines count the same alone and
    together, and a text no more than its parts and a few tokens.
    """

    name = "chars"
    exact = False
    is_pure = True
    margin = 0.33

    def __init__(self) -> None:
        """It takes nothing."""

    def count(self, text: str) -> int:
        """Estimated tokens of the text, margin included."""
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
"""Words beside a letter with an accent. Further ones are counted better (German has an umlaut in 60
letters, about), and what is added to a text may then take more of it."""
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


_KNOWN: dict[str, Callable[[], TiktokenEstimator | ClaudeEstimator | NoopEstimator]] = {
    "o200k": lambda: TiktokenEstimator("o200k"),
    "cl100k": lambda: TiktokenEstimator("cl100k"),
    "claude": ClaudeEstimator,
    "chars": NoopEstimator,
}
NAMES = tuple(_KNOWN)


@cache
def tokenizer(
    name: str,
) -> TiktokenEstimator | ClaudeEstimator | NoopEstimator | HuggingFaceEstimator:
    """The tokenizer of that name, or in that `tokenizer.json`.

    Raises:
        UnknownModel: naming the tokenizers there are, or what is wrong with the file.
    """
    if name.endswith(".json"):
        return HuggingFaceEstimator(name)
    try:
        return _KNOWN[name]()
    except KeyError:
        raise UnknownModel(
            f"no tokenizer named {without_credentials(name)!r}; there are {', '.join(NAMES)}"
        ) from None


def tokenizer_of_model(model: str) -> str:
    """The name of the tokenizer that a model key such as `openai:gpt-4o` calls for.

    Raises:
        UnknownModel: when nothing is known of the model; the text names the way out.
    """
    profile = profile_of(model)
    if profile is not None:
        return profile.tokenizer
    raise UnknownModel(
        f"no tokenizer is known for the model {without_credentials(model)!r}; "
        f"name a tokenizer (one of {', '.join(NAMES)})"
    )


def _vocabulary_of(model: str) -> str:
    """The vocabulary that is named, by itself or by a model."""
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
        most = 16 * CHUNK  # it refuses much longer inputs
        pieces = [text[i : i + most] for i in range(0, len(text), most)]
        return sum(len(encoding.encode_ordinary(piece)) for piece in pieces)

    return count
