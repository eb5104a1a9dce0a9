"""A child of a process that has sessions open is refused by name, and opens its own (S-2)."""

import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from compact import CompactConfig, CompactManager, ContextManager, MemoryManager
from compact.errors import StoreFailed
from compact.store.inmemory import InMemoryStore
from tests.session.test_compact_manager import talk
from tests.store.test_sqlite_processes import forking, in_a_fork

pytestmark = [forking, pytest.mark.filterwarnings("ignore:.*use of fork.*:DeprecationWarning")]


@pytest.mark.parametrize("store", [None, "chat.db"])
def test_a_child_is_refused_at_once_whoever_holds_the_session(
    store: str | None, tmp_path: Path
) -> None:
    file = None if store is None else tmp_path / store
    with ContextManager(window=4_000, store=file, session_id="s") as ctx:
        ctx.add_message(role="user", content="parent")
        held, leave = threading.Event(), threading.Event()

        def hold() -> None:
            with ctx._session.state.lock:
                held.set()
                leave.wait(60)

        thread = threading.Thread(target=hold)
        thread.start()
        held.wait(60)

        def work() -> None:
            signal.alarm(60)
            calls: list[Callable[[], object]] = [
                lambda: ctx.add_message(role="user", content="child"),
                ctx.get_context_for_model,
                ctx.compress_conversation,
            ]
            for call in calls:
                with pytest.raises(StoreFailed, match="before the process forked"):
                    call()
            ctx.close()
            with suppress(StoreFailed):  # what is here already may be read
                assert [message.text for message in ctx.history] == ["parent"]

        code = in_a_fork(work)
        leave.set()
        thread.join()
        assert code == 0
        ctx.add_message(role="user", content="parent again")
        assert [message.text for message in ctx.history] == ["parent", "parent again"]


def test_a_child_opens_the_session_itself(tmp_path: Path) -> None:
    file = tmp_path / "chat.db"
    with ContextManager(window=4_000, store=file, session_id="s") as ctx:
        ctx.add_message(role="user", content="parent")

        def work() -> None:
            signal.alarm(60)
            with ContextManager(window=4_000, store=file, session_id="s") as own:
                own.add_message(role="assistant", content="child")
                assert len(own.get_context_for_model()) == 2

        assert in_a_fork(work) == 0
        ctx.add_message(role="user", content="parent again")
        assert [message.text for message in ctx.history] == ["parent", "child", "parent again"]


@pytest.mark.parametrize("kept", ["file", "memory"])
def test_a_manager_is_refused_in_a_child(kept: str, tmp_path: Path) -> None:
    store = tmp_path / "chat.db" if kept == "file" else InMemoryStore()
    with CompactManager(CompactConfig(max_context_tokens=4_096), store=store) as manager:
        manager.preflight("s", talk(0, 20))

        def work() -> None:
            signal.alarm(60)
            with pytest.raises(StoreFailed, match="before the process forked"):
                manager.preflight("s", talk(0, 21))
            manager.close()

        assert in_a_fork(work) == 0
        assert manager.preflight("s", talk(0, 22))


def test_memory_is_refused_in_a_child(tmp_path: Path) -> None:
    with MemoryManager(tmp_path / "chat.db") as memory:

        def work() -> None:
            signal.alarm(60)
            with pytest.raises(StoreFailed, match="before the process forked"):
                memory.search("lantern")
            memory.close()

        assert in_a_fork(work) == 0
        assert not memory.search("lantern").hits


SCRIPT = """
import os, sys
from compact import CompactConfig, CompactManager, ContextManager
config = CompactConfig(max_context_tokens=4_096)
talk = [{"role": "user", "content": f"The lantern at quay {i} is lit. " * 20} for i in range(90)]
with CompactManager(config, store="a.db", archive="kept") as manager:
    manager.preflight("s", talk)
    with ContextManager(window=4_096, store="b.db") as ctx:
        ctx.add_messages(talk)
        ctx.get_context_for_model()
        child = os.fork()
        if child == 0:
            sys.exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
"""


def test_a_child_ends_as_it_wants_to(tmp_path: Path) -> None:
    """Through every block that its parent began, and what runs when Python ends."""
    command = [sys.executable, "-W", "ignore", "-c", SCRIPT]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
