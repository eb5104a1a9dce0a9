"""Part `kills`: a writer dies at a random instant, again and again; nothing that was acknowledged
is lost, and the session is sound and serves.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from evals.attack.found import Found
from evals.attack.writer import Desk, begun, rows_of, wrong_in

KILLS = {"tiny": 2, "small": 25, "full": 300}
EACH_FILE = 25
"""Kills after which a new file is begun, so that its making is hit, too."""
SHORTEST, LONGEST = 0.01, 1.5
"""Seconds that a writer lives; as many live short as long, by the logarithm."""


def run(seed: int, size: str) -> list[Found]:
    """Kill so many writers."""
    rng, found = random.Random(f"kills {seed}"), Found("kills")
    acts = 0
    with TemporaryDirectory() as place:
        for number in range(KILLS[size]):
            folder = Path(place) / str(number // EACH_FILE)
            folder.mkdir(exist_ok=True)
            desk = Desk(folder, "s", f"w{number}")
            found.trying(_killed(desk, rng))
            acts += len(rows_of(desk))
    found.note = f"{acts:,} calls before the kills"
    return [found]


def _killed(desk: Desk, rng: random.Random) -> Iterator[str]:
    life = SHORTEST * (LONGEST / SHORTEST) ** rng.random()
    writer = begun(desk, rng.getrandbits(30), seconds=60)
    time.sleep(life)
    os.kill(writer.pid or 0, signal.SIGKILL)
    writer.join()
    yield from (f"untyped error: {row['untyped']}" for row in rows_of(desk) if "untyped" in row)
    before = [Desk(desk.folder, desk.session, p.stem) for p in desk.folder.glob("*.jsonl")]
    yield from wrong_in([desk, *before])
