"""Finds secrets in tables: values below a heading such as `password`.

It reads CSV, tables with tabs, drawn tables, and values that SQL inserts.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from functools import partial

from compact.secrets.credentials import Place, SecretFinder
from compact.secrets.near_names import words_of
from compact.secrets.occurring import Spots
from compact.secrets.secret_values import (
    Check,
    is_bare_password,
    is_number,
    is_token,
    is_url_password,
)

_ROWS = 1_000
"""How many rows of a table are searched at most. The limit bounds the time."""
_DRAWN = "|│┃║"
_DELIMITED = tuple(
    re.compile(rf"(?m:^|[{mark}]{'+' * (mark == _DRAWN)}) *(\"(?:[^\"\n]|\"\")*\"|[^{mark}\n]*)")
    for mark in (",", ";", "\t", _DRAWN)
)
"""Patterns that match a cell of a table, one for each separator."""
_SPACED = re.compile(r"(?m:^ *| {2,})(\S+(?: \S+)*)")
"""A cell between spaces, in a table whose heading is underlined or in capitals."""
_RULED = re.compile(r"[^\w\n,;\t|│┃║]+\n|[|+][-+=:| ]+\n")
"""A drawn line between two rows."""
_AROUND = " \t\"'`*\r_#"
_KINDS: tuple[tuple[str, frozenset[str], Check], ...] = (
    ("password", frozenset({*words_of("password"), "pwd", "pass", "pw"}), is_bare_password),
    ("pin", frozenset(words_of("pin")), is_number),
    ("api_key", frozenset(words_of("key")), is_token),
)
"""Each row: the kind of a column, its headings, and the check of its values."""
_HEADINGS = "|".join(sorted(map(re.escape, set().union(*(names for _, names, _ in _KINDS)))))


def _columns(text: str, spots: Spots) -> Iterator[Place]:
    least = 0
    for spot in spots.of(text):
        start = text.rfind("\n", 0, spot + 1) + 1 if text[spot] != "\n" else spot + 1
        if start < least:
            continue
        least = yield from _table(text, start)


def _table(text: str, start: int) -> Generator[Place, None, int]:
    """Yield the secrets of the table whose heading is at `start`. Return the end of the table."""
    end = _end(text, start)
    is_ruled = _RULED.match(text, end + 1) or text[start:end].isupper()
    for cells in (*_DELIMITED, *[_SPACED] * bool(is_ruled)):
        heads = [found[1].strip(_AROUND).lower() for found in cells.finditer(text, start, end)]
        columns = {
            i: (kind, check)
            for i, head in enumerate(heads)
            for kind, names, check in _KINDS
            if head in names
        }
        if columns and len(heads) > 1 and not any(head[:1].isdigit() for head in heads):
            break
    else:
        return end
    for _ in range(_ROWS):
        start, end = end + 1, _end(text, end + 1)
        if _RULED.match(text, start):
            continue
        row = list(cells.finditer(text, start, end))
        if len(row) <= max(2, min(columns) + 1) - 1:
            return start
        for i, (kind, check) in columns.items():
            if i < len(row) and (place := _place(row[i], kind, check)):
                yield place
    return start


def _place(cell: re.Match[str], kind: str, check: Check) -> Place | None:
    value = cell[1].strip(_AROUND)
    if (
        not value
        or "=" in value.rstrip("=")
        or not (check(value) or (kind == "password" and is_number(value)))
    ):
        return None
    start = cell.start(1) + cell[1].find(value)
    return Place(start, start + len(value), kind)


_SECRET_NAMES = (*_KINDS[0][1], "secret", "token", "api_key", "apikey")


def _inserted(text: str, spots: Spots) -> Iterator[Place]:
    """Yield the secrets among values that SQL inserts, by the names of the columns."""
    for spot in spots.of(text):
        if not (found := _INSERTS.match(text, spot)):
            continue
        heads = [head.strip(_AROUND).lower() for head in found[1].split(",")]
        end = found.end()
        for head in heads:
            if not (value := _SQL_VALUE.match(text, end)):
                break
            end = value.end()
            is_secret = head.endswith(_SECRET_NAMES)
            if is_secret and value[1] and is_url_password(value[1]):
                yield Place(*value.span(1), "password")


def _end(text: str, start: int) -> int:
    end = text.find("\n", start)
    return end if end >= 0 else len(text)


_INSERTS = re.compile(
    r"insert\s{1,8}(?:ignore\s{1,8})?into\s{1,8}[^\s(]{1,120}\s{0,8}\(([^()]{1,600})\)\s{0,8}"
    r"values\s{0,8}\(",
    re.IGNORECASE,
)
_SQL_VALUE = re.compile(
    r"\s{0,8}(?:N?'((?:[^'\n]|''){0,256})'|[^,()'\n]{1,128}(?:\([^()\n]{0,256}\))?)\s{0,8}[,)]"
)
_HEADED = (
    rf"(?:^|[\n,;\t{_DRAWN}]|  )[ \t\"'*`]{{0,4}}(?:{_HEADINGS})[ \t\"'*`]{{0,32}}"
    rf"(?:$|[\r\n,;\t{_DRAWN}]|  )"
)
FINDERS: tuple[SecretFinder, ...] = (
    SecretFinder(f"(?i:{_HEADED})", partial(_columns, spots=Spots(_HEADED))),
    SecretFinder(r"(?i:insert\s)", partial(_inserted, spots=Spots(r"\binsert\s"))),
)
"""The finders of secrets in the columns of tables and of SQL."""
