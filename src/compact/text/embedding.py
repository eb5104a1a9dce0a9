"""Texts to embed, the pieces they are cut into, and the values that a vector store returns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

from compact.messages.messages import Message
from compact.text.speakers import speaker_of

PIECE = 1_000
"""Characters of a piece if an embedder does not say how much it reads. A piece must fit any model's
window, also in Chinese, where a character is a token. Smaller pieces search more exactly, but need
more vectors."""
OVERLAP = 120
"""Characters that neighbouring pieces share, so that a sentence at a seam is whole in one of them:
about two lines. A larger overlap needs more vectors."""
_SEAMS = ("\n\n", "\n", ". ", "? ", "! ", "。", "; ", ", ", " ")
"""Places to cut a text, the best first."""


@runtime_checkable
class Numbers(Protocol):
    """A vector: a list, a tuple, an array of numpy."""

    def __len__(self) -> int:
        """The number of dimensions."""
        ...

    def __iter__(self) -> Iterator[Any]:
        """The numbers in order."""
        ...


class Generation(NamedTuple):
    """Vectors that may be compared with each other: those of one version of one model."""

    key: int
    model: str
    """The embedder's name."""
    version: str
    dimensions: int
    state: Literal["serving", "made", "leaving", "own"]
    """`serving` answers searches. `made` is still being built, and serves when it is complete.
    `leaving` is being removed. `own` was given by an application and stays."""
    vectors: int = 0


class Near(NamedTuple):
    """A message near a question."""

    key: int
    """The message's key: its branch's number, and its position in the low 32 bits."""
    chunk: int
    """Index of its nearest piece, from 0."""
    cosine: float
    """Cosine similarity, -1 to 1."""


def embedded_text(message: Message) -> str:
    """Return the text of a message to embed: what a person or a model says, without their name.

    Tool calls and results are left out: they are nine tenths of a coding session and of the time to
    embed it, and a search by meaning is about what was said (docs/decisions/053).
    """
    if speaker_of(message) not in ("person", "assistant"):
        return ""
    text = message.text.strip()
    return text.removeprefix(f"{message.name}: ") if message.name else text


def cut(text: str, most: int = PIECE, overlap: int = OVERLAP) -> list[str]:
    """Cut a text into pieces of at most `most` characters, in order.

    Each piece but the first begins with up to `overlap` characters of the piece before. Only white
    space at the ends of pieces is left out. A blank text has no pieces.
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
    # Begin behind a blank if there is one, so that no word is cut.
    return blank + 1 if 0 <= blank < end - 1 else start
