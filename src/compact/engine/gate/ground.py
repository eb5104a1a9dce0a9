"""Rules that compare a summary (story) with its source: its subject, invented names, its length,
and whether it covers as much as the summary that code extracts.
"""

from __future__ import annotations

import math
from statistics import fmean

from compact.engine.gate.summary_source import RuleResult, SummarySource, covered, names_in, stems

SHORT_VOCABULARY, LEAST_KNOWN, MORE_KNOWN, MOST_KNOWN = 200, 0.22, 0.13, 0.66
"""The source must know this share of the summary's informative words: `LEAST_KNOWN` up to
`SHORT_VOCABULARY` different words, `MORE_KNOWN` more for each factor e, at most `MOST_KNOWN`. A
large source knows some words of any summary by chance. Real summaries of other sessions reach .24,
.59 and .75 at 200, 1,500 and 5,000 words; those of the same session .27, .64 and .74 at least."""
FEW_UNKNOWN, MOST_UNKNOWN = 2, 0.3
"""A summary is refused as made up if more than `FEW_UNKNOWN` of its names and amounts, and more
than this share of them, are unknown to the source."""
TOKENS_PER_DOUBLING, SAID_AT_ONCE = 8, 50
"""A summary needs this many tokens for each doubling of its source above `SAID_AT_ONCE` tokens."""
LEAST_OF_CAP = 4
"""A summary never needs more than one part in this many of its cap."""
LEAST_COVERED = 0.45
"""A summary must cover this share of what equally long pieces of the extracted summary cover. No
good summary of `python -m evals gate` is refused for this alone (docs/evidence.md)."""
FEWEST_NAMES = 2
"""Fewest names in such a piece, on average. With fewer, nothing is compared."""


def subject(source: SummarySource) -> RuleResult:
    """Check that the source knows most of the summary's informative words."""
    words = set(stems(source.story.text))
    total = sum(map(source.weight, words))
    if not total:
        return RuleResult(True, "no word that tells anything")
    known = sum(source.weight(word) for word in words if word in source.words) / total
    size = max(1, len(source.words))
    least = LEAST_KNOWN + MORE_KNOWN * math.log(size / SHORT_VOCABULARY)
    least = min(MOST_KNOWN, max(LEAST_KNOWN, least))
    detail = f"{known:.0%} of what its words tell stands in the source, {least:.0%} at least"
    return RuleResult(known >= least, detail, known)


def invented(source: SummarySource) -> RuleResult:
    """Check that the source knows nearly all names in the summary."""
    named = names_in(source.story.text)
    known = source.said + "\n" + " ".join(message.id for message in source.request.messages)
    unknown = [name for name in named if not _is_known(name, known)]
    share = len(unknown) / max(1, len(named))
    passed = len(unknown) <= FEW_UNKNOWN or share <= MOST_UNKNOWN
    detail = f"{len(unknown):,} of {len(named):,} names are not in the source"
    if unknown:
        detail += f": {', '.join(unknown[:3])[:120]}"
    return RuleResult(passed, detail, share)


def _is_known(name: str, said: str) -> bool:
    """Whether the source has the name, its last part, or the name without its last letter."""
    last = name.rstrip("/").rsplit("/", 1)[-1]
    return name in said or last in said or (name.isalpha() and name[: len(name) - 1] in said)


def length(source: SummarySource) -> RuleResult:
    """Check that the summary is long enough for its source."""
    tokens = source.counter.text(source.story.text)
    doublings = math.log2(max(1.0, source.source_tokens / SAID_AT_ONCE))
    least = int(min(TOKENS_PER_DOUBLING * doublings, source.request.max_tokens / LEAST_OF_CAP))
    return RuleResult(
        tokens >= least,
        f"{tokens:,} tokens for a source of {source.source_tokens:,}, {least:,} at least",
    )


def coverage(source: SummarySource) -> RuleResult:
    """Check that the summary covers about as much as an extractive summary of the same length.
    Names, amounts, people and places count, unless the reader sees them elsewhere in the prompt.
    """
    other = source.extracted
    if other is None or not other.text.strip():
        return RuleResult(True, "nothing to compare it with")
    pieces = _pieces(other.text, source.story.text, source)
    named = [covered(piece, source.names) for piece in pieces]
    if fmean(map(len, named)) < FEWEST_NAMES:
        return RuleResult(True, "the extracted story names hardly anything")
    own = covered(source.story.text, source.names)
    share = _worth(own, source) / fmean(_worth(each, source) for each in named)
    detail = f"{share:.0%} of what as much of the extracted story covers"
    return RuleResult(share >= LEAST_COVERED, detail, share)


def _worth(names: set[str], source: SummarySource) -> float:
    return sum(source.names[name] for name in names)


def _pieces(text: str, like: str, source: SummarySource) -> list[str]:
    """Split a text into pieces about as long as `like`, each with lines from all over the text."""
    size, most = source.counter.text(text), max(1, source.counter.text(like))
    lines = [line for line in text.split("\n") if line.strip()]
    count = max(1, min(len(lines), math.ceil(size / most)))
    return ["\n".join(lines[start::count]) for start in range(count)]
