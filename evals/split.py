"""Which conversations are looked at while building and which are only scored, and the tables that
keep the two apart.

The last hex digit of the SHA-256 of a session's name decides: even is looked at, odd is scored. The
name is the stem of its file or, where a file holds many conversations, the conversation's id.
Numbers of both parts are published; texts of the scored one are never printed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, Protocol, TypeVar

Half = Literal["look", "score"]
Cell = float | str | None
"""A number, words, or None where there is nothing to say."""
HALVES: tuple[Half, ...] = ("look", "score")
TUNED_ON = frozenset({"claude_code_sessions"})
"""Folders that were tuned on before there was a split: always looked at."""


class Halved(Protocol):
    """A result that belongs to one of the two parts."""

    @property
    def half(self) -> Half:
        """Which one."""
        ...


T = TypeVar("T", bound=Halved)


def half_of(name: str, *, folder: str = "") -> Half:
    """The part that a session belongs to."""
    if folder in TUNED_ON:
        return "look"
    return HALVES[int(hashlib.sha256(name.encode()).hexdigest()[-1], 16) % 2]


def columns(
    results: Sequence[T], measures: Mapping[str, Callable[[Sequence[T]], Cell]]
) -> dict[str, dict[Half, Cell]]:
    """Each measure of the results of each part; None where a part has no result."""
    parts = {half: [each for each in results if each.half == half] for half in HALVES}
    return {
        name: {half: measure(part) if part else None for half, part in parts.items()}
        for name, measure in measures.items()
    }


def table(title: str, found: Mapping[str, Mapping[Half, Cell]]) -> str:
    """The columns side by side, each measure in a line under the title."""
    width = max(map(len, (title, *found)))
    rows = [
        f"{name:{width}}" + "".join(f"  {shown(cells[half]):>12}" for half in HALVES)
        for name, cells in found.items()
    ]
    return "\n".join([f"{title:{width}}" + "".join(f"  {half:>12}" for half in HALVES), *rows])


def shown(cell: Cell) -> str:
    """A cell as it is printed: whole numbers whole, others to three places."""
    if cell is None:
        return "–"
    return (
        f"{cell:.3f}" if isinstance(cell, float) else f"{cell:,}" if isinstance(cell, int) else cell
    )
