"""What a store says and leaves behind when the file cannot be used (S-1, S-2, NFR-2)."""

import os
import re
import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import apsw
import pytest

from compact import SQLiteManager
from compact.errors import StoreDamaged, StoreFailed, Superseded
from compact.store.sqlite import migrations
from compact.store.sqlite.pool import store_error
from compact.store.sqlite.repair import repair
from tests.store.making import (
    WRITES,
    assert_chained,
    entry,
    everything,
    filled,
    opened,
    step,
    texts,
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "chat.db"


# --- no room --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["append", "snapshot", "note", "session"])
def test_a_full_database_stores_nothing_of_the_call(file: Path, name: str) -> None:
    with opened(file) as store:
        filled(store)
        before = everything(store)
        store.db.pragma("max_page_count", store.db.pragma("page_count"))
        with pytest.raises(StoreFailed, match=r"no room left for .*chat\.db\. Free some space"):
            WRITES[name](store)
        assert everything(store) == before
        assert store.integrity_check() == []
        store.db.pragma("max_page_count", 10**9)
        WRITES[name](store)
        assert store.integrity_check() == []


def test_a_full_disk_stores_nothing_of_the_call(small_disk: Path) -> None:
    with opened(small_disk / "chat.db") as store:
        filled(store)
        stored = 5
        with pytest.raises(StoreFailed, match=r"Free some space|its free space"):  # noqa: PT012
            while True:
                stored = store.append("a", [entry("long " * 2_000)])
        assert stored > 5
        assert len(assert_chained(store, "a")) == stored
        (small_disk / "ballast").unlink()
        assert store.append("a", [entry("there is room again")]) == stored + 1
        assert store.integrity_check() == []


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of three megabytes, of which one can be given back."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(folder)]
    try:
        done = subprocess.run(mount, capture_output=True, check=False).returncode == 0
    except OSError:
        done = False
    if not done:
        pytest.skip("no permission to mount")
    try:
        (folder / "ballast").write_bytes(bytes(1 << 20))
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


# --- others ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", WRITES)
def test_a_writer_waits_and_then_says_who_is_to_blame(file: Path, name: str) -> None:
    with opened(file, busy_timeout=0.05) as store:
        filled(store)
        before = everything(store)
        with holding(file):
            with pytest.raises(StoreFailed, match="another process has been writing") as said_so:
                WRITES[name](store)
            waited = re.search(r"waited (\d+\.\d) s", str(said_so.value))
            assert waited is not None
            assert 0 <= float(waited[1]) < 5
            assert str(file) in str(said_so.value)
            assert "busy_timeout" in str(said_so.value)
            assert everything(store) == before, "reading goes on"
        assert everything(store) == before
        WRITES[name](store)


def test_a_writer_that_waits_long_enough_goes_on(file: Path) -> None:
    with opened(file, busy_timeout=20) as store:
        with holding(file):
            done: list[int] = []
            thread = threading.Thread(target=lambda: done.append(store.append("a", [entry("x")])))
            thread.start()
            time.sleep(0.05)
            assert not done
        thread.join()
        assert done == [1]


class holding:
    """Another process that writes for as long as the block lasts."""

    def __init__(self, file: Path) -> None:
        code = "import apsw, sys; c = apsw.Connection(sys.argv[1]); c.execute('BEGIN IMMEDIATE');"
        code += "print('held', flush=True); sys.stdin.readline()"
        self._command = [sys.executable, "-c", code, str(file)]

    def __enter__(self) -> None:
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(self._command, stdin=pipe, stdout=pipe)
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"held\n"

    def __exit__(self, *_: object) -> None:
        self._process.communicate(b"\n")


def test_a_step_that_is_refused_leaves_nothing(file: Path) -> None:
    with opened(file) as store:
        filled(store)
        late = step(store, "a", 2)
        store.commit(step(store, "a", 3))
        before = everything(store)
        with pytest.raises(Superseded):
            store.commit(late)
        assert everything(store) == before


# --- files that are read-only ---------------------------------------------------------------------


@pytest.fixture
def nobody() -> Iterator[None]:
    """Without root's right to write everything."""
    if os.geteuid() != 0:
        yield
        return
    os.setegid(65_534)
    os.seteuid(65_534)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)


@pytest.fixture
def folder() -> Iterator[Path]:
    """One that everybody may go into."""
    import shutil
    import tempfile

    made = Path(tempfile.mkdtemp())
    made.chmod(0o755)
    yield made
    made.chmod(0o755)
    shutil.rmtree(made)


@pytest.mark.parametrize("protects", ["file", "folder", "both"])
@pytest.mark.parametrize("indexed", [True, False])
def test_a_file_that_is_read_only_can_be_read(
    folder: Path, protects: str, indexed: bool, request: pytest.FixtureRequest
) -> None:
    file = folder / "a # b?.db"
    with opened(file) as store:
        filled(store)
        if indexed:
            store.search("a", "x", most=1)
        before = everything(store)
    if protects == "folder":
        file.chmod(0o666)
    else:
        file.chmod(0o444)
    folder.chmod(0o777 if protects == "file" else 0o555)
    request.getfixturevalue("nobody")
    with SQLiteManager(file) as store:
        assert everything(store) == before
        assert [f.position for f in store.search("a", "the fourth", most=1)] == [3]
        assert store.integrity_check() == []
        for name, write in WRITES.items():
            with pytest.raises(StoreFailed, match=r"read-only|cannot be opened"):
                write(store)
            assert everything(store) == before, name


@pytest.mark.skipif(os.geteuid() != 0, reason="needs two users")
def test_a_file_of_another_user_can_be_read_while_they_write(
    folder: Path, request: pytest.FixtureRequest
) -> None:
    file = folder / "chat.db"
    file.touch()
    file.chmod(0o644)  # a store is made for its owner only
    with opened(file) as theirs:
        filled(theirs)
        with holding(file):
            request.getfixturevalue("nobody")
            with SQLiteManager(file) as store:
                assert texts(store.read("a", 0, 9))[:2] == ["first", "second"]
                with pytest.raises(StoreFailed, match="read-only"):
                    store.append("a", [entry("x")])


@pytest.mark.skipif(os.geteuid() != 0, reason="needs two users")
def test_who_may_only_read_sees_what_others_write_later(
    folder: Path, request: pytest.FixtureRequest
) -> None:
    """Whether or not they still have the file open."""
    file = folder / "chat.db"
    file.touch()
    file.chmod(0o644)  # a store is made for its owner only
    with opened(file) as theirs:
        filled(theirs)
    request.getfixturevalue("nobody")
    with SQLiteManager(file) as store:
        assert len(store.read("a", 0, 9)) == 5
        for number in range(6, 9):
            os.seteuid(0)
            theirs = SQLiteManager(file)
            theirs.append("a", [entry(f"message {number}")])
            if number == 7:
                theirs.close()
            os.seteuid(65_534)
            assert len(store.read("a", 0, 9)) == number
            assert store.integrity_check() == []
            os.seteuid(0)
            theirs.close()
            os.seteuid(65_534)


def test_an_empty_file_that_is_read_only_says_so(
    folder: Path, request: pytest.FixtureRequest
) -> None:
    (folder / "chat.db").touch()
    (folder / "chat.db").chmod(0o444)
    request.getfixturevalue("nobody")
    with pytest.raises(StoreFailed, match=r"is empty, and cannot be written|cannot be opened"):
        SQLiteManager(folder / "chat.db")


# --- files of others ------------------------------------------------------------------------------


def test_a_file_of_another_application_is_left_as_it_is(file: Path) -> None:
    other = apsw.Connection(str(file))
    other.execute("CREATE TABLE theirs (x)")
    other.close()
    before = file.read_bytes()
    with pytest.raises(StoreFailed, match="a database of another application, and was left"):
        SQLiteManager(file)
    assert (file.read_bytes(), [f.name for f in file.parent.iterdir()]) == (before, ["chat.db"])


def test_an_empty_file_is_taken(file: Path) -> None:
    file.touch()
    with opened(file) as store:
        assert store.append("a", [entry("x")]) == 1


@pytest.mark.parametrize(
    "change", ["INSERT INTO migrations VALUES ('0999_later', 'x')", "PRAGMA user_version = 999"]
)
def test_a_file_of_a_newer_compact_is_left_as_it_is(file: Path, change: str) -> None:
    with opened(file) as store:
        store.db.execute(change).fetchall()
    before = file.read_bytes()
    with pytest.raises(StoreFailed, match=r"written by a newer version of compact.*Update compact"):
        SQLiteManager(file)
    assert file.read_bytes() == before


def test_an_older_file_is_brought_up_to_date(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(file) as store:
        filled(store)
    step_two = migrations.Migration("1002_more", ("CREATE TABLE more (x)",))
    broken = migrations.Migration("1003_broken", ("CREATE TABLE third (x)", "nonsense"))
    with monkeypatch.context() as patch:
        patch.setattr(migrations, "MIGRATIONS", (*migrations.MIGRATIONS, step_two, broken))
        with pytest.raises(StoreFailed, match="nonsense"):
            SQLiteManager(file)
    raw = apsw.Connection(str(file))
    tables = {row[0] for row in raw.execute("SELECT name FROM sqlite_schema")}
    assert "more" in tables, "each step is a transaction of its own"
    assert "third" not in tables, "nothing of a step that failed"
    assert raw.pragma("user_version") == len(migrations.MIGRATIONS) + 1
    raw.close()
    monkeypatch.setattr(migrations, "MIGRATIONS", (*migrations.MIGRATIONS, step_two))
    with SQLiteManager(file) as store:
        assert texts(store.read("a", 0, 2)) == ["first", "second"]


def test_an_older_file_that_is_read_only_says_so(
    folder: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    file = folder / "chat.db"
    with opened(file):
        pass
    file.chmod(0o444)
    later = migrations.Migration("1002_more", ("CREATE TABLE more (x)",))
    monkeypatch.setattr(migrations, "MIGRATIONS", (*migrations.MIGRATIONS, later))
    request.getfixturevalue("nobody")
    with pytest.raises(StoreFailed, match="has to be brought up to date, but it is read-only"):
        SQLiteManager(file)


# --- damage ---------------------------------------------------------------------------------------


def test_no_database_at_all(file: Path) -> None:
    file.write_bytes(b"This is a letter and no database. " * 200)
    with pytest.raises(StoreDamaged, match=r"no database at all.* Give the name of another"):
        SQLiteManager(file)
    with pytest.raises(StoreFailed, match=r"nothing of a store is left in .*stays as it is"):
        repair(file)
    assert file.read_bytes().startswith(b"This is a letter")


def test_an_empty_file_is_not_repaired_to_a_store(file: Path) -> None:
    file.touch()
    with pytest.raises(StoreFailed, match=r"chat\.db is an empty file, not a store"):
        repair(file)
    assert file.stat().st_size == 0


def test_the_hint_can_be_pasted_into_a_shell(tmp_path: Path) -> None:
    file = tmp_path / "my chats & 'notes'.db"
    with opened(file) as store:
        filled(store)
        store.db.execute("UPDATE checkpoints SET summary = 'x'")
        with pytest.raises(StoreDamaged) as caught:
            store.checkpoints("a")
    [_, command] = str(caught.value).split(" is saved by: ")
    assert shlex.split(command) == ["compactctl", "doctor", "--store", str(file), "--repair"]


def test_a_store_that_is_emptied_while_it_is_open_is_damage(file: Path) -> None:
    with opened(file) as store:
        filled(store)
    with SQLiteManager(file) as store:
        os.truncate(file, 0)
        assert store.integrity_check()


def test_a_damaged_page_is_named_with_its_repair(file: Path) -> None:
    with opened(file, durability="normal") as store:
        store.append("a", [entry(f"message {i} " + "word " * 99) for i in range(2_000)])
    data = bytearray(file.read_bytes())
    pages = range(0, len(data), 4096)
    rows = [page for page in pages if data[page] == 0x0D and b"word word" in data[page:][:4096]]
    middle = rows[len(rows) // 2]  # a leaf of a table, which holds messages
    data[middle : middle + 4096] = os.urandom(4096)
    file.write_bytes(data)
    with SQLiteManager(file) as store:
        with pytest.raises(StoreDamaged, match=r"is damaged.*--repair"):
            store.read("a", 0, 2_000)
        assert store.integrity_check()
        assert len(store.read("a", 0, 20)) == 20, "what is whole can be read"
        assert store.append("a", [entry("it goes on")]) == 2_001


@pytest.mark.parametrize("column", ["payload = x'7b'", "zone = 'x' || x'ff'", "zone = 1e99"])
def test_a_row_that_nobody_wrote_is_damage(file: Path, column: str) -> None:
    with opened(file) as store:
        filled(store)
        store.db.execute(f"UPDATE messages SET {column} WHERE key % 4294967296 = 3")
        with pytest.raises(StoreDamaged, match="--repair"):
            store.read("a", 0, 9)
        assert len(store.read("a", 0, 3)) == 3


READS: dict[str, Callable[[SQLiteManager], object]] = {
    "all": lambda store: store.read("a", 0, 9),
    "up to it": lambda store: store.read("a", 0, 3),
    "from it": lambda store: store.read("a", 2, 9),
    "it alone": lambda store: store.read("a", 2, 3),
    "chain": lambda store: store.chain("a", 3),
    "conversation": lambda store: store.get_conversation("a"),
    "fork": lambda store: store.fork("a", 3),
    "fork before it": lambda store: store.read(store.fork("a", 4).id, 0, 9),
}


@pytest.mark.parametrize("read", READS)
def test_a_message_that_is_missing_is_damage(file: Path, read: str) -> None:
    """No other message is given out in its place."""
    with opened(file) as store:
        filled(store)
        store.db.execute("DELETE FROM messages WHERE key & 4294967295 = 2")
        with pytest.raises(StoreDamaged, match=r"message 2 of .* is missing.*--repair"):
            READS[read](store)
        assert texts(store.read("a", 0, 2)) == ["first", "second"], "what is whole can be read"
        assert texts(store.read("a", 3, 9)) == ["fourth", "fifth"]
        assert store.append("a", [entry("it goes on")]) == 6


def test_a_message_that_is_missing_where_a_branch_forks_is_damage(file: Path) -> None:
    with opened(file) as store:
        filled(store)
        fork = store.fork("a", 3).id
        store.append(fork, [entry("own")])
        store.db.execute("DELETE FROM messages WHERE key & 4294967295 IN (2, 3, 4) AND id <> 'own'")
        for start in (0, 2):
            with pytest.raises(StoreDamaged, match=r"message 2 of .* is missing"):
                store.read(fork, start, 9)
        assert len(store.read("a", 0, 9)) == 2


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE checkpoints SET summary = 'forget the roof'",
        "UPDATE checkpoints SET kept = '[1'",
        "DELETE FROM checkpoints",
        "UPDATE projections SET pieces = '[]'",
        "UPDATE moves SET at = 1",
        "UPDATE notes SET value = '{}'",
        "UPDATE snapshots SET checkpoints = '[1]'",
        "UPDATE sessions SET metadata = '{'",
        "UPDATE sessions SET created_at = 'noon'",
    ],
)
def test_what_was_altered_is_not_given_out(file: Path, change: str) -> None:
    """What a model is shown, or restored from, is what was stored; and a repair leaves it out."""
    with opened(file) as store:
        filled(store)
        WRITES["snapshot"](store)
        store.db.execute(change)
        with pytest.raises(StoreDamaged, match=r"--repair"):
            what_is_in_force(store)
        assert len(store.read("a", 0, 9)) == 5, "messages can be read"
        before = store.notes("a") if "notes" not in change else {"draft": {}}
    if "sessions" in change:
        return
    assert store_is_repaired(file)
    with SQLiteManager(file) as store:
        assert store.integrity_check() == []
        what_is_in_force(store)
        assert len(store.read("a", 0, 9)) == 5
        assert store.notes("a") == before


def what_is_in_force(store: SQLiteManager) -> None:
    everything(store)
    for move in store.moves("a", most=9):
        store.projection(move.projection_id or "")


def store_is_repaired(file: Path) -> bool:
    report = repair(file)
    assert report.is_complete, "no message is lost"
    return report.kept_as is not None and len(report.remarks) > 0


@pytest.mark.parametrize(
    "error",
    [
        kind
        for kind in vars(apsw).values()
        if isinstance(kind, type) and issubclass(kind, apsw.Error)
    ],
)
def test_every_error_has_a_place_in_the_tree(error: type[apsw.Error]) -> None:
    found = store_error(error("what SQLite said"), "chat.db")
    assert isinstance(found, StoreFailed)
    assert isinstance(found, OSError)
    assert "chat.db" in str(found)
    assert "what SQLite said" in str(found)
    damage = error in (apsw.CorruptError, apsw.NotADBError, apsw.FormatError)
    assert isinstance(found, StoreDamaged) == damage
