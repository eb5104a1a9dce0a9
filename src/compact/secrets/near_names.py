"""Finds secrets near a word such as `password`, without an assignment: "the password of the printer
was changed to …", a name and a password side by side, a value on the next line.

The farther a value is from the word, the more it must look like a secret by itself. The words are
listed by kind, in many languages, in `secret_words.json` in this folder.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from importlib.resources import files

from compact.secrets.credentials import Place, SecretFinder
from compact.secrets.occurring import Spots
from compact.secrets.secret_values import (
    has_digit,
    is_bare_password,
    is_generated,
    is_generated_key,
    is_joined,
    is_passphrase_like,
    is_spoken_password,
)

_WORDS: Mapping[str, list[str]] = json.loads(
    (files("compact.secrets") / "secret_words.json").read_text(encoding="utf-8")
)
REACH = 120
"""How many characters after a word are searched for a value."""
_SHORTEST = 8
"""The fewest characters of a value without an assignment."""
_VALUE = re.compile(
    r"(?<![\w$])N?([\"'`])([^\s\"'`]{6,64})\1|<REDACTED:"
    r"|(?:[^\s\"'`<>(){}\[\]«»„“”\u2018\u2019「」『』,;|，。；\uff1a（）\uff01\uff1f、=\\&]|&(?!\w{1,32}=)){4,160}"
)
"""A possible value: in quotes, or up to a character that no unquoted value contains."""
_ALONE = re.compile(
    r"[^\n]{0,80}\n(?:[-=~]{3,80}\r?\n)?\r?\n?(?:```\w{0,8}\r?\n)?[ \t>|]{0,8}(?:A: )?"
    r"(?:[\w.]{0,24}send\w{0,4}[ (]{1,2}[\"'])?"
    r"(\S{5,128}?)(?:\\[rn]){0,2}[\"')]{0,3}[ \t]{0,8}(?:\r?\n|\Z)"
)
"""A value that is alone on the line after the word's line, or that a script sends there."""
_UNDERLINED = re.compile(r"[*_]{0,2}[ \t]{0,3}\r?\n[-=~]{3,80}\r?\n")
TO = (
    r"(?:for|of|to|on|in|at|für|zum|zur|de|del|do|da|di|du|van|för|voor|para|pour|"
    r"от|за|для|до|till?|od|vom)"
)
"""Words between a password and what the password is for, such as `for` or `of`."""
_AS = "(?:as|als|como|comme|come|som)"
_VALUE_BEFORE = re.compile(
    rf"(?:\A[ \t>*-]{{0,8}}|(?<=\s)(?=\S{{5,128}} {_AS} ))"
    rf"([\"'`]?)([^\s\"'`]{{5,128}})\1[,;]?[ \t]{{1,4}}"
    rf"(?:(?:#|//|--|<-{{1,2}}|←|\()[ \t]{{0,2}}|({_AS}|{'|'.join(_WORDS['copula'])}) )"
    rf"(?:(?!{TO} )[\w'’]{{1,16}} ){{0,3}}\Z",
    re.IGNORECASE,
)
"""A value before its word, and what separates them. It is at the start of a line or before `as`."""
_SAYS_NO_MORE = re.compile(rf"[\"'`*]{{0,2}}[ \t]{{0,2}}(?:[.,;!)\n]|\Z|{TO} )", re.IGNORECASE)
_DIGITS = re.compile(
    r"(?<![\w.,/+:-])(?!(?:19|20)\d\d(?!\d))(?:\d{4,8}|\d(?: \d){3,7})(?![\w/%:-]|[.,]\d)"
)
"""A number that people type in and that is not a year."""
_OF_ANOTHER = re.compile(r"\w(?:[\"']\s{0,3}:|\s{0,3}=)\s{0,3}\Z|base64,\Z")
"""Shows that the next value belongs to another name, or is a picture."""
_IS_PART = re.compile(r"[A-Za-z0-9_]|(?:[-./*]|=(?!\d{4,8}\b)|\\(?![nrt]))[A-Za-z0-9_]|[*/]")
"""Shows, after a word, that the word is part of a name or a path."""
_ASSIGNED = re.compile(r"[\w-]{0,24}\\?[\"'][\])]?\s{0,3}[:=]\s{0,3}[\"']")
"""An assignment of a quoted value. `secrets.named_credentials` judges such values by their name."""
_CODES = 400
"""How many characters are searched for codes, or for the words of a wallet."""
_CODE = re.compile(
    r"(?<![\w.:/-])(?:[A-Za-z0-9]{4,8}(?:-[A-Za-z0-9]{4,8}){1,7}|\d{4} \d{4}|"
    r"[A-Z2-7]{4}(?: [A-Z2-7]{4}){3,15}|\d{8}|[a-z0-9]{8,12})"
    r"(?![\w-])"
)
_WORDS_BETWEEN = re.compile(r"[^\W\d_]{3}")
_SEED = re.compile(r"(?<![\w-])(?:[a-z]{3,8}[ \n]{1,3}){11,23}[a-z]{3,8}(?![\w-])")
Span = tuple[int, int]
Finding = Callable[[str, int], Iterable[Span]]
Check = Callable[[str], bool]


def _word_end(text: str, end: int) -> int:
    """Return the end of a word that may have an inflection of up to four letters."""
    least = min(len(text), end + 4)
    while end < least and text[end].isalpha() and not text[end].isupper():
        end += 1
    return end


def words_of(kind: str) -> list[str]:
    """Return the words of this kind, in lower case and in RE2's syntax."""
    return _WORDS[kind]


def _line(text: str, start: int) -> int:
    """Return the end of the line, or of the part of the line that is searched."""
    end = min(len(text), start + REACH)
    for mark in ("\n", "\\n"):
        position = text.find(mark, start, end)
        end = position if position >= 0 else end
    return end


def _on_line(text: str, start: int, check: Check) -> Span | None:
    """Return the first value on the line that passes, unless a redacted one comes before it."""
    end = _line(text, start)
    if end - start < _SHORTEST or not has_digit(text[start:end]):
        return None
    for match in _VALUE.finditer(text, start, end):
        if match[0] == "<REDACTED:":
            return None
        first, last = match.span(2) if match[1] else match.span()
        if last - first < _SHORTEST or not has_digit(text[first:last]):
            continue
        while first < last and text[last - 1] in ".,:;?*":
            last -= 1
        is_cut = end == last < len(text) and not text[end].isspace()
        if (
            is_cut
            or _OF_ANOTHER.search(text, max(start, match.start() - 8), match.start())
            or not check(text[first:last])
        ):
            continue
        return first, last
    return None


def _below(text: str, start: int, check: Check) -> Span | None:
    match = _ALONE.match(text, start)
    return match.span(1) if match and "," not in match[1] and check(match[1]) else None


def _above(text: str, start: int) -> str:
    """Return the word's line. A colon is added if it is underlined, because both mark a heading."""
    above = text[max(0, start - REACH) : _line(text, start)].rpartition("\n")[2].strip("\r *_`")
    return above + ":" * bool(_UNDERLINED.match(text, _word_end(text, start)))


def _is_made(value: str) -> bool:
    return is_generated(value) or is_passphrase_like(value)


def _value_before(text: str, start: int, end: int) -> Span | None:
    """Return a secret that comes before its name, as in "… is the password"."""
    line = max(text.rfind("\n", 0, start) + 1, start - REACH)
    match = _VALUE_BEFORE.search(text[line:start])
    if not match or (line and text[line - 1] != "\n"):
        return None
    check = is_spoken_password if match[3] else is_passphrase_like
    is_named = check(match[2]) and _SAYS_NO_MORE.match(text, _word_end(text, end))
    return (line + match.start(2), line + match.end(2)) if is_named else None


def _passwords(text: str, start: int) -> Span | None:
    above = _above(text, start)
    is_asked = above.endswith(("?", ":")) or "# " in above
    below = is_bare_password if is_asked else is_passphrase_like
    return _on_line(text, start, is_passphrase_like) or _below(text, start, below)


def _keys(text: str, start: int) -> Span | None:
    below = _is_made if _above(text, start).endswith(":") else is_generated_key
    return _on_line(text, start, is_generated_key) or _below(text, start, below)


def _numbers(text: str, start: int) -> Iterator[Span]:
    if match := _DIGITS.search(text, start, _line(text, start)):
        yield match.span()


def _codes(text: str, start: int) -> Iterator[tuple[int, int]]:
    """Yield the codes after their name. Words after a code end the search."""
    end = start
    for match in _CODE.finditer(text, start, min(len(text), start + _CODES)):
        if _WORDS_BETWEEN.search(text, end, match.start()) and end > start:
            return
        if any(map(str.isdigit, match[0])):
            yield match.span()
            end = match.end()


def _phrases(text: str, start: int) -> Iterator[tuple[int, int]]:
    match = _SEED.search(text, start, min(len(text), start + REACH + _CODES))
    if match and match.start() < start + REACH and len(set(match[0].split())) > 9:
        yield match.span()


def _as_finding(find: Callable[[str, int], Span | None]) -> Finding:

    def found(text: str, start: int) -> Iterator[Span]:
        span = None if _ASSIGNED.match(text, start) else find(text, start)
        if span is not None:
            yield span

    return found


def _near(kind: str, find: Finding, spots: Spots, text: str) -> Iterator[Place]:
    for start, end in spots.spans(text):
        is_part = text[max(0, start - 1) : start] in tuple("/.-") and start
        if not (is_part or _IS_PART.match(text, _word_end(text, end))):
            yield from (Place(*span, kind) for span in find(text, end))
            if find in _FINDING_BEFORE and (said := _value_before(text, start, end)):
                yield Place(*said, kind)


_FINDING: Mapping[str, Finding] = {
    "password": _as_finding(_passwords),
    "key": _as_finding(_keys),
    "pin": _numbers,
    "credentials": _as_finding(partial(_on_line, check=is_joined)),
    "recovery_code": _codes,
    "seed_phrase": _phrases,
}


_FINDING_BEFORE = (_FINDING["password"], _FINDING["key"])
"""Finders that also look for a value before its word."""


def _finder(kind: str, words: list[str]) -> SecretFinder:
    find = _FINDING[kind]
    begins = "" if kind == "password" else r"\b"
    ends = r"\b" if kind in ("pin", "credentials") else ""
    pattern = f"{begins}(?:{'|'.join(words)}){ends}"
    behind = r"[^\n]*\pN" if kind in ("pin", "credentials") else ""  # on the same line
    called = {"key": "api_key", "credentials": "password"}.get(kind, kind)
    return SecretFinder(f"(?i:{pattern}){behind}", partial(_near, called, find, Spots(pattern)))


FINDERS: tuple[SecretFinder, ...] = tuple(_finder(kind, _WORDS[kind]) for kind in _FINDING)
"""The finders of values near a word that names a secret."""
