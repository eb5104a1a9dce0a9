"""Echoes: how much of a summary is no summary. A copy of its source, a loop, or a transcript.

A model that fails often hands back what it was given, or one sentence again and again. Taking
sentences over word for word is no such failure: the extractive summarizer does nothing else. So
what counts as a copy is a run of text longer than any sentence it takes over, or all there is.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from compact.compression.extraction.notes import GOAL_LABEL

BLOCK = 8
"""Words that are compared at once."""
LONG_RUN = 700
"""Characters from which a run is long: more than the longest line that is taken over whole, twice
`core.sentences.LONG_LINE`."""
WHOLE_WORDS, ENDS = 24, 14
"""Words from which a run that is all there is counts, and how many words may stand beside it: the
runs are known by whole blocks only. The extractive summarizer's first line and heading are more."""
GRAM, LOOP_WORDS = 4, 40
"""Words that make a loop when they come again, and words from which a text is looked at."""
WORTH_READING = 0.25
"""Share of repeated words from which the source is read for its own repetitions."""
ORDER_LINE = 20
"""Letters from which a line of the prompt is an order, and not a heading."""
SPEAKER_LINES = 6
"""Lines that a transcript has at least."""
_HITS = 4
"""Runs that are followed at once where a source repeats itself."""
_CJK = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_UNIT = re.compile(rf"[{_CJK}]{{1,2}}|[^\s{_CJK}]{{1,32}}")
"""A word; of languages without spaces two letters, of longer words pieces."""
_BULLETS = frozenset("-*+•>")
_SPEAKER = re.compile(
    r"^[*\[<(]{0,3}(user|human|assistant|ai|model|tool|tool result|function|system)[*\])>]{0,3} ?"
    r"(?:[:>\]]|$)",
    re.IGNORECASE,
)


class Copied(NamedTuple):
    """What of a text is copied word for word."""

    share: float
    """The share of its letters in long runs, 0 to 1."""
    whole: bool
    """Whether it is one run, but for at most `ENDS` words."""


def copied(text: str, source: Iterable[str], *, lists: bool = False) -> Copied:
    """How much of a text was copied from the source, whose texts are read as one.

    Bullets of the source are not compared, so that two lines which were taken over one by one are
    no run; with `lists` they are, and whole lists are runs. The first and last request of a person,
    cut short under their label, are no copy either.
    """
    words = _UNIT.findall(_without_requests(text))
    runs = _runs(words, _words_of(source, skipped=frozenset() if lists else _BULLETS))
    covered: set[int] = set()
    for run in runs:
        if sum(map(len, words[run.start : run.stop])) >= LONG_RUN:
            covered.update(run)
    longest = max(map(len, runs), default=0)
    total = sum(map(len, words)) or 1
    share = sum(len(words[i]) for i in covered) / total
    return Copied(share, longest >= WHOLE_WORDS and longest + ENDS >= len(words))


def unlisted(text: str) -> float:
    """Share of a text's lines, 0 to 1, that are neither headings nor begin with a bullet."""
    lines = [line for line in map(str.strip, text.split("\n")) if line and line[0] != "#"]
    return sum(line[0] not in _BULLETS for line in lines) / (len(lines) or 1)


def _without_requests(text: str) -> str:
    return "\n".join(line for line in text.split("\n") if not GOAL_LABEL.match(line))


def _words_of(source: Iterable[str], *, skipped: frozenset[str]) -> Iterator[str]:
    return (word for text in source for word in _UNIT.findall(text) if word not in skipped)


def _runs(words: Sequence[str], source: Iterator[str]) -> list[range]:
    """Where the words run as in the source, in whole blocks: each source block is looked up at
    every word, so that a run of `2 × BLOCK − 1` words is always seen.
    """
    blocks, places = _blocks_of(source)
    awaited: dict[int, dict[int, int]] = {}  # word → block that would go on there → start of run
    ends: dict[int, int] = {}
    for at, block in enumerate(zip(*(words[i:] for i in range(BLOCK)), strict=False)):
        runs = awaited.pop(at, {})
        if not runs and block not in places:
            continue
        going = {n: start for n, start in runs.items() if n < len(blocks) and blocks[n] == block}
        found = dict.fromkeys(places.get(block, ()), at) | going
        for number, start in sorted(found.items(), key=lambda row: row[1])[:_HITS]:
            awaited.setdefault(at + BLOCK, {})[number + 1] = start
            ends[start] = max(ends.get(start, 0), at + BLOCK)
    return [range(start, end) for start, end in ends.items()]


Block = tuple[str, ...]


def _blocks_of(words: Iterator[str]) -> tuple[list[Block], dict[Block, list[int]]]:
    """The words `BLOCK` at a time, and the first places of each block."""
    blocks = list(zip(*[words] * BLOCK, strict=False))
    places: dict[Block, list[int]] = {}
    for number, block in enumerate(blocks):
        if len(known := places.setdefault(block, [])) < _HITS:
            known.append(number)
    return blocks, places


def looped(text: str, source: Iterable[str]) -> float:
    """Share of a text, 0 to 1, that says again what it has said; not counting what its source says
    as often. 0 for a text of fewer than `LOOP_WORDS`.
    """
    grams = _grams(_UNIT.findall(text))
    total = sum(grams.values())
    again = total - len(grams)
    if total < LOOP_WORDS or again < WORTH_READING * total:
        return again / total if total >= LOOP_WORDS else 0.0
    theirs: Counter[tuple[str, ...]] = Counter()
    for each in source:
        theirs.update(gram for gram in _every_gram(_UNIT.findall(each)) if gram in grams)
    own = sum(max(0, times - max(1, theirs[gram])) for gram, times in grams.items())
    return own / total


def _grams(words: Sequence[str]) -> Counter[tuple[str, ...]]:
    return Counter(_every_gram(words))


def _every_gram(words: Sequence[str]) -> Iterator[tuple[str, ...]]:
    return zip(*(words[i:] for i in range(GRAM)), strict=False)


def recited(text: str, prompt: str, besides: Iterable[str]) -> float:
    """Share of a text's letters, 0 to 1, in lines of the prompt: orders to whoever summarizes, and
    no summary. What the prompt names of the conversation (`besides`) may be said again.
    """
    named = [each for each in besides if each]
    orders = {_bare(line) for line in prompt.split("\n") if not any(x in line for x in named)}
    lines = [bare for line in text.split("\n") if (bare := _bare(line))]
    total = sum(map(len, lines)) or 1
    return sum(len(x) for x in lines if len(x) >= ORDER_LINE and x in orders) / total


def _bare(line: str) -> str:
    return line.strip(" \t-*+•>#")


def spoken(text: str) -> float:
    """Share of a text's lines, 0 to 1, that begin with a speaker's label; 0 where one speaks."""
    lines = [line for line in text.split("\n") if line.strip()]
    speakers = [found[1].lower() for line in lines if (found := _SPEAKER.match(line))]
    if len(speakers) < SPEAKER_LINES or len(set(speakers)) < 2:
        return 0.0
    return len(speakers) / len(lines)
