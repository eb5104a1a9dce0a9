"""A disk that is full, or fails, at every write of every call (S-2, NFR-2).

Nothing of the call is stored, the error is one of compact's own, and when the disk takes writes
again, so does the store.
"""

import random
import re
import shutil
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from itertools import count
from pathlib import Path

import pytest

from compact import SQLiteManager
from compact.errors import StoreDamaged, StoreFailed
from tests.sizes import size
from tests.store.faulty import Fault, failing_sync, failing_write, full_disk
from tests.store.making import WRITES, entry, everything, filled, opened, session

FAULTS: dict[str, Callable[[], AbstractContextManager[Fault]]] = {
    "full": full_disk,
    "write": failing_write,
    "sync": failing_sync,
}
SAID = {
    "full": "there is no room left for .* Free some space|Check the disk and its free space",
    "write": "reading or writing .* failed. Check the disk|cannot be opened",
    "sync": "reading or writing .* failed. Check the disk",
}
CALLS = {
    **{name: WRITES[name] for name in WRITES if name != "deletion"},
    "append": lambda store: store.append("a", [entry("long " * 2_000) for _ in range(5)]),
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "chat.db"


@pytest.fixture(params=FAULTS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


every_write = pytest.mark.parametrize(
    "stride", [7, pytest.param(size(5, 1), marks=pytest.mark.slow)]
)
"""Every seventh write fails in the quick set: a whole file is made anew each time."""


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", CALLS)
def test_a_call_is_stored_or_refused_whichever_write_fails(
    file: Path, kind: str, name: str
) -> None:
    refused = stored = 0
    with FAULTS[kind]() as fault, opened(file) as store:
        filled(store)
        use_little_memory(store, works_off_log=kind != "sync")
        for number in count():
            before = everything(store)
            fault.arm(number)
            said = outcome(lambda: CALLS[name](store))
            if said is not None:
                assert fault.struck
                refused += 1
                assert re.search(SAID[kind], said)
                assert everything(store) == before, "and reading goes on"
            fault.disarm()
            assert_stored(file, everything(store))
            stored += said is None
            if stored > 5 or not fault.struck:
                break
        assert refused > 0
        assert store.append("a", [entry("it goes on")])


def outcome(call: Callable[[], object]) -> str | None:
    """What a call was refused with, by an error of ours; None where it was not."""
    try:
        call()
    except StoreDamaged:
        raise
    except StoreFailed as error:
        return str(error)
    return None


def use_little_memory(store: SQLiteManager, *, works_off_log: bool) -> None:
    """Have SQLite write before a transaction ends, and into the file after each one."""
    store.db.pragma("cache_size", 4)
    # apsw raises what its VFS raises even where SQLite goes on, as it does when a checkpoint fails.
    store.db.wal_autocheckpoint(1 if works_off_log else 0)


def assert_stored(file: Path, state: list[object]) -> None:
    """Another connection sees the same, in a sound file."""
    with SQLiteManager(file) as other:
        assert everything(other) == state
        assert other.integrity_check() == []


@every_write
def test_a_new_file_is_made_when_there_is_room(file: Path, kind: str, stride: int) -> None:
    with FAULTS[kind]() as fault:
        for number in count(0, stride if kind != "sync" else 1):
            fault.arm(number)
            said = outcome(lambda: made_by_then(file, fault))
            if not fault.struck:
                break
            assert said is None or re.search(SAID[kind], said)
            with opened(file) as store:
                assert store.append("a", [entry("x")]) == 1
                assert store.integrity_check() == []
            for each in file.parent.iterdir():
                each.unlink()
        assert said is None
        assert number > 2


def made_by_then(file: Path, fault: Fault) -> None:
    """Make a store under a fault, and close it without."""
    try:
        store = SQLiteManager(file)
    finally:
        fault.disarm()
    store.close()


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file in which rows have moved from page to page, so that deleting them leaves traces."""
    folder = tmp_path_factory.mktemp("traced")
    for seed in range(50):
        file, swept = folder / f"{seed}.db", folder / f"{seed}-swept.db"
        with opened(file, durability="normal") as store:
            filled(store)
            store.session("b", create=session("b"))
            shuffle(store, random.Random(seed))
        shutil.copy(file, swept)
        with pytest.MonkeyPatch.context() as patch, SQLiteManager(swept) as store:
            patch.setattr("compact.store.sqlite.pool.Pool.sweep_if_due", lambda _: None)
            store.delete_session("a")
        if b"zqsecret" in swept.read_bytes():
            return file
    raise AssertionError("no deletion leaves traces any more: is the sweep still needed?")


def shuffle(store: SQLiteManager, noise: random.Random) -> None:
    for number in range(60):
        name = noise.choice("ab")
        words = "zqsecret " if name == "a" else "anything "
        sizes = [noise.choice((3, 30, 100)) for _ in range(noise.choice((1, 1, 5)))]
        store.append(name, [entry(words * size, 5, noise.randrange(4)) for size in sizes])
        if number % 3 == 0:
            store.note(name, f"draft{number % 5}", {"v": words * noise.choice((1, 9, 30))})


@pytest.mark.slow
@every_write
def test_a_deletion_is_whole_whichever_write_fails(
    tmp_path: Path, traced: Path, kind: str, stride: int
) -> None:
    """Where traces are left, it is said, and whoever opens the file sweeps them (S-5)."""
    with SQLiteManager(traced) as store:
        before = everything(store)
    outcomes = Counter[str]()
    for number in count(0, stride if kind != "sync" else 1):
        file = tmp_path / f"{number}.db"
        shutil.copy(traced, file)
        with FAULTS[kind]() as fault, SQLiteManager(file) as store:
            use_little_memory(store, works_off_log=False)
            fault.arm(number)
            said = outcome(lambda: store.delete_session("a"))
            fault.disarm()
            is_there = "a" in [each.id for each in store.sessions()]
        outcomes[_in_a_word(said, is_there=is_there)] += 1
        if is_there:
            assert_stored(file, before)
        else:
            with SQLiteManager(file) as store:
                assert store.integrity_check() == []
            assert b"zqsecret" not in file.read_bytes()
        if not fault.struck:
            break
    assert set(outcomes) == {"refused", "deleted with traces", "deleted"}


def _in_a_word(said: str | None, *, is_there: bool) -> str:
    if said is None:
        assert not is_there
        return "deleted"
    assert is_there != ("is deleted, but traces" in said)
    return "refused" if is_there else "deleted with traces"
