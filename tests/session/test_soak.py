"""Random sessions that do whatever an application may do (K-13, FR-3, NFR-2, C-9).

Random windows from 4k to a million, models that change in mid-session, forks, undo, lists that are
sent whole and edited, goals, pins; both wire formats, in memory and in SQLite. After each prompt:
it fits by an exact count, a provider would take it, what never leaves is there word for word. The
only exception is `CannotFit`, and then the floor really does not fit.

A seed is a session: `SEED=17` plays that one alone.
"""

import os
from collections import Counter
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

import pytest

from compact import ContextManager, SQLiteManager
from compact.messages.protocols import SessionStore
from compact.store.inmemory import InMemoryStore
from tests import checker
from tests.session.playing import Player
from tests.sizes import seed, size

SESSIONS = size(30, 1_000)
STEPS = (10, 20, 40, 80)
"""How many things are done in a session."""


def store_for(number: int, folder: Path) -> SessionStore:
    """In memory, in a SQLite file, or in SQLite without one."""
    match number % 4:
        case 1:
            return SQLiteManager(folder / f"{number}.db", durability="normal")
        case 3:
            return SQLiteManager()
    return InMemoryStore()


def played(number: int, folder: Path) -> Counter[str]:
    """What happened in a session that was played from its seed to its end."""
    with closing(store_for(number, folder)) as store:
        try:
            player = Player(number, store)
            player.play(player.r.choice(STEPS))
        except Exception as error:
            error.add_note(f"session {number}: SEED={number} pytest {Path(__file__).name}")
            raise
        player.count[type(store).__name__] += 1
        player.count[player.wire] += 1
        player.count["bare"] += player.is_bare
        return player.count


def soak(numbers: Iterable[int], folder: Path, capsys: pytest.CaptureFixture[str]) -> Counter[str]:
    """Play the sessions of these seeds; what happened in all of them together."""
    count: Counter[str] = Counter()
    chosen = os.environ.get("SEED")
    for number in numbers if chosen is None else [int(chosen)]:
        count += played(number, folder)
        count["sessions"] += 1
    with capsys.disabled():
        print(f"\n  {dict(count.most_common())}")
    if chosen is not None:
        pytest.skip(f"only session {chosen} was played; it holds")
    return count


@pytest.mark.slow
def test_random_sessions_hold(tmp_path, capsys):
    """K-13: thirty by day, a thousand at night."""
    first = seed(0)
    count = soak(range(first, first + SESSIONS), tmp_path, capsys)
    assert count["compressions"] > 3 * SESSIONS
    assert count["cannot fit"], "some floors do not fit"
    missing = [a.__name__ for a in Player.ACTIONS if not count[a.__name__]]
    assert not missing, "everything was done at least once"
    for kind in ("InMemoryStore", "SQLiteManager", "chat_completions", "anthropic", "bare"):
        assert count[kind] >= SESSIONS // 4, kind


@pytest.mark.parametrize("calls", [1, 8, 40])
def test_what_answers_open_calls_is_counted(calls):
    """FR-3: calls that wait for their results have notes in their place, and those take room."""
    asked = [
        {"id": f"call_{i}", "type": "function", "function": {"name": "run", "arguments": "{}"}}
        for i in range(calls)
    ]
    for words in range(0, 3_000, 150):
        ctx = ContextManager(window=4_096, tokenizer="o200k")
        ctx.add_message(role="user", content="What is it?")
        ctx.add_message(role="assistant", content="word " * words)
        ctx.add_message({"role": "assistant", "content": None, "tool_calls": asked})
        prompt = ctx.get_context_for_model()
        assert checker.prompt_tokens(prompt) <= ctx.window.usable, words
        assert ctx.budget.used_tokens == ctx.active_context().tokens
