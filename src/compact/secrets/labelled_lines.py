"""Finds secrets that are alone on a line below their name, as in a form, a note or a page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial

from compact.patterns import regex
from compact.secrets.credentials import Place, SecretFinder
from compact.secrets.near_names import words_of
from compact.secrets.occurring import Spots
from compact.secrets.secret_values import (
    Check,
    has_digit,
    is_bare_password,
    is_number,
    is_phrase,
    is_token,
)

_NAMES: dict[str, tuple[str, ...]] = {
    "password": (*words_of("password"), "pwd"),
    "pin": tuple(words_of("pin")),
    "api_key": tuple(words_of("key")),
}
"""Kind of secret → the words that name it."""


def _is_joined(value: str) -> bool:
    return is_bare_password(value.replace("+", "-"))


def _is_key(value: str) -> bool:
    return has_digit(value) and is_token(value)


def _is_typed_in(value: str) -> bool:
    return is_number(value) and not _YEAR.fullmatch(value)


_YEAR = regex(r"(?:19|20)\d\d")
_CHECKS: dict[str, Check] = {"password": _is_joined, "pin": _is_typed_in, "api_key": _is_key}
_LONGEST = 80
"""How many characters before a name are searched for the start of its line."""
_NUMBER = r"(?:\d{1,6}[ \t]?[|:→\t][ \t]?)?"
_ENDS = (
    r"(?: is)?(?: \([^()\n]{1,40}\))?[ \t*_]{0,8}[:：]?[ \t*_]{0,8}\r?\n"
    r"(?:\([^()\n]{1,80}\)\r?\n|[-=_—–]{3,80}\r?\n)?"
)
"""Text that may be between a name and its value: a remark in brackets, a colon, an underline."""
_LABEL = rf"[^\w\n]{{0,12}}{_NUMBER}[^\w\n]{{0,12}}(?:[\w'’-]{{1,16}} ){{0,3}}(?i:%s)" + _ENDS
_VALUE = regex(
    rf"(?:[ \t>|]{{0,8}}\r?\n){{0,2}}[ \t>|]{{0,12}}{_NUMBER}[ \t]{{0,12}}(?:[-*•] )?[\"'`*]{{0,3}}"
    r"(?P<value>[^\s\"'`]{4,128}?|[a-z]{3,12}(?:[ -][a-z]{3,12}){2,11})"
    r"[\"'`*]{0,3}[ \t]{0,8}(?:\r?\n|\Z)"
)
"""The value, after up to two empty lines. It may be a list item, in quotes or numbered."""


def _values(kind: str, label: re.Pattern[str], spots: Spots, text: str) -> Iterator[Place]:
    for spot in spots.of(text):
        line = max(text.rfind("\n", 0, spot) + 1, spot - _LONGEST)
        found = label.match(text, line)
        below = _VALUE.match(text, found.end()) if found else None
        if below is None:
            continue
        value = below["value"]
        if _CHECKS[kind](value) or (kind == "password" and is_phrase(value)):
            yield Place(*below.span("value"), kind)


def _finder(kind: str) -> SecretFinder:
    names = "|".join(_NAMES[kind])
    ends = f"(?:{names}){_ENDS}"
    label = regex(_LABEL % names)
    return SecretFinder(f"(?i:{ends})", partial(_values, kind, label, Spots(ends)))


FINDERS: tuple[SecretFinder, ...] = tuple(map(_finder, _NAMES))
"""The finders of values below their name."""
