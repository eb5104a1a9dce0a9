"""Deleting a session everywhere, and the proof of it (one verb, S-5)."""

import json
import os
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import apsw
import pytest

from compact import CompactConfig, ContextManager, MemoryManager, migrate
from compact.errors import InvalidArgument, NotFound, StoreDamaged
from compact.messages.messages import Message, ToolCall, ToolResult
from compact.messages.sessions import Entry
from compact.store.archives import folder as archive_folder
from compact.store.archives.files import FileStorage
from compact.store.sqlite import records, sessions
from compact.store.sqlite.rows import json_of
from compact.store.sqlite.store import SQLiteManager
from compact.text.archived import ForgottenReport
from compact.text.digests import CompressedConversation, CompressionLevel, ConversationMetadata
from tests.store.making import session

DAY = datetime(2026, 3, 1, 9, tzinfo=UTC)
SECRETS = {
    name: f"zq{name}zq the lantern of {name} hangs in the north tower"
    for name in (
        *("message", "branch", "result", "title", "tag", "summary", "goal", "note", "snapshot"),
        *("digest", "pinned"),
    )
}
"""Something that stands nowhere but in one place of the session."""


def talk(store: SQLiteManager, name: str, *messages: Message | str, **given: Any) -> None:
    """A session, or what comes next in it."""
    store.session(name, create=session(name, **given))
    said = [Message(role="user", content=m, timestamp=DAY) if isinstance(m, str) else m
            for m in messages]  # fmt: skip
    store.append(name, [Entry(message, 7) for message in said])


def plant(store: SQLiteManager, name: str = "tower") -> None:
    """A session that says something of its own in every place there is."""
    with ContextManager(window=4_096, store=store, session_id=name) as ctx:
        ctx.goals.set([SECRETS["goal"]])
        ctx.add_message(role="user", content=SECRETS["message"])
        call = ToolCall(id="c1", name="look", arguments="{}")
        ctx.add_message(Message(role="assistant", content=(call,)))
        answer = ToolResult(call_id="c1", text=SECRETS["result"])
        ctx.add_message(Message(role="tool", content=(answer,)))
        ctx.pin(ctx.add_message(role="user", content=SECRETS["pinned"]))
        for number in range(60):
            ctx.add_message(role="user", content=f"{SECRETS['summary']} {number} " + "tile " * 60)
        ctx.active_context()
        ctx.time.snapshot(SECRETS["snapshot"])
        ctx.time.branch(at=3)
        ctx.add_message(role="user", content=SECRETS["branch"])
        assert store.checkpoints(name)
    store.describe(name, title=SECRETS["title"], metadata={"tags": [SECRETS["tag"]]})
    store.note(name, "draft", {"words": SECRETS["note"]})
    branch = store.session(name).branch
    digest = CompressedConversation(
        text=SECRETS["digest"], source_tokens=9, tokens=3, level=CompressionLevel.SUMMARY,
        about=ConversationMetadata(id=name),
    )  # fmt: skip
    store.keep_digest(name, digest, chain=store.chain(branch.id, branch.messages))
    store.turns(None)


def recall_of(store: SQLiteManager, name: str, *sessions: str) -> None:
    """An entry of a session's log that says what was recalled: ids, and no words."""
    turns = [{"session_id": each, "message_id": f"of {each}"} for each in sessions]
    what = json_of({"turns": turns, "window": 9})
    key = records.key_of(store.db, name)
    records.insert(store.db, "changes", (key, name, 0, "recalled", what), "")


def standing(folder: Path) -> set[str]:
    """Those of the planted words that stand in any file below a folder."""
    data = b"".join(path.read_bytes().lower() for path in folder.rglob("*") if path.is_file())
    return {name for name in SECRETS if f"zq{name}zq".encode() in data}


def size_of(folder: Path) -> int:
    """Bytes of all files below a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


@pytest.fixture
def settings(tmp_path: Path) -> CompactConfig:
    return CompactConfig(archive=str(tmp_path / "copies"))


@pytest.fixture
def memory(tmp_path: Path, settings: CompactConfig) -> Iterator[MemoryManager]:
    with MemoryManager(tmp_path / "chat.db", settings=settings) as made:
        yield made


def store_of(memory: MemoryManager) -> SQLiteManager:
    assert isinstance(memory.store, SQLiteManager)
    return memory.store


def whole(report: ForgottenReport) -> ForgottenReport:
    assert report.remains == ()
    assert report.is_complete
    return report


# --- nothing is left ------------------------------------------------------------------------------


@pytest.mark.parametrize("archived", [False, True])
def test_no_byte_of_a_forgotten_session_is_left(
    tmp_path: Path, memory: MemoryManager, settings: CompactConfig, archived: bool
) -> None:
    store = store_of(memory)
    talk(store, "keep", "The gate stays open.")
    plant(store)
    copies = FileStorage(settings.archive or "")
    copies.save_transcript("tower", [Message(role="user", content=SECRETS["message"])])
    copies.save_summary("tower", 1, SECRETS["summary"])
    copies.save_summary("keep", 1, "The gate.")
    assert standing(tmp_path) == set(SECRETS), "it stands everywhere before"
    if archived:
        assert not memory.archive(["tower"]).failed
    before = size_of(tmp_path)
    report = whole(memory.forget("tower"))
    assert standing(tmp_path) == set()
    assert report.removed["sessions"] == 1
    assert report.removed["messages"] == 65
    assert report.removed["copies"] == 2
    assert report.removed.get("files of archives", 0) == archived
    for kind in ("branches", "checkpoints", "snapshots", "notes", "changes", "digests"):
        assert report.removed[kind] > 0, kind
    assert size_of(tmp_path) < before
    assert store.integrity_check() == []
    assert [each.id for each in memory.sessions()] == ["keep"]
    assert (tmp_path / "copies/keep/summary-001.json").exists()
    assert not (tmp_path / "copies/tower").exists()
    assert [hit.session_id for hit in memory.search("gate").hits] == ["keep"]
    with pytest.raises(NotFound):
        memory.forget("tower")


def test_entries_that_say_what_was_recalled_name_it_no_more(
    tmp_path: Path, memory: MemoryManager
) -> None:
    """As automatic recall keeps them: ids, and no words."""
    store = store_of(memory)
    plant(store)
    for name, scope in (("other", "default"), ("theirs", "bob")):
        talk(store, name, "Where?", scope=scope)
        recall_of(store, name, "tower", "gate", "tower")
    report = memory.forget("tower")
    assert whole(report).quoted == {"other": 1}
    sql = "SELECT what FROM changes WHERE kind = 'recalled' ORDER BY number"
    mine, theirs = (json.loads(row[0]) for row in store.db.execute(sql))
    assert mine == {"turns": [{"session_id": "gate", "message_id": "of gate"}], "window": 9}
    assert len(theirs["turns"]) == 3, "another scope's"
    assert store.integrity_check() == []


# --- what is left is found ------------------------------------------------------------------------


def test_the_report_says_what_is_left(
    tmp_path: Path, memory: MemoryManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each thing that can be left is put there, and told."""
    store = store_of(memory)
    (tmp_path / "chat.db.damaged-1").write_bytes(b"from before")
    os.utime(tmp_path / "chat.db.damaged-1", (1, 1))
    plant(store)
    talk(store, "other", "Where?")
    recall_of(store, "other", "tower")
    key = store.db.execute("SELECT key FROM sessions WHERE id = 'tower'").get
    (tmp_path / "chat.db.damaged-2").write_bytes(SECRETS["message"].encode())
    with monkeypatch.context() as patched:
        patched.setattr("compact.store.sqlite.forgetting._take_out_names", lambda *_: {})
        store.db.execute(
            "CREATE TABLE later (session INTEGER); INSERT INTO later VALUES (?)", (key,)
        )
        report = memory.forget("tower")
    assert not report.is_complete
    assert report.remains == (
        "1 rows of later are of it",
        "1 entries of other sessions name it",
        f"{tmp_path / 'chat.db.damaged-2'}, which a repair kept, may still hold words of it",
    )


KEPT = ("messages", "checkpoints", "branches", "sessions")
MADE = {
    "words_docsize": "INSERT INTO words (rowid, text) VALUES (({branch} << 32) + 7, 'odd')",
    "vectors": "INSERT INTO vectors VALUES (NULL, 1, ({branch} << 32) + 7, 0, x'00')",
    "packed": "INSERT INTO packed VALUES (({key} << 32) + 5, x'00')",
    "unindexed": "INSERT INTO unindexed VALUES ({branch})",
}


@pytest.mark.parametrize("table", [*KEPT, *MADE])
def test_a_row_that_a_deletion_leaves_is_told(
    memory: MemoryManager, monkeypatch: pytest.MonkeyPatch, table: str
) -> None:
    """The tables are asked, not who deleted."""
    store = store_of(memory)
    plant(store)
    real = sessions.delete

    def deletes_less(db: apsw.Connection, session_id: str) -> dict[str, int]:
        sql = "SELECT key, branch FROM sessions WHERE id = ?"
        key, branch = db.execute(sql, (session_id,)).get
        if table in KEPT:
            db.execute(f"CREATE TEMP TABLE kept AS SELECT * FROM {table} LIMIT 1")
        removed = real(db, session_id)
        if table in KEPT:
            db.execute(f"INSERT INTO {table} SELECT * FROM kept")
        else:
            db.execute(MADE[table].format(key=key, branch=branch))
        return removed

    monkeypatch.setattr(sessions, "delete", deletes_less)
    told = memory.forget("tower").remains
    assert f"1 rows of {table} are of it" in told


def test_words_that_others_say_too_are_their_own(memory: MemoryManager) -> None:
    store = store_of(memory)
    plant(store)
    talk(store, "other", *SECRETS.values(), scope="bob")
    whole(memory.forget("tower"))
    assert len(store.read("other", 0, 99)) == len(SECRETS)


def test_a_log_that_somebody_reads_is_told_of(tmp_path: Path, memory: MemoryManager) -> None:
    store = store_of(memory)
    plant(store)
    with SQLiteManager(tmp_path / "chat.db") as reader:
        reader.db.execute("BEGIN")
        reader.db.execute("SELECT count(*) FROM messages").fetchall()
        store.db.set_busy_timeout(50)
        report = memory.forget("tower")
        assert any(
            "still holds words of it" in line or "goes on" in line for line in report.remains
        )
        reader.db.execute("ROLLBACK")
    talk(store, "next", "Whoever writes next works the log off.")
    assert standing(tmp_path) == set()


def test_an_archive_that_cannot_be_read_does_not_hold_up_the_deletion(
    tmp_path: Path, memory: MemoryManager
) -> None:
    store = store_of(memory)
    plant(store)
    talk(store, "other", "Where?")
    assert not memory.archive(["tower", "other"]).failed
    for path in (tmp_path / "chat-archive").rglob("*"):
        if path.is_file():
            path.write_bytes(b"x")
    whole(memory.forget("tower"))
    assert [each.id for each in memory.sessions()] == ["other"]
    with pytest.raises(StoreDamaged):
        store.get_conversation("other")


# --- copies, and what a crash leaves --------------------------------------------------------------


def test_only_what_compact_wrote_is_removed_from_the_copies(
    tmp_path: Path, memory: MemoryManager, settings: CompactConfig
) -> None:
    plant(store_of(memory))
    FileStorage(settings.archive or "").save_summary("tower", 1, SECRETS["summary"])
    own = tmp_path / "copies/tower/mine.txt"
    own.write_text("A person's own file.")
    whole(memory.forget("tower"))
    assert list((tmp_path / "copies/tower").iterdir()) == [own]


def test_a_deletion_that_a_crash_cut_short_is_finished_at_the_next_opening(
    tmp_path: Path,
    memory: MemoryManager,
    settings: CompactConfig,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = store_of(memory)
    plant(store)
    FileStorage(settings.archive or "").save_summary("tower", 1, SECRETS["summary"])
    assert not memory.archive(["tower"]).failed
    with monkeypatch.context() as patched:
        patched.setattr("compact.store.sqlite.forgetting.finish", lambda _: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            memory.forget("tower")
        assert standing(tmp_path) != set()
    memory.close()
    SQLiteManager(tmp_path / "chat.db").close()
    assert standing(tmp_path) == set()
    assert not (tmp_path / "copies/tower").exists()
    assert [x for x in (tmp_path / "chat-archive").rglob("*") if x.is_file()] == []


def test_a_failure_to_remove_files_is_told_and_made_up_for(
    tmp_path: Path, memory: MemoryManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(store_of(memory))
    assert not memory.archive(["tower"]).failed

    def fails(*_: object) -> None:
        raise PermissionError(13, "not allowed")

    with monkeypatch.context() as patched:
        patched.setattr(archive_folder, "discard", fails)
        report = memory.forget("tower")
    assert "goes on when the store is opened next" in report.remains[0]
    assert any(line.endswith("is an archive of it") for line in report.remains)
    SQLiteManager(tmp_path / "chat.db").close()
    assert standing(tmp_path) == set()


def test_a_report_can_be_kept(memory: MemoryManager) -> None:
    plant(store_of(memory))
    report = memory.forget("tower")
    assert ForgottenReport.model_validate_json(report.model_dump_json()) == report
    assert json.loads(report.model_dump_json())["session_id"] == "tower"


def test_a_session_in_memory_is_forgotten_too() -> None:
    with MemoryManager() as memory:
        plant(store_of(memory))
        whole(memory.forget("tower"))
        assert memory.sessions() == []


def test_other_scopes_have_no_such_session(memory: MemoryManager) -> None:
    talk(store_of(memory), "theirs", "Mine.", scope="bob")
    with pytest.raises(NotFound):
        memory.forget("theirs")
    assert store_of(memory).session("theirs")


# --- a person -------------------------------------------------------------------------------------


def test_no_byte_of_a_person_is_left_and_every_byte_of_others(
    tmp_path: Path, memory: MemoryManager, settings: CompactConfig
) -> None:
    """All sessions of a scope: archived, packed, open, notes, copies; and what migrations kept."""
    store = store_of(memory)
    talk(store, "keep", "The gate stays open.")
    anna = MemoryManager(store, scope="anna", settings=settings)
    plant(store)
    store.db.execute("UPDATE sessions SET scope = 'anna' WHERE id = 'tower'")
    talk(store, "gate", SECRETS["branch"], scope="anna")
    anna.remember(SECRETS["note"])
    FileStorage(settings.archive or "").save_summary("gate", 1, SECRETS["summary"])
    assert not anna.archive(["tower"]).failed
    anna.archives.pack(["gate"], now=DAY)
    old = tmp_path / "old.json"
    old.write_text(json.dumps([{"role": "user", "content": "The gate again."}]))
    migrate(old, store=store, scope="anna")
    [kept] = (tmp_path / "migrations").iterdir()
    for name in ("keep", "gate"):
        recall_of(store, name, "tower")
    report = anna.forget(person="anna")
    assert report.remains == (
        f"{kept / 'manifest.json'}, the list of a migration, names it",
        f"{kept / 'backup'}, which a migration kept, may hold it",
    )
    assert (report.session_id, report.scope, report.quoted) == (None, "anna", {})
    assert report.removed["sessions"] == 4
    assert report.removed["copies"] == report.removed["files of archives"] == 1
    assert anna.forget(person="anna").remains == report.remains, "as long as it is there"
    shutil.rmtree(kept)
    assert standing(tmp_path) == set()
    assert anna.sessions() == []
    assert store.integrity_check() == []
    assert [hit.session_id for hit in memory.search("gate").hits] == ["keep"]
    told = store.db.execute("SELECT what FROM changes WHERE kind = 'recalled'").get
    assert "tower" in told, "another scope's log is as it was"
    assert whole(anna.forget(person="anna")).removed == {}, "again, as a proof"


def test_a_person_is_named_or_nobody_is_deleted(memory: MemoryManager) -> None:
    talk(store_of(memory), "mine", "Mine.")
    for wrong in ({}, {"person": "anna"}, {"person": ""}, {"session_id": "mine", "person": "x"}):
        with pytest.raises(InvalidArgument, match="person='default'"):
            memory.forget(**wrong)
    assert [each.id for each in memory.sessions()] == ["mine"]
