"""Sessions whose messages lie in files: nothing is lost, whatever happens (A-5)."""

import json
import multiprocessing
import random
import shutil
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compact import SQLiteManager
from compact import files as whole_files
from compact.errors import NotFound, StoreDamaged, StoreFailed
from compact.messages.messages import Message
from compact.messages.sessions import Branch, Entry, Step
from compact.store.archives import folder as archive_folder
from compact.store.archives import packing
from compact.store.blobs import places
from compact.store.sqlite import archived_rows
from compact.store.sqlite.repair import repair
from tests.store.archiving_sessions import NOW, archive, files, make, rows_of, said, told
from tests.store.faulty import full_disk
from tests.store.making import entry, opened, session, step, texts


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
            assert store.db.execute("SELECT count(*) FROM messages").get == 0
            assert store.integrity_check() == []
            for name in names:
                store.restore_session(name)
            assert {name: rows_of(store, name) for name in names} == before
            assert {name: told(store, name) for name in names} == said_before
            assert store.integrity_check() == []
            assert files(place / "archive") == []


@given(
    st.lists(
        st.tuples(
            st.one_of(
                st.none(),
                st.integers(-(2**63), 2**63 - 1),
                st.floats(allow_nan=False),
                st.text(st.characters(exclude_categories=["Cs"])),
                st.binary(),
            )
        )
    )
)
def test_whatever_a_row_holds_is_packed_without_loss(rows: list[Any]) -> None:
    data = packing.packed("x", [packing.PackedTable("messages", ("a",), rows)])
    back = [row for table in packing.unpacked(data) for row in table.rows]
    assert back == rows
    assert [[type(x) for x in row] for row in back] == [[type(x) for x in row] for row in rows]


def test_an_archive_says_what_it_is(tmp_path: Path, home: Path) -> None:
    """A person and `jq` can read it; the originals' sum stands there."""
    with made(tmp_path / "chat.db", "a") as store:
        count = sum(branch.messages - branch.fork for branch in store.branches("a"))
        archive(store, home, "a")
        path, originals = files(home)
    assert path.relative_to(home).parts[:2] == ("2026", "05")
    said = json.loads(path.read_text(encoding="utf-8"))
    assert (said["schema"], said["version"]) == ("compact/archived-conversation", 1)
    assert (said["id"], said["title"], said["tags"]) == ("a", "Title of a", ["roof"])
    assert (said["digest"], said["messages"]) == ("in short", count)
    assert sum(said["roles"].values()) == count
    assert said["originals"]["file"] == originals.name
    assert [path.stat().st_mode & 0o77 for path in (path, originals, home)] == [0, 0, 0]


def test_an_archive_keeps_to_its_schema(tmp_path: Path, home: Path) -> None:
    schema = json.loads(
        Path(archive_folder.__file__).with_name("description.schema.json").read_text()
    )
    with made(tmp_path / "chat.db", "a") as store:
        archive(store, home, "a")
    said = json.loads(files(home)[0].read_text(encoding="utf-8"))
    assert set(said) == set(schema["properties"])
    assert set(schema["required"]) <= set(said)
    assert set(said["originals"]) == set(schema["properties"]["originals"]["properties"])
    assert schema["properties"]["version"]["const"] == archive_folder.VERSION


# --- reading and going on -------------------------------------------------------------------------


def test_an_archived_session_is_searched_by_itself_and_not_with_others(
    tmp_path: Path, home: Path
) -> None:
    with opened(tmp_path / "chat.db") as store:
        store.append("a", [entry("the harbour office moves")])
        assert len(store.turns(None).keys) == 1
        archive(store, home, "a")
        assert [found.position for found in store.search("a", "harbour", most=3)] == [0]
        assert len(store.turns(None).keys) == 0
        assert [len(keys) for keys in store.holding([("harbour",)])] == [0]
        store.restore_session("a")
        assert len(store.turns(None).keys) == 1
        assert [len(keys) for keys in store.holding([("harbour",)])] == [1]


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
def test_who_goes_on_with_an_archived_session_restores_it(
    tmp_path: Path, home: Path, how: str
) -> None:
    with opened(tmp_path / "chat.db") as store:
        said = (Message(role="user", content=f"note {i}", id=f"m{i}") for i in range(5))
        store.append("a", [Entry(each, 3) for each in said])
        archive(store, home, "a")
        GOING_ON[how](store)
        assert texts(store.read("a", 0, 5)) == [f"note {number}" for number in range(5)]
        assert store.archived_sessions() == []
        assert store.integrity_check() == []
        assert files(home) == []


@pytest.mark.parametrize("how", GOING_ON)
def test_who_cannot_restore_does_not_go_on(tmp_path: Path, home: Path, how: str) -> None:
    with opened(tmp_path / "chat.db") as store:
        store.append("a", [entry(f"note {number}") for number in range(5)])
        archive(store, home, "a")
        path = files(home)[1]
        path.write_bytes(path.read_bytes()[:-9])
        before = rows_of(store, "a")
        with pytest.raises(StoreDamaged, match="checksum"):
            GOING_ON[how](store)
        assert rows_of(store, "a") == before
        assert len(store.archived_sessions()) == 1
        assert path.exists()


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
        assert len(files(home)) == 2
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
        assert len(files(home)) == 4
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
        assert len(files(home)) == 2
        assert told(store, "a") == before


# --- damage ---------------------------------------------------------------------------------------


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-9])


def flipped(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("damage", [cut, flipped, Path.unlink])
@pytest.mark.parametrize("which", [0, 1])
def test_a_damaged_archive_is_told_and_deletes_nothing(
    tmp_path: Path, home: Path, damage: Callable[[Path], object], which: int
) -> None:
    with made(tmp_path / "chat.db", "a", "b") as store:
        before = rows_of(store, "a")
        archive(store, home, "a", "b")
        path = next(
            file
            for file in files(home)
            if file.name.startswith("a-") and file.suffix == (".json", ".zst")[which]
        )
        good = path.read_bytes()
        damage(path)
        faults = store.archive_faults()
        assert [each.session_id for each in faults] == ["a"]
        assert path.name in faults[0].what
        assert [path.name in line for line in store.integrity_check()] == [True]
        if which:
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
        path = files(home)[1]
        tables = [
            table._replace(rows=list(table.rows)[:-1] if table.name == "messages" else table.rows)
            for table in packing.unpacked(path.read_bytes())
        ]
        data = packing.packed("a", tables)
        path.write_bytes(data)
        own = sha256(data).digest()
        store.db.execute("UPDATE archived SET originals = ?", (own,))
        with pytest.raises(StoreDamaged, match="last message"):
            store.restore_session("a")
        assert store.db.execute("SELECT count(*) FROM messages").get == 0
        assert path.exists()


@pytest.mark.parametrize("data", [b"", b"{}", b"\x28\xb5\x2f\xfd", packing.packed("x", [])[:-12]])
def test_what_is_no_archive_is_not_unpacked(data: bytes) -> None:
    with pytest.raises(packing.Unpackable):
        list(packing.unpacked(data))


def test_an_archive_of_a_newer_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "VERSION", packing.VERSION + 1)
    data = packing.packed("x", [])
    monkeypatch.undo()
    with pytest.raises(packing.Unpackable, match="newer version"):
        list(packing.unpacked(data))


def test_a_damaged_session_is_not_archived(tmp_path: Path, home: Path) -> None:
    with opened(tmp_path / "chat.db") as store:
        store.append("a", [entry("first"), entry("second")])
        store.db.execute("UPDATE messages SET content = 'other' WHERE content = 'first'")
        report = store.archive_sessions({"a": None, "nowhere": None}.items(), folder=home, now=NOW)
        assert "not the one that was stored" in report.failed["a"]
        assert "no session" in report.failed["nowhere"]
        assert len(store.read("a", 0, 9)) == 2
        assert files(home) == []


def test_messages_that_are_left_in_the_database_are_told(tmp_path: Path, home: Path) -> None:
    with opened(tmp_path / "chat.db") as store:
        store.append("a", [entry("first")])
        store.db.execute("CREATE TEMP TABLE kept AS SELECT * FROM messages")
        archive(store, home, "a")
        store.db.execute("INSERT INTO messages SELECT * FROM kept")
        assert any("although their session is archived" in line for line in store.integrity_check())


@pytest.mark.parametrize("after", range(0, 60, 3))
def test_a_full_disk_loses_nothing(tmp_path: Path, home: Path, after: int) -> None:
    with full_disk() as fault, made(tmp_path / "chat.db", "a") as store:
        before, said_before = rows_of(store, "a"), told(store, "a")
        fault.arm(after)
        try:
            report = store.archive_sessions({"a": None}.items(), folder=home, now=NOW)
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
    """The disk of the archive is full: by the first file, or by the second."""
    with made(tmp_path / "chat.db", "a") as store:
        before = rows_of(store, "a")
        for most in (0, 1):
            left = iter(range(most))

            def write(path: Path, data: bytes, **options: Any) -> None:
                if next(left, None) is None:  # noqa: B023 - called within the round
                    raise OSError(28, "No space left on device")
                whole_files.write_whole(path, data, **options)

            monkeypatch.setattr(places, "write_whole", write)
            report = store.archive_sessions({"a": None}.items(), folder=home, now=NOW)
            assert "No space left" in report.failed["a"]
            assert rows_of(store, "a") == before


def test_a_file_that_is_not_what_was_written_removes_nothing(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is read back is compared."""
    monkeypatch.setattr(places, "write_whole", lambda p, data, **_: p.write_bytes(data[:-1] + b"?"))
    with made(tmp_path / "chat.db", "a") as store:
        before = rows_of(store, "a")
        report = store.archive_sessions({"a": None}.items(), folder=home, now=NOW)
        assert "nothing was removed" in report.failed["a"]
        assert rows_of(store, "a") == before


def test_a_file_that_goes_before_the_rows_do_removes_nothing(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The transaction that removes looks at the files once more."""
    keep = archive_folder.keep

    def kept_and_gone(*given: Any) -> Any:
        sums = keep(*given)
        archive_folder.discard(*given[:2])
        return sums

    monkeypatch.setattr(archive_folder, "keep", kept_and_gone)
    with made(tmp_path / "chat.db", "a") as store:
        before = rows_of(store, "a")
        report = store.archive_sessions({"a": None}.items(), folder=home, now=NOW)
        assert "missing" in report.failed["a"]
        assert rows_of(store, "a") == before


def test_a_session_that_goes_on_meanwhile_is_packed_again(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep, more = archive_folder.keep, [1, 2]
    with opened(tmp_path / "chat.db") as store:
        store.append("a", [entry("first")])

        def kept_and_went_on(*given: Any) -> Any:
            sums = keep(*given)
            if more:
                store.append("a", [entry(f"more {more.pop()}")])
            return sums

        monkeypatch.setattr(archive_folder, "keep", kept_and_went_on)
        archive(store, home, "a")
        assert len(store.read("a", 0, 9)) == 3
        more[:] = range(9)
        store.restore_session("a")
        report = store.archive_sessions({"a": None}.items(), folder=home, now=NOW)
        assert "goes on" in report.failed["a"]
        assert len(store.read("a", 0, 99)) == 6


@pytest.mark.parametrize("how", ["whole", "garbage", "other description"])
def test_what_a_killed_attempt_left_is_taken_or_written_again(
    tmp_path: Path, home: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with made(tmp_path / "chat.db", "a") as store:
        before = rows_of(store, "a")
        with monkeypatch.context() as patched:
            patched.setattr(archived_rows, "put_away", lambda *_: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                store.archive_sessions({"a": None}.items(), folder=home, now=NOW)
        described, originals = files(home)
        if how == "garbage":
            originals.write_bytes(b"garbage")
        if how != "whole":
            described.write_bytes(b"{}")
        archive(store, home, "a")
        assert files(home) == [described, originals]
        assert store.integrity_check() == []
        store.restore_session("a")
        assert rows_of(store, "a") == before


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
                    report = store.archive_sessions({name: None}.items(), folder=home, now=NOW)
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
        assert len(files(home)) == 2 * len(store.archived_sessions())


def test_an_empty_session_is_archived_too(tmp_path: Path, home: Path) -> None:
    with SQLiteManager(tmp_path / "chat.db") as store:
        store.session("a", create=session("a"))
        archive(store, home, "a")
        assert store.integrity_check() == []
        assert store.read("a", 0, 9) == []
        store.append("a", [said(random.Random(1), NOW)])
        assert store.branch("a").messages == 1
