"""What memory does where one session's archive is missing, or cannot be read with this key."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from compact import CompactConfig, ContextManager, MemoryManager, SQLiteManager
from compact.errors import StoreFailed
from compact.messages.protocols import BlobStore
from compact.store.archives import folder
from compact.testing import HashEmbedder
from tests.session.test_memory_manager import DAY, entry, put

AWAY = "one"
"""The session whose archive is out of reach. It answers best."""
MANY = 40
"""More messages than automatic recall looks at."""


@pytest.fixture(params=["missing", "wrong key"])
def store(
    tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[SQLiteManager]:
    with SQLiteManager(tmp_path / "chat.db") as store:
        for name in (AWAY, "two"):
            put(store, name, *(f"{name}: pilots leave berth {n}" for n in range(MANY)))
        put(store, "talk", *(f"How is the crane {n}?" for n in range(300)))
        with MemoryManager(store) as memory:
            [kept] = memory.archive([AWAY]).archived
    if request.param == "missing":
        Path(kept.file).unlink()
    else:

        def refused(*_: object) -> bytes:
            raise StoreFailed("the archive needs another key")

        monkeypatch.setattr(folder, "read", refused)
    with SQLiteManager(tmp_path / "chat.db") as store:
        yield store


def test_a_search_returns_the_next_best_and_says_why(store: SQLiteManager) -> None:
    memory = MemoryManager(store)
    first = memory.search(AWAY, limit=5)
    assert first.hits == ()
    result = memory.search("berth", limit=5)
    assert [hit.session_id for hit in result.hits] == ["two"] * 5
    assert result.hits[0].score == 1.0
    assert len({hit.position for hit in result.hits}) == 5
    assert [each.session_id for each in result.sessions].count(AWAY) == 1
    assert [each.session_id for each in result.archived] == [AWAY]
    for found in (first, result):
        [why] = found.unread
        assert "archive" in why
    assert len(memory.search("berth", limit=100).hits) == MANY
    assert memory.search("two", limit=5).unread == ()


def test_no_score_is_above_1_where_later_words_stand_first(store: SQLiteManager) -> None:
    memory = MemoryManager(store)
    memory.add_message("old", "user", f"My berth in the {AWAY} harbour street is berth nine.")
    memory.add_message("new", "user", "In the harbour street my berth has moved, it is ten.")
    hits = memory.search(f"my berth in the {AWAY} harbour street", limit=3).hits
    assert [hit.session_id for hit in hits[:2]] == ["new", "old"]
    assert max(hit.score for hit in hits) == 1.0


def test_texts_that_came_later_are_read(store: SQLiteManager) -> None:
    store.append(AWAY, [entry("The lighthouse answers.")])
    hit = MemoryManager(store).search("lighthouse").hits[0]
    assert (hit.session_id, hit.text) == (AWAY, "The lighthouse answers.")
    assert hit.before == ()


def test_a_message_can_be_added(store: SQLiteManager) -> None:
    memory = MemoryManager(store)
    memory.add_message(AWAY, "user", "The lighthouse answers.")
    assert memory.search("lighthouse").hits[0].text == "The lighthouse answers."


def test_automatic_recall_quotes_what_can_be_read(store: SQLiteManager) -> None:
    with ContextManager(window=8_192, store=store, session_id="new", memory=True) as ctx:
        ctx.add_message(role="user", content="Which of my pilots leave berth 7 and berth 8?")
        prompt = str(ctx.get_context_for_model())
    assert "two: pilots leave berth" in prompt
    assert f"{AWAY}: " not in prompt


def test_all_other_messages_get_vectors(store: SQLiteManager) -> None:
    store.append("talk", [entry("Who leads the pilots?")])
    with MemoryManager(store, embedder=HashEmbedder(16)) as memory:
        every = memory.unembedded()
        assert memory.embed(most=5) == 5, "what is skipped does not count"
        assert memory.embed() == every - MANY - 5
        assert memory.unembedded() == MANY
        assert memory.embed() == 0


def test_what_was_left_out_is_embedded_once_its_archive_is_back(tmp_path: Path) -> None:
    with SQLiteManager(tmp_path / "chat.db") as store:
        put(store, AWAY, "pilots leave", "pilots come")
        put(store, "two", "pilots stay")
        [kept] = MemoryManager(store).archive([AWAY]).archived
    data = Path(kept.file).read_bytes()
    Path(kept.file).unlink()
    with SQLiteManager(tmp_path / "chat.db") as store:
        memory = MemoryManager(store, embedder=HashEmbedder(16))
        assert memory.embed() == 1
        Path(kept.file).write_bytes(data)
        assert (memory.embed(), memory.unembedded()) == (2, 0)
        assert store.integrity_check() == []


@pytest.mark.parametrize("dry_run", [True, False])
def test_ageing_leaves_the_session_as_it_is_and_ages_the_others(
    store: SQLiteManager, dry_run: bool
) -> None:
    store.append(AWAY, [entry("It goes on.")])
    memory = MemoryManager(store, settings=CompactConfig(retain_score=1.0))
    before = memory.digest(AWAY)
    report = memory.age(DAY + timedelta(days=40), dry_run=dry_run)
    rows = {row.session_id: row for row in report.rows}
    assert before is not None
    assert rows[AWAY].now is before.level
    assert (rows[AWAY].action, rows[AWAY].why[:18]) == ("none", "left as it is: the")
    assert (rows["two"].action, rows["talk"].action) == ("write", "write")
    assert memory.digest(AWAY) == before
    assert (memory.digest("two") is None) is dry_run
    scheduled = memory._ageing(lambda: DAY + timedelta(days=40)).age_in_turn()
    assert len(scheduled.rows) == 3


def test_ageing_still_fails_where_nothing_can_be_stored(
    store: SQLiteManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise StoreFailed("the disk is full")

    monkeypatch.setattr(SQLiteManager, "keep_digest", refused)
    memory = MemoryManager(store, settings=CompactConfig(retain_score=1.0))
    with pytest.raises(StoreFailed, match="disk is full"):
        memory.age(DAY + timedelta(days=40))


@pytest.mark.parametrize("is_second", [False, True])
def test_what_is_restored_while_it_is_searched_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_second: bool
) -> None:
    """Another process restores the session, or archives it again, before its file is read."""
    path = tmp_path / "chat.db"
    with SQLiteManager(path) as store:
        put(store, AWAY, "pilots leave", "pilots come")
        MemoryManager(store).archive([AWAY])
    read, calls = folder.read, list[str]()

    def meanwhile(blobs: BlobStore, name: str, expected: bytes) -> bytes:
        calls.append(name)
        if len(calls) == 1:
            with MemoryManager(path) as other:
                other.restore(AWAY)
                if is_second:
                    other.add_message(AWAY, "user", "pilots stay")
                    other.archive([AWAY])
        return read(blobs, name, expected)

    monkeypatch.setattr(folder, "read", meanwhile)
    with MemoryManager(path) as memory:
        result = memory.search("pilots")
    assert len(result.hits) == 2
    assert result.unread == ()
