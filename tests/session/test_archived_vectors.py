"""Vectors of sessions that go into the archive, and come back with them (A-5)."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from compact import MemoryManager
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


def test_vectors_stay_and_find_what_is_archived(store: SQLiteManager) -> None:
    memory = MemoryManager(store, embedder=HashEmbedder(64))
    memory.embed()
    before = memory.search("crane", method="semantic").hits
    vectors = vectors_of(store)
    assert len(memory.archive(["quay"]).archived) == 1
    after = memory.search("crane", method="semantic").hits
    assert before[0].session_id == "quay"
    assert [each.archived for each in after] == [x.session_id == "quay" for x in after]
    assert [each.model_copy(update={"archived": False}) for each in after] == list(before)
    memory.restore("quay")
    assert vectors_of(store) == vectors
    assert memory.unembedded() == 0
    assert store.integrity_check() == []


def test_what_is_archived_gets_vectors_of_a_later_model(store: SQLiteManager) -> None:
    MemoryManager(store, embedder=HashEmbedder(64, version="1")).embed()
    memory = MemoryManager(store, embedder=HashEmbedder(32, version="2"))
    memory.archive(["quay"])
    memory.embed()
    assert memory.unembedded() == 0
    assert {len(vector) for *_, vector in vectors_of(store)} == {4 * 32}
    assert memory.search("crane", method="semantic").hits[0].session_id == "quay"
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


def test_what_is_archived_while_it_is_embedded_is_found(store: SQLiteManager) -> None:
    memory = MemoryManager(store)
    MemoryManager(store, embedder=Meanwhile(memory)).embed()
    assert store.integrity_check() == []
    assert len(vectors_of(store)) == 4
