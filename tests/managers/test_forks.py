"""A process forks while its threads use a session: no child waits for a lock for ever (S-2)."""

import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from compact import CompactConfig, CompactManager, ContextManager, Message, SQLiteManager, forks
from compact.errors import StoreFailed, Superseded
from compact.storage.archives.files import FileStorage
from compact.storage.inmemory import InMemoryStore
from tests.managers.test_compact_manager import talk
from tests.storage.test_sqlite_processes import forking, in_a_fork

pytestmark = [forking, pytest.mark.filterwarnings("ignore:.*use of fork.*:DeprecationWarning")]
WORDS = "the lantern at the north quay is lit again "


@contextmanager
def busy(*works: Callable[[], object]) -> Iterator[None]:
    """Threads that do this again and again while the block lasts."""
    stop = threading.Event()

    def keep_on(work: Callable[[], object]) -> None:
        while not stop.is_set():
            work()

    threads = [threading.Thread(target=keep_on, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    yield
    stop.set()
    for thread in threads:
        thread.join()


@pytest.mark.slow
@pytest.mark.parametrize("store", ["file", "memory"])
def test_a_child_uses_the_session_that_threads_of_its_parent_use(
    store: str, tmp_path: Path
) -> None:
    kept = SQLiteManager(tmp_path / "chat.db", durability="normal")
    with ContextManager(
        window=4_000, store=kept if store == "file" else InMemoryStore(), on_event=lambda _: None
    ) as ctx:

        def talk() -> None:
            ctx.add_message(role="user", content=WORDS * 20)
            ctx.get_context_for_model()

        def work() -> None:
            signal.alarm(90)
            before = len(ctx.history)
            ctx.add_message(role="user", content="child")
            assert "child" in str(ctx.get_context_for_model()[-1]) or len(ctx.history) > before + 1
            with suppress(Superseded):  # its parent's threads may be faster, and it says so
                ctx.compress_conversation()

        with busy(talk, talk, lambda: ctx.recall("lantern", limit=1)):
            codes = [in_a_fork(work) for _ in range(6)]
        assert codes == [0] * 6
        assert kept.integrity_check() == []
        if store == "file":
            said = [message.text for message in ctx.history]
            assert said.count("child") == 6
    kept.close()


class Waiting(FileStorage):
    """An archive that waits until it is opened."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.opens = threading.Event()

    def save_transcript(self, session_id: str, messages: Sequence[Message]) -> str:
        self.opens.wait(60)
        return super().save_transcript(session_id, messages)


def test_what_the_parent_has_yet_to_archive_stays_with_the_parent(tmp_path: Path) -> None:
    archive = Waiting(tmp_path)
    config = CompactConfig(max_context_tokens=4_096)
    manager = CompactManager(config, store=InMemoryStore(), archive=archive)
    manager.preflight("s", talk(0, 60))

    def kept() -> int:
        return len(list(tmp_path.glob("s/transcript-*")))

    def work() -> None:
        signal.alarm(90)
        archive.opens.set()
        manager.manual_compact("s", talk(0, 70))
        manager.close()
        assert kept() == 1

    assert in_a_fork(work) == 0
    archive.opens.set()
    manager.close()
    assert kept() == 2


def test_what_a_thread_held_for_too_long_is_refused_in_the_child(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What it guards may be half changed there; the parent goes on."""
    monkeypatch.setattr(forks, "WAITS", 0.05)
    with ContextManager(window=4_000) as ctx:
        held, leave = threading.Event(), threading.Event()

        def hold() -> None:
            with ctx._session.state.lock:
                held.set()
                leave.wait(60)

        thread = threading.Thread(target=hold)
        thread.start()
        held.wait(60)

        def work() -> None:
            signal.alarm(90)
            with pytest.raises(StoreFailed, match=r"when the process forked.*Open the session"):
                ctx.add_message(role="user", content="child")

        code = in_a_fork(work)
        leave.set()
        thread.join()
        assert code == 0
        ctx.add_message(role="user", content="parent")
        assert len(ctx.history) == 1


class Begun(threading.Event):
    """Set when a fork has begun to wait."""

    rank = -1

    def before_fork(self, until: float) -> None:
        self.set()

    def after_fork(self, *, in_child: bool) -> None:
        """Nothing to let go of."""


def test_a_thread_that_opens_a_branch_meanwhile_is_waited_for() -> None:
    """What it makes is shared too: neither waits for the other."""
    outer, begun, held = forks.Lock(forks.SESSION), Begun(), threading.Event()
    made: list[forks.Lock] = []

    def open_it() -> None:
        with outer:
            held.set()
            begun.wait(60)
            made.append(forks.Lock(forks.HISTORY))

    thread = threading.Thread(target=open_it)
    thread.start()
    held.wait(60)
    forks.share(begun)

    def work() -> None:
        signal.alarm(90)
        with outer, made[0]:
            pass

    started = time.monotonic()
    assert in_a_fork(work) == 0
    thread.join()
    assert time.monotonic() - started < forks.WAITS / 2


@pytest.mark.timing
def test_waiting_costs_what_is_open_and_not_its_square() -> None:
    def cost(number: int) -> float:
        open_ones = [forks.Lock(forks.STORE) for _ in range(number)]
        taken = []
        for _ in range(3):
            started = time.process_time()
            forks._before_fork()
            forks._after_fork(in_child=False)
            taken.append(time.process_time() - started)
        assert len(open_ones) == number
        return min(taken)

    assert cost(8_000) < 3 * 8 * cost(1_000)
