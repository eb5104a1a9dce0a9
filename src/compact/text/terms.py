"""Prepares text for search: a message's searchable text, and the names in a question.

Each character counts as a word in languages that use no spaces: Chinese, Japanese, Korean, Thai,
Lao, Khmer, Burmese. A name such as `retry_budget` or `src/auth/token.py` is a sequence of pieces.

Other forms of words, by which people search for them.

The index splits a text at every sign. So `C++` and `C#` are both `c`, `WM-4471-B` is three words,
and `getUserProfile` is one. The index also gets the following forms, and a question asks for them:

- a code without its signs, `wm4471b`; digits in groups as one number;
- the parts of a name in camel case, as neighbours;
- a letter with a sign in words, `cplusplus`, `csharp`, `aminus`; an emoji by its number;
- a word in plain letters: `ß` is `ss`, `ü` also `ue`, an `i` without its dot is `i`;
- Hebrew and Arabic words without an article, preposition or `and` that is written before them.
"""

from __future__ import annotations

import math
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from itertools import pairwise

from compact.messages.messages import Message, ToolCall, ToolResult
from compact.messages.sessions import Found
from compact.patterns import regex
from compact.text.languages import words_of
from compact.text.recalls import asks

# --- word forms -----------------------------------------------------------------------------------

_CODE = regex(
    r"(?<![^\W_])(?:[0-9]{2,16}(?:[ ()/.-]{1,3}[0-9]{2,16}){1,8}(?![-./]?[^\W_])"
    r"|(?:[A-Z]{1,3}|[A-Z]{0,4}[0-9]{1,8}[A-Z]{0,4})(?: [A-Z0-9]{1,8}){1,8}(?![-./]?[^\W_])"
    r"|[^\W_]{1,16}(?:[-./_][^\W_]{1,16}){1,8})"
)
_SIGNS = regex(r"[^\W_]+")
MOST_CODE, LEAST_DIGITS = 24, 3
"""A code without its signs has at most this many characters, and at least this many digits; with a
letter, one digit fewer."""
_CAMEL = regex(r"(?<![^\W_])[A-Z]{0,10}[a-z0-9]{1,40}[A-Z][^\W_]{0,60}(?![^\W_])")
_CAMEL_PARTS = regex(r"[A-Z]+(?![a-z])|[A-Z]?[^\WA-Z0-9_]+|[0-9]+")
_SIGNED = regex(r"(?<![^\W_])([A-Za-z]{1,2})(\+{1,2}|#|-)(?![^\s.,;:!?)\]])")
_SIGN_NAMES = {"+": "plus", "#": "sharp", "-": "minus"}
_EMOJI = regex("[\u2600-\u27bf\U0001f300-\U0001faff]")
_LETTERS = str.maketrans(
    {
        "ß": "ss",
        "ä": "ae",
        "ö": "oe",
        "ü": "ue",
        "\u0131": "i",
        "ø": "o",
        "æ": "ae",
        "œ": "oe",
        "ł": "l",
        "đ": "d",
        "ё": "\u0435",
        "أ": "\u0627",
        "إ": "\u0627",
        "آ": "\u0627",
        "ة": "\u0647",
        "ى": "ي",
    }
)
_FOLDED = regex("(?<![^\\W_])[^\\W_]{0,40}[ßäöü\u0131øæœłđёأإآةىÄÖÜØÆŒŁĐЁά-ώΆ-Ώ][^\\W_]{0,40}")
_MARKS = dict.fromkeys((*range(0x0591, 0x05C8), *range(0x064B, 0x0653), 0x0640))
"""Hebrew and Arabic vowels and the like, which people mostly leave out."""
_BEFORE = regex(
    "(?<![^\\W_])(?:[\u05d5\u05d4\u05d1\u05db\u05dc\u05de\u05e9]([\u05d0-\u05ea]{3,})"
    "|[\u0648\u0641]?(?:[\u0628\u0643]?\u0627\u0644|\u0644\u0644)([\u0621-\u064a]{3,}))"
)


def plain_letters(text: str) -> str:
    """Return the text with letters of full width, ligatures and the like as the usual ones."""
    return text if text.isascii() else unicodedata.normalize("NFKC", text.translate(_MARKS))


def forms_of(text: str) -> Iterator[tuple[str, ...]]:
    """Yield other forms of a text's words, in lower case; each is one word, or several neighbours.
    The text has plain letters.
    """
    for match in _CODE.finditer(text):
        code = "".join(_SIGNS.findall(match[0])).lower()
        if _is_code(code):
            yield (code,)
            if code[0] == "v" and code[1].isdecimal():  # `v1.2.3` is version `1.2.3`
                yield (code[1:],)
    for match in _CAMEL.finditer(text):
        yield tuple(part.lower() for part in _CAMEL_PARTS.findall(match[0]))
    for letters, sign in _SIGNED.findall(text):
        yield (letters.lower() + "".join(map(_SIGN_NAMES.__getitem__, sign)),)
    if text.isascii():
        return
    for emoji in _EMOJI.findall(text):
        yield (f"emoji{ord(emoji):x}",)
    for match in _FOLDED.finditer(text):
        word = unicodedata.normalize("NFD", match[0].lower().translate(_LETTERS))
        yield ("".join(each for each in word if not unicodedata.combining(each)),)
    for rest in filter(None, (a or b for a, b in _BEFORE.findall(text))):
        yield (rest,)


def code_of(question: str) -> Iterator[tuple[str, ...]]:
    """If the whole question is a code, yield it without signs and spaces."""
    code = "".join(filter(str.isalnum, question))
    if len(code) <= MOST_CODE and sum(map(str.isdecimal, code)) >= LEAST_DIGITS:
        yield (code.lower(),)


def _is_code(code: str) -> bool:
    digits = sum(map(str.isdecimal, code))
    return len(code) <= MOST_CODE and digits + (digits < len(code)) >= LEAST_DIGITS


# --- terms ----------------------------------------------------------------------------------------

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


def scored(holding: Iterable[Collection[int]], total: int, most: int) -> list[Found]:
    """Return the best places, at most `most`. `holding` has for each name the places that hold it.
    A name adds ln(1 + `total` / places with the name) to the score of each. Of equals, the later
    place comes first.
    """
    scores: Counter[int] = Counter()
    for places in holding:
        weight = math.log1p(total / len(places)) if places else 0.0
        scores.update(dict.fromkeys(places, weight))
    best = sorted(scores.items(), key=lambda row: (-row[1], -row[0]))
    return [Found(position, score) for position, score in best[: max(0, most)]]
