"""The part of a long text that shows why it was found, and where in it the words stand."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import chain, islice

from compact.patterns import regex
from compact.text.terms import looked_for

AROUND = 240
"""Characters that are shown before and after what was looked for."""
MOST_PLACES, MOST_LOOKS = 2_000, 5_000
"""Places of one word in a text that are found, and words that are looked for around places."""
LEAST_STEM, MOST_ENDING = 4, 3
"""Letters that a word must share with one of the question to be another form of it, and letters in
which they may differ."""
_ENDS = (". ", "! ", "? ", "\n", "。", "！", "？")
"""What a sentence ends with."""
_WORD = regex(r"[^\W_]+")


class Sought:
    """The words of a question, to be shown where they stand."""

    def __init__(self, question: str) -> None:
        self._words = {piece for name in looked_for(question) for piece in name}
        self._by_start: dict[str, list[str]] = defaultdict(list)
        for word in self._words:
            self._by_start[word[:LEAST_STEM]].append(word)

    def around(self, text: str) -> str:
        """The text, or the part of a long one in which most of the rarer words stand."""
        start, stop = self.span(text)
        return ("… " if start else "") + text[start:stop] + (" …" if stop < len(text) else "")

    def span(self, text: str) -> tuple[int, int]:
        """Where that part begins and ends."""
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
        """Where the words stand in a text, in whatever form: starts and ends."""
        return tuple(place.span() for place in _WORD.finditer(text) if self._is_one(place[0]))

    def _is_one(self, word: str) -> bool:
        own = word.lower()
        near = self._by_start.get(own[:LEAST_STEM], ())
        return own in self._words or any(_alike(own, other) for other in near)


def whole_sentences(text: str, start: int, stop: int) -> tuple[int, int]:
    """The part of a text without the pieces of sentences at its ends, where it holds whole ones."""
    begins = [text.find(end, start, stop) + len(end) for end in _ENDS if end in text[start:stop]]
    ends = [text.rfind(end, start, stop) + len(end) for end in _ENDS if end in text[start:stop]]
    first = min(begins, default=start) if start else start
    last = max(ends, default=stop) if stop < len(text) else stop
    return (first, last) if first < last else (start, stop)


def _alike(word: str, other: str) -> bool:
    """Whether two words may be forms of one."""
    least = max(LEAST_STEM, max(len(word), len(other)) - MOST_ENDING)
    return min(len(word), len(other)) >= least and word[:least] == other[:least]


def _places(text: str, word: str) -> Iterator[int]:
    """Where a word stands by itself; where it never does, where it is part of others."""
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
