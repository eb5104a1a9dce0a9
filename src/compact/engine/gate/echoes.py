"""Echoes: how much of a summary (story) copies its source or prompt, repeats itself, or talks to
the reader.

A model that fails often returns its input, goes on talking, or repeats a sentence. A single copied
sentence is no failure: the share counts.
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
"""`MOST_COPIED`: largest share of a summary's letters in copied sentences. `LEAST_COPIED`: fewest
letters of a sentence that counts. Real summaries, which quote requests and code, have .21 at most.
A text made of every third line of its conversation has 1."""
MOST_RECITED = 0.3
"""Largest share of a summary's letters in sentences that repeat the prompt's instructions."""
GRAM, LOOP_WORDS, MOST_LOOPED = 4, 24, 0.35
"""`GRAM`: words of a loop. `LOOP_WORDS`: fewest words of a text that is checked. `MOST_LOOPED`:
largest share of repeated loops. Real summaries have .21 at most."""
ORDER_LINE = 20
"""Fewest letters of a prompt line that counts as an order, not as a heading."""
MOST_ADDRESSED = 0.1
"""Largest share of a summary's sentences that may address the reader."""
_UNIT = regex(rf"[{CJK}]{{1,2}}|[^\s{CJK}]{{1,32}}")
"""A word, up to 32 characters of a longer one, or two characters of a language without spaces."""
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
    """Check that the summary copies neither its source nor its prompt."""
    share = copied(source.story.text, source.source)
    told = recited(source.story.text, source.story.prompt, source.beside)
    fences = sum(map(is_fence_line, source.story.text.split("\n")))
    detail = f"{share:.0%} copied, {told:.0%} of it our own words, {fences:,} lines of our fence"
    passed = share <= MOST_COPIED and told <= MOST_RECITED and not fences
    return RuleResult(passed, detail, max(share, told))


def loop(source: SummarySource) -> RuleResult:
    """Check that the summary does not repeat itself more than its source does."""
    share = looped(source.story.text, source.source)
    return RuleResult(share <= MOST_LOOPED, f"{share:.0%} said before", share)


def told(source: SummarySource) -> RuleResult:
    """Check that the summary says what others said and did, and does not address the reader. A
    sentence addresses the reader if it says `you`, is no quotation and, in English, has no past
    tense.
    """
    said = sentences(_QUOTED.sub(" ", source.story.text))
    code = language_of(source.story.text) or "en"
    address = ADDRESSES.get(code, ADDRESSES["en"])
    to_you = [each for each in said if not address.isdisjoint(_WORD.findall(each.lower()))]
    if code == "en":
        to_you = [each for each in to_you if not _PAST.search(each)]
    share = len(to_you) / max(1, len(said))
    detail = f"{len(to_you):,} of {len(said):,} sentences speak to the reader"
    return RuleResult(share <= MOST_ADDRESSED, detail, share)


def copied(text: str, source: Iterable[str]) -> float:
    """Return the share (0 to 1) of letters in sentences that the source has word for word."""
    said = "\n".join(map(_letters, source))
    told = [bare for each in sentences(text) if len(bare := _letters(each)) >= LEAST_COPIED]
    return sum(len(each) for each in told if each in said) / (sum(map(len, told)) or 1)


def _letters(text: str) -> str:
    return _BETWEEN.sub("", text.lower())


def looped(text: str, source: Iterable[str]) -> float:
    """Return the share (0 to 1) of a text that repeats, beyond what its source repeats. 0 for fewer
    than `LOOP_WORDS` words.
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
    """Return the share (0 to 1) of a text's letters in sentences that the prompt uses to instruct
    the writer. Parts of the conversation in the prompt (`besides`) may be repeated.
    """
    named = "\n".join(besides)
    orders = {_bare(each) for each in sentences(prompt) if each not in named}
    lines = [_bare(each) for each in sentences(text)]
    total = sum(map(len, lines)) or 1
    return sum(len(x) for x in lines if len(x) >= ORDER_LINE and x in orders) / total


def _bare(line: str) -> str:
    return line.strip(_LINE_START + ".,;:]}").lower()
