"""One file, many threads and processes, forked ones included (S-2)."""

import multiprocessing
import os
import signal
import sys
import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from compact import SQLiteManager
from compact.errors import StoreFailed, Superseded
from compact.store.sqlite import pool as pools
from compact.store.sqlite.migrations import MIGRATIONS
from tests.store.making import assert_chained, entry, opened, session, step, texts

EACH = 25


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "chat.db"


def write(file: str, process: int, threads: int) -> None:
    """What each process does: open the file, new or not, and append from many threads."""
    with SQLiteManager(file, busy_timeout=60) as store:
        store.session("a", create=session("a"))

        def append(thread: int) -> None:
            for i in range(EACH):
                store.append("a", [entry(f"{process}.{thread}.{i}")])
                store.read("a", i, i + 3)

        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(append, range(threads)))


@pytest.mark.slow
def test_processes_and_threads_append_to_a_new_file_at_once(file: Path) -> None:
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=write, args=(str(file), i, 8)) for i in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
        assert process.exitcode == 0
    with SQLiteManager(file) as store:
        said = texts(assert_chained(store, "a"))
        wanted = [f"{p}.{t}.{i}" for p in range(2) for t in range(8) for i in range(EACH)]
        assert sorted(said) == sorted(wanted)
        for writer in {text.rpartition(".")[0] for text in said}:
            own = [int(text.rpartition(".")[2]) for text in said if text.startswith(writer + ".")]
            assert own == list(range(EACH)), "in the order in which it was appended"
        assert store.integrity_check() == []


@pytest.mark.slow
def test_many_open_a_new_file_at_once(tmp_path: Path) -> None:
    """Whoever switches it to WAL has it alone, and SQLite does not make the others wait."""
    barrier = threading.Barrier(8)

    def open_it(number: int) -> None:
        barrier.wait(timeout=60)
        with SQLiteManager(tmp_path / f"{number // 8}.db") as store:
            store.session("a", create=session("a"))
            store.append("a", [entry("x")])

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(open_it, range(8 * 15)))
    with SQLiteManager(tmp_path / "14.db") as store:
        assert len(assert_chained(store, "a")) == 8
        assert store.db.execute("SELECT count(*) FROM migrations").get == len(MIGRATIONS)


def test_of_moves_that_build_on_the_same_one_wins(file: Path) -> None:
    """Eight threads of two stores compress at once: no move is lost, none is built on twice."""
    with opened(file) as store, SQLiteManager(file) as other:
        store.append("a", [entry("x")])

        def compress(number: int) -> int:
            lost = 0
            while True:
                try:
                    (store if number % 2 else other).commit(step(store, "a", number))
                    return lost
                except Superseded:
                    lost += 1

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(compress, range(1, 41)))
        moves = store.moves("a", most=99)[::-1]
        assert len({move.projection_id for move in moves}) == 40
        assert [m.before for m in moves[1:]] == [m.projection_id for m in moves[:-1]]


def test_readers_do_not_wait_for_a_writer(file: Path) -> None:
    with opened(file, busy_timeout=0.05) as store:
        store.append("a", [entry("x")])
        store.db.execute("BEGIN IMMEDIATE")
        with ThreadPoolExecutor(16) as pool:
            found = list(pool.map(lambda _: store.read("a", 0, 1), range(200)))
        assert texts([each for part in found for each in part]) == ["x"] * 200
        store.db.execute("ROLLBACK")
        assert len(store._pool._idle) <= pools._IDLE_READERS


def test_a_store_in_memory_is_one_for_all_threads() -> None:
    with SQLiteManager() as store:
        store.session("a", create=session("a"))
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda i: store.append("a", [entry(str(i))]), range(100)))
        assert len(assert_chained(store, "a")) == 100


# --- forks ----------------------------------------------------------------------------------------

forking = pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here")
pytestmark = pytest.mark.filterwarnings("ignore:.*use of fork.*:DeprecationWarning")


def in_a_fork(work: object) -> int:
    """The exit code of a child that does the work: 0 where it did not raise."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()  # type: ignore[operator]
            code = 0
        except (Exception, pytest.fail.Exception):  # noqa: BLE001 - the parent sees the exit code
            traceback.print_exc(file=sys.__stderr__)
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@forking
@pytest.mark.parametrize("kind", ["file", "memory"])
def test_a_forked_child_is_refused(file: Path, kind: str) -> None:
    """And the parent goes on."""
    with opened(file) if kind == "file" else SQLiteManager() as store:
        store.session("a", create=session("a"))
        store.append("a", [entry("parent")])

        def work() -> None:
            signal.alarm(60)
            for call in (
                lambda: store.append("a", [entry("child")]),
                lambda: store.read("a", 0, 9),
                store.sessions,
                lambda: store.db,
            ):
                with pytest.raises(StoreFailed, match="before the process forked"):
                    call()
            store.close()

        assert in_a_fork(work) == 0
        store.append("a", [entry("parent again")])
        assert texts(assert_chained(store, "a")) == ["parent", "parent again"]
        assert store.integrity_check() == []


@forking
def test_a_child_goes_on_after_its_parent_has_closed_the_file(file: Path) -> None:
    """The parent is the last one as far as it knows: had the child that opens the file no locks of
    its own, the log would be deleted under its feet.
    """
    told, tell = os.pipe()
    done, finish = os.pipe()
    store = SQLiteManager(file)
    store.session("a", create=session("a"))
    store.append("a", [entry("parent")])
    child = os.fork()
    if child == 0:
        code = 1
        try:
            store = SQLiteManager(file)
            store.append("a", [entry("child 1")])
            os.write(finish, b".")
            os.read(told, 1)
            store.append("a", [entry("child 2")])
            os.write(finish, b".")
            os.read(told, 1)
            store.append("a", [entry("child 3")])
            code = 0
        finally:
            os._exit(code)
    os.read(done, 1)
    store.append("a", [entry("parent 2")])
    store.close()
    os.write(tell, b".")
    os.read(done, 1)
    with SQLiteManager(file) as again:
        again.append("a", [entry("parent 3")])
    os.write(tell, b".")
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    with SQLiteManager(file) as again:
        said = ["parent", "child 1", "parent 2", "child 2", "parent 3", "child 3"]
        assert texts(assert_chained(again, "a")) == said
        assert again.integrity_check() == []


@pytest.mark.slow
@forking
def test_forks_while_other_threads_write(file: Path) -> None:
    """A child that opens the file loses nothing, and waits for no lock that nobody gives back."""
    with opened(file, durability="normal") as store:
        stop = threading.Event()
        written = [0, 0]

        def keep_writing(thread: int) -> None:
            while not stop.is_set():
                store.append("a", [entry(f"thread {thread}")])
                store.read("a", 0, 3)
                written[thread] += 1

        threads = [threading.Thread(target=keep_writing, args=(i,)) for i in range(2)]
        for thread in threads:
            thread.start()

        def work() -> None:
            signal.alarm(60)
            with SQLiteManager(file, durability="normal", busy_timeout=60) as own:
                own.append("a", [entry("child")])
                own.read("a", 0, 3)

        codes = [in_a_fork(work) for _ in range(20)]
        stop.set()
        for thread in threads:
            thread.join()
        assert codes == [0] * 20
        said = texts(assert_chained(store, "a"))
        assert said.count("child") == 20
        assert len(said) == 20 + sum(written)
        assert store.integrity_check() == []


@forking
def test_a_file_that_a_thread_uses_for_too_long_is_refused_in_the_child(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite would take its parent's locks for the child's own."""
    monkeypatch.setattr(pools, "WAITS", 0.05)
    with opened(file) as store:
        held, leave = threading.Event(), threading.Event()

        def hold() -> None:
            with store._pool.write():
                held.set()
                leave.wait(60)

        thread = threading.Thread(target=hold)
        thread.start()
        held.wait(60)

        def work() -> None:
            signal.alarm(60)
            with pytest.raises(StoreFailed, match="forked while another thread was using"):
                SQLiteManager(file)
            assert in_a_fork(lambda: SQLiteManager(file.with_name("other.db")).close()) == 0

        code = in_a_fork(work)
        leave.set()
        thread.join()
        assert code == 0
        store.append("a", [entry("parent")])
        assert store.integrity_check() == []


@forking
def test_a_thread_that_opens_another_store_is_waited_for(tmp_path: Path) -> None:
    """What it holds, and what it opens: neither waits for the other."""
    with opened(tmp_path / "a.db") as store:
        held, begun = threading.Event(), threading.Event()
        made: list[SQLiteManager] = []

        def open_it() -> None:
            with store._pool.write():
                held.set()
                begun.wait(0.2)
                made.append(SQLiteManager(tmp_path / "b.db"))

        thread = threading.Thread(target=open_it)
        thread.start()
        held.wait(60)

        def work() -> None:
            signal.alarm(60)
            for name in ("a.db", "b.db"):
                SQLiteManager(tmp_path / name).close()

        started = time.monotonic()
        assert in_a_fork(work) == 0
        assert time.monotonic() - started < pools.WAITS
        thread.join()
        made[0].close()


# --- which file -----------------------------------------------------------------------------------


@pytest.fixture
def named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder beside the one in which a store is opened by a relative name."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(tmp_path)
    return elsewhere


def test_a_relative_name_is_the_same_file_wherever_the_process_goes(
    named: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(Path("chat.db")) as store:
        store.append("a", [entry("x")])
        monkeypatch.chdir(named)
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(lambda _: texts(store.read("a", 0, 9)), range(20)))
        assert found == [["x"]] * 20
        with store._pool.read(), store._pool.read():  # one of them opens another reader
            pass
        assert list(named.iterdir()) == []


def test_whoever_waits_for_a_lock_asks_until_the_time_is_over():
    patient, hasty = pools._asking(60.0), pools._asking(0.0)
    assert [patient(times) for times in range(3)] == [True] * 3
    assert hasty(0) is False
