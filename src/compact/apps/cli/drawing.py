"""What a person sees is drawn with: the console, tables, the bar of a window.

Everything is shown on a terminal without Unicode or colours too, and nothing a conversation holds
can steer the terminal.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text as Text

from compact.apps.cli.words import counted as counted
from compact.apps.cli.words import one_line as one_line
from compact.apps.cli.words import visible as visible
from compact.apps.cli.words import whole as whole

NARROW = 100
"""Columns where the output is no terminal and COLUMNS says nothing."""

LONGEST_WIDTH = 5
"""Digits beyond which COLUMNS is no number of columns."""


@dataclass(frozen=True)
class Part:
    """A part of a bar: its name, its tokens and its look."""

    name: str
    tokens: int
    style: str = ""


_CELLS = "█▓▒░"
_PLAIN_CELLS = "#+=."
STYLES: Mapping[str, str] = {
    "system": "blue",
    "tools and framing": "bright_blue",
    "checkpoint": "green",
    "pinned": "cyan",
    "recent": "yellow",
    "free": "bright_black",
}


def console(*, on_stderr: bool = False) -> Console:
    """The console of a report."""
    stream = sys.stderr if on_stderr else sys.stdout
    said = os.environ.get("COLUMNS", "")
    width = int(said) if said.isdecimal() and len(said) < LONGEST_WIDTH else 0
    if stream is not None and stream.isatty():
        return Console(file=stream, highlight=False)
    return Console(file=stream, width=width or NARROW, highlight=False)


def tell(text: str, *, style: str = "") -> None:
    """Say one thing to a person on stderr, on one line however long it is."""
    console(on_stderr=True).print(Text(one_line(text, 400), style=style), soft_wrap=True)


def table(*columns: str, right: Sequence[str] = ()) -> Table:
    """A plain table; the columns named in `right` hold numbers. What is wider than its column goes
    on in the next line: nothing is cut.
    """
    made = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold", show_edge=False)
    for name in columns:
        numeric = name in right
        justify: Literal["left", "right"] = "right" if numeric else "left"
        made.add_column(name, justify=justify, no_wrap=numeric, overflow="fold")
    return made


def bar(parts: Sequence[Part], total: int, width: int, *, ascii_only: bool) -> Text:
    """The parts of a total side by side; every part that has tokens has at least one cell."""
    cells = _PLAIN_CELLS if ascii_only else _CELLS
    text = Text()
    for index, (part, size) in enumerate(zip(parts, _sizes(parts, total, width), strict=True)):
        cell = cells[-1] if part.name == "free" else cells[index % (len(cells) - 1)]
        text.append(cell * size, style=part.style)
    return text


def _sizes(parts: Sequence[Part], total: int, width: int) -> list[int]:
    """Cells of each part; together exactly the width."""
    if total <= 0 or not parts:
        return [0] * len(parts)
    sizes = [max(1, round(part.tokens * width / total)) if part.tokens else 0 for part in parts]
    while sum(sizes) != width and any(sizes):
        largest = sizes.index(max(sizes))
        sizes[largest] += 1 if sum(sizes) < width else -1
    return sizes


def legend(parts: Sequence[Part], width: int, *, ascii_only: bool) -> Text:
    """The names and tokens of a bar's parts, each behind its cell, in lines of that width."""
    cells = _PLAIN_CELLS if ascii_only else _CELLS
    text = Text()
    used = 0
    for index, part in enumerate(parts):
        if not part.tokens:
            continue
        cell = cells[-1] if part.name == "free" else cells[index % (len(cells) - 1)]
        words = f" {part.name} {part.tokens:,}"
        if used:
            gap = "\n" if used + len(words) + 4 > width else "   "
            text.append(gap)
            used = 0 if gap == "\n" else used + len(gap)
        text.append(cell, style=part.style)
        text.append(words)
        used += len(words) + 1
    return text


def share_bar(share: float, width: int, *, ascii_only: bool) -> str:
    """A share of 1 as a bar."""
    filled = max(round(share * width), 1 if share else 0)
    return ("#" if ascii_only else "█") * filled
