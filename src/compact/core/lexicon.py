"""Words of closed classes, by language: what a word list may hold here, and nothing else.

A reply is what people say to a proposal or in place of words: yes, no, thanks, go on. Such words
are few in every language, and no new ones are made.
"""

from __future__ import annotations

import re

from compact.core.languages import words_of

_WORDS = frozenset().union(*words_of("replies").values())
_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?")
_CONCESSIONS = re.compile(
    r"(?:you(?:'re| are) (?:absolutely |completely |totally |quite )?(?:right|correct)"
    r"|(?:good|great) (?:catch|point)|(?:i )?apologi[sz]e|(?:i'm )?sorry"
    r"|my (?:mistake|apologies|bad)"
    r"|i was wrong|that was wrong|i misread|i misunderstood|you caught|oh[,!]|ah[,!]"
    r"|du hast recht|sie haben recht|stimmt[,!]|entschuldigung|mein fehler"
    r"|你说得对|您说得对|抱歉)",
    re.IGNORECASE,
)
"""How an answer opens that takes back what was said before."""
_SENTENCE = re.compile(r"[.!?。！？\n]+")
_MOST = 8
"""Words of a sentence that is a reply."""


def is_reply(text: str) -> bool:
    """Whether a text is a bare reply: short sentences of such words alone, or no word at all."""
    said = (_WORD.finditer(x) for x in _SENTENCE.split(text.lower().replace("’", "'")))
    return all(
        number <= _MOST and word[0] in _WORDS
        for words in said
        for number, word in enumerate(words, 1)
    )


def concedes(text: str) -> bool:
    """Whether an answer opens by taking back what was said before."""
    return bool(_CONCESSIONS.match(text.lstrip("*_ ").replace("’", "'")))
