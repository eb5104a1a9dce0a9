"""A writer that embeds is killed at random instants: no message stays without a vector, no vector
stays without its message, and none is mixed with those of another model (S-3, NFR-2).
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from compact import SQLiteManager, VectorStore
from compact.store.sqlite import vectors
from tests.sizes import seed, size
from tests.store.embedding_writer import embedder

ROOT = Path(__file__).resolve().parents[2]
KILLS = size(30, 300)
PATIENCE = 60
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="the writer forks"),
]


class Nursery:
    """Writers, one after the other, and what they promised."""

    def __init__(self, folder: Path, number: int) -> None:
        self.database, self.ledger = folder / "chat.db", folder / "ledger.jsonl"
        self.ledger.touch()
        self.rng = random.Random(number)
        command = [sys.executable, "-m", "tests.store.embedding_writer"]
        self.process = subprocess.Popen(
            [*command, str(self.database), str(self.ledger)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"},
        )

    def kill_one(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        before = len(self.ledger.read_bytes().splitlines())
        self.process.stdin.write(f"{self.rng.getrandbits(30)}\n")
        self.process.stdin.flush()
        writer = int(self.process.stdout.readline())
        lines, until = self.rng.randint(1, 12), time.monotonic() + PATIENCE
        while len(self.ledger.read_bytes().splitlines()) < before + lines:
            assert time.monotonic() < until, "the writer hangs"
            time.sleep(0.001)
        time.sleep(self.rng.random() * 0.02)
        os.kill(writer, signal.SIGKILL)
        assert self.process.stdout.readline() == "gone\n"

    def promised(self) -> dict[str, int]:
        """Session → messages that it has at least; a line that was cut off promised nothing."""
        found: dict[str, int] = {}
        data = self.ledger.read_bytes()
        for line in data[: data.rfind(b"\n") + 1].splitlines():
            row = json.loads(line)
            if "session" in row:
                found[row["session"]] = row["messages"]
            found.pop(row.get("deletes", ""), None)
        if not data.endswith(b"\n"):
            self.ledger.write_bytes(data[: data.rfind(b"\n") + 1])
        return found


def is_whole(database: Path, promised: dict[str, int], *, to_the_end: bool) -> int:
    """Hold the file to what was promised; how many messages have a vector."""
    with SQLiteManager(database) as store:
        assert store.integrity_check() == []
        known = {each.id: each.branch.messages for each in store.sessions()}
        assert all(known.get(name, 0) >= count for name, count in promised.items())
        index = VectorStore(store)
        states = [each.state for each in index.generations()]
        assert states.count("serving") <= 1
        if to_the_end:
            for version in ("0", "1", "2"):
                own = embedder(version)
                index.embed_pending(own)
                assert index.pending(own) == 0
            assert [each.state for each in index.generations()] == ["serving"]
            unlike = "SELECT count(*) FROM messages m LEFT JOIN vectors v ON v.message = m.key"
            assert store.db.execute(f"{unlike} WHERE v.key IS NULL").get == 0
            assert store.integrity_check() == []
        rows: Any = store.db.execute("SELECT count(DISTINCT message) FROM vectors").get
        return int(rows)


def torture(folder: Path, kills: int, number: int) -> int:
    nursery, most = Nursery(folder, number), 0
    try:
        for kill in range(kills):
            nursery.kill_one()
            last = kill % 10 == 9 or kill == kills - 1
            most = max(most, is_whole(nursery.database, nursery.promised(), to_the_end=last))
    finally:
        nursery.process.communicate(timeout=60)
    return most


def test_a_killed_writer_loses_no_embedding(tmp_path):
    assert torture(tmp_path, KILLS, seed(21)) > 50


def test_the_check_sees_a_vector_that_is_lost(tmp_path, monkeypatch):
    """The check can fail: positions that move without the vectors are noticed."""
    monkeypatch.setattr(vectors, "add", lambda *_: [])
    with SQLiteManager(tmp_path / "chat.db") as store:
        from tests.store.making import entry, session

        store.session("s1", create=session("s1"))
        store.append("s1", [entry("note")])
    with pytest.raises(AssertionError):
        is_whole(tmp_path / "chat.db", {"s1": 1}, to_the_end=True)
