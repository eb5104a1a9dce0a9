"""One store of vectors, one run: what it is asked to do, timed. Executed by the Python of the store
that is measured, ours or the peers'; needs numpy, and the store.

A run adds all vectors in batches, opens the store anew, and asks each question twice: among all,
and among the hundredth of the vectors that belong to its group. What is found is compared with what
comparing all finds. Times are wall times.
"""

from __future__ import annotations

import gc
import importlib
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

BATCH = 1_000
BEST = 10
GROUPS = 100
"""Vectors are of so many groups, one after the other."""


class Vectors:
    """A store of vectors in a folder of its own, opened. A vector's number says which it is; its
    group is the number divided by `each`.
    """

    def __init__(self, folder: Path, dimensions: int, each: int) -> None:
        self.folder = folder
        self.dimensions = dimensions
        self.each = each

    def add(self, start: int, rows: Any) -> None:  # noqa: ANN401 - a matrix
        """Store rows, durably; the first has that number."""
        raise NotImplementedError

    def nearest(self, vector: Any, group: int | None) -> list[int]:  # noqa: ANN401 - as above
        """The numbers of the `BEST` nearest vectors, of a group or of all."""
        raise NotImplementedError

    def added(self) -> None:
        """All were added: what is made afterwards is made here."""

    def close(self) -> None:
        """Close it."""


class Scan(Vectors):
    """A matrix in memory, compared whole: the floor."""

    def __init__(self, folder: Path, dimensions: int, each: int) -> None:
        super().__init__(folder, dimensions, each)
        file = folder / "rows.npy"
        self.rows = np.load(file) if file.exists() else np.empty((0, dimensions), np.float32)

    def add(self, start: int, rows: Any) -> None:  # noqa: ANN401 - as above
        self.rows = np.concatenate([self.rows, rows]) if start else rows

    def added(self) -> None:
        np.save(self.folder / "rows.npy", self.rows)

    def nearest(self, vector: Any, group: int | None) -> list[int]:  # noqa: ANN401 - as above
        first = 0 if group is None else group * self.each
        rows = self.rows if group is None else self.rows[first : first + self.each]
        cosines = rows @ vector
        best = np.argpartition(-cosines, BEST)[:BEST]
        return [int(first + i) for i in best]


def run(make: Callable[[Path, int, int], Vectors], data: Path) -> dict[str, Any]:
    """Everything that is measured of one store, in one go."""
    rows, questions = np.load(data / "rows.npy"), np.load(data / "questions.npy")
    truth = json.loads((data / "truth.json").read_text())
    each = len(rows) // GROUPS
    with tempfile.TemporaryDirectory(prefix="vectors") as named:
        folder = Path(named)
        store = make(folder, rows.shape[1], each)
        started = time.perf_counter()
        for start in range(0, len(rows), BATCH):
            store.add(start, rows[start : start + BATCH])
        store.added()
        record: dict[str, Any] = {"adding": time.perf_counter() - started}
        store.close()
        record["bytes"] = sum(f.stat().st_size for f in folder.rglob("*") if f.is_file())
        del store
        gc.collect()
        record["open"], store = timed(lambda: make(folder, rows.shape[1], each))
        record["first"], _ = timed(lambda: store.nearest(questions[0], None))
        for kind in ("all", "group"):
            taken, hits = [], 0
            for at, question in enumerate(questions):
                group = None if kind == "all" else at % GROUPS
                ms, found = timed(lambda q=question, g=group: store.nearest(q, g))  # type: ignore[misc]
                taken.append(ms)
                hits += len(set(found[:BEST]) & set(truth[kind][at]))
            record[kind] = taken
            record[f"{kind}_recall"] = hits / (BEST * len(questions))
        store.close()
    return record


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Wall milliseconds of some work, and what it gave."""
    started = time.perf_counter()
    found = work()
    return (time.perf_counter() - started) * 1e3, found


STORES: dict[str, Callable[[Path, int, int], Vectors]] = {"numpy scan": Scan}


def main(module: str, kind: str, data: str) -> None:
    make = importlib.import_module(module).STORES[kind]
    print(json.dumps(run(make, Path(data))))


if __name__ == "__main__":
    main(*sys.argv[1:])
