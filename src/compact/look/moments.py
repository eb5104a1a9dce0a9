"""Picks the moments that are told, at most three: a person asks again for what a summary lost, an
edit is refused because the agent forgot that it had read the file, and known text is read again.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import log
from typing import Literal

from compact.look.measures import Compaction, Conversation, Spoken, beginning, letters
from compact.patterns import regex
from compact.text.terms import STOP_WORDS, pieces_of

MOST = 3
"""How many moments are shown."""
PROMPTS = 20
"""Prompts after a compaction in which a person may ask again."""
_AGAIN = regex(
    r"\b(?:show|tell|list|give|remind|repeat|explain|what|which|where|why|how)\b.*\bagain\b"
    r"|\b(?:I|we)(?:['’]ve)? (?:already |just )?(?:said|told|asked|meant|agreed|discussed)\b"
    r"|\balready (?:said|told|asked|showed|agreed|discussed)\b|\b(?:said|told you|agreed) before\b",
    re.IGNORECASE | re.DOTALL,
)
"""How people ask for what was said. `Run it again` asks for work, and is none."""
_ASKING = "again already before said told asked show tell list give remind repeat explain"
"""Words of such a prompt that do not say what it asks for."""
_LONGEST = 300
"""Letters of a prompt that asks again. A longer one holds a text in which the word may be used."""
_SHARE = 0.25
"""The share of a prompt's words, weighted by how rare they are, that its best message must have."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A prompt after a compaction, and the message before it that it asks for."""

    prompt: Spoken
    message: Spoken
    share: float


@dataclass(frozen=True, slots=True)
class Moment:
    """One moment to tell, of the case with this index."""

    kind: Literal["asked", "refused", "again"]
    case: int


def asked_again(conversation: Conversation, compaction: Compaction) -> Asked | None:
    """Return the clearest prompt that asks for what came before a compaction and is not in its
    summary.
    """
    spoken, start = conversation.spoken, compaction.spoken_before
    later = [x for x in conversation.compactions if x.number > compaction.number]
    stop = later[0].spoken_before if later else len(spoken)
    prompts = [i for i in range(start, stop) if spoken[i].by_person][:PROMPTS]
    prompts = [
        i for i in prompts if len(spoken[i].text) <= _LONGEST and _AGAIN.search(spoken[i].text)
    ]
    if not prompts:
        return None
    words = [_words(each.text) for each in spoken[:stop]]
    rarity = Counter(word for each in words for word in each)
    weights = {word: log(len(words) / count) for word, count in rarity.items()}
    summary = letters(compaction.summary)
    best: Asked | None = None
    for prompt in prompts:
        total = sum(weights[word] for word in words[prompt])
        shares = [
            (sum(weights[word] for word in shared), index)
            for index in range(prompt)
            if (shared := words[prompt] & words[index])
        ]
        if not shares or not total:
            continue
        share, index = max(shares)
        found = spoken[index]
        if index >= start or share < _SHARE * total or beginning(found.text) in summary:
            continue
        if best is None or share / total > best.share:
            best = Asked(spoken[prompt], found, share / total)
    return best


def _words(text: str) -> frozenset[str]:
    return frozenset(pieces_of(text)) - STOP_WORDS - set(_ASKING.split())


def nearest_lines(text: str, to: str, *, most: int = 2) -> list[str]:
    """Return the lines of a text that share the most words with another text, in their order."""
    wanted = _words(to)
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    shared = [(len(wanted & _words(line)), -index) for index, line in enumerate(lines)]
    best = sorted(-index for count, index in sorted(shared)[-most:] if count)
    return [lines[index] for index in best]


def worst(cases: Sequence[tuple[Compaction, Asked | None]]) -> list[Moment]:
    """Return the moments to tell: the clearest of each kind, then further ones of reading again."""
    numbers = range(len(cases))
    asked = max(
        (n for n in numbers if cases[n][1]),
        key=lambda n: (x.share if (x := cases[n][1]) else 0, -n),
        default=None,
    )
    refused = max(numbers, key=lambda n: (len(cases[n][0].window.refused), -n), default=None)
    made = [] if asked is None else [Moment("asked", asked)]
    if refused is not None and cases[refused][0].window.refused:
        made.append(Moment("refused", refused))
    sizes = {n: sum(x.tokens for x in cases[n][0].window.again) for n in numbers}
    taken = {moment.case for moment in made}
    rest = sorted((n for n in numbers if sizes[n] and n not in taken), key=lambda n: -sizes[n])
    return (made + [Moment("again", n) for n in rest])[:MOST]
