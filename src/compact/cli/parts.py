"""The output of commands: first a value for machines, then parts for a person. Imports only the
standard library.

A command is a generator. With `--json` its first value is printed; otherwise `render` draws the
parts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple


class Look(NamedTuple):
    """How a part of a window is drawn. Each part has its own mark, so colours are not needed."""

    style: str
    mark: str
    plain_mark: str
    """The mark for terminals without Unicode."""


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
"""Part of a window → how it is drawn."""
OTHER = Look("", "■", "o")
"""How all other parts are drawn."""


class Styled(NamedTuple):
    """A text with its own line breaks. The terminal wraps long lines, but cuts a row (`is_row`). A
    pipe gets a row whole.
    """

    text: str
    style: str = ""
    is_row: bool = False


Cell = str | int | Styled | None


class Table(NamedTuple):
    """A plain table. Long cells wrap. Columns in `right` hold numbers; columns in `whole` never
    wrap. With `is_list`, no column wraps outside a terminal: scripts want an id on one line.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    right: Sequence[str] = ()
    whole: Sequence[str] = ()
    is_list: bool = False


class Bar(NamedTuple):
    """The parts of a total side by side, with a legend."""

    parts: Mapping[str, int]
    total: int


Shown = str | Styled | Table | Bar
"""What a person sees. A plain string is prose, and wraps at the width."""


class Data(NamedTuple):
    """Holds a line for the next command in a pipe. It is printed unchanged."""

    text: str


class Aside(NamedTuple):
    """Holds a part that goes to stderr."""

    part: Shown


Part = Shown | Data | Aside
Report = Iterator[Any]
"""A command's output: first a value for JSON, then the parts."""
