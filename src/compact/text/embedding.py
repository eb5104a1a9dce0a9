"""Chooses, cuts and embeds texts, and defines the values that a vector store returns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

from compact.errors import InvalidInput, ModelFailed
from compact.messages.messages import Message
from compact.messages.protocols import CutsTexts, Embedder
from compact.text.speakers import speaker_of

PIECE = 1_000
"""A piece has at most this many characters, unless the embedder says how much it reads. It must fit
any model's window, even in Chinese, where each character is a token. With smaller pieces, search is
more exact but needs more vectors."""
OVERLAP = 120
"""How many characters neighbouring pieces share (about two lines), so that one of them holds the
whole sentence at the cut. A larger overlap needs more vectors."""
_SEAMS = ("\n\n", "\n", ". ", "? ", "! ", "。", "; ", ", ", " ")
"""Texts after which a text may be cut, the best first."""


@runtime_checkable
class Numbers(Protocol):
    """A vector, such as a list, a tuple or a numpy array."""

    def __len__(self) -> int:
        """The number of dimensions."""
        ...

    def __iter__(self) -> Iterator[Any]:
        """The numbers in order."""
        ...


class Generation(NamedTuple):
    """A set of vectors by one version of one model. Only vectors of one set can be compared."""

    key: int
    model: str
    """The embedder's name."""
    version: str
    dimensions: int
    state: Literal["serving", "made", "leaving", "own"]
    """`serving`: searches use these vectors. `made`: searches use them once they are complete.
    `leaving`: they are being removed. `own`: an application gave them, and they are kept."""
    vectors: int = 0


class Near(NamedTuple):
    """A message whose meaning is close to a query."""

    key: int
    """The message's key. The low 32 bits are the position, the high bits the branch's number."""
    chunk: int
    """Index of the message's piece that is closest to the query, from 0."""
    cosine: float
    """Cosine similarity, -1 to 1."""


def embedded_text(message: Message) -> str:
    """Return the text of a message to embed: what a person or a model wrote, without their name.

    Tool calls and results are left out. They make up nine tenths of a coding session and of the
    time to embed it, but a search by meaning looks for what was said (docs/decisions/053).
    """
    if speaker_of(message) not in ("person", "assistant"):
        return ""
    text = message.text.strip()
    return text.removeprefix(f"{message.name}: ") if message.name else text


def cut(text: str, most: int = PIECE, overlap: int = OVERLAP) -> list[str]:
    """Cut a text into pieces of at most `most` characters, in order.

    Each piece except the first begins with up to `overlap` characters from the end of the piece
    before. Only white space at the ends of pieces is dropped. A blank text has no pieces.
    """
    pieces, start = [], 0
    overlap = min(overlap, most // 4)
    while len(text) - start > most:
        end = start + _seam(text[start : start + most])
        pieces.append(text[start:end])
        start = max(start + 1, _overlapping(text, end, overlap))
    pieces.append(text[start:])
    return [piece.strip() for piece in pieces if piece.strip()]


def _seam(text: str) -> int:
    # Only the second half is searched for a seam, so that no piece gets too short.
    for seam in _SEAMS:
        at = text.rfind(seam, len(text) // 2)
        if at >= 0:
            return at + len(seam)
    return len(text)


def _overlapping(text: str, end: int, overlap: int) -> int:
    start = max(0, end - overlap)
    blank = text.find(" ", start, end)
    # Begin after a space if there is one, so that no word is cut.
    return blank + 1 if 0 <= blank < end - 1 else start


def pieces_by(embedder: Embedder, text: str) -> list[str]:
    """Cut a text into pieces that fit the embedder. A blank text gives no pieces."""
    if not text or text.isspace():
        return []
    return embedder.pieces(text) if isinstance(embedder, CutsTexts) else cut(text)


def embedded(embedder: Embedder, texts: Sequence[str]) -> list[bytes]:
    """Return the texts' vectors, in the form in which they are stored.

    Raises:
        ModelFailed: the model returned too few or too many vectors, or invalid ones.
    """
    rows = embedder.embed(texts, query=False)
    try:
        return as_stored(rows, len(texts), embedder.dimensions)
    except InvalidInput as error:
        raise ModelFailed(f"{embedder.name}: {error}") from None


def as_stored(found: Sequence[Numbers], count: int, dimensions: int) -> list[bytes]:
    """Return vectors as bytes (little-endian float32), each normalized to length 1.

    Raises:
        InvalidInput: wrong count or dimensions, a zero vector, or a number that is not finite.
    """
    import numpy as np

    try:
        rows = np.asarray(found, dtype=np.float64)
    except (ValueError, TypeError) as error:
        raise InvalidInput(f"these are no vectors: {error}") from None
    if not count and not rows.size:
        return []
    if rows.shape != (count, dimensions):
        shape = " of ".join(map(str, rows.shape))
        raise InvalidInput(f"{count} vectors of {dimensions} numbers are wanted, not {shape}")
    lengths = np.sqrt((rows * rows).sum(axis=1, keepdims=True))
    if not np.isfinite(lengths).all() or not lengths.all():
        raise InvalidInput("a vector's length must be a number greater than 0")
    return [row.tobytes() for row in (rows / lengths).astype("<f4")]
