"""Vectors of what was said: which text of a message is embedded, in which pieces, and what a store
of vectors gives back.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

from compact.messages.messages import Message
from compact.text.speakers import speaker_of

PIECE = 1_000
"""Characters of a piece where an embedder does not say how much it reads. It must be less than any
model's window holds, also in Chinese, where a character takes a token; less finds more exactly, and
takes more vectors."""
OVERLAP = 120
"""Characters that two pieces of a text share, so that a sentence at a seam is whole in one of them.
About two lines; more takes more vectors."""
_SEAMS = ("\n\n", "\n", ". ", "? ", "! ", "。", "; ", ", ", " ")
"""Where a text is cut best, the best first."""


@runtime_checkable
class Numbers(Protocol):
    """A vector: a list, a tuple, an array of numpy."""

    def __len__(self) -> int:
        """How many there are."""
        ...

    def __iter__(self) -> Iterator[Any]:
        """The numbers in order."""
        ...


class Generation(NamedTuple):
    """Vectors that may be compared with each other: of one model, in one version of it."""

    key: int
    model: str
    """The embedder's name."""
    version: str
    dimensions: int
    state: Literal["serving", "made", "leaving", "own"]
    """`serving` answers; `made` is still being made, and serves when it is complete; `leaving` is
    being removed; `own` was given by an application, and stays."""
    vectors: int = 0


class Near(NamedTuple):
    """A message near a question."""

    key: int
    """The message's: its branch's key, and its position in the lower 32 bits."""
    chunk: int
    """Which piece of it is the nearest, counted from 0."""
    cosine: float
    """Of the angle between the two, from -1 to 1."""


def embedded_text(message: Message) -> str:
    """What of a message is embedded: what a person or a model says, without the speaker's name.
    What tools are given and give back is not: it is nine tenths of a coding session and of the time
    to embed it, and whoever asks in other words asks for what was said (docs/decisions/053).
    """
    if speaker_of(message) not in ("person", "assistant"):
        return ""
    text = message.text.strip()
    return text.removeprefix(f"{message.name}: ") if message.name else text


def cut(text: str, most: int = PIECE, overlap: int = OVERLAP) -> list[str]:
    """The text in pieces of at most so many characters, in order; each but the first begins with up
    to `overlap` characters of the one before. Nothing is left out but blanks at the ends; of a
    blank text, no piece is left.
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
    """Where a text is cut best in its second half; at its end where it has no seam there."""
    for seam in _SEAMS:
        at = text.rfind(seam, len(text) // 2)
        if at >= 0:
            return at + len(seam)
    return len(text)


def _overlapping(text: str, end: int, overlap: int) -> int:
    """Where the next piece begins: within the overlap, behind a blank if there is one."""
    start = max(0, end - overlap)
    blank = text.find(" ", start, end)
    return blank + 1 if 0 <= blank < end - 1 else start
