"""NFR-2: many threads use one session, and none meets an error."""

import json
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from compact import CompactManager, ContextManager
from compact.errors import StoreFailed
from tests import checker

THREADS, TURNS = 6, 25


@pytest.fixture
def hurried() -> Iterator[None]:
    """Threads take turns within microseconds, so that they meet everywhere."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.slow
@pytest.mark.usefixtures("hurried")
def test_threads_share_a_session_without_an_error() -> None:
    with ContextManager(window=4_096) as ctx:

        def talk(number: int) -> None:
            for turn in range(TURNS):
                ctx.add_message(role="user", content=f"{number}.{turn}: " + "is it dry? " * 20)
                prompt = ctx.get_context_for_model()
                assert checker.prompt_tokens(prompt) <= ctx.window.usable
                ctx.recall(f"{number}.{turn}")

        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(talk, range(THREADS)))
        assert len(ctx.history) == THREADS * TURNS
        assert ctx.compressions > 3
        json.dumps(ctx.get_context_for_model())


def test_a_closed_manager_says_so_for_every_session() -> None:
    """One that was asked for while it closed went on answering, and stored nothing."""
    manager = CompactManager()
    said = [{"role": "user", "content": "Is it dry?"}]
    manager.preflight("a", said)
    manager.close()
    for session in ("a", "b"):
        with pytest.raises(StoreFailed, match="the manager is closed"):
            manager.preflight(session, said)
    manager.close()
