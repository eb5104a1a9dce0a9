"""Peers: installed into environments of their own, run as processes of their own.

`.venv-peers` is made from `bench/requirements-peers.txt` when it is first needed, and
`.venv-peers/stores` from `bench/requirements-store-peers.txt`, `.venv-peers/vectors` from
`bench/requirements-vector-peers.txt`. Where one cannot be made, its peers
are left out, and the tables say so.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from bench.histories import Record
from bench.measuring import REPO_ROOT, Spread

INTERPRETER = Path("Scripts", "python.exe") if os.name == "nt" else Path("bin", "python")
VENV = REPO_ROOT / ".venv-peers"
PYTHON = VENV / INTERPRETER
STORES_VENV = VENV / "stores"
STORES_PYTHON = STORES_VENV / INTERPRETER
VECTORS_VENV = VENV / "vectors"
VECTORS_PYTHON = VECTORS_VENV / INTERPRETER
BENCH = REPO_ROOT / "bench"
RUNNER = REPO_ROOT / "bench" / "peer_run.py"
INSTALL_SECONDS = 600
PATIENCE = 90
"""Seconds a peer may take for all runs of one case."""


class NoPeers(Exception):
    """The peers cannot be installed here; the text says why."""


@dataclass(frozen=True, slots=True)
class PeerResult:
    """What a peer made of a history, and how long that took."""

    spread: Spread
    messages: list[Record]


@cache
def versions() -> dict[str, str]:
    """Versions of the installed peers; installs them first.

    Raises:
        NoPeers: they cannot be installed.
    """
    return _prepared(VENV, BENCH / "requirements-peers.txt")


@cache
def store_versions() -> dict[str, str]:
    """Versions of the installed stores; installs them first.

    Raises:
        NoPeers: they cannot be installed.
    """
    return _prepared(STORES_VENV, BENCH / "requirements-store-peers.txt")


@cache
def vector_versions() -> dict[str, str]:
    """Versions of the installed stores of vectors; installs them first.

    Raises:
        NoPeers: they cannot be installed.
    """
    return _prepared(VECTORS_VENV, BENCH / "requirements-vector-peers.txt")


def _prepared(venv: Path, requirements: Path) -> dict[str, str]:
    _install(venv, requirements)
    python = venv / INTERPRETER
    done = subprocess.run(
        [python, RUNNER, "versions", requirements], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise NoPeers(_last_line(done.stderr))
    found: dict[str, str] = json.loads(done.stdout)
    return found


def _install(venv: Path, requirements: Path) -> None:
    python, stamp = venv / INTERPRETER, venv / "requirements.stamp"
    digest = hashlib.sha256(requirements.read_bytes()).hexdigest()
    if python.exists() and stamp.exists() and stamp.read_text() == digest:
        return
    name = venv.relative_to(REPO_ROOT)
    print(f"-- preparing {name} from {requirements.name} (once)", file=sys.stderr, flush=True)
    steps: list[list[str | Path]] = [
        [sys.executable, "-m", "venv", venv],
        [python, "-m", "pip", "install", "--quiet", "-r", requirements],
    ]
    for step in steps:
        try:
            done = subprocess.run(
                step, capture_output=True, text=True, check=False, timeout=INSTALL_SECONDS
            )
        except subprocess.TimeoutExpired:
            raise NoPeers(f"installing took more than {INSTALL_SECONDS} s") from None
        if done.returncode:
            raise NoPeers(_last_line(done.stderr))
    stamp.write_text(digest)


def trim(peer: str, history: Path, budget: int, runs: int) -> PeerResult | None:
    """Let a peer trim the history in a file; None where it took longer than `PATIENCE`.

    Raises:
        NoPeers: it failed.
    """
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "result.json"
        command: Sequence[str | Path] = [PYTHON, RUNNER, peer, history, str(budget), str(runs), out]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, check=False, timeout=PATIENCE
            )
        except subprocess.TimeoutExpired:
            return None
        if done.returncode:
            raise NoPeers(f"{peer}: {_last_line(done.stderr)}")
        record: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    return PeerResult(Spread(tuple(record["cpu_ms"])), record["messages"])


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["no reason given"])[-1]
