"""Sessions whose messages lie in files: nothing is lost, whatever happens (A-5)."""

import json
import multiprocessing
import os
import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compact import MemoryManager, SQLiteManager
from compact.errors import NotFound, StoreDamaged, StoreFailed
from compact.messages.messages import Message
from compact.messages.sessions import Branch, Entry, Step
from compact.store import session_file
from compact.store.archives import folder as archive_folder
from compact.store.blobs import places
from compact.store.sqlite import originals
from compact.store.sqlite.recovery import LOST
from compact.store.sqlite.repair import repair
from compact.store.whole_session import read_whole
from tests.store.archiving_sessions import (
    NOW,
    archive,
    files,
    make,
    rows_of,
    said,
    told,
    with_text,
)
from tests.store.faulty import full_disk
from tests.store.making import entry, opened, session, step, texts

OLD = Path(__file__).parents[1] / "fixtures" / "archives"
"""Sessions that compact of schema 3 archived, and a backup of them."""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "chat-archive"


def made(path: Path, *names: str, seed: int = 4, **settings: Any) -> SQLiteManager:
    store = SQLiteManager(path, **settings)
    for number, name in enumerate(names):
        make(store, name, random.Random(seed + number))
    return store


# --- identity -------------------------------------------------------------------------------------


@given(seed=st.integers(0, 2**32), durability=st.sampled_from(["full", "normal"]))
def test_what_was_archived_comes_back_byte_for_byte(seed: int, durability: Any) -> None:
    """A-5: over random sessions with branches, checkpoints and odd Unicode."""
    with TemporaryDirectory() as made_in:
        place = Path(made_in)
        with made(place / "chat.db", "a", "ü\ud800/..", seed=seed, durability=durability) as store:
            names = ("a", "ü\ud800/..")
            before = {name: rows_of(store, name) for name in names}
            said_before = {name: told(store, name) for name in names}
            archive(store, place / "archive", *names)
            assert {name: told(store, name) for name in names} == said_before
            assert with_text(store) == 0
            assert store.integrity_check() == []
            for name in names:
                store.restore_session(name)
            assert {name: rows_of(store, name) for name in names} == before
            assert {name: told(store, name) for name in names} == said_before
            assert store.integrity_check() == []
            assert files(place / "archive") == []


def test_an_archive_is_what_an_export_writes(tmp_path: Path, home: Path) -> None:
    """A person and `jq` can read it, and an import makes the same session again."""
    with made(tmp_path / "chat.db", "a") as store, SQLiteManager() as other:
        before = told(store, "a")
        archive(store, home, "a")
        [path] = files(home)
        read = session_file.read(path.read_bytes(), path.name)
        assert read.whole is not None
        assert path.read_bytes() == session_file.packed(read_whole(store, "a"))
        other.put_session(read.whole)
        assert told(other, "a")[1:3] == before[1:3]
    assert path.relative_to(home).parts[:2] == ("2026", "05")
    text = session_file.unpacked(path.read_bytes()).decode()
    assert json.loads(text)["format"] == "compact-session"
    assert session_file.is_session_file(path.read_bytes())
    assert [each.stat().st_mode & 0o77 for each in (path, home)] == [0, 0]


@pytest.mark.parametrize("name", ["chat", "backup"])
def test_archives_of_schema_3_are_read_found_and_come_back(tmp_path: Path, name: str) -> None:
    """They have other files: rows of tables, and a description beside them."""
    shutil.copytree(OLD, tmp_path / "old")
    said = json.loads((OLD / "said.json").read_text())
    if name == "backup":
        MemoryManager.restore_backup(tmp_path / "old" / name, tmp_path / "old" / f"{name}.db")
    with SQLiteManager(tmp_path / "old" / f"{name}.db") as store:
        assert len(store.archived_sessions()) == 2
        assert store.integrity_check() == []
        for session_id, lines in said.items():
            own = store.branches(session_id)
            now = [store.read(each.id, 0, 10**9) for each in own]
            assert [[_plain(each) for each in line] for line in now] == lines
        assert {hit.session_id for hit in MemoryManager(store).search("roof", limit=99).hits} == {
            *said
        }
        for session_id in said:
            store.restore_session(session_id)
        assert store.archived_sessions() == []
        assert files(tmp_path / "old" / f"{name}-archive") == []
        assert store.integrity_check() == []
        assert [_plain(each) for each in store.read("a", 0, 10**9)] == said["a"][0]


def _plain(entry: Entry) -> list[Any]:
    return [json.loads(json.dumps(entry.message.model_dump(mode="json"))), *entry[1:]]


def test_orders_of_schema_3_to_remove_files_are_carried_out(tmp_path: Path) -> None:
    """A name had no suffix then. Files that a session uses stay."""
    shutil.copytree(OLD, tmp_path / "old")
    home, database = tmp_path / "old" / "chat-archive", tmp_path / "old" / "chat.db"
    name = next(home.rglob("a-*.json")).relative_to(home).with_suffix("").as_posix()
    with apsw.Connection(str(database)) as db:
        db.execute("INSERT INTO chores VALUES (?)", (f"discard chat-archive\n{name}",))
    with SQLiteManager(database) as store:
        assert (len(files(home)), store.archive_faults()) == (4, [])
    shutil.copy(OLD / "chat.db", database)
    flipped(next(home.rglob("a-*.zst")))
    with SQLiteManager(database) as store:
        assert [each.session_id for each in store.archive_faults()] == ["a"]
        store.delete_session("a")
        assert [path for path in files(home) if path.name.startswith("a-")] == []


def test_an_archive_of_schema_3_that_is_away_is_taken_in_later(tmp_path: Path) -> None:
    shutil.copytree(OLD, tmp_path / "old")
    away = tmp_path / "away"
    (tmp_path / "old" / "chat-archive").rename(away)
    with SQLiteManager(tmp_path / "old" / "chat.db") as store:
        count = store.branch("a").messages
        assert len(store.archived_sessions()) == 2
        for ask in (lambda: store.read("a", 0, 9), lambda: store.fork("a", 1)):
            with pytest.raises(
                StoreDamaged, match=r"chat-archive/.*\.originals\.zst.* put it back"
            ):
                ask()
        assert all(".originals.zst is missing" in line for line in store.integrity_check())
        assert store.search("kept", "roof", most=3)
        store.append("a", [entry("and more")])
    away.rename(tmp_path / "old" / "chat-archive")
    with SQLiteManager(tmp_path / "old" / "chat.db") as store:
        assert len(store.read("a", 0, 10**9)) == count + 1
        assert store.integrity_check() == []


def test_an_archive_of_schema_3_that_is_back_is_restored_at_once(tmp_path: Path) -> None:
    shutil.copytree(OLD, tmp_path / "old")
    home, away = tmp_path / "old" / "chat-archive", tmp_path / "away"
    home.rename(away)
    with SQLiteManager(tmp_path / "old" / "chat.db") as store:
        with pytest.raises(StoreDamaged, match="put it back"):
            store.restore_session("a")
        away.rename(home)
        store.restore_session("a")
        said = json.loads((OLD / "said.json").read_text())["a"][0]
        assert [_plain(each) for each in store.read("a", 0, 10**9)] == said


def test_a_fork_that_an_archive_of_schema_3_does_not_know_stops_no_opening(tmp_path: Path) -> None:
    shutil.copytree(OLD, tmp_path / "old")
    home, away = tmp_path / "old" / "chat-archive", tmp_path / "away"
    home.rename(away)
    with SQLiteManager(tmp_path / "old" / "chat.db") as store:
        made_now = store.fork("a", store.branch("a").messages).id
        store.append(made_now, [entry("gone on")])
    away.rename(home)
    with SQLiteManager(tmp_path / "old" / "chat.db") as store:
        said = json.loads((OLD / "said.json").read_text())["a"][0]
        assert [_plain(each) for each in store.read(made_now, 0, 10**9)][:-1] == said
        assert texts(store.read(made_now, -1, 10**9)) == ["gone on"]
        assert store.integrity_check() == []


@pytest.mark.parametrize("data", [b"", b'{"schema":"compact/originals"', b'{"branches": [{}]}'])
def test_a_wrong_archive_of_schema_3_stops_no_opening(tmp_path: Path, data: bytes) -> None:
    """Even if its checksum is right."""
    shutil.copytree(OLD, tmp_path / "old")
    file = tmp_path / "old" / "chat.db"
    next((tmp_path / "old").rglob("chat-archive/*/*/a-*.zst")).write_bytes(data)
    with apsw.Connection(str(file)) as db:
        db.execute("UPDATE archived SET originals = ?", (sha256(data).digest(),))
    with SQLiteManager(file) as store:
        assert any("archive" in line for line in store.integrity_check())
        assert store.read("kept", 0, 9)


# --- reading and going on -------------------------------------------------------------------------


def test_an_archived_session_is_searched_as_before(tmp_path: Path, home: Path) -> None:
    with opened(tmp_path / "chat.db") as store:
        store.append("a", [entry("the harbour office moves"), entry("and the quay")])
        for is_done in (False, True):
            if is_done:
                archive(store, home, "a")
            assert [found.position for found in store.search("a", "harbour", most=3)] == [0]
            keys = store.turns(None).keys.tolist()
            assert len(keys) == 2
            assert [len(each) for each in store.holding([("harbour",)])] == [1]
            assert [each.text for each in store.told(keys, ())[0].values()] == [
                "the harbour office moves",
                "and the quay",
            ]
        files(home)[0].unlink()
    with SQLiteManager(tmp_path / "chat.db") as store:
        assert store.told(keys, ())[0] == {}
        store.append("a", [entry("more")])
        assert [each.text for each in store.told([*keys, keys[-1] + 1], ())[0].values()] == ["more"]


GOING_ON: dict[str, Callable[[SQLiteManager], object]] = {
    "append": lambda store: store.append("a", [entry("more")], expected=5),
    "fork": lambda store: store.fork("a", 2),
    "importance": lambda store: store.update_importance_score("m1", 0.5, session_id="a"),
    "branch": lambda store: store.commit(begun(store)),
}


def begun(store: SQLiteManager) -> Step:
    other = Branch(id="a~", session_id="a", parent="a", fork=3)
    given = {"kind": "restore", "branch_id": "a~", "begins": other, "projection": None}
    return step(store, "a", 1).model_copy(update=given)


@pytest.mark.parametrize("how", GOING_ON)
@pytest.mark.parametrize("is_away", [False, True])
def test_who_goes_on_with_an_archived_session_needs_no_archive(
    tmp_path: Path, home: Path, how: str, is_away: bool
) -> None:
    with opened(tmp_path / "chat.db") as store:
        said = (Message(role="user", content=f"note {i}", id=f"m{i}") for i in range(5))
        store.append("a", [Entry(each, 3) for each in said])
        archive(store, home, "a")
        if is_away:
            home.rename(tmp_path / "away")
        GOING_ON[how](store)
        if is_away:
            with pytest.raises(StoreDamaged, match="put it back"):
                store.read("a", 0, 5)
            (tmp_path / "away").rename(home)
        assert texts(store.read("a", 0, 5)) == [f"note {number}" for number in range(5)]
        assert store.integrity_check() == []
        assert len(files(home)) == 1
        archive(store, home, "a")
        assert len(files(home)) == 1, "the old file goes"
        assert with_text(store) == 0
        store.restore_session("a")
        assert texts(store.read("a", 0, 5)) == [f"note {number}" for number in range(5)]
        assert (files(home), store.integrity_check()) == ([], [])


def test_a_packed_session_is_read_searched_and_archived_from_the_pack(
    tmp_path: Path, home: Path
) -> None:
    with made(tmp_path / "chat.db", "a", "b") as store:
        before, rows = told(store, "a"), rows_of(store, "a")
        assert store.pack_sessions(["a", "nowhere"], now=NOW).keys() == {"nowhere"}
        assert store.moved_sessions() == {"a": False}
        assert (told(store, "a"), store.archived_sessions()) == (before, [])
        assert store.integrity_check() == []
        assert store.pack_sessions(["a"], now=NOW) == {}
        archive(store, home, "a")
        assert store.moved_sessions() == {"a": True}
        assert store.db.execute("SELECT count(*) FROM packed").get == 0
        assert store.pack_sessions(["a"], now=NOW) == {}
        assert store.moved_sessions() == {"a": True}
        store.restore_session("a")
        assert rows_of(store, "a") == rows
        store.pack_sessions(["a"], now=NOW)
        store.delete_session("a")
        assert store.db.execute("SELECT count(*) FROM packed").get == 0


def test_packed_originals_that_are_damaged_are_told(tmp_path: Path) -> None:
    with made(tmp_path / "chat.db", "a") as store:
        store.pack_sessions(["a"], now=NOW)
        store.db.execute("UPDATE packed SET data = substr(data, 2) WHERE key & 1 = 0")
    with SQLiteManager(tmp_path / "chat.db") as store:
        assert any("packed originals are not" in line for line in store.integrity_check())
        with pytest.raises(StoreDamaged):
            store.read("a", 0, 99)


def test_another_store_reads_what_one_archived_restored_and_archived_again(
    tmp_path: Path, home: Path
) -> None:
    with opened(tmp_path / "chat.db") as one, SQLiteManager(tmp_path / "chat.db") as other:
        one.append("a", [entry("first")])
        for number in range(3):
            archive(one, home, "a")
            assert len(other.read("a", 0, 99)) == number + 1
            one.append("a", [entry("again")])
            assert len(other.read("a", 0, 99)) == number + 2


def test_the_file_and_its_archives_may_move(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    with made(tmp_path / "old" / "chat.db", "a") as store:
        before = told(store, "a")
        archive(store, tmp_path / "old" / "chat-archive", "a")
    shutil.move(tmp_path / "old", tmp_path / "new")
    with SQLiteManager(tmp_path / "new" / "chat.db") as store:
        assert told(store, "a") == before
        assert store.integrity_check() == []


def test_deleting_an_archived_session_deletes_its_files(tmp_path: Path, home: Path) -> None:
    with made(tmp_path / "chat.db", "a", "b") as store:
        archive(store, home, "a", "b")
        store.delete_session("a")
        assert len(files(home)) == 1
        assert [each.session_id for each in store.archived_sessions()] == ["b"]
        assert store.integrity_check() == []


def test_files_that_were_to_go_when_the_process_died_go_later(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with made(tmp_path / "chat.db", "a", "b") as store:
        archive(store, home, "a", "b")
        with monkeypatch.context() as patched:
            patched.setattr(archive_folder, "discard", lambda *_: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                store.delete_session("a")
            with pytest.raises(ZeroDivisionError):
                store.restore_session("b")
        assert len(files(home)) == 2
    with SQLiteManager(tmp_path / "chat.db") as store:
        assert files(home) == []
        assert store.integrity_check() == []


def test_files_that_a_session_has_again_stay(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who restored died before it removed them, and the same messages were archived again."""
    with made(tmp_path / "chat.db", "a") as store:
        before = told(store, "a")
        archive(store, home, "a")
        with monkeypatch.context() as patched:
            patched.setattr(archive_folder, "discard", lambda *_: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                store.restore_session("a")
        archive(store, home, "a")
    with SQLiteManager(tmp_path / "chat.db") as store:
        assert len(files(home)) == 1
        assert told(store, "a") == before


# --- damage ---------------------------------------------------------------------------------------


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-9])


def flipped(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("damage", [cut, flipped, Path.unlink])
def test_a_damaged_archive_is_told_and_deletes_nothing(
    tmp_path: Path, home: Path, damage: Callable[[Path], object]
) -> None:
    with made(tmp_path / "chat.db", "a", "b") as store:
        before = rows_of(store, "a")
        archive(store, home, "a", "b")
        path = next(file for file in files(home) if file.name.startswith("a-"))
        good = path.read_bytes()
        damage(path)
        faults = store.archive_faults()
        assert [each.session_id for each in faults] == ["a"]
        assert path.name in faults[0].what
        assert [path.name in line for line in store.integrity_check()] == [True]
        for look in (lambda: store.read("a", 0, 9), lambda: store.restore_session("a")):
            with pytest.raises(StoreDamaged):
                look()
        assert len(store.archived_sessions()) == 2
        path.write_bytes(good)
        store.restore_session("a")
        assert rows_of(store, "a") == before


def test_an_archive_with_the_right_sum_and_other_messages_is_refused(
    tmp_path: Path, home: Path
) -> None:
    """Whoever changed the file changed its sum in the database, too."""
    with made(tmp_path / "chat.db", "a") as store:
        archive(store, home, "a")
        [path] = files(home)
        whole = session_file.read(path.read_bytes(), "a").whole
        assert whole is not None
        parts = [
            replace(part, entries=[each._replace(message=CHANGED) for each in part.entries])
            for part in whole.parts
        ]
        data = session_file.packed(replace(whole, parts=parts))
        path.write_bytes(data)
        store.db.execute("UPDATE archived SET originals = ?", (sha256(data).digest(),))
        with pytest.raises(StoreDamaged, match="other messages"):
            store.restore_session("a")
        assert with_text(store) == 0
        assert path.exists()


CHANGED = Message(role="user", content="changed", timestamp=NOW)


@pytest.mark.parametrize("data", [b"", b"{}", b"\x28\xb5\x2f\xfd", b"[]", b'{"branches": 1}'])
def test_what_is_no_archive_is_told(tmp_path: Path, home: Path, data: bytes) -> None:
    with opened(tmp_path / "chat.db") as store:
        store.append("a", [entry("first")])
        archive(store, home, "a")
        files(home)[0].write_bytes(data)
        store.db.execute("UPDATE archived SET originals = ?", (sha256(data).digest(),))
        with pytest.raises(StoreDamaged):
            store.read("a", 0, 9)


def test_a_damaged_session_is_not_archived(tmp_path: Path, home: Path) -> None:
    with opened(tmp_path / "chat.db") as store:
        store.append("a", [entry("first"), entry("second")])
        store.db.execute("UPDATE messages SET content = 'other' WHERE content = 'first'")
        report = store.archive_sessions(["a", "nowhere"], folder=home, now=NOW)
        assert "not the one that was stored" in report.failed["a"]
        assert "no session" in report.failed["nowhere"]
        assert len(store.read("a", 0, 9)) == 2
        assert files(home) == []


def test_messages_without_text_whose_session_is_not_archived_are_told(
    tmp_path: Path, home: Path
) -> None:
    with opened(tmp_path / "chat.db") as store:
        store.append("a", [entry("first")])
        archive(store, home, "a")
        store.db.execute("DELETE FROM archived")
        assert any("have no text" in line for line in store.integrity_check())


@pytest.mark.parametrize("after", range(0, 60, 3))
def test_a_full_disk_loses_nothing(tmp_path: Path, home: Path, after: int) -> None:
    with full_disk() as fault, made(tmp_path / "chat.db", "a") as store:
        before, said_before = rows_of(store, "a"), told(store, "a")
        fault.arm(after)
        try:
            report = store.archive_sessions(["a"], folder=home, now=NOW)
            assert report.failed.keys() ^ {each.session_id for each in report.archived} == {"a"}
        except StoreFailed:
            pass
        fault.disarm()
        assert told(store, "a") == said_before
        assert store.integrity_check() == []
        store.restore_session("a")
        assert rows_of(store, "a") == before


def test_files_that_cannot_be_written_remove_nothing(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk of the archive is full."""

    def write(path: Path, data: bytes, **options: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(places, "write_whole", write)
    with made(tmp_path / "chat.db", "a") as store:
        before = rows_of(store, "a")
        report = store.archive_sessions(["a"], folder=home, now=NOW)
        assert "No space left" in report.failed["a"]
        assert rows_of(store, "a") == before


def test_a_file_that_is_not_what_was_written_removes_nothing(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is read back is compared."""
    monkeypatch.setattr(places, "write_whole", lambda p, data, **_: p.write_bytes(data[:-1] + b"?"))
    with made(tmp_path / "chat.db", "a") as store:
        before = rows_of(store, "a")
        report = store.archive_sessions(["a"], folder=home, now=NOW)
        assert "nothing was removed" in report.failed["a"]
        assert rows_of(store, "a") == before


def test_a_file_that_goes_before_the_rows_do_removes_nothing(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The transaction that removes looks at the files once more."""
    keep = archive_folder.keep

    def kept_and_gone(*given: Any) -> None:
        keep(*given)
        archive_folder.discard(*given[:2])

    monkeypatch.setattr(archive_folder, "keep", kept_and_gone)
    with made(tmp_path / "chat.db", "a") as store:
        before = rows_of(store, "a")
        report = store.archive_sessions(["a"], folder=home, now=NOW)
        assert "missing" in report.failed["a"]
        assert rows_of(store, "a") == before


def test_a_session_that_goes_on_meanwhile_is_packed_again(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep, more = archive_folder.keep, [1, 2]
    with opened(tmp_path / "chat.db") as store:
        store.append("a", [entry("first")])

        def kept_and_went_on(*given: Any) -> None:
            keep(*given)
            if more:
                store.append("a", [entry(f"more {more.pop()}")])

        monkeypatch.setattr(archive_folder, "keep", kept_and_went_on)
        archive(store, home, "a")
        assert len(store.read("a", 0, 9)) == 3
        more[:] = range(9)
        store.restore_session("a")
        report = store.archive_sessions(["a"], folder=home, now=NOW)
        assert "goes on" in report.failed["a"]
        assert len(store.read("a", 0, 99)) == 6


@pytest.mark.parametrize("how", ["whole", "garbage"])
def test_what_a_killed_attempt_left_is_taken_or_written_again(
    tmp_path: Path, home: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with made(tmp_path / "chat.db", "a") as store:
        before = rows_of(store, "a")
        with monkeypatch.context() as patched:
            patched.setattr(originals, "take_out", lambda *_: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                store.archive_sessions(["a"], folder=home, now=NOW)
        [path] = files(home)
        if how == "garbage":
            path.write_bytes(b"garbage")
        archive(store, home, "a")
        assert files(home) == [path]
        assert store.integrity_check() == []
        store.restore_session("a")
        assert rows_of(store, "a") == before


@pytest.mark.parametrize("then", ["forgotten", "archived and forgotten", "opened again"])
def test_what_was_half_written_is_removed_with_its_session_or_at_the_next_opening(
    tmp_path: Path, home: Path, then: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    left: dict[Path, bytes] = {}

    def killed(beside: Path, _: Path) -> None:
        left[beside] = beside.read_bytes()
        raise ZeroDivisionError

    with made(tmp_path / "chat.db", "a") as store:
        with monkeypatch.context() as patched:
            patched.setattr(os, "link", killed)
            with pytest.raises(ZeroDivisionError):
                store.archive_sessions(["a"], folder=home, now=NOW)
        for path, data in left.items():
            path.write_bytes(data)
        assert len(left) == 1
        if then.startswith("archived"):
            archive(store, home, "a")
        if then.endswith("forgotten"):
            store.forget_session("a")
    with SQLiteManager(tmp_path / "chat.db"):
        assert [path for path in home.rglob("*") if path.is_file()] == []


def test_a_file_that_was_taken_for_abandoned_while_it_is_written_is_written_again(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link, tries = os.link, list[Path]()

    def meanwhile(beside: Path, path: Path) -> None:
        tries.append(path)
        if len(tries) == 1:
            places.FolderBlobs(path.parent).delete(path.name)
        link(beside, path)

    with made(tmp_path / "chat.db", "a") as store:
        monkeypatch.setattr(os, "link", meanwhile)
        archive(store, home, "a")
        assert len(tries) == 2
        assert files(home) == [tries[0]]


def test_a_repaired_store_still_has_its_archives(tmp_path: Path, home: Path) -> None:
    with made(tmp_path / "chat.db", "a", "b") as store:
        before = told(store, "a")
        archive(store, home, "a")
        store.db.execute("UPDATE messages SET content = 'other' WHERE content IS NOT NULL")
    report = repair(tmp_path / "chat.db")
    assert report.kept_as
    with SQLiteManager(tmp_path / "chat.db") as store:
        assert told(store, "a") == before
        assert [each.session_id for each in store.archived_sessions()] == ["a"]
        assert store.integrity_check() == []


def unreadable(path: Path) -> None:
    """Make reading a file fail, as a disk or a bucket out of reach does."""
    path.unlink()
    path.mkdir()


def test_a_check_goes_on_after_an_archive_that_cannot_be_read(tmp_path: Path, home: Path) -> None:
    with made(tmp_path / "chat.db", "a", "b") as store:
        archive(store, home, "a")
        store.db.execute("UPDATE messages SET content = 'other' WHERE content IS NOT NULL")
    unreadable(files(home)[0])
    with SQLiteManager(tmp_path / "chat.db") as store:
        lines = store.integrity_check()
    assert any(line.startswith("branch 'b'") for line in lines), "it is checked"
    assert len([line for line in lines if "cannot be verified" in line]) == 1


@pytest.mark.parametrize("is_lost", [False, True])
def test_a_repair_needs_no_archive(tmp_path: Path, home: Path, is_lost: bool) -> None:
    """Even where a row of the archived session is lost."""
    with made(tmp_path / "chat.db", "a", "b") as store:
        before, messages = told(store, "b"), told(store, "a")[1:6]
        archive(store, home, "a")
        if is_lost:
            store.db.execute("DELETE FROM sessions WHERE id = 'a'")
    data = files(home)[0].read_bytes()
    unreadable(path := files(home)[0])
    assert repair(tmp_path / "chat.db").kept_as
    with MemoryManager(tmp_path / "chat.db") as memory:
        memory.add_message("c", "user", "marmalade")
        found = memory.search("marmalade").hits
        assert [each.session_id for each in found] == ["c"], "it is indexed after what is away"
    path.rmdir()
    path.write_bytes(data)
    with SQLiteManager(tmp_path / "chat.db") as store:
        assert told(store, "b")[2] == before[2]
        assert told(store, "a")[1:6] == messages


def test_a_repair_tells_the_loss_of_packed_texts(tmp_path: Path) -> None:
    with made(tmp_path / "chat.db", "a", "b") as store:
        count, other = store.branch("a").messages, told(store, "b")[2]
        store.pack_sessions(["a", "b"], now=NOW)
        store.append("a", [entry("gone on")])
        key = store.db.execute("SELECT key FROM sessions WHERE id = 'a'").get
        sql = "UPDATE packed SET data = zeroblob(length(data)) WHERE key = (? << 32) + 1"
        store.db.execute(sql, (key,))
    told_so = pytest.raises(StoreDamaged, match=r"session 'a'.*--repair")
    with SQLiteManager(tmp_path / "chat.db") as store, told_so:
        store.read("a", 0, 9)
    report = repair(tmp_path / "chat.db")
    lost = {each.branch_id: each.missing for each in report.branches}
    assert (report.is_complete, lost["a"]) == (False, tuple(range(count)))
    with SQLiteManager(tmp_path / "chat.db") as store:
        assert store.integrity_check() == []
        said = texts(store.read("a", 0, 10**9))
        assert said == [LOST] * count + ["gone on"]
        assert told(store, "b")[2] == other
        assert store.moved_sessions() == {"b": False}


def test_a_repair_keeps_the_packed_texts_before_the_damage(tmp_path: Path) -> None:
    random_ = random.Random(1)
    said = [" ".join(f"{random_.random()}" for _ in range(40)) for _ in range(1_000)]
    with opened(tmp_path / "chat.db") as store:
        store.append("a", [entry(each) for each in said])
        store.pack_sessions(["a"], now=NOW)
        keys = [key for (key,) in store.db.execute("SELECT key FROM packed ORDER BY key")]
        sql = "UPDATE packed SET data = zeroblob(length(data)) WHERE key = ?"
        store.db.execute(sql, (keys[len(keys) // 2],))
    report = repair(tmp_path / "chat.db")
    (branch,) = report.branches
    assert len(said) / 4 < branch.saved < len(said) * 3 / 4
    assert not report.is_complete
    with SQLiteManager(tmp_path / "chat.db") as store:
        assert store.integrity_check() == []
        now = texts(store.read("a", 0, 10**9))
    kept = {n for n, each in enumerate(now) if each == said[n]}
    damaged = kept.symmetric_difference(range(len(said)))
    assert damaged == {*branch.missing, *branch.altered}
    assert {now[n] for n in branch.missing} == {LOST}


def test_packed_texts_are_found_again_where_their_record_is_lost(tmp_path: Path) -> None:
    with made(tmp_path / "chat.db", "a", "b") as store:
        before = [told(store, name)[2] for name in "ab"]
        store.pack_sessions(["a", "b"], now=NOW)
        store.db.execute("DELETE FROM archived")
    report = repair(tmp_path / "chat.db")
    assert report.is_complete
    assert any("session 'a'" in line and "found again" in line for line in report.remarks)
    with SQLiteManager(tmp_path / "chat.db") as store:
        assert [told(store, name)[2] for name in "ab"] == before
        assert store.moved_sessions() == {"a": False, "b": False}
        assert store.integrity_check() == []


def test_no_session_is_no_archive(tmp_path: Path) -> None:
    with SQLiteManager(tmp_path / "chat.db") as store:
        with pytest.raises(NotFound):
            store.restore_session("nowhere")
        assert store.archived_sessions() == []
        assert store.archive_faults() == []


def test_a_store_in_memory_archives_too(home: Path) -> None:
    with SQLiteManager() as store:
        make(store, "a", random.Random(5))
        before = rows_of(store, "a")
        archive(store, home, "a")
        assert store.integrity_check() == []
        store.restore_session("a")
        assert rows_of(store, "a") == before


# --- two processes --------------------------------------------------------------------------------


def rounds(file: str, home: str, number: int) -> None:
    """What each process does with the same sessions."""
    rng = random.Random(number)
    with SQLiteManager(file, busy_timeout=60) as store:
        for turn in range(12):
            name = rng.choice("abc")
            match turn % 4:
                case 0 | 2:
                    report = store.archive_sessions([name], folder=home, now=NOW)
                    assert all("nothing was removed" in why for why in report.failed.values()), (
                        report
                    )
                case 1:
                    store.append(name, [Entry(Message(role="user", content=f"{number}.{turn}"))])
                case 3:
                    store.restore_session(name)
            for each in "abc":
                assert store.read(each, 0, 10**6)


@pytest.mark.slow
def test_two_processes_archive_restore_and_go_on(tmp_path: Path, home: Path) -> None:
    with made(tmp_path / "chat.db", *"abc") as store:
        before = {name: store.read(name, 0, 10**6) for name in "abc"}
    context = multiprocessing.get_context("spawn")
    given = [(str(tmp_path / "chat.db"), str(home), number) for number in range(2)]
    processes = [context.Process(target=rounds, args=each) for each in given]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
        assert process.exitcode == 0
    with SQLiteManager(tmp_path / "chat.db") as store:
        assert store.integrity_check() == []
        after = {name: store.read(name, 0, 10**6) for name in "abc"}
        assert sum(map(len, after.values())) == sum(map(len, before.values())) + 6
        for name in "abc":
            assert after[name][: len(before[name])] == before[name]
        assert len(files(home)) == len(store.archived_sessions())


def test_an_empty_session_is_archived_too(tmp_path: Path, home: Path) -> None:
    with SQLiteManager(tmp_path / "chat.db") as store:
        store.session("a", create=session("a"))
        archive(store, home, "a")
        assert store.integrity_check() == []
        assert store.read("a", 0, 9) == []
        store.append("a", [said(random.Random(1), NOW)])
        assert store.branch("a").messages == 1
