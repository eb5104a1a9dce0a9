"""Chooses the part of a long text that a search result shows, and marks the question's words."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import chain, islice

from compact.patterns import regex
from compact.text.terms import looked_for

AROUND = 240
"""How many characters are shown before a word of the question. Twice as many follow."""
MOST_PLACES, MOST_LOOKS = 2_000, 5_000
"""Limits for one text: places tried of each word, and tests of whether a word is near a place."""
LEAST_STEM, MOST_ENDING = 4, 3
"""Two words count as forms of one word if at least their first `LEAST_STEM` letters are the same
and at most their last `MOST_ENDING` letters differ."""
_ENDS = (". ", "! ", "? ", "\n", "。", "！", "？")
"""Ends of sentences."""
_WORD = regex(r"[^\W_]+")


class Sought:
    """Finds the words of a question in texts."""

    def __init__(self, question: str) -> None:
        self._words = {piece for name in looked_for(question) for piece in name}
        self._by_start: dict[str, list[str]] = defaultdict(list)
        for word in self._words:
            self._by_start[word[:LEAST_STEM]].append(word)

    def around(self, text: str) -> str:
        """Return the text, or the part of a long text with most of the question's rare words."""
        start, stop = self.span(text)
        return ("… " if start else "") + text[start:stop] + (" …" if stop < len(text) else "")

    def span(self, text: str) -> tuple[int, int]:
        """Return the start and end offsets of the part that `around` shows."""
        if len(text) <= 3 * AROUND:
            return 0, len(text)
        lower = text.lower()
        found = {word: list(islice(_places(lower, word), MOST_PLACES)) for word in self._words}
        rarest = sorted((len(at), word) for word, at in found.items() if at)
        if not rarest:
            return 0, 2 * AROUND
        tried = chain.from_iterable(found[word] for _, word in rarest)

        def worth(at: int) -> float:
            shown = lower[max(0, at - AROUND) : at + 2 * AROUND]
            return sum(1 / often for often, word in rarest if word in shown)

        best = max(islice(tried, MOST_LOOKS // len(rarest)), key=worth)
        return max(0, best - AROUND), min(len(text), best + 2 * AROUND)

    def highlights(self, text: str) -> tuple[tuple[int, int], ...]:
        """Return the offsets at which the question's words start and end in a text, in any form."""
        return tuple(place.span() for place in _WORD.finditer(text) if self._is_one(place[0]))

    def _is_one(self, word: str) -> bool:
        own = word.lower()
        near = self._by_start.get(own[:LEAST_STEM], ())
        return own in self._words or any(_alike(own, other) for other in near)


def whole_sentences(text: str, start: int, stop: int) -> tuple[int, int]:
    """Shrink a part of a text to whole sentences, if the part contains any."""
    begins = [text.find(end, start, stop) + len(end) for end in _ENDS if end in text[start:stop]]
    ends = [text.rfind(end, start, stop) + len(end) for end in _ENDS if end in text[start:stop]]
    first = min(begins, default=start) if start else start
    last = max(ends, default=stop) if stop < len(text) else stop
    return (first, last) if first < last else (start, stop)


def _alike(word: str, other: str) -> bool:
    least = max(LEAST_STEM, max(len(word), len(other)) - MOST_ENDING)
    return min(len(word), len(other)) >= least and word[:least] == other[:least]


def _places(text: str, word: str) -> Iterator[int]:
    """Yield the offsets of a whole word. If there are none, yield offsets inside other words."""
    at, is_found = text.find(word), False
    while at >= 0:
        end = at + len(word)
        if not (text[at - 1 : at].isalnum() or text[end : end + 1].isalnum()):
            is_found = True
            yield at
        at = text.find(word, end)
    at = -1 if is_found else text.find(word)
    while at >= 0:
        yield at
        at = text.find(word, at + len(word))
