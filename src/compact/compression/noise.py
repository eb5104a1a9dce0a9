"""Noise: whether a text is language at all. What a broken or random model emits is not.

Words of a summary stand beside each other as they do in its source, or they are held together by
the function words of a language. Of random words hardly any two neighbours do either.
"""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from compact.compression.notes import GOAL_LABEL
from compact.core.checkpoints import REFERENCE_LINE
from compact.core.languages import CHARACTERS, FUNCTION_WORDS, language_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from compact.compression.matter import Matter

LEAST_JOINED = 0.33
"""Share of neighbouring words that must be joined; of real summaries more than half are."""
CLEARLY = 0.66
"""Share of joined neighbours from which the source need not be read."""
LEAST_PAIRS = 6
"""Neighbours from which that is asked."""
LEAST_READABLE = 0.5
"""Share of a text's characters that must be letters or digits, where the source says no such
thing."""
COMMON = 60
"""The most frequent words of a conversation whose language is unknown are its function words."""
_UNSEGMENTED = "\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_WORD = re.compile(rf"[{_UNSEGMENTED}]|[^\s{_UNSEGMENTED}]+")
_EDGES = ".,;:!?\"'`*_()[]{}<>-–—…#|/\\=+~$%&@^·×→"
_HEADING = re.compile(r"^#+ .*$", re.MULTILINE)
_KANA = re.compile(r"[\u3040-\u30ff]")
_ALL = frozenset().union(*FUNCTION_WORDS.values())


class Reading(NamedTuple):
    """What a text was found to be."""

    is_noise: bool
    share: float
    """Share of neighbouring words that are joined, 0 to 1."""
    detail: str


def read(text: str, matter: Matter) -> Reading:
    """Whether a summary is language, judged beside its source."""
    prose = GOAL_LABEL.sub("", _HEADING.sub("", text.replace(REFERENCE_LINE, "")))
    readable = _readable(prose)
    pairs = list(_pairs(prose))
    share = _joined(pairs, matter)
    is_noise = readable < LEAST_READABLE or (len(pairs) >= LEAST_PAIRS and share < LEAST_JOINED)
    detail = f"{share:.0%} of {len(pairs):,} neighbouring words belong together"
    return Reading(is_noise, share, f"{detail}, {readable:.0%} of the characters readable")


def _readable(text: str) -> float:
    """Share of the characters, spaces aside, that are letters, digits or common marks."""
    signs = [c for c in text if not c.isspace()]
    good = sum(1 for c in signs if c.isalnum() or c in ".,:;-`'\"()/_")
    return good / len(signs) if signs else 1.0


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    """Neighbouring words of each line, in lower case, as they are written; marks are none."""
    for line in text.lower().split("\n"):
        yield from pairwise(word for word in _words(line) if word.strip(_EDGES))


def _words(text: str) -> list[str]:
    return text.split() if text.isascii() else _WORD.findall(text)


def _joined(pairs: list[tuple[str, str]], matter: Matter) -> float:
    """Share of the pairs that hold a function word, or stand so in the source."""
    if not pairs:
        return 1.0
    held = _function_words(matter)
    bare = {word: word.strip(_EDGES) for pair in pairs for word in pair}
    loose = [
        (left, right)
        for left, right in pairs
        if bare[left] == bare[right] or not (_binds(bare[left], held) or _binds(bare[right], held))
    ]
    share = 1 - len(loose) / len(pairs)
    if share >= CLEARLY:
        return share
    known = _known_pairs(loose, bare, matter)
    return 1 - sum(1 for pair in loose if pair not in known) / len(pairs)


def _binds(word: str, held: frozenset[str]) -> bool:
    return word in held or bool(_KANA.match(word))


def _function_words(matter: Matter) -> frozenset[str]:
    """Of the languages that were spoken; of one that is unknown its most frequent words."""
    spoken = "\n".join(matter.samples)
    code = language_of(spoken)
    if code is not None and code in FUNCTION_WORDS:
        return FUNCTION_WORDS[code] | CHARACTERS | FUNCTION_WORDS["en"]
    common = Counter(word.strip(_EDGES) for word in _words(spoken.lower()))
    return _ALL | CHARACTERS | {word for word, _ in common.most_common(COMMON) if word}


def _known_pairs(
    loose: list[tuple[str, str]], bare: dict[str, str], matter: Matter
) -> set[tuple[str, str]]:
    """Those of the pairs that stand so in the source, or name two of its anchors."""
    names = {name.lower() for name in matter.ledger.uses}
    wanted = set(loose)
    known = {pair for pair in wanted if bare[pair[0]] in names and bare[pair[1]] in names}
    for text in _texts(matter):
        wanted -= known
        if not wanted:
            break
        known |= wanted.intersection(pairwise(_words(text.lower())))
    return known


def _texts(matter: Matter) -> Iterable[str]:
    yield from matter.source
    yield from matter.beside
    yield from matter.strings
