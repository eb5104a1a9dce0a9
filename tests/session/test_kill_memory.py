"""Whoever works on memory is killed at random instants, again and again: storing,
archiving, restoring, forgetting, ageing. Every session is whole then, or wholly forgotten.
"""

from pathlib import Path
from typing import Any

import pytest

from compact import MemoryManager, SQLiteManager
from compact.errors import NotFound
from tests.killing import Nursery, forking
from tests.session.memory_player import settings_at, word_of
from tests.sizes import seed, size

KILLS = size(10, 240)
Told = dict[str, Any]
pytestmark = forking


class Journal:
    """What there must be, by what was promised."""

    def __init__(self) -> None:
        self.texts: dict[str, list[str]] = {}
        self.forgotten: set[str] = set()

    def take(self, told: Told) -> None:
        """It has happened."""
        name, said = told["session"], self.texts.setdefault(told["session"], [])
        said += told.get("texts", [])
        if told["kind"] != "forget":
            return
        del self.texts[name]
        self.forgotten.add(name)

    def has_happened(self, told: Told, now: dict[str, list[str]]) -> bool:
        """Whether what was begun and never said to be done has happened; sessions are as before,
        or as after it.
        """
        after = Journal()
        after.texts = {name: list(said) for name, said in self.texts.items()}
        after.take(told)
        if now == after.texts:
            return True
        assert now == self.texts, f"{told['kind']} has happened by half"
        return False


class Killing(Nursery):
    """Workers on memory, and the journal."""

    def __init__(self, folder: Path, number: int) -> None:
        super().__init__("tests.session.memory_player", folder, number)
        self.journal = Journal()
        self.cut: list[str] = []
        self.happened = 0

    def check(self) -> None:
        """Hold the store to the journal."""
        begun: Told | None = None
        for line in self.promised():
            assert "error" not in line, line
            begun = line.get("begin")
            if "done" in line:
                self.journal.take(line["done"])
        with MemoryManager(self.database, settings=settings_at(self.database)) as memory:
            store = memory.store
            assert isinstance(store, SQLiteManager)
            now = {
                each.id: [m.text for m in store.get_conversation(each.id).messages]
                for each in memory.sessions()
            }
            if begun is not None:
                self.cut.append(begun["kind"])
                if self.journal.has_happened(begun, now):
                    self.journal.take(begun)
                    self.happened += 1
            assert now == self.journal.texts
            assert store.integrity_check() == []
            assert memory.archives.verify() == []
            for name in filter(now.get, now):
                hits = memory.search(word_of(name), limit=1).hits
                assert [hit.session_id for hit in hits] == [name], "it cannot be found"
            kept = self.folder.rglob("*.zst")
            assert sorted(map(str, kept)) == sorted(each.file for each in memory.archived())
            for name in self.journal.forgotten:
                with pytest.raises(NotFound):
                    store.session(name)
        self.look()

    def look(self) -> None:
        """No file has a word of what was forgotten."""
        files = [x for x in self.folder.rglob("*") if x.is_file() and x != self.ledger]
        data = b"".join(path.read_bytes() for path in files)
        for name in self.journal.forgotten:
            assert word_of(name).encode() not in data, f"words of {name} are left"


@pytest.mark.slow
def test_whoever_is_killed_leaves_every_session_whole_or_wholly_forgotten(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Killing(tmp_path, seed(5)) as killing:
        for number in range(KILLS):
            killing.run(killing.number * 10_000 + number, lines=killing.rng.randrange(1, 24))
            killing.check()
    with capsys.disabled():
        print(
            f"\nseed {killing.number}: {KILLS} kills, {len(killing.cut)} in the middle of "
            f"{sorted(set(killing.cut))}, {killing.happened} had happened; "
            f"{len(killing.journal.forgotten)} sessions forgotten"
        )
    assert len(killing.cut) > KILLS // 3, "it was killed in the middle"
    assert killing.journal.forgotten
