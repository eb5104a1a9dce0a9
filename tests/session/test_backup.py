"""Backups are whole or not there, and what is restored is what was backed up (A-7)."""

import json
import os
import random
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from compact import CompactConfig, MemoryManager, SQLiteManager
from compact.errors import InvalidArgument, NotFound, StoreDamaged, StoreFailed
from compact.memory.backup import _json, _sum_of, make_backup
from compact.messages.sessions import Session
from compact.store.inmemory import InMemoryStore
from compact.store.sqlite import backup as database_backup
from compact.text.archived import BackupReport
from tests.session.test_memory_manager import put
from tests.store.archiving_sessions import make, rows_of, told
from tests.store.making import assert_chained, entry

ROOT = Path(__file__).resolve().parents[2]
NAMES = ("a", "ü\ud800/..", "c", "d")
ARCHIVED = ("a", "ü\ud800/..")


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[MemoryManager]:
    """Sessions of all kinds, two of them in the archive."""
    (tmp_path / "home").mkdir()
    with MemoryManager(tmp_path / "home/chat.db") as made:
        for number, name in enumerate(NAMES):
            make(store_of(made), name, random.Random(number))
        put(store_of(made), "theirs", "A crane of another scope.", scope="bob")
        assert not made.archive(list(ARCHIVED)).failed
        yield made


def store_of(memory: MemoryManager) -> SQLiteManager:
    assert isinstance(memory.store, SQLiteManager)
    return memory.store


def everything(memory: MemoryManager) -> dict[str, Any]:
    """All rows of all sessions, and what is told of them."""
    store = store_of(memory)
    every: list[Session] = store.sessions()
    return {each.id: (rows_of(store, each.id), told(store, each.id)) for each in every}


def search(memory: MemoryManager) -> dict[str, Any]:
    """What is found, but for where archives lie."""
    found = memory.search("roof beam")
    return found.model_dump(exclude={"complete": True, "archived": {"__all__": {"file"}}})


def tree(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


# --- what is in it --------------------------------------------------------------------------------


def test_a_restored_store_is_the_original(tmp_path: Path, memory: MemoryManager) -> None:
    before, found = everything(memory), search(memory)
    report = memory.backup(tmp_path / "backup")
    assert (report.sessions, report.archives) == (5, 2)
    shutil.rmtree(tmp_path / "home")
    back = MemoryManager.restore_backup(tmp_path / "backup", tmp_path / "new.db")
    assert back.model_dump(exclude={"path"}) == report.model_dump(exclude={"path"})
    with MemoryManager(tmp_path / "new.db") as restored:
        assert everything(restored) == before
        assert search(restored) == found
        assert {each.session_id for each in restored.archived()} == set(ARCHIVED)
        assert Path(restored.archived()[0].file).is_relative_to(tmp_path / "new-archive")
        assert restored.archives.verify() == []
        assert store_of(restored).integrity_check() == []
        for name in ARCHIVED:
            restored.restore(name)
        assert store_of(restored).integrity_check() == []
    assert MemoryManager.restore_backup(tmp_path / "backup", tmp_path / "again.db").sessions == 5


def test_a_backup_works_from_where_it_lies(tmp_path: Path, memory: MemoryManager) -> None:
    """Also where archives lie outside of the store's folder."""
    store, before = store_of(memory), everything(memory)
    report = store.archive_sessions(["c"], folder=tmp_path / "far", now=entry("").message.timestamp)
    assert not report.failed
    memory.backup(tmp_path / "backup")
    shutil.rmtree(tmp_path / "home")
    shutil.rmtree(tmp_path / "far")
    with MemoryManager(tmp_path / "backup/sessions.db") as there:
        assert {name: each[1] for name, each in everything(there).items()} == {
            name: each[1] for name, each in before.items()
        }
        assert len(there.archived()) == 3
        assert store_of(there).integrity_check() == []


def test_the_manifest_and_the_settings_say_what_it_is(
    tmp_path: Path, memory: MemoryManager
) -> None:
    settings = CompactConfig(trigger_ratio=0.8, ariadne_url="http://me:hunter2secret@127.0.0.1:1")
    with MemoryManager(store_of(memory), settings=settings) as made:
        made.backup(tmp_path / "backup")
    data = tree(tmp_path / "backup")
    manifest = json.loads(data["manifest.json"])
    assert (manifest["schema"], manifest["version"]) == ("compact/backup", 1)
    assert set(manifest["files"]) == set(data) - {"manifest.json"}
    assert len(data) == 3 + 2
    kept = json.loads(data["settings.json"])
    assert kept["trigger_ratio"] == 0.8
    assert b"hunter2secret" not in b"".join(data.values())
    assert CompactConfig(**kept).trigger_ratio == 0.8
    for path in (tmp_path / "backup", *(tmp_path / "backup").rglob("*")):
        assert path.stat().st_mode & 0o77 == 0, "for its owner only"


def test_progress_is_told_to_the_end(tmp_path: Path, memory: MemoryManager) -> None:
    for work, place in ((memory.backup, "backup"), (None, "new.db")):
        calls: list[tuple[int, int]] = []

        def tell(done: int, of: int, calls: list[tuple[int, int]] = calls) -> None:
            calls.append((done, of))

        if work is None:
            MemoryManager.restore_backup(tmp_path / "backup", tmp_path / place, progress=tell)
        else:
            work(tmp_path / place, progress=tell)
        assert calls[-1][0] == calls[-1][1] > 0


def test_a_store_in_memory_is_backed_up_too(tmp_path: Path) -> None:
    with MemoryManager() as memory:
        put(store_of(memory), "yard", "The crane is blue.")
        memory.backup(tmp_path / "backup")
    MemoryManager.restore_backup(tmp_path / "backup", tmp_path / "new.db")
    with MemoryManager(tmp_path / "new.db") as restored:
        assert restored.search("crane").hits[0].session_id == "yard"


# --- while it is in use ---------------------------------------------------------------------------


def test_writers_go_on_while_it_is_copied(
    tmp_path: Path, memory: MemoryManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_backup, "PAGES", 1)
    store, ended, written = store_of(memory), threading.Event(), list[int]()
    turn = threading.Lock()  # the two writers do not keep each other waiting, however busy it is

    def write() -> None:
        while not ended.wait(0.0005):
            with turn:
                written.append(store.append("theirs", [entry(f"during {len(written)}")]))

    with SQLiteManager(store.path) as other:
        thread = threading.Thread(target=write)
        thread.start()

        def wait(done: int, of: int) -> None:
            assert done <= of
            seen = len(written)
            while len(written) < seen + 2 and thread.is_alive():
                ended.wait(0.0005)
            with turn:
                other.append("theirs", [entry("from another process's connection")])

        try:
            report = memory.backup(tmp_path / "backup", progress=wait)
        finally:
            ended.set()
            thread.join()
    assert len(written) > 20
    MemoryManager.restore_backup(tmp_path / "backup", tmp_path / "new.db")
    with SQLiteManager(tmp_path / "new.db") as restored:
        assert len(assert_chained(restored, "theirs")) < len(written)
        assert restored.integrity_check() == []
    assert report.sessions == 5


def test_what_leaves_the_archive_meanwhile_is_not_missing(
    tmp_path: Path, memory: MemoryManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Restored and forgotten between the copy of the database and that of its archives."""
    copy, left = database_backup._copy_database, list(ARCHIVED)

    def then_leaves(*given: Any) -> None:
        copy(*given)
        if left:
            name = left.pop()
            memory.restore(name) if name == "a" else memory.forget(name)

    monkeypatch.setattr(database_backup, "_copy_database", then_leaves)
    report = memory.backup(tmp_path / "backup")
    assert (report.sessions, report.archives) == (4, 0)
    MemoryManager.restore_backup(tmp_path / "backup", tmp_path / "new.db")
    with MemoryManager(tmp_path / "new.db") as restored:
        assert {name: x[1] for name, x in everything(restored).items()} == {
            name: x[1] for name, x in everything(memory).items()
        }


def test_archives_that_leave_again_and_again_end_in_an_honest_error(
    tmp_path: Path, memory: MemoryManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = database_backup._copy_database

    def then_leaves(*given: Any) -> None:
        if not memory.archived():
            memory.archive(["a"])
        copy(*given)
        for each in memory.archived():
            memory.restore(each.session_id)

    monkeypatch.setattr(database_backup, "_copy_database", then_leaves)
    with pytest.raises(StoreFailed, match=r"left the archive 3 times.*try again"):
        memory.backup(tmp_path / "backup")
    assert [path.name for path in tmp_path.iterdir()] == ["home"]


def test_an_archive_that_is_damaged_is_told_and_nothing_written(
    tmp_path: Path, memory: MemoryManager
) -> None:
    path = Path(memory.archived()[0].file)
    path.write_bytes(path.read_bytes() + b" ")
    with pytest.raises(StoreDamaged, match=r"checksum differs.*doctor --check"):
        memory.backup(tmp_path / "backup")
    path.unlink()
    with pytest.raises(StoreDamaged, match=r"is missing.*doctor --check"):
        memory.backup(tmp_path / "backup")
    assert [each.name for each in tmp_path.iterdir()] == ["home"]


# --- nothing is replaced, and what is altered is noticed ------------------------------------------


def test_whatever_file_is_altered_nothing_is_restored(
    tmp_path: Path, memory: MemoryManager
) -> None:
    memory.backup(tmp_path / "backup")
    rng = random.Random(3)
    whole = tree(tmp_path / "backup")
    assert len(whole) == 5
    for name, data in whole.items():
        path = tmp_path / "backup" / name
        at = rng.randrange(len(data))
        flipped = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
        for altered in (flipped, data[:at], data + b"\n", None):
            path.unlink() if altered is None else path.write_bytes(altered)
            with pytest.raises((StoreDamaged, NotFound)):
                MemoryManager.restore_backup(tmp_path / "backup", tmp_path / "new.db")
            assert sorted(each.name for each in tmp_path.iterdir()) == ["backup", "home"], name
            path.write_bytes(data)
    assert MemoryManager.restore_backup(tmp_path / "backup", tmp_path / "new.db").sessions == 5


def test_a_manifest_that_lies_is_noticed(tmp_path: Path, memory: MemoryManager) -> None:
    """With sums that are right again: names that lead out of the folder, other counts."""
    memory.backup(tmp_path / "backup")
    path = tmp_path / "backup/manifest.json"
    whole = json.loads(path.read_text())
    outside = {**whole["files"], "../home/chat.db": whole["files"]["sessions.db"]}
    for changed in ({"files": outside}, {"sessions": 4}, {"messages": 1}):
        lies = {**whole, **changed}
        path.write_bytes(_json({**lies, "sha256": _sum_of(lies)}))
        with pytest.raises(StoreDamaged):
            MemoryManager.restore_backup(tmp_path / "backup", tmp_path / "new.db")
        assert sorted(each.name for each in tmp_path.iterdir()) == ["backup", "home"]
    newer = {**whole, "version": 2}
    path.write_bytes(_json(newer))
    with pytest.raises(StoreFailed, match="Update compact"):
        MemoryManager.restore_backup(tmp_path / "backup", tmp_path / "new.db")


def test_nothing_that_is_there_is_replaced(tmp_path: Path, memory: MemoryManager) -> None:
    memory.backup(tmp_path / "backup")
    before = tree(tmp_path / "backup")
    (tmp_path / "a.db-wal").write_text("x")
    (tmp_path / "b-archive").mkdir()
    (tmp_path / "b-archive/mine.json").write_text("x")
    (tmp_path / "mine").write_text("x")
    for name in ("backup", "mine", "home"):
        with pytest.raises(StoreFailed, match="is there already, and stays as it is"):
            memory.backup(tmp_path / name)
    for name in ("home/chat.db", "a.db", "b.db", "mine"):
        with pytest.raises(StoreFailed, match="is there already, and stays as it is"):
            MemoryManager.restore_backup(tmp_path / "backup", tmp_path / name)
    assert tree(tmp_path / "backup") == before
    with pytest.raises(StoreFailed, match="make it first"):
        memory.backup(tmp_path / "no/backup")
    with pytest.raises(NotFound, match="is no backup"):
        MemoryManager.restore_backup(tmp_path / "home", tmp_path / "new.db")
    with pytest.raises(InvalidArgument, match="needs a store"):
        make_backup(InMemoryStore(), tmp_path / "x", CompactConfig())


def test_what_a_restore_that_was_killed_has_left_is_taken(
    tmp_path: Path, memory: MemoryManager
) -> None:
    """The archives had their name, the database had not."""
    memory.backup(tmp_path / "backup")
    shutil.copytree(tmp_path / "backup/archive", tmp_path / "new-archive")
    assert MemoryManager.restore_backup(tmp_path / "backup", tmp_path / "new.db").archives == 2
    with MemoryManager(tmp_path / "new.db") as restored:
        assert restored.archives.verify() == []


# --- killed ---------------------------------------------------------------------------------------

KILLED = """
import os, sys
from compact import MemoryManager
from compact.memory import backup
left = int(sys.argv[3])
def dies(*_):
    global left
    left -= 1
    if left < 0:
        os.kill(os.getpid(), 9)
for name in ("write_whole", "put_in_place", "make_folders", "_sum"):
    def wrapped(*given, real=getattr(backup, name), **more):
        dies()
        made = real(*given, **more)
        dies()
        return made
    setattr(backup, name, wrapped)
if sys.argv[4] == "backup":
    with MemoryManager(sys.argv[1]) as memory:
        memory.backup(sys.argv[2], progress=dies)
else:
    MemoryManager.restore_backup(sys.argv[1], sys.argv[2], progress=dies)
print("done")
"""


@pytest.mark.slow
@pytest.mark.parametrize("way", ["backup", "restore"])
def test_whoever_is_killed_leaves_nothing_or_all_of_it(
    tmp_path: Path, memory: MemoryManager, way: str
) -> None:
    """At each step; what is left beside it is removed by the next one."""
    memory.backup(tmp_path / "whole")
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    source = store_of(memory).path if way == "backup" else str(tmp_path / "whole")
    outcomes: list[str] = []
    for step in range(200):
        place = tmp_path / f"at{step}"
        place.mkdir()
        target = place / ("kept" if way == "backup" else "new.db")
        command = [sys.executable, "-c", KILLED, source, str(target), str(step), way]
        ran = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        outcomes.append("whole" if target.exists() else "nothing")
        made: BackupReport | None = None
        if not target.exists():
            if way == "backup":
                made = memory.backup(target)
            else:
                made = MemoryManager.restore_backup(source, target)
        assert made is None or made.sessions == 5
        names = {"kept"} if way == "backup" else {"new.db", "new-archive"}
        left = {path.name for path in place.iterdir()} - names
        assert all(made is None and name.startswith(".") for name in left), left
        if way == "backup":
            assert MemoryManager.restore_backup(target, place / "back.db").sessions == 5
        else:
            with SQLiteManager(target) as store:
                assert store.integrity_check() == []
                assert len(store.sessions()) == 5
        shutil.rmtree(place)
        if ran.stdout == "done\n":
            break
        assert ran.returncode == -9, ran.stderr
    assert set(outcomes) == {"nothing", "whole"}
