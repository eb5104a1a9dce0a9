"""What commands tell: first a value for machines, then parts for a person. Needs nothing but
Python.

A command is a generator. Its first value is printed where `--json` was given, and the parts are
drawn by `render` where it was not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple


class Look(NamedTuple):
    """How a part of a window is drawn: each by a mark of its own, so that a bar is read without
    colours, too.
    """

    style: str
    mark: str
    plain_mark: str
    """Where the terminal has no Unicode."""


PARTS: Mapping[str, Look] = {
    "system": Look("blue", "█", "#"),
    "tools and framing": Look("bright_blue", "▐", "|"),
    "record": Look("bright_green", "▓", "%"),
    "checkpoint": Look("green", "▒", "+"),
    "pinned": Look("cyan", "▚", "*"),
    "memory": Look("magenta", "▞", "~"),
    "recent": Look("yellow", "▄", "="),
    "free": Look("bright_black", "░", "."),
}
"""The parts of a window."""
OTHER = Look("", "■", "o")
"""Of a part that is none of these."""


class Styled(NamedTuple):
    """A text as it is, its own line ends included; the terminal breaks what is too wide, unless it
    is one row: a terminal cuts that, a pipe gets it whole.
    """

    text: str
    style: str = ""
    is_row: bool = False


Cell = str | int | Styled | None


class Table(NamedTuple):
    """A plain table; the columns named in `right` hold numbers. What is wider than its column goes
    on in the next line. Columns named in `whole` are as wide as what they hold, and in a file all
    are where it `is_list`: whoever reads ids from a pipe wants them on one line.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    right: Sequence[str] = ()
    whole: Sequence[str] = ()
    is_list: bool = False


class Bar(NamedTuple):
    """The parts of a total side by side, and below it what they are."""

    parts: Mapping[str, int]
    total: int


Shown = str | Styled | Table | Bar
"""What a person sees; a plain text is prose, which is broken at the width."""


class Data(NamedTuple):
    """A line that the next command may want, as it is."""

    text: str


class Aside(NamedTuple):
    """What is said on standard error, beside the result."""

    part: Shown


Part = Shown | Data | Aside
Telling = Iterator[Any]
"""A value for JSON, then parts."""
