"""A writer that embeds is killed at random instants: no message stays without a vector, no vector
stays without its message, and none is mixed with those of another model (S-3, NFR-2).
"""

from pathlib import Path
from typing import Any

import pytest

from compact import SQLiteManager, VectorStore
from compact.store.sqlite import vectors
from tests.killing import Nursery, forking
from tests.sizes import seed, size
from tests.store.embedding_writer import embedder

KILLS = size(30, 300)
pytestmark = [pytest.mark.slow, forking]


def at_least(promised: dict[str, int], rows: list[dict[str, Any]]) -> dict[str, int]:
    """Session → messages that it has at least."""
    for row in rows:
        if "session" in row:
            promised[row["session"]] = row["messages"]
        promised.pop(row.get("deletes", ""), None)
    return promised


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
    most, promised = 0, dict[str, int]()
    with Nursery("tests.store.embedding_writer", folder, number) as nursery:
        for kill in range(kills):
            words, lines = nursery.rng.getrandbits(30), nursery.rng.randint(1, 12)
            nursery.run(words, lines=lines)
            last = kill % 10 == 9 or kill == kills - 1
            at_least(promised, nursery.promised())
            most = max(most, is_whole(nursery.database, promised, to_the_end=last))
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
