"""Other forms of words, by which people search for them.

The index splits a text at every sign. So `C++` and `C#` are both `c`, `WM-4471-B` is three words,
and `getUserProfile` is one. The index also gets the following forms, and a question asks for them:

- a code without its signs, `wm4471b`; digits in groups as one number;
- the parts of a name in camel case, as neighbours;
- a letter with a sign in words, `cplusplus`, `csharp`, `aminus`; an emoji by its number;
- a word in plain letters: `ß` is `ss`, `ü` also `ue`, an `i` without its dot is `i`;
- Hebrew and Arabic words without an article, preposition or `and` that is written before them.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator

from compact.patterns import regex

_CODE = regex(
    r"(?<![^\W_])(?:[^\W_]{1,16}(?:[-./][^\W_]{1,16}){1,8}|[0-9]{2,16}(?: [0-9]{2,16}){1,6})"
)
_SIGNS = regex(r"[^\W_]+|[-./ ]+")
MOST_CODE, LEAST_DIGITS = 24, 3
"""A code without its signs has at most this many characters, and at least this many digits."""
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
    }
)
_FOLDED = regex("(?<![^\\W_])[^\\W_]{0,40}[ßäöü\u0131øæœłÄÖÜØÆŒŁ][^\\W_]{0,40}")
_BEFORE = regex(
    "(?<![^\\W_])(?:[\u05d5\u05d4\u05d1\u05db\u05dc\u05de\u05e9]([\u05d0-\u05ea]{3,})"
    "|[\u0648\u0641]?(?:[\u0628\u0643]?\u0627\u0644|\u0644\u0644)([\u0621-\u064a]{3,}))"
)


def plain_letters(text: str) -> str:
    """Return the text with letters of full width, ligatures and the like as the usual ones."""
    return text if text.isascii() else unicodedata.normalize("NFKC", text)


def forms_of(text: str) -> Iterator[tuple[str, ...]]:
    """Yield other forms of a text's words, in lower case; each is one word, or several neighbours.
    The text has plain letters.
    """
    for match in _CODE.finditer(text):
        code = "".join(piece for piece in _SIGNS.findall(match[0]) if piece[0] not in "-./ ")
        if len(code) <= MOST_CODE and sum(map(str.isdecimal, code)) >= LEAST_DIGITS:
            yield (code.lower(),)
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
