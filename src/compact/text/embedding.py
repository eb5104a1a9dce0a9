"""Chooses and cuts the texts to embed, and defines the values that a vector store returns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

from compact.messages.messages import Message
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
