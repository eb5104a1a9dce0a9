"""Archives and databases that are encrypted on the disk (A-5).

Databases need `apsw-sqlite3mc` in the place of `apsw`; without it, those tests are skipped.
"""

import os
import random
import subprocess
import sys
from pathlib import Path

import apsw
import pytest

from compact import ArchivalManager, CompactConfig, MemoryManager, SQLiteManager
from compact.errors import InvalidArgument, StoreDamaged, StoreFailed
from compact.messages.messages import Message
from compact.messages.sessions import Entry
from compact.store.blobs import sealing
from compact.store.sqlite import encryption
from compact.store.sqlite.repair import repair
from tests.store.archiving_sessions import NOW, archive, files, make, rows_of, told
from tests.store.making import entry, opened, texts

SECRET, OTHER = "twelve heavy oak beams", "twelve heavy oak planks"
WORDS = b"the gable is rotten"
encrypting = pytest.mark.skipif(
    not encryption.is_available(), reason="needs apsw-sqlite3mc in the place of apsw"
)
plain = pytest.mark.skipif(encryption.is_available(), reason="needs apsw without encryption")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sealing, "SCRYPT", {"n": 2**10, "r": 8, "p": 1})
    monkeypatch.delenv(sealing.VARIABLE, raising=False)


def sealing_store(path: Path, monkeypatch: pytest.MonkeyPatch, secret: str) -> SQLiteManager:
    """A store whose key the environment has, so that its archives are sealed with any apsw."""
    with monkeypatch.context() as patched:
        patched.setenv(sealing.VARIABLE, secret)
        return SQLiteManager(path)


# --- archives -------------------------------------------------------------------------------------


@pytest.fixture
def chat(tmp_path: Path) -> Path:
    """A file that is not encrypted, so that it is opened with any key or none."""
    with SQLiteManager(tmp_path / "chat.db") as store:
        make(store, "a", random.Random(3))
    return tmp_path / "chat.db"


def test_archives_are_sealed_where_there_is_a_key(
    chat: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = chat.with_name("chat-archive")
    with sealing_store(chat, monkeypatch, SECRET) as store:
        before, said = rows_of(store, "a"), told(store, "a")
        archive(store, home, "a")
    [path] = files(home)
    assert path.read_bytes().startswith(sealing.MAGIC)
    assert b"Title of a" not in path.read_bytes()
    assert path.stat().st_mode & 0o77 == 0
    with sealing_store(chat, monkeypatch, SECRET) as store:
        assert told(store, "a") == said
        assert store.integrity_check() == []
        store.restore_session("a")
        assert rows_of(store, "a") == before
        assert files(home) == []


@pytest.mark.parametrize("secret", [None, OTHER])
def test_without_its_key_an_archive_is_not_read_and_stays(
    chat: Path, monkeypatch: pytest.MonkeyPatch, secret: str | None
) -> None:
    home = chat.with_name("chat-archive")
    with sealing_store(chat, monkeypatch, SECRET) as store:
        said = told(store, "a")
        archive(store, home, "a")
    before = {path: path.read_bytes() for path in files(home)}
    with (
        sealing_store(chat, monkeypatch, secret) if secret else SQLiteManager(chat) as store,
    ):
        for do in (lambda: store.read("a", 0, 9), lambda: store.restore_session("a")):
            with pytest.raises(StoreFailed, match="COMPACT_ENCRYPTION_KEY") as failed:
                do()
            assert not isinstance(failed.value, StoreDamaged)
        assert "cannot be verified" in store.archive_faults()[0].what
        assert len(store.archived_sessions()) == 1
    assert {path: path.read_bytes() for path in files(home)} == before
    with sealing_store(chat, monkeypatch, SECRET) as store:
        assert told(store, "a") == said


@pytest.mark.parametrize("secret", [SECRET, OTHER])
def test_a_plain_database_with_sealed_archives_is_repaired(
    chat: Path, monkeypatch: pytest.MonkeyPatch, secret: str
) -> None:
    with sealing_store(chat, monkeypatch, SECRET) as store:
        said = told(store, "a")
        archive(store, chat.with_name("chat-archive"), "a")
        store.db.execute("UPDATE branches SET fork_tokens = 7 WHERE key = 1")
    monkeypatch.setenv(sealing.VARIABLE, secret)
    assert repair(chat).kept_as
    assert chat.read_bytes().startswith(b"SQLite format 3")
    monkeypatch.setenv(sealing.VARIABLE, SECRET)
    with SQLiteManager(chat) as store:
        assert told(store, "a") == said


@pytest.mark.parametrize("secret", [None, OTHER])
def test_what_another_key_has_sealed_is_not_written_over(
    chat: Path, monkeypatch: pytest.MonkeyPatch, secret: str | None, tmp_path: Path
) -> None:
    """Two copies of a store put their archives into one folder."""
    home, copy = chat.with_name("chat-archive"), tmp_path / "copy.db"
    copy.write_bytes(chat.read_bytes())
    with sealing_store(chat, monkeypatch, SECRET) as store:
        archive(store, home, "a")
    before = {path: path.read_bytes() for path in files(home)}
    with (
        sealing_store(copy, monkeypatch, secret) if secret else SQLiteManager(copy) as store,
    ):
        rows = rows_of(store, "a")
        report = store.archive_sessions(["a"], folder=home, now=NOW)
        assert "COMPACT_ENCRYPTION_KEY" in report.failed["a"]
        assert rows_of(store, "a") == rows
        assert {path: path.read_bytes() for path in files(home)} == before


def test_archives_that_were_not_sealed_are_read_on(
    chat: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = chat.with_name("chat-archive")
    with SQLiteManager(chat) as store:
        said = told(store, "a")
        archive(store, home, "a")
    with sealing_store(chat, monkeypatch, SECRET) as store:
        assert told(store, "a") == said


def test_the_key_is_in_no_settings_and_no_error(
    chat: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(sealing.VARIABLE, SECRET)
    settings = CompactConfig.load()
    assert SECRET not in repr(settings) + settings.model_dump_json() + str(settings.model_dump())
    with ArchivalManager(chat) as archives:
        archives.archive_conversations(["a"], now=NOW)
        monkeypatch.setenv(sealing.VARIABLE, OTHER)
        assert SECRET not in repr(vars(archives._store.pool))  # type: ignore[attr-defined]
    with SQLiteManager(chat) as store, pytest.raises(StoreFailed) as failed:
        store.restore_session("a")
    for text in (str(failed.value), repr(failed.value), caplog.text):
        assert SECRET not in text
        assert OTHER not in text


def test_a_short_key_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="12 characters"):
        SQLiteManager(tmp_path / "chat.db", key="oak")
    assert not (tmp_path / "chat.db").exists()


def test_a_backup_is_sealed_as_the_archives_are(
    chat: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with sealing_store(chat, monkeypatch, SECRET) as store:
        archive(store, chat.with_name("chat-archive"), "a")
        said = told(store, "a")
    with pytest.raises(StoreFailed, match="encrypted"), MemoryManager(chat) as memory:
        memory.backup(tmp_path / "backup")
    monkeypatch.setenv(sealing.VARIABLE, SECRET)
    with MemoryManager(chat) as memory:
        memory.backup(tmp_path / "backup")
    copied = files(tmp_path / "backup" / "archive")
    assert len(copied) == 1
    assert all(path.read_bytes().startswith(sealing.MAGIC) for path in copied)
    assert SECRET.encode() not in (tmp_path / "backup" / "settings.json").read_bytes()
    MemoryManager.restore_backup(tmp_path / "backup", tmp_path / "new.db")
    with SQLiteManager(tmp_path / "new.db") as store:
        assert told(store, "a") == said
        assert store.integrity_check() == []


# --- databases ------------------------------------------------------------------------------------


@plain
def test_without_the_module_a_key_says_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(StoreFailed, match="apsw-sqlite3mc"):
        SQLiteManager(tmp_path / "chat.db", key=SECRET)
    assert not (tmp_path / "chat.db").exists()


def looks_encrypted(path: Path) -> bytes:
    """What an encrypted file begins with; whoever sees it without the module is told."""
    data = bytes(range(100, 116)) + b"\x10\x00\x02\x02\x20\x40\x20\x20" + bytes(8168)
    path.write_bytes(data)
    return data


def test_an_encrypted_file_is_told_from_a_damaged_one(tmp_path: Path) -> None:
    path = tmp_path / "chat.db"
    data = looks_encrypted(path)
    for do in (SQLiteManager, repair):
        with pytest.raises(StoreFailed, match="is encrypted: give its key") as failed:
            do(path)
        assert not isinstance(failed.value, StoreDamaged)
        what = "wrong key, or not a database" if encryption.is_available() else "apsw-sqlite3mc"
        with pytest.raises(StoreFailed, match=what) as failed:
            do(path, key=SECRET)
        assert not isinstance(failed.value, StoreDamaged)
    assert path.read_bytes() == data
    path.write_bytes(b"no database" * 99)
    with pytest.raises(StoreDamaged, match="no database at all"):
        SQLiteManager(path)


def test_a_file_that_is_not_encrypted_is_opened_without_a_key(
    chat: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(StoreFailed, match="not encrypted"):
        SQLiteManager(chat, key=SECRET)
    monkeypatch.setenv(sealing.VARIABLE, SECRET)
    with SQLiteManager(chat) as store:
        assert store.session("a").id == "a"
    assert chat.read_bytes().startswith(encryption.PLAIN)
    assert repair(chat).kept_as is None


def test_a_store_in_memory_has_nothing_to_encrypt(monkeypatch: pytest.MonkeyPatch) -> None:
    with SQLiteManager(key=SECRET) as store:
        make(store, "a", random.Random(3))
        assert store.integrity_check() == []


def filled(path: Path) -> SQLiteManager:
    store = SQLiteManager(path, key=SECRET)
    make(store, "a", random.Random(3))
    store.append("a", [Entry(Message(role="user", content=WORDS.decode())) for _ in range(400)])
    return store


@encrypting
def test_nothing_is_on_the_disk_in_plain(tmp_path: Path) -> None:
    """Neither in the database, nor in its log, nor in what is swept, nor in archives."""
    path = tmp_path / "chat.db"
    with filled(path) as store:
        for _ in range(2):
            for each in tmp_path.rglob("*"):
                assert not each.is_file() or WORDS not in each.read_bytes(), each
            said = told(store, "a")
            archive(store, tmp_path / "chat-archive", "a")
            assert told(store, "a") == said
        assert store.integrity_check() == []
    assert encryption.is_encrypted(path)
    assert all(
        each.read_bytes().startswith(sealing.MAGIC) for each in files(tmp_path / "chat-archive")
    )


@encrypting
def test_a_backup_of_an_encrypted_store_is_encrypted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(sealing.VARIABLE, SECRET)
    filled(tmp_path / "chat.db").close()
    with MemoryManager(tmp_path / "chat.db") as memory:
        memory.archive(["a"])
        memory.backup(tmp_path / "backup")
    for each in (tmp_path / "backup").rglob("*"):
        assert not each.is_file() or WORDS not in each.read_bytes()
    MemoryManager.restore_backup(tmp_path / "backup", tmp_path / "new.db")
    assert encryption.is_encrypted(tmp_path / "new.db")
    with SQLiteManager(tmp_path / "new.db") as store:
        assert WORDS.decode() in texts(store.read("a", 0, 10**6))
    monkeypatch.delenv(sealing.VARIABLE)
    with pytest.raises(StoreFailed, match="is encrypted: give its key"):
        MemoryManager.restore_backup(tmp_path / "backup", tmp_path / "other.db")


@encrypting
def test_every_way_to_open_it_has_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "chat.db"
    filled(path).close()
    with SQLiteManager(path, key=SECRET) as store:
        said = told(store, "a")
    monkeypatch.setenv(sealing.VARIABLE, SECRET)
    with SQLiteManager(path) as store:
        assert told(store, "a") == said
    path.chmod(0o400)
    tmp_path.chmod(0o500)
    monkeypatch.setattr("compact.store.sqlite.pool._is_writable", lambda _: False)
    try:
        with SQLiteManager(path) as store:
            assert told(store, "a") == said
    finally:
        tmp_path.chmod(0o700)


@encrypting
@pytest.mark.parametrize("key", [None, OTHER])
def test_a_wrong_key_says_so_and_changes_nothing(tmp_path: Path, key: str | None) -> None:
    """Also where a log is left that is not worked off yet."""
    path = tmp_path / "chat.db"
    with filled(path) as store:
        said = told(store, "a")
        crashed = tmp_path / "crashed"
        crashed.mkdir()
        for ending in ("", "-wal"):
            (crashed / f"chat.db{ending}").write_bytes(Path(f"{path}{ending}").read_bytes())
    left = crashed / "chat.db"
    before = {each.name: each.read_bytes() for each in crashed.iterdir()}
    assert len(before["chat.db-wal"]) > 0
    what = "is encrypted: give its key" if key is None else "wrong key, or not a database"
    for do in (SQLiteManager, repair):
        with pytest.raises(StoreFailed, match=what) as failed:
            do(left, key=key)
        assert not isinstance(failed.value, StoreDamaged)
    for name, data in before.items():
        assert (crashed / name).read_bytes() == data
    with SQLiteManager(left, key=SECRET) as store:
        assert told(store, "a") == said
        assert store.integrity_check() == []


@encrypting
def test_a_damaged_encrypted_file_is_told_and_repaired(tmp_path: Path) -> None:
    path = tmp_path / "chat.db"
    with filled(path) as store:
        size = store.db.pragma("page_size")
        page = store.db.execute(
            "SELECT max(pageno) FROM dbstat WHERE name = 'messages' AND pagetype = 'leaf'"
        ).get
    data = bytearray(path.read_bytes())
    data[(page - 1) * size + 99] ^= 1
    path.write_bytes(bytes(data))
    with SQLiteManager(path, key=SECRET) as store:
        assert store.integrity_check()
    with pytest.raises(StoreFailed, match="give its key"):
        repair(path)
    report = repair(path, key=SECRET)
    assert report.kept_as is not None
    assert not report.is_complete
    assert encryption.is_encrypted(path)
    assert WORDS not in path.read_bytes()
    with SQLiteManager(path, key=SECRET) as store:
        assert store.integrity_check() == []
        assert WORDS.decode() in texts(store.read("a", 0, 999))
    assert not list(tmp_path.glob(".chat.db-repair-*"))


@encrypting
def test_an_encrypted_file_that_is_too_short_is_never_complete(tmp_path: Path) -> None:
    path = tmp_path / "chat.db"
    with filled(path) as store:
        store.search("a", "gable", most=1)  # the index is written last
    os.truncate(path, path.stat().st_size - 4096)
    report = repair(path, key=SECRET)
    assert not report.is_complete
    assert any("shorter" in line for line in report.remarks)
    with SQLiteManager(path, key=SECRET) as store:
        assert store.integrity_check() == []


@encrypting
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_has_the_key_too(tmp_path: Path) -> None:
    with filled(tmp_path / "chat.db") as store:
        child = os.fork()
        if not child:
            found = False
            try:
                with SQLiteManager(tmp_path / "chat.db", key=SECRET) as own:
                    own.append("a", [entry("from the child")])
                    found = bool(own.read("a", 0, 9))
            finally:
                os._exit(0 if found else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert texts(store.read("a", 0, 10**6))[-1:] == ["from the child"]


WRITER = """
import sys
from compact import SQLiteManager
from compact.messages.messages import Message
from compact.messages.sessions import Entry
with SQLiteManager(sys.argv[1]) as store:
    for number in range(10**6):
        store.append("a", [Entry(Message(role="user", content=f"note {number}"))])
        print(number, flush=True)
"""


@encrypting
def test_whoever_is_killed_loses_nothing_that_was_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(sealing.VARIABLE, SECRET)
    path = tmp_path / "chat.db"
    with opened(path):
        pass
    assert encryption.is_encrypted(path)
    for _ in range(3):
        given = [sys.executable, "-c", WRITER, str(path)]
        with subprocess.Popen(given, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for _ in range(20):
                last = process.stdout.readline()
            process.kill()
        with SQLiteManager(path) as store:
            assert store.integrity_check() == []
            assert f"note {int(last)}" in texts(store.read("a", 0, 10**6))


def test_the_module_is_never_asked_for_a_key_it_cannot_use() -> None:
    """PRAGMA hexkey is no error where it means nothing: then the file would be plain."""
    assert encryption.is_available() == hasattr(apsw, "mc_version")
