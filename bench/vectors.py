"""Vectors: our store beside a matrix in numpy, sqlite-vec's table and peers' stores, on the same
384 dimensions: the nearest of all, the nearest of one in a hundred, adding, opening, bytes.

Each store runs in a fresh process; the numbers are wall times of two hundred questions.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench import peers, vector_ours, vector_work
from bench.measuring import REPO_ROOT, CannotMeasure, Check, Setting, Table, number
from bench.vector_work import BEST, GROUPS

DIMENSIONS = 384
SIZES = (10_000, 100_000)
QUESTIONS = 200
PATIENCE = 1_200
OURS = "VectorStore.similar"
PEERS = ("sqlite-vec vec0", "chromadb", "lancedb")
MOST_MS, MOST_FILTERED_MS, LEAST_RECALL = 6.0, 0.5, 0.99
MOST_OPEN_MS, MOST_FIRST_MS = 50.0, 500.0
Matrix = NDArray[np.float32]


def measure(setting: Setting) -> list[Table]:
    """A table for each size."""
    kinds = [("bench.vector_work", name) for name in vector_work.STORES]
    kinds += [("bench.vector_ours", name) for name in vector_ours.STORES]
    note = ""
    if setting.peers:
        try:
            found = peers.vector_versions()
            kinds += [("bench.vector_peers", name) for name in PEERS]
            note = ", ".join(f"{name} {version}" for name, version in found.items()) + "."
        except peers.NoPeers as reason:
            note = f"Peers left out: {reason}."
    sizes = SIZES[:1] if setting.quick else SIZES
    return [_table(size, kinds, note) for size in sizes]


def _table(size: int, kinds: list[tuple[str, str]], note: str) -> Table:
    table = Table(
        f"{size:,} vectors of {DIMENSIONS} numbers, wall ms of a question",
        ("who", "among all: median", "95 of 100", "recall@10", "among one in a hundred: median",
         "95 of 100", "recall@10", "added a second", "MB on disk", "opening, ms",
         "first question, ms"),
        notes=[
            "Rows have the falling spectrum and the crowding of real embeddings; questions are "
            "rows of the same kind that are not stored. Ours is added with its messages. " + note
        ],
    )  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="vectors") as named:
        data = Path(named)
        write(data, size)
        for module, name in kinds:
            record = _run(module, name, data)
            table.rows.append(_row(name, record, size))
            if name == OURS:
                table.checks += _limits(record, size)
    return table


def _row(name: str, record: dict[str, Any], size: int) -> tuple[str, ...]:
    figures: list[str] = []
    for kind in ("all", "group"):
        taken = sorted(record[kind])
        figures += [number(statistics.median(taken)), number(taken[int(0.95 * len(taken))])]
        figures.append(f"{record[f'{kind}_recall']:.3f}")
    return (
        name,
        *figures,
        number(size / record["adding"]),
        number(record["bytes"] / 1e6),
        number(record["open"]),
        number(record["first"]),
    )


def _limits(record: dict[str, Any], size: int) -> list[Check]:
    missed = {kind: 1 - record[f"{kind}_recall"] for kind in ("all", "group")}
    return [
        Check(f"{size:,}: among all", statistics.median(record["all"]), MOST_MS, " ms"),
        Check(f"{size:,}: of a group", statistics.median(record["group"]), MOST_FILTERED_MS, " ms"),
        Check(f"{size:,}: missed among all", missed["all"], 1 - LEAST_RECALL),
        Check(f"{size:,}: missed of a group", missed["group"], 1 - LEAST_RECALL),
        Check(f"{size:,}: opening", record["open"], MOST_OPEN_MS, " ms"),
        Check(f"{size:,}: first question", record["first"], MOST_FIRST_MS, " ms"),
    ]


def write(folder: Path, size: int) -> None:
    """The rows, the questions, and what comparing all finds, as files."""
    made = drawn(size + QUESTIONS)
    rows, questions = made[:size], made[size:]
    each = size // GROUPS
    truth: dict[str, list[list[int]]] = {"all": [], "group": []}
    for at, question in enumerate(questions):
        first = at % GROUPS * each
        for kind, start, part in (("all", 0, rows), ("group", first, rows[first : first + each])):
            best = np.argsort(-(part @ question))[:BEST]
            truth[kind].append([int(start + i) for i in best])
    np.save(folder / "rows.npy", rows)
    np.save(folder / "questions.npy", questions)
    (folder / "truth.json").write_text(json.dumps(truth))


def drawn(size: int, seed: int = 7) -> Matrix:
    """Rows like those of real texts: numbers of falling weight, crowded around subjects of falling
    frequency, in a direction that all share.
    """
    rng = np.random.default_rng(seed)
    weights = (1.0 + np.arange(DIMENSIONS)) ** -0.4
    turn, _ = np.linalg.qr(rng.standard_normal((DIMENSIONS, DIMENSIONS)))
    subjects = rng.standard_normal((4_000, DIMENSIONS)) * weights
    shares = 1.0 / (10.0 + np.arange(len(subjects)))
    of = rng.choice(len(subjects), size, p=shares / shares.sum())
    rows = subjects[of] + rng.standard_normal((size, DIMENSIONS)) * weights
    rows = rows @ turn.T + 0.05
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    found: Matrix = rows.astype(np.float32)
    return found


def _run(module: str, name: str, data: Path) -> dict[str, Any]:
    print(f"-- {time.strftime('%H:%M:%S')} {name}", file=sys.stderr, flush=True)
    python = str(peers.VECTORS_PYTHON) if module == "bench.vector_peers" else sys.executable
    env = os.environ | {"PYTHONPATH": os.pathsep.join((str(REPO_ROOT), str(REPO_ROOT / "src")))}
    command = [python, "-m", "bench.vector_work", module, name, str(data)]
    done = subprocess.run(
        command, capture_output=True, text=True, env=env, check=False, timeout=PATIENCE
    )
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or ["no reason given"]
        raise CannotMeasure(f"{name} failed: {last[0]}")
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found
