"""Prints the output of commands: a value for machines, or parts for people.

A command is a generator. With `--json` its first value is printed as JSON. Otherwise the parts
after it are drawn. They also work on terminals without Unicode or colours. No text of a
conversation can send control codes to the terminal.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, TextIO

from rich import box, table
from rich.console import Console
from rich.text import Text

from compact.cli import output
from compact.cli.words import visible, wants_colour

NARROW = 100
"""Width in columns if stdout is not a terminal and $COLUMNS is not set."""
WIDE = 1_000
"""The width of a list outside a terminal, in columns. It is so large that no id wraps."""


class PartStyle(NamedTuple):
    """How a part of a window is drawn. Each has its own mark, so that colours are not needed."""

    style: str
    mark: str
    plain_mark: str
    """The mark for terminals without Unicode."""


PARTS: Mapping[str, PartStyle] = {
    "system": PartStyle("blue", "█", "#"),
    "tools and framing": PartStyle("bright_blue", "▐", "|"),
    "record": PartStyle("bright_green", "▓", "%"),
    "checkpoint": PartStyle("green", "▒", "+"),
    "pinned": PartStyle("cyan", "▚", "*"),
    "memory": PartStyle("magenta", "▞", "~"),
    "recent": PartStyle("yellow", "▄", "="),
    "free": PartStyle("bright_black", "░", "."),
}
"""Part of a window → how it is drawn."""


class Styled(NamedTuple):
    """A text with its own line breaks. The terminal wraps long lines, but cuts a row (`is_row`). A
    pipe gets the whole row.
    """

    text: str
    style: str = ""
    is_row: bool = False


Cell = str | int | Styled | None


class Table(NamedTuple):
    """A plain table. Long cells wrap. Columns in `right` hold numbers. Columns in `whole` never
    wrap. With `is_list`, no column wraps outside a terminal: scripts want an id on one line.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    right: Sequence[str] = ()
    whole: Sequence[str] = ()
    is_list: bool = False


class Bar(NamedTuple):
    """The parts of a window side by side, with a legend."""

    parts: Mapping[str, int]
    total: int


Shown = str | Styled | Table | Bar
"""A part of the output for people. A plain string is prose, and wraps at the width."""


class Data(NamedTuple):
    """A line for the next command in a pipe. It is printed unchanged."""

    text: str


class Aside(NamedTuple):
    """A part that is printed on stderr."""

    part: Shown


Part = Shown | Data | Aside
Report = Iterator[Any]
"""The output of a command: first a value for JSON, then the parts for people."""


def print_report(report: Report, *, as_json: bool) -> None:
    """Print the output of a command: its value as JSON, or its parts."""
    value = next(report, None)
    if as_json and value is not None:
        output.print_json(value)
    for part in report:
        if not as_json:
            print_part(part)


def print_part(part: Part) -> None:
    """Print one part."""
    match part:
        case Data():
            output.print_data(part.text + "\n")
        case Aside():
            if sys.stderr is not None:
                _draw(console(on_stderr=True), part.part)
        case _:
            _draw(console(), part)


def console(*, on_stderr: bool = False) -> Console:
    """Return the console for stdout or stderr."""
    stream = sys.stderr if on_stderr else sys.stdout
    coloured = wants_colour(stream)
    return Console(
        file=stream,
        width=_width_of(stream, coloured=coloured),
        highlight=False,
        force_terminal=coloured or None,
        color_system="auto" if coloured else None,
    )


def _width_of(stream: TextIO | None, *, coloured: bool) -> int | None:
    """Return the width in columns. Return None for a terminal, because Rich finds its width.
    Outside a terminal it is $COLUMNS, else stderr's width if a pager shows colours, else `NARROW`.
    """
    if stream is not None and stream.isatty():
        return None
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and len(columns) < 5 and int(columns):  # no screen has 10,000 columns
        return int(columns)
    if coloured and sys.stderr is not None and sys.stderr.isatty():
        with suppress(OSError):
            return os.get_terminal_size(sys.stderr.fileno()).columns
    return NARROW


def _draw(out: Console, part: Shown) -> None:
    match part:
        case Table():
            _draw_table(out, part)
        case Bar():
            width, ascii_only = min(out.width, 100), out.options.ascii_only
            out.print(bar(part.parts, part.total, width, ascii_only=ascii_only))
            out.print(legend(part.parts, width, ascii_only=ascii_only))
        case Styled(is_row=True) if out.file.isatty():
            out.print(_cell(part), no_wrap=True, overflow="ellipsis")
        case Styled():
            out.print(_cell(part), soft_wrap=True)
        case _:
            out.print(_cell(part))


def _draw_table(out: Console, content: Table) -> None:
    drawn = table.Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold", show_edge=False)
    drawn.show_header = any(content.columns)
    if content.is_list and not out.file.isatty():
        out.width = WIDE
    for name in content.columns:
        is_number = name in content.right
        is_whole = is_number or name in content.whole
        justify: Any = "right" if is_number else "left"
        drawn.add_column(name, justify=justify, no_wrap=is_whole, overflow="fold")
    for row in content.rows:
        drawn.add_row(*map(_cell, row))
    out.print(drawn)


def _cell(value: Cell) -> Text:
    match value:
        case Styled():
            return Text(visible(value.text), style=value.style)
        case int():
            return Text(f"{value:,}")
    return Text(visible(value or ""))


def bar(parts: Mapping[str, int], total: int, width: int, *, ascii_only: bool) -> Text:
    """Return the parts of a total side by side. A part that has tokens gets at least one cell."""
    sizes = [
        max(1, round(size * width / total)) if size and total > 0 else 0 for size in parts.values()
    ]
    while sum(sizes) != width and any(sizes):
        sizes[sizes.index(max(sizes))] += 1 if sum(sizes) < width else -1
    text = Text()
    for name, size in zip(parts, sizes, strict=True):
        text.append(_mark(name, ascii_only=ascii_only) * size, style=PARTS[name].style)
    return text


def _mark(name: str, *, ascii_only: bool) -> str:
    return PARTS[name].plain_mark if ascii_only else PARTS[name].mark


def legend(parts: Mapping[str, int], width: int, *, ascii_only: bool) -> Text:
    """Return the names and tokens of the parts, wrapped at the width."""
    text, used = Text(), 0
    for name in filter(parts.get, parts):
        words = f" {name} {parts[name]:,}"
        if used + len(words) + 4 > width and used:
            text.append("\n")
            used = 0
        elif used:
            text.append("   ")
            used += 3
        text.append(_mark(name, ascii_only=ascii_only), style=PARTS[name].style)
        text.append(words)
        used += len(words) + 1
    return text
