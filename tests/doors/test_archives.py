"""A-2, A-5 and A-7 as they are written: originals in files, and back."""

import json
import re
from datetime import UTC, datetime, timedelta

import pytest
import zstandard

from compact import (
    ArchivalManager,
    CompactConfig,
    ContextManager,
    MemoryManager,
    Message,
    SQLiteManager,
)

YEAR_AGO = datetime(2025, 5, 2, 9, tzinfo=UTC)
SAID = tuple(f"Berth {number} is let to the pilots of the north quay." for number in range(30))


@pytest.fixture
def file(tmp_path):
    """A file with a conversation of last year."""
    with ContextManager(window=8_000, store=tmp_path / "chat.db", session_id="quay") as ctx:
        for number, text in enumerate(SAID):
            at = YEAR_AGO + timedelta(minutes=number)
            ctx.add_messages([Message(role="user", content=text, timestamp=at)])
    return tmp_path / "chat.db"


def said(file):
    with SQLiteManager(file) as store:
        branch = store.session("quay").branch
        return [entry.message.model_dump_json() for entry in store.read(branch.id, 0, 10**6)]


def test_conversations_go_into_files_that_a_person_can_read_and_come_back(file):
    """A-5: "`archive_conversations()`, `restore_conversation()`, `list_archived()`; JSON that a
    person can read, versioned, in folders by year/month; batch; import back".
    """
    before = said(file)
    with ArchivalManager(file) as archives:
        kept = archives.archive_conversations().kept
        assert "importance" in kept["quay"], "it is worth to be kept whole: A-6"
    with ArchivalManager(file, settings=CompactConfig(retain_score=1.0)) as archives:
        report = archives.archive_conversations()
        assert [each.session_id for each in report.archived] == ["quay"]
        [found] = archives.list_archived()
        assert re.search(r"chat-archive/2025/05/quay-[0-9a-f]+\.json\.zst$", found.file)
        with open(found.file, "rb") as stream:  # `zstd -dc` shows it
            told = json.loads(zstandard.ZstdDecompressor().stream_reader(stream).read())
        assert (told["format"], told["version"]) == ("compact-session", 2)
        assert [each["content"] for each in told["messages"]] == list(SAID)
        assert told["session"]["id"] == "quay"
        with MemoryManager(file) as memory:
            hit = memory.search("pilots", sessions=["quay"]).hits[0]
        assert (hit.session_id, hit.archived) == ("quay", True), "it is found by its own words"
    assert said(file) == before, "reading history falls through to the archive"
    with ArchivalManager(file) as archives:
        archives.restore_conversation("quay")
        assert archives.list_archived() == []
    assert said(file) == before


def test_an_archive_that_is_not_what_was_written_restores_nothing_and_removes_nothing(file):
    """A-5: "restore is verified (checksum, counts) before anything is removed"."""
    with ArchivalManager(file) as archives:
        archives.archive_conversations(["quay"])
        [found] = archives.list_archived()
        with open(found.file, "r+b") as stream:
            stream.seek(40)
            stream.write(b"\0")
        [fault] = archives.verify()
        assert "checksum differs" in fault.what
        with pytest.raises(Exception, match="checksum"):
            archives.restore_conversation("quay")
        assert len(archives.list_archived()) == 1


def test_ageing_moves_originals_and_after_a_year_leaves_what_is_known(file):
    """A-2: "from 91 days SUMMARY with the originals moved to the archive; from 365 days METADATA
    (id, title, dates, counts, topics, key entities)".
    """
    with MemoryManager(file, settings=CompactConfig(retain_score=1.0)) as memory:
        report = memory.age(YEAR_AGO + timedelta(days=92))
        moved, digest = report.archive, memory.digest("quay")
        assert moved is not None
        assert digest is not None
        assert (len(moved.archived), digest.level) == (1, "summary")
        memory.age(YEAR_AGO + timedelta(days=366))
        told = memory.digest("quay")
        assert told is not None
        assert (told.level, told.text) == ("metadata", "")
        assert (told.about.messages, told.about.begun) == (len(SAID), YEAR_AGO)
        assert told.about.topics
        assert [each.session_id for each in memory.search("pilots").archived] == ["quay"]


def test_a_whole_memory_is_backed_up_in_use_and_made_again(file, tmp_path):
    """A-7: "joins store, search, compression, archive; … backup and verified restore of everything,
    archives included".
    """
    before = said(file)
    with MemoryManager(file) as memory:
        memory.archive(["quay"])
        report = memory.backup(tmp_path / "backup")
        assert report.files == 3
    with pytest.raises(Exception, match="there already"):
        MemoryManager.restore_backup(tmp_path / "backup", file)
    MemoryManager.restore_backup(tmp_path / "backup", tmp_path / "new.db")
    assert said(tmp_path / "new.db") == before
    (tmp_path / "backup" / "sessions.db").write_bytes(b"x")
    with pytest.raises(Exception, match="checksum"):
        MemoryManager.restore_backup(tmp_path / "backup", tmp_path / "other.db")
    assert not (tmp_path / "other.db").exists()


def test_a_forgotten_conversation_is_gone_and_that_is_proved(file):
    """S-5: "search, recall, ageing and deletion never cross it"; one verb deletes everywhere."""
    with (
        MemoryManager(file, scope="theirs") as other,
        pytest.raises(Exception, match="no session"),
    ):
        other.forget("quay")
    with MemoryManager(file) as memory:
        memory.archive(["quay"])
        report = memory.forget("quay")
        assert (report.remains, report.is_complete) == ((), True)
        assert memory.sessions() == []
    assert b"pilots" not in file.read_bytes()
    assert not list(file.parent.rglob("*.zst"))
