"""Cutting a text: keep head and tail as they were, with a mark between for what is missing."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from compact.messages.cached import cached_property
from compact.messages.tokens import TokenCounter
from compact.patterns import regex
from compact.text import anchors
from compact.text.sentences import beginning
from compact.text.terms import STOP_WORDS

SHORT, STUB, WHOLE = 40, 18, 0.55
"""`SHORT`: a text of fewer tokens stays whole or is left out. `STUB`: fewest tokens of a cut text.
`WHOLE`: from this share of its tokens on, a short text, or the user's, stays whole."""
MARK_TOKENS = 8
"""About how many tokens the mark takes."""
HEAD_SHARE = 2 / 3
"""Share of the room for the head: it says what a text is about. The tail says what it concludes."""
LONGEST_FIRST = 40
"""A first sentence of up to this many tokens stays whole: it says what the rest is about."""
ANNOUNCED = 200
"""A text of fewer characters that ends in a colon only announces something."""
MOST_INFO = 150
"""Most information of a text (`info_of`). A longer text is pasted, or thinks aloud."""
LITTLE = 3.0
"""Sentences with less information (`info_of`) are left out first."""
FEW_TOKENS = 12
"""Fewest tokens of room for the beginning of a sentence that does not fit."""
UNIT = regex(r"(?<=[.!?:。！？])\s+(?=[^\W_a-z]|[`*\"“])|(?<=[。！？])|(?=\n)")
"""Where a text is cut into sentences and lines."""
_PIECE = regex(r"\S+\s*")
WORD = regex(r"\w+")
_NUMBER = regex(r"\b\d+\b")
BLANK = regex(r"\n\s*\n")


@dataclass(frozen=True)
class Cuttable:
    """A text and where it may be cut: between lines and sentences, or else between words."""

    text: str
    counter: TokenCounter
    stays: Callable[[str], bool] = lambda _: False
    """Returns whether a sentence stays, however little room there is."""

    @cached_property
    def tokens(self) -> int:
        """Tokens of the whole text."""
        return self.counter.text(self.text)

    @cached_property
    def least(self) -> int:
        """Tokens of the sentences that always stay."""
        return sum(map(self._units[1].__getitem__, self._kept)) + MARK_TOKENS * bool(self._kept)

    @cached_property
    def _kept(self) -> frozenset[int]:
        return frozenset(i for i, unit in enumerate(self._units[0]) if self.stays(unit.strip()))

    @cached_property
    def _units(self) -> tuple[Sequence[str], Sequence[int]]:
        units = list(_telling(UNIT.split(self.text), self.stays))
        return self._sized(units) if units else self._words

    @cached_property
    def _words(self) -> tuple[Sequence[str], Sequence[int]]:
        return self._sized(_PIECE.findall(self.text))

    def _sized(self, units: Sequence[str]) -> tuple[Sequence[str], Sequence[int]]:
        return units, [self.counter.text(unit.strip()) + 1 for unit in units]

    def within(self, room: int, where: str) -> str:
        """Return the text in about `room` tokens. `where` names where the whole text is. A text
        that is hardly longer is returned whole.
        """
        if self.tokens <= max(1.15 * room, room + 10):
            return self.text
        (units, sizes), kept = self._units, self._kept
        left, in_words = room - max(MARK_TOKENS, self.least), False
        if sizes[0] <= min(LONGEST_FIRST, 2 * room):
            left = max(left, sizes[0])
        elif not kept and sizes[0] > left:
            (units, sizes), in_words = self._words, True
        head, tail, left = _ends(sizes, left, 0 if in_words else int((1 - HEAD_SHARE) * room))
        tail = len(units) if in_words else tail  # the last words alone would say nothing
        shown = {*range(head), *kept, *range(tail, len(units))}
        begun = self._begun(units[head], left) if head < tail and head not in shown else ""
        gone = len(self.text.split()) - len(begun.split())
        gone -= sum(len(units[i].split()) for i in shown)
        told, mark = list[str](), f"[… {gone:,} words{where and ', '}{where}]"
        for i, unit in enumerate(units):
            if i in shown:
                told.append(unit)
            elif i == 0 or i - 1 in shown:
                told += [begun, mark] if i == head and begun else [mark]
                mark = "[…]"
        is_unmarked = gone and len(shown) == len(units)  # those left out hardly say anything
        return _joined([*told, mark] if is_unmarked else told)

    def _begun(self, unit: str, room: int) -> str:
        """Return the first words of a sentence that does not fit. Empty if only few fit."""
        words, taken = _PIECE.findall(unit), 0
        if room < FEW_TOKENS:
            return ""
        for word in words[:room]:
            room -= self.counter.text(word.strip()) + 1
            if room < 0:
                break
            taken += 1
        begun = "".join(words[:taken]).rstrip()
        return f"\n{begun}" if begun and unit[:1] == "\n" else begun


def stub_of(size: int) -> float:
    """Return the least room (in tokens) in which a text of this many tokens is included."""
    return WHOLE * size if size < SHORT else min(STUB, WHOLE * size)


def _ends(sizes: Sequence[int], room: int, tails: int) -> tuple[int, int, int]:
    """Return how many sentences the head takes, where the tail begins, and the room that is left.
    The tail may take `tails` of the room.
    """
    head = 0
    for size in sizes:
        if size > (room if head == 0 else room - tails):
            break
        room -= size
        head += 1
    tail = len(sizes)
    while tail - 1 > head and sizes[tail - 1] <= room:
        tail -= 1
        room -= sizes[tail]
    return head, tail, room


def _telling(units: Iterable[str], stays: Callable[[str], bool]) -> Iterator[str]:
    """Drop sentences with hardly any information: headings, praise, announcements, code. Keep all
    that `stays` wants.
    """
    in_code = False
    for unit in units:
        words = unit.strip()
        if words.startswith("```"):
            in_code = not in_code
        elif stays(words) or not (in_code or _is_frame(words)):
            yield unit


def _is_frame(words: str) -> bool:
    return words.startswith(("#", "---")) or info_of(words) < LITTLE


def gist(text: str, most: int) -> str:
    """Return a text's first informative sentences, in one line of at most `most` characters."""
    return beginning(" ".join(_telling(UNIT.split(text), lambda _: False)) or text, most)


def squeezed(text: str) -> str:
    """Return a text without empty lines."""
    return BLANK.sub("\n", text.strip())


def _joined(units: Sequence[str]) -> str:
    joined = "".join(
        u if u[:1] == "\n" or not i else f" {u}" for i, u in enumerate(map(_ended, units))
    )
    return joined.strip()


def _ended(unit: str) -> str:
    return unit.rstrip() if unit[:1] == "\n" else unit.strip()


def info_of(text: str) -> float:
    """Estimate the information in a text from its distinct words, names and numbers. Length ranks
    sentences as well as any cue that was tried (docs/evidence.md). Function words do not count.
    """
    words = {word for word in WORD.findall(text.lower()) if word not in STOP_WORDS}
    info = len(words) + 2 * math.sqrt(len(anchors.find(text)))
    info += math.sqrt(len(_NUMBER.findall(text)))
    if len(text) < ANNOUNCED and text.rstrip("*_ ").endswith((":", "：")):
        info /= 4
    return min(MOST_INFO, info)
