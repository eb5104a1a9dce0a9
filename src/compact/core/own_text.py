"""Text that compact itself puts into a prompt: it opens with a heading that carries a digest of the
words below, and is recognized by it when it comes back.

A person who types such a heading does not match. Nothing that is recognized is ever stored,
searched or summarized as if someone had said it. The headings' own words live beside what they
head: `core.checkpoints`, `core.goals`, `core.prompts`, `core.recalls`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Sequence

_HEADING = re.compile(
    r"\[(?P<kind>Checkpoint|Record|Goals|Prompt|Recalled)\b[^\]\n]{0,200} "
    r"digest (?P<digest>[0-9a-f]{12})\]\r?\n"
)

_ENDS = re.compile(r"(?<=\S)(?=[\s<]|\Z)")
"""Where a text of ours may end that others stand behind."""
_LETTERS = 12


def digest(words: str) -> str:
    """Of the words: line ends and outer white space change on the way through clients."""
    return hashlib.sha256(_bytes(words.strip())).hexdigest()[:_LETTERS]


def kind_of(text: str) -> str | None:
    """Its kind where the text is one of ours, such as `Checkpoint`, else None."""
    found = _HEADING.match(text)
    if found is None or found["digest"] != digest(text[found.end() :]):
        return None
    return found["kind"]


def without(text: str, kinds: Collection[str]) -> str:
    """The text without what of these kinds of ours stands in it word for word, wherever; the same
    object where there is nothing.
    """
    found = list(_HEADING.finditer(text))
    starts = [*(heading.start() for heading in found), len(text)]
    left, start = list[str](), 0
    for heading, stop in zip(found, starts[1:], strict=True):
        end = _end(text, heading, stop) if heading["kind"] in kinds else None
        if end is not None:
            left.append(text[start : heading.start()])
            start = end
    return rejoined([*left, text[start:]]) if left else text


def rejoined(pieces: Sequence[str]) -> str:
    """The pieces of a text, stripped; of the white space where two meet the longer one stays."""
    whole = ""
    for piece in pieces:
        head, tail = whole.rstrip(), piece.lstrip()
        gaps = whole[len(head) :], piece[: len(piece) - len(tail)]
        whole = head + max(gaps, key=len) + tail
    return whole.strip()


def _end(text: str, heading: re.Match[str], stop: int) -> int | None:
    """Where the words end that a heading is true of; None where they are others."""
    words = hashlib.sha256()
    start = stop - len(text[heading.end() : stop].lstrip())
    for found in _ENDS.finditer(text, start, stop):
        words.update(_bytes(text[start : found.end()]))
        if words.hexdigest()[:_LETTERS] == heading["digest"]:
            return found.end()
        start = found.end()
    return None


def _bytes(words: str) -> bytes:
    return words.replace("\r\n", "\n").encode("utf-8", "replace")
