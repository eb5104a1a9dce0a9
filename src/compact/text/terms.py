"""Prepares text for search: a message's searchable text, and the names in a question.

Each character counts as a word in languages that use no spaces: Chinese, Japanese, Korean, Thai,
Lao, Khmer, Burmese. A name such as `retry_budget` or `src/auth/token.py` is a sequence of pieces.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from compact.messages.messages import Message, ToolCall, ToolResult
from compact.patterns import regex
from compact.text.languages import words_of
from compact.text.recalls import asks
from compact.text.word_forms import code_of, forms_of, plain_letters

CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uac00-\ud7af"
_SINGLE = rf"{CJK}\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
"""Characters that count as words."""
_EACH = regex(rf"([{_SINGLE}])")
PIECE = rf"[{_SINGLE}]|[^\W_{_SINGLE}]+"
"""One word, or one character that counts as a word."""
_PIECE = regex(PIECE)
_NAME = regex(rf"[{_SINGLE}]+|[^\s{_SINGLE}]+")
_LONGEST_NAME = 12
"""At most this many pieces of a name are used."""
MOST_NAMES = 64
"""At most this many names of a question are used."""
STOP_WORDS = frozenset().union(*words_of("stop_words").values())
_CJK_STOP = frozenset("的了吗呢是在有和与我你他她它们这那什么哪谁怎么样个")


def searchable(message: Message) -> str:
    """Return the text by which a message can be found: its words, calls, results and call ids.

    Text that compact wrote, and calls to compact's recall tools, are left out.
    """
    if message.metadata.source in ("checkpoint", "goals", "ours"):
        return ""
    if isinstance(message.content, str):
        return message.content
    return "\n".join(_texts(message, own=False))


def readable(message: Message) -> str:
    """Return the whole text of a message: its words, calls, results and call ids."""
    return "\n".join(_texts(message, own=True))


def _texts(message: Message, *, own: bool) -> Iterator[str]:
    """Yield the texts of a message. Without `own`, texts by compact are reduced to their ids."""
    for part in message.parts:
        match part:
            case ToolCall():
                silent = not own and asks(part)
                yield part.id if silent else f"{part.name} {part.id} {part.arguments}"
            case ToolResult():
                silent = not own and part.call_id in message.metadata.recalled
                yield part.call_id if silent else f"{part.call_id} {part.text}"
            case _:
                if text := getattr(part, "text", ""):
                    yield text


def spaced(text: str) -> str:
    """Return the text with spaces around each character that counts as a word."""
    return text if text.isascii() else _EACH.sub(r" \1 ", text)


def index_words(text: str) -> str:
    """Return the words by which a text is found: its own, and other forms of them."""
    plain = plain_letters(text)
    return " ".join((spaced(plain), *map(" ".join, forms_of(plain))))


def looked_for(question: str) -> list[tuple[str, ...]]:
    """Return the first names in a question, each as its pieces in lower case, and other forms.

    Stop words are left out, unless the question has no other words.
    """
    plain = plain_letters(question)
    words = _NAME.findall(plain)
    names = [name[:_LONGEST_NAME] for word in words for name in _names_in(word.lower()) if name]
    telling = [name for name in names if not _is_stop_word(name)]
    return list(dict.fromkeys((*(telling or names), *forms_of(plain), *code_of(plain))))[
        :MOST_NAMES
    ]


def _names_in(word: str) -> list[tuple[str, ...]]:
    """Return a word as one name of several pieces; Chinese text as pairs of characters."""
    pieces = tuple(_PIECE.findall(word))
    if len(pieces) < 3 or not _EACH.match(word):
        return [pieces]
    return list(pairwise(pieces))


def _is_stop_word(name: tuple[str, ...]) -> bool:
    return _CJK_STOP.issuperset(name) or (len(name) == 1 and name[0] in STOP_WORDS)


def pieces_of(text: str) -> list[str]:
    """Return the pieces of a text in order, in lower case."""
    return _PIECE.findall(text.lower())
