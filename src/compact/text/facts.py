"""Finds facts in ordinary conversation: names, and the sentences that say most.

`entities` finds names, titles, amounts and dates by their form. `weighed` rates a sentence by how
much it says that a later turn may ask for. `Candidates` chooses sentences that together say most
within a budget. This module uses no word lists except the function words and first-person words
of `text.languages`.
"""

from __future__ import annotations

import heapq
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, pairwise, repeat

from compact.patterns import regex
from compact.text.languages import CHARACTERS, FIRST_PERSON, FUNCTION_WORDS
from compact.text.speakers import Speaker
from compact.text.terms import CJK, STOP_WORDS

_OWN_LETTERS = regex(
    r"[我俺咱私僕]|저는|저희|나는|우리|(?<!\w)(?:я|мне|меня|мо[йяёи]|мы|нас|наш[аеи]?)(?!\w)",
    re.IGNORECASE,
)
"""First-person words in scripts other than Latin."""

_UPPER = "A-ZÀ-ÖØ-ÞĀĂĄĆČĎĐĒĘĚĞĢĪİĶŁŃŇŌŐŘŚŞŠŢŤŪŮŰŹŻŽΑ-ΩА-ЯЁІЇЄҐ"
_LETTER = rf"[^\W\d_{CJK}]"
_CAPITAL = rf"[{_UPPER}][^\W_{CJK}]{{1,40}}(?:['’&.-][^\W_{CJK}]{{1,40}}){{0,3}}"
_CURRENCY = "$€£¥₹₩₽"
_HAN_NUMBER = "二两三四五六七八九十百千万亿"
_ENTITY = regex(
    rf"""(?=[\d"“„«\u2018'「『《{_CURRENCY}{_HAN_NUMBER}{_UPPER}])(?:
    (?P<title> ["“„«][^"”“»\n]{{2,70}}["”“»] | (?<!\w)['\u2018][^'\u2018’\n]{{3,70}}['’](?!\w)
      | [「『《][^」』》\n]{{1,70}}[」』》] )
  | (?P<number> (?<!\w)[{_CURRENCY}]?\s?\d[\d.,:/]{{0,20}}(?:[-–\s]\d[\d.,:/]{{0,20}}){{0,4}}
        (?:\s?[%\uff05{_CURRENCY}] | [{CJK}]{{1,2}} | [\s-]?(?:(?:of|de)\s)?{_LETTER}{{1,20}} )?
      | [\d{_HAN_NUMBER}]{{1,8}}[{CJK}] )
  | (?P<name> (?<!\w){_CAPITAL}
        (?:\s(?:(?:of|the|and|de|del|la|le|du|di|da|von|van|der|den|zu|al|bin|&)\s)?
           (?:{_CAPITAL}|[{_UPPER}]\.)){{0,5}}
        (?:\s\d{{1,4}}(?:st|nd|rd|th)?(?!\w|\s?[\d.,:/%-]\d))? )
    )""",
    re.VERBOSE,
)
_START = regex(r"(?:^|[.!?…:\n\"“(*•>-])\s*$")
_BEFORE = 12
"""How many characters before a capital letter are read."""
_WORD = regex(rf"{_LETTER}+|\d+|[{CJK}]+")


_GERMAN_NOUN = regex(
    r"(?:d(?:er|ie|as|en|em|es)|(?:[kmds]?ein|unser|eue?r|ihr|dies|jed)\w{0,2}|zu[mr]|vom|beim|[ia]m)"
)
"""German words after which a capitalized noun is not a name."""
_FUNCTION = STOP_WORDS.union(*FUNCTION_WORDS.values())
_ANY_FIRST = frozenset().union(*FIRST_PERSON.values())

QUESTION = 0.4
"""A question's worth is multiplied by this."""
NAMED = 3.0
"""The weight of a word is multiplied by this if the word is part of a name or an amount."""
AGAIN = 0.3
"""A word's weight is multiplied by this each time a sentence with the word is chosen."""
TALKATIVE = 0.7
"""A sentence's gain is multiplied by its speaker's share of the talk to the power of minus this. So
a user's few words can compete with an assistant's long lists. Equal speakers count the same."""
THRIFT = 0.8
"""A sentence's gain is divided by its cost to this power. A higher power prefers short ones."""
REMEMBERED = 4_096
"""How many sentences are cached with their weight, at about 2 kB each."""


@dataclass(frozen=True, slots=True)
class Said:
    """A sentence, the position of its message, and its speaker."""

    position: int
    speaker: Speaker
    text: str


def entities(text: str) -> tuple[str, ...]:
    """Return the names and amounts of a text in order, each once.

    A single capitalized word does not count as a name at the start of a sentence. In German it does
    not count after an article or adjective either.
    """
    return tuple(dict.fromkeys(_read(text).found))


class Candidates:
    """Chooses sentences that fit a budget. They are weighed once, for any number of budgets.

    A word counts more if few messages contain it, and less once a sentence with it is chosen. A
    sentence without a new word is left out. `cost` returns how much of the budget a sentence needs.
    `weigh` returns a factor for a sentence's weight.
    """

    def __init__(
        self,
        items: Sequence[Said],
        cost: Callable[[str], int],
        weigh: Callable[[Said], float] = lambda _: 1.0,
    ) -> None:
        self._items = items
        rows, speech = [weighed(item.text, item.speaker) for item in items], _speech(items)
        self._terms = [row.terms for row in rows]
        self._weights = _weights(items, rows)
        self._costs = [cost(item.text) for item in items]
        self._scale = [
            row.worth * weigh(item) * speech[item.speaker] / math.pow(max(1, took), THRIFT)
            for item, row, took in zip(items, rows, self._costs, strict=True)
        ]
        gains = map(self._gain, range(len(items)), repeat(self._weights))
        self._heap = [(-gain, place) for place, gain in enumerate(gains)]
        heapq.heapify(self._heap)

    def _gain(self, place: int, weights: Mapping[str, float]) -> float:
        return self._scale[place] * math.fsum(map(weights.__getitem__, self._terms[place]))

    def within(self, budget: int) -> list[Said]:
        """Return the sentences that together say most within the budget, in the given order."""
        heap, weights, told = self._heap.copy(), self._weights.copy(), set[str]()
        least = min(self._costs, default=0)
        chosen: list[int] = []
        while heap and budget >= least:
            place = heap[0][1]
            if self._costs[place] > budget or told.issuperset(self._terms[place]):
                heapq.heappop(heap)
                continue
            now = -self._gain(place, weights)
            if now > heap[0][0]:  # its gain is lower than when it was queued: put it back
                heapq.heapreplace(heap, (now, place))
                continue
            heapq.heappop(heap)
            chosen.append(place)
            budget -= self._costs[place]
            told |= self._terms[place]
            for term in self._terms[place]:
                weights[term] *= AGAIN
        return [self._items[place] for place in sorted(chosen)]


@dataclass(frozen=True, slots=True)
class WeighedSentence:
    """What `Candidates` needs to know about a sentence."""

    worth: float
    """How much the sentence says that a later turn may ask for, 0 to 1. Names, content words and
    the first person add to this. A question counts less."""
    terms: frozenset[str]
    named: frozenset[str]
    """Words that are part of a name."""


def _speech(items: Sequence[Said]) -> dict[Speaker, float]:
    length: Counter[Speaker] = Counter()
    for item in items:
        length[item.speaker] += len(item.text)
    total = max(1, length.total())
    return {who: math.pow(max(1, said) / total, -TALKATIVE) for who, said in length.items()}


@lru_cache(maxsize=REMEMBERED)
def weighed(text: str, speaker: Speaker) -> WeighedSentence:
    """Weigh one sentence. Results are cached, since each compression weighs the same sentences."""
    read = _read(text)
    named = _terms(_WORD.findall(" ".join(read.found).lower()))
    return WeighedSentence(_worth(read, speaker), read.terms, named)


def _weights(items: Sequence[Said], rows: Sequence[WeighedSentence]) -> dict[str, float]:
    said: dict[int, frozenset[str]] = {}
    for item, row in zip(items, rows, strict=True):
        before = said.get(item.position)
        said[item.position] = before | row.terms if before else row.terms
    where = Counter(chain.from_iterable(said.values()))
    named = frozenset[str]().union(*(row.named for row in rows))
    worth = {n: math.log((len(said) + 1) / n) for n in set(where.values())}
    return {term: worth[n] * (NAMED if term in named else 1.0) for term, n in where.items()}


@dataclass(frozen=True, slots=True)
class _Read:
    """A text, its words in lower case, its content words and its names."""

    text: str
    words: frozenset[str]
    terms: frozenset[str]
    found: tuple[str, ...]


@lru_cache(maxsize=64)  # several readers ask for the same text in turn
def _read(text: str) -> _Read:
    words = frozenset(_WORD.findall(text.lower()))
    german = len(FUNCTION_WORDS["de"] & words) > len(FUNCTION_WORDS["en"] & words)
    return _Read(text, words, _terms(words), tuple(_entities(text, german=german)))


def _worth(read: _Read, speaker: Speaker) -> float:
    worth = 0.2 + 0.3 * min(1.0, len(read.found) / 3) + 0.2 * min(1.0, len(read.terms) / 8)
    if _of_oneself(read):
        worth += 0.3 if speaker == "person" else 0.1
    return worth * QUESTION if read.text.rstrip().endswith(("?", "？")) else worth


def _of_oneself(read: _Read) -> bool:
    if _ANY_FIRST.isdisjoint(read.words):
        return not read.text.isascii() and bool(_OWN_LETTERS.search(read.text))
    language = max(FUNCTION_WORDS, key=lambda code: len(FUNCTION_WORDS[code] & read.words))
    return not FIRST_PERSON[language].isdisjoint(read.words)


def _terms(words: Iterable[str]) -> frozenset[str]:
    """Return the content words without a plural `s`, and the pairs of Chinese characters."""
    found: set[str] = set()
    for word in words:
        if word[0] >= "\u3040":
            pairs = pairwise(word)
            found.update(a + b for a, b in pairs if a not in CHARACTERS and b not in CHARACTERS)
        elif word not in _FUNCTION and (len(word) > 1 or word.isdigit()):
            found.add(word[:-1] if len(word) > 3 and word[-1] == "s" else word)
    return frozenset(found)


def _entities(text: str, *, german: bool) -> Iterator[str]:
    for found in _ENTITY.finditer(text):
        match found.lastgroup:
            case "title":
                yield found[0][1:-1].strip()
            case "number":
                yield _number(found[0])
            case _:
                before = text[max(0, found.start() - _BEFORE) : found.start()]
                if name := _name(found[0], before, german=german):
                    yield name


def _number(text: str) -> str:
    """Return an amount without a function word after it."""
    head, _, unit = text.strip().rpartition(" ")
    return (head if head and unit.lower() in _FUNCTION else text.strip()).rstrip(".,:/ ")


def _name(text: str, before: str, *, german: bool) -> str:
    """Return the name in a run of capitalized words; empty if there is none."""
    words = text.split()
    plain = bool(_START.search(before))
    if german and not plain:
        last = (before.split() or [""])[-1].lower()
        plain = last not in _FUNCTION or bool(_GERMAN_NOUN.fullmatch(last))
    while words and _is_function(words[0]):
        plain = german and bool(_GERMAN_NOUN.fullmatch(words[0].lower()))
        words = words[1:]
    if len(words) == 1 and plain and words[0][1:].islower():
        return ""
    return " ".join(words)


def _is_function(word: str) -> bool:
    bare = word.lower().replace("’", "'").partition("'")[0]
    return bare in _FUNCTION or (len(bare) < 2 and bare.isalpha())
