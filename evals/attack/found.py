"""What a part of the attack found, and the table of all parts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

WORST, WIDTH = 12, 150
"""Cases that are printed of a row, and the characters of each."""


@dataclass(slots=True)
class Found:
    """One row: what was tried, and a line for each that went wrong."""

    part: str
    tried: int = 0
    bad: list[str] = field(default_factory=list)
    note: str = ""

    def trying(self, wrong: Iterable[str]) -> None:
        """Count one more, bad where anything is wrong with it: its lines are one case."""
        self.tried += 1
        if lines := list(wrong):
            self.bad.append("; ".join(lines))


def table(rows: Sequence[Found], worst: int = WORST) -> str:
    """The rows, each with its worst cases below; the same words are told once, with their
    number.
    """
    width = max(len("part"), *(len(row.part) for row in rows))
    lines = [f"{'part':{width}}  {'tried':>7}  {'bad':>6}  worst cases"]
    for row in rows:
        lines.append(
            f"{row.part:{width}}  {row.tried:>7,}  {len(row.bad):>6,}  {row.note}".rstrip()
        )
        grouped = Counter(case.partition(" | ")[0] for case in row.bad)
        example = {case.partition(" | ")[0]: case for case in reversed(row.bad)}
        for kind, times in grouped.most_common(worst):
            shown = " ".join(example[kind].split()).encode("ascii", "backslashreplace").decode()
            lines.append(f"{'':{width}}  {times:>7,} × {shown[:WIDTH]}")
        if (left := len(grouped) - worst) > 0:
            lines.append(f"{'':{width}}  {left:>7,} kinds more")
    return "\n".join(lines)
