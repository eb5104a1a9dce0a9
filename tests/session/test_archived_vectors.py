"""Vectors of sessions that go into the archive, and come back with them (A-5)."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from compact import MemoryManager
from compact.store.archives import packing
from compact.store.sqlite.store import SQLiteManager
from compact.testing import HashEmbedder
from tests.session.test_memory_manager import put

LONG = "The crane is hired for the winter. " * 60


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SQLiteManager]:
    with SQLiteManager(tmp_path / "chat.db") as store:
        put(store, "quay", "The harbour office moves in May.", LONG)
        put(store, "roof", "Is the roof tight?", "It is.")
        yield store


def rows(store: SQLiteManager, sql: str) -> list[Any]:
    return list(store.db.execute(sql))


def vectors_of(store: SQLiteManager) -> list[Any]:
    return rows(store, "SELECT message, chunk, vector FROM vectors ORDER BY 1, 2")


def test_vectors_leave_with_their_messages_and_come_back(store: SQLiteManager) -> None:
    memory = MemoryManager(store, embedder=HashEmbedder(64))
    memory.embed()
    before, embedded = vectors_of(store), rows(store, "SELECT * FROM embedded ORDER BY 1")
    [kept] = memory.archive(["quay"]).archived
    assert 0 < len(vectors_of(store)) < len(before)
    data = Path(kept.file.removesuffix(".json") + ".originals.zst").read_bytes()
    packed = {table.name: len(list(table.rows)) for table in packing.unpacked(data)}
    assert packed["vectors"] == len(before) - len(vectors_of(store))
    memory.restore("quay")
    assert vectors_of(store) == before
    assert rows(store, "SELECT * FROM embedded ORDER BY 1") == embedded
    assert rows(store, "SELECT count(*) FROM messages WHERE embedding_id IS NULL") == [(0,)]
    assert memory.unembedded() == 0
    assert memory.search("crane", method="semantic").hits[0].session_id == "quay"
    assert store.integrity_check() == []


def test_vectors_of_a_model_that_is_gone_do_not_come_back(store: SQLiteManager) -> None:
    MemoryManager(store, embedder=HashEmbedder(64, version="1")).embed()
    memory = MemoryManager(store, embedder=HashEmbedder(32, version="2"))
    memory.archive(["quay"])
    memory.embed()
    memory.restore("quay")
    assert memory.unembedded() == 2
    assert store.integrity_check() == []
    memory.embed()
    assert {len(vector) for *_, vector in vectors_of(store)} == {4 * 32}


def test_vectors_of_two_generations_stay_apart(store: SQLiteManager) -> None:
    old, new = HashEmbedder(64, version="1"), HashEmbedder(32, version="2")
    MemoryManager(store, embedder=old).embed()
    memory = MemoryManager(store, embedder=new)
    memory.embed(most=2)
    before = rows(store, "SELECT generation, message, chunk, vector FROM vectors ORDER BY 1, 2, 3")
    memory.archive(["quay"])
    memory.restore("quay")
    assert before == rows(
        store, "SELECT generation, message, chunk, vector FROM vectors ORDER BY 1, 2, 3"
    )
    assert store.integrity_check() == []


def test_the_vectors_of_a_forgotten_session_go_with_its_archive(store: SQLiteManager) -> None:
    memory = MemoryManager(store, embedder=HashEmbedder(64))
    memory.embed()
    [kept] = memory.archive(["quay"]).archived
    assert memory.forget("quay").remains == ()
    assert not list(Path(kept.file).parent.iterdir())
    assert len(vectors_of(store)) == 2


class Meanwhile(HashEmbedder):
    """An embedder during whose work a session goes into the archive."""

    def __init__(self, memory: MemoryManager) -> None:
        super().__init__(64)
        self._memory = memory

    def embed(self, texts: Sequence[str], *, query: bool = False) -> list[list[float]]:
        self._memory.archive(["quay"])
        return super().embed(texts, query=query)


def test_what_is_archived_while_it_is_embedded_gets_no_vectors(store: SQLiteManager) -> None:
    memory = MemoryManager(store)
    MemoryManager(store, embedder=Meanwhile(memory)).embed()
    assert store.integrity_check() == []
    assert len(vectors_of(store)) == 2
