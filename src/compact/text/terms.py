"""Words to search by: what of a message is searched, and what of a question is looked for.

Chinese and Japanese letters count as words of their own, since they are written without spaces. A
name such as `retry_budget` or `src/auth/token.py` counts as its pieces one after the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from compact.messages.messages import Message, ToolCall, ToolResult
from compact.patterns import regex
from compact.text.languages import words_of
from compact.text.recalls import asks

CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uac00-\ud7af"
_EACH = regex(rf"([{CJK}])")
_PIECE = regex(rf"[{CJK}]|[^\W_{CJK}]+")
_NAME = regex(rf"[{CJK}]+|[^\s{CJK}]+")
_LONGEST_NAME = 12
"""Pieces of the longest name that is looked for as one."""
MOST_NAMES = 64
"""Names of a question that are looked for; the rest of a longer one is left out."""
STOP_WORDS = frozenset().union(*words_of("stop_words").values())
_CJK_STOP = frozenset("的了吗呢是在有和与我你他她它们这那什么哪谁怎么样个")


def searchable(message: Message) -> str:
    """What of a message is searched: its words, its calls and its results, and their ids; nothing
    that compact itself put there, and no question to it.
    """
    if message.metadata.source in ("checkpoint", "goals", "ours"):
        return ""
    return "\n".join(_texts(message, own=False))


def readable(message: Message) -> str:
    """The same as one reads it, with nothing left out."""
    return "\n".join(_texts(message, own=True))


def _texts(message: Message, *, own: bool) -> Iterator[str]:
    """The texts of a message. Of our own, only the ids unless `own`."""
    for part in message.parts:
        match part:
            case ToolCall():
                silent = not own and asks(part)
                yield part.id if silent else f"{part.name} {part.id} {part.arguments}"
            case ToolResult():
                silent = not own and part.call_id in message.metadata.recalled
                yield part.call_id if silent else f"{part.call_id} {part.text}"
            case _:
                text = getattr(part, "text", "")
                if text:
                    yield text


def spaced(text: str) -> str:
    """The text with every Chinese or Japanese letter as a word of its own."""
    return text if text.isascii() else _EACH.sub(r" \1 ", text)


def looked_for(question: str) -> list[tuple[str, ...]]:
    """A question's first names, as pieces in lower case; stop words only where it has no others."""
    words = _NAME.findall(question)
    names = [name[:_LONGEST_NAME] for word in words for name in _names_in(word.lower()) if name]
    telling = [kept for name in names if (kept := _without_stop_words(name))]
    return list(dict.fromkeys(telling or names))[:MOST_NAMES]


def _names_in(word: str) -> list[tuple[str, ...]]:
    """A word's pieces as one name; of a run of Chinese or Japanese letters, each two neighbours."""
    pieces = tuple(_PIECE.findall(word))
    if len(pieces) < 3 or not _EACH.match(word):
        return [pieces]
    return list(pairwise(pieces))


def _without_stop_words(name: tuple[str, ...]) -> tuple[str, ...]:
    if all(piece in _CJK_STOP for piece in name) or (len(name) == 1 and name[0] in STOP_WORDS):
        return ()
    return name


def pieces_of(text: str) -> list[str]:
    """The pieces of a text in order, in lower case."""
    return _PIECE.findall(text.lower())
