"""Any damage to a file, any end of a repair: it is repaired or refused, never worse off (NFR-2)."""

import os
import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import apsw
import pytest

from compact import SQLiteManager
from compact.errors import StoreFailed
from compact.store.sqlite.repair import repair
from tests.sizes import seed, size
from tests.store.making import filled, opened
from tests.store.test_sqlite_repair import PAGE, make, state_of

SECTOR = 512


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("any") / "whole.db"
    make(file)
    return file


def blocks(data: bytearray, rng: random.Random, length: int) -> None:
    for _ in range(rng.choice((1, 3, 10))):
        at = rng.randrange(len(data) // length) * length
        data[at : at + length] = rng.choice((bytes(length), rng.randbytes(length)))


def single_bytes(data: bytearray, rng: random.Random) -> None:
    for _ in range(rng.choice((1, 10, 100, 1_000))):
        data[rng.randrange(len(data))] = rng.randrange(256)


def changed_places(data: bytearray, rng: random.Random) -> None:
    pages = range(0, len(data), PAGE)
    for one, other in (rng.sample(pages, 2) for _ in range(5)):
        kept = data[one : one + PAGE]
        data[one : one + PAGE] = data[other : other + PAGE]
        data[other : other + PAGE] = kept


def cut_off(data: bytearray, rng: random.Random) -> None:
    del data[rng.randrange(1, len(data)) :]


DAMAGES = {
    "single bytes": single_bytes,
    "pages": lambda data, rng: blocks(data, rng, PAGE),
    "sectors": lambda data, rng: blocks(data, rng, SECTOR),
    "changed places": changed_places,
    "cut off": cut_off,
}


@pytest.mark.slow
@pytest.mark.parametrize("damage", DAMAGES)
def test_any_damage_is_repaired_or_refused(damage: str, whole: Path, tmp_path: Path) -> None:
    """A repair ended with errors of its own where noise stood in the rows of sessions."""
    file = tmp_path / "chat.db"
    saved = 0
    for number in range(size(8, 200)):
        rng = random.Random(f"{seed(7)} {number}")
        data = bytearray(whole.read_bytes())
        DAMAGES[damage](data, rng)
        file.write_bytes(data)
        try:
            report = repair(file)
        except StoreFailed:
            assert file.read_bytes() == data, "a file that is refused stays as it was"
            continue
        saved += sum(each.saved for each in report.branches)
        with SQLiteManager(file) as store:
            assert store.integrity_check() == [], number
            for session in store.sessions():
                store.read(session.branch.id, 0, 10**6)
                state = (store.moves(session.id, most=99), store.notes(session.id))
                assert all(state) is not None
        if report.kept_as is not None:
            assert Path(report.kept_as).read_bytes() == data, "the original is kept as it was"
    assert saved > 0


def test_rows_of_sessions_that_make_no_sense_are_made_anew(tmp_path: Path) -> None:
    file = tmp_path / "chat.db"
    with opened(file) as store:
        filled(store)
        store.db.execute("UPDATE branches SET created_at = 'noon'")
        store.db.execute("UPDATE sessions SET wire = 7")
        store.db.execute("DELETE FROM messages WHERE key & 4294967295 = 2")
    report = repair(file)
    assert [each.missing for each in report.branches] == [(2,)]
    assert sum("row was lost" in line for line in report.remarks) == 2
    with SQLiteManager(file) as store:
        assert store.integrity_check() == []
        assert [each.id for each in store.sessions()] == ["a"]
        assert len(store.read("a", 0, 9)) == 5
        assert store.notes("a") == {"draft": {"x": 1}}


def test_a_position_that_the_file_had_no_room_for_is_noise(whole: Path, tmp_path: Path) -> None:
    """One byte of a key put half a million placeholders into a session of fifty messages."""
    file = tmp_path / "chat.db"
    with SQLiteManager(shutil.copy(whole, file)) as store:
        store.db.execute("UPDATE messages SET key = key + 500000 WHERE key = 2 << 32 | 49")
    report = repair(file)
    [hurt] = [each for each in report.branches if each.branch_id == "b"]
    assert hurt.missing == (49,), "compressions and the index tell that there was one"


def test_notes_are_found_where_nothing_leads_to_them(whole: Path, tmp_path: Path) -> None:
    file = tmp_path / "chat.db"
    with SQLiteManager(shutil.copy(whole, file)) as store:
        before = state_of(store)
    data = bytearray(file.read_bytes())
    data[:PAGE] = bytes(PAGE)
    file.write_bytes(data)
    repair(file)
    with SQLiteManager(file) as store:
        after = {each.branch.id: store.notes(each.id) for each in store.sessions()}
        assert sorted(map(str, after.values())) == sorted(map(str, before["notes"].values()))


# --- killed ---------------------------------------------------------------------------------------

KILLED = """
import os, signal, sys
from compact.store.sqlite.repair import repair
left = int(sys.argv[2])
CHANGES = {"os.link", "os.rename", "os.remove", "os.rmdir", "os.chmod", "os.chown", "os.mkdir"}
def die_before_a_change(event, arguments):
    global left
    if event in CHANGES or event == "open" and arguments[1] not in (None, "r", "rb"):
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(die_before_a_change)
repair(sys.argv[1])
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_a_repair_that_is_killed_leaves_the_old_file_or_the_new_one(
    whole: Path, tmp_path: Path
) -> None:
    """Before each change of a file, in turn; what is there then can be repaired as ever."""
    data = bytearray(whole.read_bytes())
    data[len(data) // 2 // PAGE * PAGE : (len(data) // 2 // PAGE + 1) * PAGE] = bytes(PAGE)
    found: set[str] = set()
    for number in range(99):
        folder = tmp_path / str(number)
        folder.mkdir()
        file = folder / "chat.db"
        file.write_bytes(data)
        done = subprocess.run(
            [sys.executable, "-c", KILLED, str(file), str(number)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            check=False,
        )
        if is_old := file.read_bytes() == data:
            repair(file)
        found.add("old" if is_old else "new")
        kept = [p for p in folder.glob("chat.db.damaged-*") if not p.name.endswith("-wal")]
        assert {each.read_bytes() for each in kept} == {bytes(data)}
        with SQLiteManager(file) as store:
            assert store.integrity_check() == [], number
        if done.returncode == 0:
            break
        assert done.returncode == -signal.SIGKILL
    else:
        raise AssertionError("it never came to its end")
    assert found == {"old", "new"}
    assert number > 9, "each of many changes"


@pytest.mark.skipif(os.name == "nt", reason="a file that is open has no second name there")
def test_what_stands_in_the_log_is_saved_and_kept(tmp_path: Path) -> None:
    """Of a file whose writer was killed, the newest messages stand in the log beside it."""
    file = tmp_path / "chat.db"
    with opened(file) as store:
        filled(store)
        store.db.execute("DELETE FROM messages WHERE key & 4294967295 = 2")
        other = tmp_path / "left" / "chat.db"
        other.parent.mkdir()
        for ending in ("", "-wal"):
            shutil.copy(f"{file}{ending}", f"{other}{ending}")
    report = repair(other)
    assert [(each.saved, each.missing) for each in report.branches] == [(4, (2,))]
    assert report.kept_as is not None
    db = apsw.Connection(report.kept_as)
    assert db.execute("SELECT count(*) FROM messages").get == 4
    db.close()
