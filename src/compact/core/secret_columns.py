"""Secrets in tables: the values below a heading that names one, in CSV, tab-separated and drawn
tables.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from functools import partial

from compact.core.credentials import Place, SecretFinder
from compact.core.near_names import words_of
from compact.core.occurring import Spots
from compact.core.secret_values import is_bare_password, is_number

_ROWS = 1_000
"""Rows of a table that are looked at."""
_DRAWN = "|│┃║"
_CELLS = tuple(
    re.compile(rf"(?m:^|[{mark}]{'+' * (mark == _DRAWN)}) *(\"(?:[^\"\n]|\"\")*\"|[^{mark}\n]*)")
    for mark in (",", ";", "\t", _DRAWN)
)
"""A cell, by what stands between two."""
_RULED = re.compile(r"[^\w\n,;\t|│┃║]+\n|[|+][-+=:| ]+\n")
"""A line between two rows."""
_AROUND = " \t\"'`*\r_#"
_NAMES = frozenset((*words_of("password"), "pwd", "pass", "pw"))
_HEADINGS = "|".join(sorted(map(re.escape, _NAMES)))


def _columns(text: str, spots: Spots) -> Iterator[Place]:
    least = 0
    for spot in spots.of(text):
        start = spot + 1 if text[spot] == "\n" else text.rfind("\n", 0, spot) + 1
        if start >= least:
            least = yield from _table(text, start)


def _table(text: str, start: int) -> Generator[Place, None, int]:
    """The secrets of the table that is headed there; returns where it ends."""
    end = _end(text, start)
    for cells in _CELLS:
        heads = [found[1].strip(_AROUND).lower() for found in cells.finditer(text, start, end)]
        told = [i for i, head in enumerate(heads) if head in _NAMES]
        if told and len(heads) > 1 and not any(head[:1].isdigit() for head in heads):
            break
    else:
        return end
    for _ in range(_ROWS):
        start, end = end + 1, _end(text, end + 1)
        if _RULED.match(text, start):
            continue
        row = list(cells.finditer(text, start, end))
        if len(row) <= max(1, told[0]):
            break
        for cell in (row[i] for i in told if i < len(row)):
            value = cell[1].strip(_AROUND)
            if "=" not in value.rstrip("=") and (is_bare_password(value) or is_number(value)):
                at = cell.start(1) + cell[1].find(value)
                yield Place(at, at + len(value), "password")
    return start


def _end(text: str, start: int) -> int:
    end = text.find("\n", start)
    return end if end >= 0 else len(text)


_HEADED = (
    rf"(?:^|[\n,;\t{_DRAWN}])[ \t\"'*`]{{0,4}}(?:{_HEADINGS})[ \t\"'*`]{{0,32}}"
    rf"(?:$|[\r\n,;\t{_DRAWN}])"
)
FINDERS = (SecretFinder(f"(?i:{_HEADED})", partial(_columns, spots=Spots(_HEADED))),)
"""Of what stands in a column."""
