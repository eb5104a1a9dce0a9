"""Part `undo`: two processes undo, redo, append, branch and compress on one session at once."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

from evals.attack.found import Found
from evals.attack.writer import Desk, begun, rows_of, wrong_in

SECONDS = {"tiny": 0.5, "small": 20.0, "full": 600.0}
LIFE = 20.0
"""Seconds on one session; then another one is begun, as its history grows."""


def run(seed: int, size: str, seconds: float | None = None) -> list[Found]:
    """Let two writers work for so long."""
    rng, found, typed = random.Random(f"undo {seed}"), Found("undo"), Counter[str]()
    left = SECONDS[size] if seconds is None else seconds
    with TemporaryDirectory() as place:
        while left > 0:
            folder = Path(place) / str(left)
            folder.mkdir()
            desks = [Desk(folder, "s", name) for name in "ab"]
            writers = [begun(desk, rng.getrandbits(30), min(left, LIFE)) for desk in desks]
            for writer, desk in zip(writers, desks, strict=True):
                writer.join(LIFE + 60)
                if writer.exitcode != 0:
                    found.bad.append(f"a writer ended with {writer.exitcode} | {desk.name}")
                    writer.kill()
            rows = [row for desk in desks for row in rows_of(desk)]
            found.tried += len(rows)
            typed.update(f"{row['typed']} {row['during']}" for row in rows if "typed" in row)
            found.bad += [f"untyped error: {row['untyped']}" for row in rows if "untyped" in row]
            found.bad += wrong_in(desks)
            left -= LIFE
    found.note = "typed: " + (
        ", ".join(f"{what} {n}" for what, n in typed.most_common(6)) or "none"
    )
    return [found]
