"""Finds secrets by their value first. A generated value also needs a name near it that marks it as
a secret: right before it, on the line above, or in a comment after it. An invented password needs
none.

Names are read word by word, so `X-Api-Key`, `awsSecretAccessKey` and `hec_token` need no patterns.
The weight of the name and the weight of the value are added. The words are listed in
`secret_words.json` in this folder.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterator
from enum import IntEnum
from functools import partial

from compact.secrets.credentials import Place, SecretFinder
from compact.secrets.near_names import REACH, words_of
from compact.secrets.occurring import Spots
from compact.secrets.secret_values import (
    is_class_name,
    is_coded,
    is_dense,
    is_file_name,
    is_generated_key,
    is_id,
    is_made_up,
    is_random,
)


class Sign(IntEnum):
    """How strongly a word or the form of a value suggests a secret. Two such weights are added."""

    AGAINST = -1
    NONE = 0
    WEAK = 1
    STRONG = 2
    ENOUGH = 3


_PUBLIC, _STRONG = frozenset(words_of("public name")), frozenset(words_of("strong name"))
_WEAK, _LINKS = frozenset(words_of("weak name")), frozenset(words_of("link name"))
_ENDINGS = tuple(words_of("ending"))
_EMPTY_NAMES = frozenset({"is", "new", "string", "value"})
"""Words of a name that do not tell what the value is."""
_WORD = re.compile(r"[A-Z]?[^\W\dA-Z_]+|[A-Z]+(?![a-z])")
"""A word, or one of the words inside a name in code."""
_NAME = re.compile(r"[\w.@+-]{1,64}[:=](?=[^=])")
"""A name that is joined to its value by `:` or `=`."""
_PARAMETERS = re.compile(r"[^?&=]{0,256}\?[\w.-]{1,40}=|[\w.-]{1,40}=[^&]{0,256}&[\w.-]{1,40}=")
_LINES = re.compile(r"(?:\r?\n[A-Za-z0-9+/]{16,76}={0,2}(?=\r?\n|\Z))*")
"""Further lines of a value that is wrapped at the end of its line."""
_BETWEEN = string.whitespace + string.punctuation + string.digits + "：。「『“„«"
"""Characters that may be between a name and its value."""
_QUOTES, _COMMENTS = ("'", '"', "`"), ("//", "#", "-- ", "<-", "←")
_OPENS = ("", *" \t\n([{=:,\\>")
"""Characters that may be before an opening quote."""
_OPTIONS = (" -a ", " -k ", " -K ", " -p ", " -t ")
"""Options of commands that take a key, a password or a token."""
_SEPARATORS = str.maketrans(dict.fromkeys("/?&=#", " "))
_PIECE = r"[^\s\"'`<>(){}\[\],|;\\，；。：、！？（）「」]*"
_TELLING = "[0-9][A-Za-z]+[0-9]|[A-Za-z][0-9]+[A-Za-z]"
"""A sign of a generated value: digits between letters, or letters between digits."""
_MARK = "[!#$%&*+@^~]"
_BYTES = r"(?:0x[0-9A-Fa-f]{2},\s*){15,}0x[0-9A-Fa-f]{2}"
"""A key that is written as an array of bytes."""


def _sign(word: str) -> Sign:
    single = word.removesuffix("s")
    if word in _PUBLIC or single in _PUBLIC:
        return Sign.AGAINST
    if word in _STRONG or single in _STRONG or single.endswith(_ENDINGS):
        return Sign.STRONG
    is_weak = word in _WEAK or single in _WEAK or single.endswith("key")
    return Sign.WEAK if is_weak else Sign.NONE


def _words(text: str) -> list[str]:
    return [x.lower() for x in reversed(_WORD.findall(text))]


def _name_weight(before: str) -> Sign:
    """Return the weight of the name right before a value."""
    person = before.split()[-1:]
    if before[-1:] == ":" and person and "." in person[0].partition("@")[2]:
        return Sign.STRONG
    if before.endswith(_OPTIONS):
        return Sign.WEAK
    between = before[len(before.rstrip(_BETWEEN)) :]
    words = _words(before[-48:])[:3]
    if words[:2] == ["id", "session"]:
        del words[0]
    if not words or " (" in between or len(between) > 14:
        return Sign.NONE
    own, other, *_ = *map(_sign, words), Sign.NONE
    if own <= Sign.NONE or other < Sign.NONE:
        return Sign.NONE
    return Sign.STRONG if other or between.strip().isdigit() else own


def _value_weight(value: str) -> Sign:
    if value.startswith("0x") and "," in value:
        return Sign.STRONG
    if is_id(value):
        return Sign.WEAK
    if not is_random(value) or is_class_name(value):
        return Sign.NONE
    return Sign.STRONG if is_generated_key(value) or is_dense(value) else Sign.WEAK


def _is_marked(text: str, start: int, end: int, look: Sign) -> bool:
    line = max(text.rfind("\n", 0, start) + 1, start - REACH)
    before = text[line:start]
    if before.endswith("base64,"):  # a picture follows
        return False
    in_path = before.endswith("/") or (before[-1:] == "\\" and before[-2:-1].isalnum())
    if in_path and (look < Sign.STRONG or is_file_name(text[start:end])):
        return not _LINKS.isdisjoint(_words(before[-48:])[:1])
    if _name_weight(before) + look >= Sign.ENOUGH:
        return True
    behind = text[end : end + REACH].partition("\n")[0]
    label = _words(before)
    if not label or (look == Sign.STRONG and _EMPTY_NAMES.issuperset(label)):
        return not _WORD.search(behind) and _is_named_above(text, line)
    comment = behind.lstrip("\"'`)]};, \t")
    is_comment = comment != behind and comment.startswith(_COMMENTS)
    return is_comment and Sign.STRONG in map(_sign, _words(comment)[-3:])


def _is_named_above(text: str, line: int) -> bool:
    """Whether the nearest line of text above names a secret and nothing public."""
    above = text[max(0, line - 2 * REACH) : line].rstrip().rpartition("\n")[2]
    signs = [_sign(word) for word in _words(above)[:8]]
    return Sign.STRONG in signs and Sign.AGAINST not in signs


def _quoted(text: str, start: int, end: int) -> tuple[int, int]:
    """Return the place inside the quotes around a piece of text. If there are no quotes, or a space
    is inside them, return the place of the piece.
    """
    left = max(text.rfind(quote, max(0, start - REACH), start) for quote in _QUOTES)
    close = -1
    if left >= 0 and text[max(0, left - 1) : left] in _OPENS:
        close = text.find(text[left], end, end + 512)
    inside = text[left + 1 : close]
    if close < 0 or "\\" in inside or len(inside.split(None, 1)) != 1:
        return start, end
    return left + 1, close


def _extents(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the places of possible values in a piece: after a name, or the parts of an address."""
    start, end = _quoted(text, start, end)
    end = start + len(text[start:end].rstrip(".,:?*"))
    value = text[start:end]
    if is_dense(value):
        yield start, end
    elif "://" in value or value[:1] in tuple("/?&") or _PARAMETERS.match(value):
        for part in value.translate(_SEPARATORS).split(" "):
            yield start, start + len(part)
            start += len(part) + 1
    else:
        while match := _NAME.match(text, start, end):
            start = match.end()
        yield start, end


def _kind(text: str, start: int, end: int) -> str:
    """Return the kind of the secret at this place. It is empty if there is no secret."""
    value = text[start:end]
    look = _value_weight(value)
    if look and (_is_marked(text, start, end, look) or is_coded(value)):
        return "api_key"
    return "password" if is_made_up(value) else ""


def _values(spots: Spots, text: str) -> Iterator[Place]:
    least = 0
    for start, end in spots.spans(text):
        if start < least or end - start < 8:
            continue
        is_array = text.startswith("0x", start) and "," in text[start:end]
        least = end
        for first, last in [(start, end)] if is_array else _extents(text, start, end):
            if last - first >= 8 and text[first] != "@" and (kind := _kind(text, first, last)):
                lines = _LINES.match(text, last)
                yield Place(first, lines.end() if lines else last, kind)
                least = max(least, lines.end() if lines else last)


_MADE_UP = (
    f"[A-Za-z]{_MARK}+[0-9]|[0-9]{_MARK}+[A-Za-z]|[A-Za-z0-9]{_MARK}+[A-Za-z]{_PIECE}[0-9]"
    f"|[0-9]{_PIECE}[A-Za-z]{_MARK}+[A-Za-z]"
)
FINDERS = (
    SecretFinder(
        f"{_TELLING}|[A-Za-z0-9]{_MARK}+[A-Za-z0-9]",
        partial(_values, Spots(f"{_BYTES}|{_PIECE}(?:{_TELLING}|{_MADE_UP}){_PIECE}")),
    ),
)
"""The finders of values that look like a secret alone, or near a name that marks a secret."""
