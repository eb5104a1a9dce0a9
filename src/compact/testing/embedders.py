"""The conformance suite for embedders, and a fake embedder."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from hashlib import blake2b

from compact.errors import InvalidInput
from compact.messages.characters import carried
from compact.messages.protocols import CutsTexts, Embedder

_TEXTS = (
    "The crane lifts forty tons.",
    "Größe & Maße – naïve café",
    "用户反馈：登录页面在移动端加载很慢",
    "<|im_start|>[CLS] [SEP] [MASK]",
    "a lone \ud800 surrogate",
    "x",
)


class HashEmbedder:
    """Makes vectors from hashes of a text's words. They are the same in every process.

    Texts that share words are near each other. `window` is the most words of a text; None means any
    number.
    """

    def __init__(
        self,
        dimensions: int = 64,
        *,
        name: str = "hash",
        version: str = "1",
        window: int | None = None,
    ) -> None:
        self.name = name
        self.version = version
        self.dimensions = dimensions
        self.window = window
        self.texts: list[str] = []
        """The embedded texts in order. Questions are left out."""

    def embed(self, texts: Sequence[str], *, query: bool = False) -> list[list[float]]:
        """Return the vector of each text.

        Raises:
            InvalidInput: a text is longer than the window.
        """
        if self.window is not None and any(len(text.split()) > self.window for text in texts):
            raise InvalidInput(f"a text has more than {self.window} words")
        if not query:
            self.texts += texts
        return [self._vector(text) for text in texts]

    def pieces(self, text: str) -> list[str]:
        """Cut a text into pieces of the window's size. Neighbours share one word."""
        words = text.split()
        if self.window is None or len(words) <= self.window:
            return [text]
        step = max(1, self.window - 1)
        return [" ".join(words[i : i + self.window]) for i in range(0, len(words) - 1, step)]

    def _vector(self, text: str) -> list[float]:
        salt = f"{self.name} {self.version}".encode()
        numbers = [1e-3] * self.dimensions
        for word in re.findall(r"\w+", text.lower()) or [text]:
            digest = blake2b(
                word.encode("utf-8", "replace"), key=salt[:64], digest_size=24
            ).digest()
            for high, low, sign in zip(digest[::3], digest[1::3], digest[2::3], strict=True):
                numbers[(high << 8 | low) % self.dimensions] += 1 if sign & 1 else -1
        return numbers


def check_embedder(embedder: Embedder) -> None:
    """Test an embedder. Its vectors must be finite, must differ for texts that say different
    things, and must not depend on the other texts of the call. A text that is too long must be cut
    into pieces or refused.
    """
    assert isinstance(embedder, Embedder), "it lacks a method of the protocol"
    assert embedder.name, "it needs a name"
    assert isinstance(embedder.version, str), "a version is a text"
    assert embedder.dimensions > 0, "a vector has dimensions"
    assert len(embedder.embed([])) == 0, "of no texts there are no vectors"
    together = [list(vector) for vector in embedder.embed(_TEXTS)]
    for text, vector in zip(_TEXTS, together, strict=True):
        assert len(vector) == embedder.dimensions, f"{text!r} has {len(vector)} numbers"
        assert all(map(math.isfinite, vector)), f"{text!r} has a number that is none"
        alone = list(embedder.embed([text])[0])
        # Quantized models round differently in another batch.
        assert _cosine(vector, alone) > 0.97, f"{text!r} depends on what stands beside it"
    assert len(embedder.embed(_TEXTS[:2], query=True)) == 2, "a question has a vector, too"
    different = _cosine(together[0], together[2])
    assert different < 0.97, "texts that say different things have different vectors"
    _check_pieces(embedder)


def _check_pieces(embedder: Embedder) -> None:
    """Check that a text that is too long is cut into pieces or refused, never shortened."""
    beginning = " ".join(f"word{i % 97}" for i in range(20_000))
    ends = [f"{beginning} The {animal} barks at night." for animal in ("dog", "seal")]
    if isinstance(embedder, CutsTexts):
        for text in (*ends, *_TEXTS):
            pieces = embedder.pieces(text)
            kept = set(carried(" ".join(pieces)).split())
            assert set(carried(text).split()) <= kept, "a piece of the text is left out"
            embedder.embed(pieces[-2:])
        return
    try:
        vectors = embedder.embed(ends)
    except (InvalidInput, RuntimeError):
        return
    assert _cosine(list(vectors[0]), list(vectors[1])) < 1, (
        "the end of a long text is left out in silence"
    )


def _cosine(one: Sequence[float], other: Sequence[float]) -> float:
    product = math.fsum(a * b for a, b in zip(one, other, strict=True))
    return product / math.sqrt(math.fsum(a * a for a in one) * math.fsum(b * b for b in other))
