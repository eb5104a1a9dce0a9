"""The command `python -m evals attack`: runs the parts that are named, or all; prints a table."""

from __future__ import annotations

import argparse
import importlib
import sys
import time

from evals.attack.found import WORST, Found, table

PARTS = {
    "kills": "kills",
    "shapes": "shapes",
    "time": "doubling",
    "secrets": "planted",
    "voices": "voices",
    "undo": "undoing",
}
"""Each part and its module."""
SEED = 7


def run(part: str, seed: int, size: str) -> list[Found]:
    """The rows of a part."""
    rows: list[Found] = importlib.import_module(f"evals.attack.{PARTS[part]}").run(seed, size)
    return rows


def main(argv: list[str] | None = None) -> int:
    """Run; 1 where anything is bad."""
    parser = argparse.ArgumentParser(prog="python -m evals attack", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}")
    parser.add_argument("--seed", type=int, default=SEED, help=f"draws all cases (default {SEED})")
    parser.add_argument("--size", choices=("small", "full"), default="small")
    parser.add_argument("--worst", type=int, default=WORST, help="cases printed of each row")
    options = parser.parse_args(argv)
    if unknown := [part for part in options.parts if part not in PARTS]:
        parser.error(f"no part {unknown[0]!r}; there are {', '.join(PARTS)}")
    print(f"# attack: seed {options.seed}, size {options.size}", flush=True)
    rows: list[Found] = []
    for part in options.parts or PARTS:
        start = time.monotonic()
        rows += run(part, options.seed, options.size)
        print(f"{part}: {time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)
    print(table(rows, options.worst), flush=True)
    return 1 if any(row.bad for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
