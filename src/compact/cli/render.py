"""Prints the output of commands (`parts`). No other module of the command line knows Rich's tables
and texts.

Output also works on terminals without Unicode or colours. Text of a conversation cannot steer the
terminal.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Literal, TextIO

from rich import box, table
from rich.console import Console as Console
from rich.text import Text

from compact.cli import output
from compact.cli.parts import (
    OTHER,
    PARTS,
    Aside,
    Bar,
    Cell,
    Data,
    Part,
    Report,
    Shown,
    Styled,
    Table,
)
from compact.cli.words import visible, wants_colour

NARROW = 100
"""Width in columns if stdout is not a terminal and $COLUMNS is not set."""
LONGEST_WIDTH = 5
"""A $COLUMNS of this many digits or more is ignored."""
WIDE = 1_000
"""Width in columns of a list outside a terminal, so large that no id wraps."""


def print_report(report: Report, *, as_json: bool) -> None:
    """Print the output of a command: its value as JSON, or its parts."""
    for value in report:
        if as_json:
            output.print_json(value)
        break
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
    """Return the width if the stream is not a terminal: $COLUMNS, else stderr's width if a pager
    shows colours, else `NARROW`. Return None for a terminal, as Rich finds its width out.
    """
    if stream is not None and stream.isatty():
        return None
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and len(columns) < LONGEST_WIDTH and int(columns):
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
            out.print(Text(visible(part.text), style=part.style), no_wrap=True, overflow="ellipsis")
        case Styled():
            out.print(Text(visible(part.text), style=part.style), soft_wrap=True)
        case _:
            out.print(Text(visible(part)))


def _draw_table(out: Console, content: Table) -> None:
    drawn = table.Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold", show_edge=False)
    drawn.show_header = any(content.columns)
    if content.is_list and not out.file.isatty():
        out.width = WIDE
    for name in content.columns:
        justify: Literal["left", "right"] = "right" if name in content.right else "left"
        is_whole = name in content.right or name in content.whole
        drawn.add_column(name, justify=justify, no_wrap=is_whole, overflow="fold")
    for row in content.rows:
        drawn.add_row(*(_cell(cell) for cell in row))
    out.print(drawn)


def _cell(value: Cell) -> Text:
    match value:
        case Styled():
            return Text(visible(value.text), style=value.style)
        case int():
            return Text(f"{value:,}")
    return Text(visible(value or ""))


def bar(parts: Mapping[str, int], total: int, width: int, *, ascii_only: bool) -> Text:
    """Return the parts of a total side by side. A part with tokens gets at least one cell."""
    sizes = _sizes(list(parts.values()), total, width)
    text = Text()
    cells = _cells(parts, ascii_only=ascii_only)
    for (_, cell, style), size in zip(cells, sizes, strict=True):
        text.append(cell * size, style=style)
    return text


def _cells(parts: Mapping[str, int], *, ascii_only: bool) -> Iterator[tuple[str, str, str]]:
    for name in parts:
        look = PARTS.get(name, OTHER)
        yield name, look.plain_mark if ascii_only else look.mark, look.style


def _sizes(parts: Sequence[int], total: int, width: int) -> list[int]:
    if total <= 0 or not parts:
        return [0] * len(parts)
    sizes = [max(1, round(tokens * width / total)) if tokens else 0 for tokens in parts]
    while sum(sizes) != width and any(sizes):
        largest = sizes.index(max(sizes))
        sizes[largest] += 1 if sum(sizes) < width else -1
    return sizes


def legend(parts: Mapping[str, int], width: int, *, ascii_only: bool) -> Text:
    """Return the names and tokens of the parts, wrapped at the width."""
    text = Text()
    used = 0
    for name, cell, style in _cells(parts, ascii_only=ascii_only):
        if not parts[name]:
            continue
        words = f" {name} {parts[name]:,}"
        if used:
            gap = "\n" if used + len(words) + 4 > width else "   "
            text.append(gap)
            used = 0 if gap == "\n" else used + len(gap)
        text.append(cell, style=style)
        text.append(words)
        used += len(words) + 1
    return text
