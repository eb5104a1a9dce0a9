"""Noise: whether a text is language at all. What a broken or random model emits is not.

Words of a summary stand beside each other as they do in its source, or they are held together by
the function words of a language. Of random words hardly any two neighbours do either.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from itertools import pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from compact.compression.extraction.notes import GOAL_LABEL
from compact.core.checkpoints import REFERENCE_LINE
from compact.core.languages import CHARACTERS, FUNCTION_WORDS, language_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from compact.compression.gate.matter import Matter

LEAST_JOINED, FEWEST_JOINED = 0.40, 0.33
"""Share of neighbouring words that must be joined, where few of their words are known from the
source, and where most are. Of fewer neighbours more must be: chance joins some of a few."""
LEAST_UNITS, FEW_UNITS = 3, 9
"""Neighbours and long words from which that is asked; of fewer than `FEW_UNITS` one is enough."""
LEAST_DISTINCT, DISTINCT_FROM = 0.3, 12
"""Share of distinct words that so many words must have, where the source repeats none so."""
MOST_LOST = 0.5
"""Share of a text that may be made of words longer than words are."""
LONGEST_WORD = 24
"""Letters from which a word must stand in the source to be one."""
LEAST_READABLE = 0.5
"""Share of a text's signs that must be letters, digits or common marks."""
MOST_BROKEN = 0.01
"""Share of a text's characters that may be no characters, where its source has no such."""
STEM = 6
"""Letters by which a word is known from its source, however it is inflected."""
COMMON = 60
"""The most frequent words of a conversation whose language is unknown are its function words."""
_UNSEGMENTED = "\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_WORD = re.compile(rf"[{_UNSEGMENTED}]|[^\s{_UNSEGMENTED}]+")
_EDGES = ".,;:!?\"'`*_()[]{}<>-–—…#|/\\=+~$%&@^·×→"
_HEADING = re.compile(r"^#+ .*$", re.MULTILINE)
_BROKEN = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufffd\ue000-\uf8ff]")
_KANA = re.compile(r"[\u3040-\u30ff]")
_ALL = frozenset[str]().union(*FUNCTION_WORDS.values())
Pair = tuple[str, str]


class Reading(NamedTuple):
    """What a text was found to be."""

    is_noise: bool
    share: float
    """Share of neighbouring words that are joined, 0 to 1, at least."""
    detail: str


class Joined(NamedTuple):
    """Which neighbours belong together."""

    share: float
    """By a function word, or because they stand so in the source; at least so many, where function
    words alone are enough.
    """
    strictly: float
    """The same, of those whose words the source knows."""
    known: set[Pair]
    """Those that stand so in the source."""


def read(text: str, matter: Matter) -> Reading:
    """Whether a summary is language, judged beside its source."""
    prose = GOAL_LABEL.sub("", _HEADING.sub("", text.replace(REFERENCE_LINE, "")))
    readable, broken = _readable(prose), _broken(prose, matter)
    units = list(_units(prose))
    joined = _joined(units, matter)
    is_noise = (
        readable < LEAST_READABLE
        or broken > MOST_BROKEN
        or _is_loose(len(units), joined)
        or _is_run_on(units, joined, prose)
        or _is_repeated(units, joined)
    )
    detail = f"{joined.share:.0%} of {len(units):,} neighbouring words belong together"
    detail += f", {readable:.0%} of the characters readable"
    return Reading(is_noise, joined.share, detail)


def _is_loose(units: int, joined: Joined) -> bool:
    if units < FEW_UNITS:
        return units >= LEAST_UNITS and joined.strictly == 0
    return joined.share < FEWEST_JOINED or (
        joined.share < LEAST_JOINED + 1 / units and joined.strictly < FEWEST_JOINED
    )


def _is_run_on(units: list[Pair], joined: Joined, text: str) -> bool:
    lost = sum(len(pair[0]) for pair in units if _is_long(pair) and pair not in joined.known)
    return lost > MOST_LOST * len(text.strip())


def _is_repeated(units: list[Pair], joined: Joined) -> bool:
    distinct = len({word for pair in units for word in pair})
    few = distinct < LEAST_DISTINCT * len(units)
    return len(units) >= DISTINCT_FROM and few and joined.strictly < MOST_LOST


def _readable(text: str) -> float:
    """Share of the characters, spaces aside, that are letters, digits or common marks."""
    signs = [c for c in text if not c.isspace()]
    good = sum(1 for c in signs if c.isalnum() or c in ".,:;-`'\"()/_")
    return good / len(signs) if signs else 1.0


def _broken(text: str, matter: Matter) -> float:
    """Share of the characters that are controls or stand for bytes that are no text."""
    found = _BROKEN.findall(text)
    if not found or all(any(sign in said for said in _texts(matter)) for sign in set(found)):
        return 0.0
    return len(found) / len(text)


def _units(text: str) -> Iterator[Pair]:
    """Neighbouring words of each line, in lower case, as they are written; marks are no words.
    A word that is longer than words are stands beside itself.
    """
    for line in text.lower().split("\n"):
        words = [word for word in _words(line) if word.strip(_EDGES)]
        yield from pairwise(words)
        yield from (pair for pair in zip(words, words, strict=True) if _is_long(pair))


def _is_long(pair: Pair) -> bool:
    return pair[0] == pair[1] and len(pair[0].strip(_EDGES)) > LONGEST_WORD


def _words(text: str) -> list[str]:
    return text.split() if text.isascii() else _WORD.findall(text)


def _joined(units: list[Pair], matter: Matter) -> Joined:
    """Which of the pairs hold a function word, or stand so in the source."""
    if not units:
        return Joined(1.0, 1.0, set())
    held = _function_words(matter)
    bare = {word: word.strip(_EDGES) for pair in units for word in pair}
    bound = {
        (left, right)
        for left, right in set(units)
        if bare[left] != bare[right] and (_binds(bare[left], held) or _binds(bare[right], held))
    }
    distinct = len({word for pair in units for word in pair})
    enough = LEAST_JOINED + 1 / len(units)
    is_plain = (
        len(units) >= FEW_UNITS
        and distinct >= LEAST_DISTINCT * len(units)
        and not any(map(_is_long, units))
    )
    if is_plain:  # then it is no noise as soon as enough are joined
        rest = [pair for pair in units if pair not in bound]
        more = math.ceil(enough * len(units)) - (len(units) - len(rest))
        found = _neighbours(set(rest), bare, matter, Counter(rest), more)
        share = (len(units) - sum(pair not in found for pair in rest)) / len(units)
        if share >= enough:
            return Joined(share, 1.0, bound | found)
    said = "\n".join(_texts(matter)).lower()
    binding = {word for pair in bound for word in pair}
    familiar = {word for word in binding if _is_known(bare[word], said, held)}
    beside = _neighbours(set(units), bare, matter)
    strict = beside | {(a, b) for a, b in bound if a in familiar and b in familiar}
    share = sum(pair in bound or pair in beside for pair in units) / len(units)
    return Joined(share, sum(pair in strict for pair in units) / len(units), beside)


def _is_known(word: str, said: str, held: frozenset[str]) -> bool:
    return _binds(word, held) or word[:STEM] in said or word.isdigit()


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


def _neighbours(
    wanted: set[Pair],
    bare: dict[str, str],
    matter: Matter,
    times: Mapping[Pair, int] = MappingProxyType({}),
    enough: float = math.inf,
) -> set[Pair]:
    """Those of the pairs that stand so in the source, or name two of its anchors; no more than
    `enough` are looked for, counted as often as `times` says.
    """
    names = {name.lower() for name in matter.ledger.uses}
    found = {pair for pair in wanted if bare[pair[0]] in names and bare[pair[1]] in names}
    left, long = wanted - found, set(filter(_is_long, wanted))
    count = sum(times.get(pair, 0) for pair in found)
    for text in _texts(matter):
        if not left or count >= enough:
            break
        lowered = text.lower()
        new = left.intersection(pairwise(_words(lowered)))
        new |= {pair for pair in long & left if bare[pair[0]] in lowered}
        left -= new
        found |= new
        count += sum(times.get(pair, 0) for pair in new)
    return found


def _texts(matter: Matter) -> Iterable[str]:
    yield from matter.source
    yield from matter.beside
    yield from matter.strings
