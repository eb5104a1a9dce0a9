"""One durable append, the last 50 messages, all of them, and bytes on disk: our store beside bare
SQLite and beside peers' stores, on the same messages.

Every store runs in fresh processes, in turn, round by round. Our own append is also held against
bare apsw within one process, block by block in turn: that ratio is the one with a limit.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from bench import peers, store_ours
from bench.histories import Record, history
from bench.measuring import REPO_ROOT, CannotMeasure, Check, Setting, Spread, Table, number
from bench.store_work import LAST, Store

MESSAGES = 10_000
ROUNDS = 3
CAP = 20.0
"""Seconds of appending after which a store is stopped."""
EDGE = 100
BLOCK = 50
MOST_RATIO = 1.5
FLAT = 1.5
SYNCS = (100, 600)
PATIENCE = 600
OURS, THEIRS = "bench.store_ours", "bench.store_peers"
PEERS = (
    "Agents SDK SQLiteSession",
    "Agents SDK AdvancedSQLiteSession",
    "LlamaIndex SQLiteChatStore",
    "LlamaIndex SQLiteChatStore, as it comes",
    "LangGraph SqliteSaver",
    "LangGraph SqliteSaver, DeltaChannel",
)
BARE = "bare apsw"
FLOORS = {"append": BARE, "add_message": BARE, "append normal": "bare apsw normal"}
LIMITED = {
    "append": "SQLiteManager.append ÷ bare apsw, synchronous = FULL",
    "add_message": "ContextManager.add_message ÷ bare apsw, synchronous = FULL",
}


def measure(setting: Setting) -> list[Table]:
    """First ours beside bare apsw, then everybody."""
    messages = history(2_000 if setting.quick else MESSAGES)
    table = beside(messages, ROUNDS if setting.quick else 5)
    return [table, *_everybody(messages, setting)]


def beside(messages: Sequence[Record], runs: int) -> Table:
    """Ours and bare apsw in one process, blocks of appends in turn."""
    table = Table(
        f"One durable append, {len(messages):,} messages, one process, blocks of {BLOCK} in turn, "
        "wall ms",
        ("who", "mean", "median", "÷ bare apsw (means)", "÷ bare apsw (medians)"),
    )
    taken = [in_blocks(messages) for _ in range(runs)]
    for name in taken[0]:
        floor = FLOORS.get(name, name)
        means = _each(statistics.mean, taken, name)
        middles = _each(statistics.median, taken, name)
        ratio = means.over(_each(statistics.mean, taken, floor))
        ratios = (ratio, middles.over(_each(statistics.median, taken, floor)))
        table.rows.append((name, *(spread.text() for spread in (means, middles, *ratios))))
        if name in LIMITED:
            table.checks.append(Check(LIMITED[name], ratio.median, MOST_RATIO))
    table.notes.append(
        "Bare apsw inserts the rows that ours makes, ready beforehand, into the same table. "
        "`add_message` also parses the provider's dictionary and counts its tokens exactly."
    )
    return table


def _each(
    of: Callable[[list[float]], float], taken: Sequence[dict[str, list[float]]], name: str
) -> Spread:
    return Spread(tuple(of(run[name]) for run in taken))


def in_blocks(
    messages: Sequence[Record],
    names: Sequence[str] = (
        "bare apsw",
        "append",
        "add_message",
        "bare apsw normal",
        "append normal",
    ),
) -> dict[str, list[float]]:
    """Milliseconds of each append, of several stores whose blocks of appends take turns."""
    with tempfile.TemporaryDirectory(prefix="stores") as folder:
        stores: dict[str, Store] = {}
        prepared: dict[str, list[Any]] = {}
        for number_of_store, name in enumerate(names):
            own = Path(folder) / str(number_of_store)
            own.mkdir()
            stores[name] = store_ours.STORES[name](own)
            prepared[name] = stores[name].prepared(list(messages))
        taken: dict[str, list[float]] = {name: [] for name in names}
        for start in range(0, len(messages), BLOCK):
            for name, store in stores.items():
                taken[name] += store.appended(prepared[name][start : start + BLOCK], PATIENCE)
        for store in stores.values():
            store.close()
    return taken


# --- everybody, in processes of their own ---------------------------------------------------------


def _everybody(messages: list[Record], setting: Setting) -> list[Table]:
    kinds = [(OURS, name) for name in store_ours.STORES]
    notes: list[str] = []
    if setting.peers:
        try:
            found = peers.store_versions()
            kinds += [(THEIRS, name) for name in PEERS]
            notes.append(", ".join(f"{name} {version}" for name, version in found.items()) + ".")
        except peers.NoPeers as reason:
            notes.append(f"Peers left out: {reason}.")
    runs: dict[str, list[dict[str, Any]]] = {name: [] for _, name in kinds}
    syncs: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "history.json"
        path.write_text(json.dumps(messages), encoding="utf-8")
        for _ in range(ROUNDS):
            for module, name in kinds:
                runs[name].append(_run(module, name, path))
        for module, name in kinds:
            syncs[name] = _syncs(module, name, path, Path(folder))
    size = sum(len(json.dumps(m, ensure_ascii=False).encode()) + 1 for m in messages) / 1e6
    appends, loads = _tables(runs, syncs, size, len(messages))
    appends.notes += notes
    return [appends, loads]


def _tables(
    runs: dict[str, list[dict[str, Any]]], syncs: dict[str, str], size: float, asked: int
) -> tuple[Table, Table]:
    appends = Table(
        f"Appending {asked:,} messages one by one, fresh processes, wall ms an append",
        ("who", "journal, synchronous", "syncs an append", "appended", "appends a second",
         "mean ms", "÷ bare apsw", f"first {EDGE}", f"last {EDGE}", "all in one call, ms"),
        notes=[
            f"First and last {EDGE}: median append. Stopped after {CAP:.0f} s of appending; "
            "`appended` is that of the fullest round."
        ],
    )  # fmt: skip
    loads = Table(
        f"Loading, and bytes on disk; {asked:,} messages, {size:.1f} MB as JSON lines",
        ("who", f"last {LAST}, ms", "÷ bare apsw", "the same, first after opening", "all, ms",
         "messages", "MB on disk", "with search index", "÷ JSON", "same messages"),
        notes=["Sizes are those of the files once closed, the log worked off."],
    )  # fmt: skip
    for name, rounds in runs.items():
        mean = Spread(tuple(statistics.mean(r["taken"]) for r in rounds))
        fullest = max(rounds, key=lambda r: len(r["taken"]))
        done = len(fullest["taken"])
        floor = runs[FLOORS.get(name, BARE)]
        ratio = mean.over(Spread(tuple(statistics.mean(r["taken"]) for r in floor)))
        last = Spread(tuple(r["last"] for r in rounds))
        speed = Spread(tuple(1e3 / value for value in mean.values))
        edges = [
            Spread(tuple(statistics.median(r["taken"][part]) for r in rounds)).text()
            for part in (slice(0, EDGE), slice(-EDGE, None))
        ]
        batch = Spread(tuple(r["batch"] for r in rounds)).text()
        settings = rounds[0]["settings"]
        appends.rows.append(
            (
                name,
                settings,
                syncs[name],
                f"{done:,}",
                speed.text(),
                mean.text(),
                ratio.text(),
                *edges,
                batch,
            )
        )
        disk = fullest["bytes"] / 1e6
        own = size * done / asked
        indexed = fullest.get("indexed_bytes")
        loads.rows.append(
            (
                name,
                last.text(),
                last.over(Spread(tuple(r["last"] for r in floor))).text(),
                Spread(tuple(r["first_last"] for r in rounds)).text(),
                Spread(tuple(r["all"] for r in rounds)).text(),
                f"{done:,}",
                number(disk),
                number(indexed / 1e6) if indexed else "",
                number(disk / own),
                "yes" if all(r["same"] and r["same_last"] for r in rounds) else "NO",
            )
        )
    _limits(runs, appends, loads)
    return appends, loads


def _limits(runs: dict[str, list[dict[str, Any]]], appends: Table, loads: Table) -> None:
    """Ours flat in the history's length, and ahead of every peer in the same round."""

    def across(name: str, other: str, of: Callable[[dict[str, Any]], float]) -> float:
        pairs = zip(runs[name], runs[other], strict=True)
        return statistics.median(of(a) / of(b) for a, b in pairs)

    flat = statistics.median(
        statistics.median(r["taken"][-EDGE:]) / statistics.median(r["taken"][:EDGE])
        for r in runs["append"]
    )
    appends.checks.append(Check(f"append: last {EDGE} ÷ first {EDGE}", flat, FLAT))
    for peer in PEERS:
        if peer in runs:
            ratio = across("append", peer, lambda r: statistics.mean(r["taken"]))
            appends.checks.append(Check(f"append ÷ {peer}", ratio, 1.0))
            ratio = across("add_message", peer, lambda r: statistics.mean(r["taken"]))
            appends.checks.append(Check(f"add_message ÷ {peer}", ratio, 1.0))
            ratio = across("append", peer, lambda r: r["last"])
            loads.checks.append(Check(f"last {LAST} ÷ {peer}", ratio, 1.0))


def _command(module: str, name: str, path: Path, mode: str, value: float) -> list[str]:
    python = sys.executable if module == OURS else str(peers.STORES_PYTHON)
    return [python, "-m", "bench.store_work", module, name, str(path), mode, str(value)]


def _child(command: Sequence[str]) -> str:
    env = os.environ | {"PYTHONPATH": os.pathsep.join((str(REPO_ROOT), str(REPO_ROOT / "src")))}
    done = subprocess.run(
        command, capture_output=True, text=True, env=env, check=False, timeout=PATIENCE
    )
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or ["no reason given"]
        raise CannotMeasure(f"{' '.join(command[-4:])} failed: {last[0]}")
    return done.stdout


def _run(module: str, name: str, path: Path) -> dict[str, Any]:
    print(f"-- {time.strftime('%H:%M:%S')} {name}", file=sys.stderr, flush=True)
    found: dict[str, Any] = json.loads(_child(_command(module, name, path, "run", CAP)))
    return found


def _syncs(module: str, name: str, path: Path, folder: Path) -> str:
    """How often an append asks the disk to keep what was written, counted by strace."""
    strace = shutil.which("strace")
    if strace is None:
        return "not counted"
    count = partial(_syncs_of, strace, module, name, path, folder / "calls.txt")
    return f"{(count(SYNCS[1]) - count(SYNCS[0])) / (SYNCS[1] - SYNCS[0]):.2f}"


def _syncs_of(strace: str, module: str, name: str, path: Path, out: Path, appends: int) -> int:
    watch = [strace, "-f", "-qq", "-o", str(out), "-e", "trace=fsync,fdatasync"]
    _child([*watch, *_command(module, name, path, "syncs", appends)])
    lines = out.read_text(encoding="utf-8", errors="replace").splitlines()
    return sum(1 for line in lines if "sync(" in line)
