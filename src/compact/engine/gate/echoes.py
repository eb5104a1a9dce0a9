"""Echoes: how much of a story is no story. A copy of its source or of the prompt, a loop, or talk.

A model that fails often hands back what it was given, goes on talking, or says one sentence again
and again. Taking a sentence over word for word is no such failure: what counts is how much of the
story runs as its source does.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from compact.engine.fencing import is_fence_line
from compact.engine.gate.summary_source import CJK, RuleResult, SummarySource, sentences
from compact.patterns import regex
from compact.text.languages import ADDRESSES, language_of

MOST_COPIED, LEAST_COPIED = 0.5, 16
"""Share of a story's letters in sentences that stand in its source as they are, and letters of a
sentence from which that tells something. Real summaries, which quote what was asked and code, have
.21 at most; every third line of a conversation has 1."""
MOST_RECITED = 0.3
"""Share of its letters in lines of what its maker was told."""
GRAM, LOOP_WORDS, MOST_LOOPED = 4, 24, 0.35
"""Words that make a loop when they come again, words from which a text is looked at, and the share
of them that may be said again. Real summaries have .21 at most."""
ORDER_LINE = 20
"""Letters from which a line of the prompt is an order, and not a heading."""
MOST_ADDRESSED = 0.1
"""Share of its sentences that may speak to somebody."""
_UNIT = regex(rf"[{CJK}]{{1,2}}|[^\s{CJK}]{{1,32}}")
"""A word; of languages without spaces two letters, of longer words pieces."""
_BETWEEN = regex(r"[\W_]+")
_LINE_START = " \t-*+•>#[{\"'"
_QUOTED = regex(r"[\"“„][^\"“”\n]{1,400}[\"”“]|«[^»\n]{1,400}»|`[^`\n]{1,200}`|^>.*$", re.M)
_WORD = regex(rf"[{CJK}]|[^\W\d_]+")
_PAST = regex(
    r"\b(?:[a-z]{2,}ed|was|were|had|did|said|told|made|went|took|got|gave|came|saw|found|left|"
    r"kept|began|wrote|chose|thought|knew|felt|sent|put|ran)\b"
)

Gram = tuple[str, ...]


def echo(source: SummarySource) -> RuleResult:
    """It is no copy of its source, and none of what its maker was told."""
    share = copied(source.story.text, source.source)
    told = recited(source.story.text, source.story.prompt, source.beside)
    fences = sum(map(is_fence_line, source.story.text.split("\n")))
    detail = f"{share:.0%} copied, {told:.0%} of it our own words, {fences:,} lines of our fence"
    passed = share <= MOST_COPIED and told <= MOST_RECITED and not fences
    return RuleResult(passed, detail, max(share, told))


def loop(source: SummarySource) -> RuleResult:
    """It does not say the same again and again, unless its source does."""
    share = looped(source.story.text, source.source)
    return RuleResult(share <= MOST_LOOPED, f"{share:.0%} said before", share)


def told(source: SummarySource) -> RuleResult:
    """It tells what others said and did, and speaks to nobody.

    A sentence speaks to its reader that says `you`, is no quotation, and, in English, tells of
    nothing past.
    """
    said = sentences(_QUOTED.sub(" ", source.story.text))
    code = language_of(source.story.text) or "en"
    address = ADDRESSES.get(code, ADDRESSES["en"])
    to_you = [each for each in said if address.intersection(_WORD.findall(each.lower()))]
    if code == "en":
        to_you = [each for each in to_you if not _PAST.search(each)]
    share = len(to_you) / max(1, len(said))
    detail = f"{len(to_you):,} of {len(said):,} sentences speak to the reader"
    return RuleResult(share <= MOST_ADDRESSED, detail, share)


def copied(text: str, source: Iterable[str]) -> float:
    """Share of a text's letters, 0 to 1, in sentences that stand in the source word for word."""
    said = "\n".join(map(_letters, source))
    told = [bare for each in sentences(text) if len(bare := _letters(each)) >= LEAST_COPIED]
    return sum(len(each) for each in told if each in said) / (sum(map(len, told)) or 1)


def _letters(text: str) -> str:
    """The letters and digits of a text, whatever stands between them."""
    return _BETWEEN.sub("", text.lower())


def looped(text: str, source: Iterable[str]) -> float:
    """Share of a text, 0 to 1, that says again what it has said; not counting what its source says
    as often. 0 for a text of fewer than `LOOP_WORDS`.
    """
    grams = Counter(_grams(_UNIT.findall(text)))
    total = sum(grams.values())
    if total < LOOP_WORDS or total - len(grams) <= MOST_LOOPED * total:
        return (total - len(grams)) / total if total >= LOOP_WORDS else 0.0
    theirs: Counter[Gram] = Counter()
    for each in source:
        theirs.update(gram for gram in _grams(_UNIT.findall(each)) if gram in grams)
    own = sum(max(0, times - max(1, theirs[gram])) for gram, times in grams.items())
    return own / total


def _grams(words: Sequence[str]) -> Iterator[Gram]:
    return zip(*(words[i:] for i in range(GRAM)), strict=False)


def recited(text: str, prompt: str, besides: Iterable[str]) -> float:
    """Share of a text's letters, 0 to 1, in sentences of the prompt: they are for whoever writes
    it. What the prompt holds of the conversation (`besides`) may be said again.
    """
    named = "\n".join(besides)
    orders = {_bare(each) for each in sentences(prompt) if each not in named}
    lines = [_bare(each) for each in sentences(text)]
    total = sum(map(len, lines)) or 1
    return sum(len(x) for x in lines if len(x) >= ORDER_LINE and x in orders) / total


def _bare(line: str) -> str:
    return line.strip(_LINE_START + ".,;:]}").lower()
