"""Words of closed classes, by language: what a word list may hold here, and nothing else.

A reply is what people say to a proposal or in place of words: yes, no, thanks, go on. Such words
are few in every language and no new ones are made.
"""

from __future__ import annotations

import re

_REPLIES = {
    "en": """a again agreed ahead all alright and back be bye cool continue course do done exactly
        fine for go good goodbye great hello help hey hi it leave let's lets looks
        lovely me more moving much next nice no nope now of ok okay on one ouch perfect
        please proceed right same skip so sounds stop sure thank thanks that the then
        this to try very wait way welcome well with works wow yea yeah yep yes you your
        yup""",
    "de": """ja nein doch gut danke bitte weiter mach das so genau einverstanden klar passt super
        moin hallo tschüss ok okay stimmt lass es""",
    "zh": "好 好的 是 是的 不 可以 同意 谢谢 继续 对 行",
}
_WORDS = frozenset(word for words in _REPLIES.values() for word in words.split())
_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?")
_MOST = 8


def is_reply(text: str) -> bool:
    """Whether a text is a bare reply: a handful of such words and nothing else, or no word at
    all.
    """
    words = _WORD.finditer(text.lower().replace("’", "'"))
    return all(number <= _MOST and word[0] in _WORDS for number, word in enumerate(words, 1))
