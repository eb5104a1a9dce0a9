"""Notes are taken between turns, and say what they would have said."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from datetime import UTC, datetime
from statistics import median

import pytest

from bench.histories import history
from compact import CompactPolicy, ContextManager
from compact.engine.chronology import notes
from compact.engine.history import History
from compact.errors import StoreFailed
from compact.messages import clock_and_ids
from compact.session import reading_ahead

TALK = history(400)
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def prompts(policy: CompactPolicy, *, loaded: int) -> list[str]:
    """What a session's turns are shown; its ids and its time are those of every other one."""
    number, shown = iter(range(10**9)), []
    with (
        clock_and_ids.using(new_id=lambda: f"{next(number):032x}", clock=lambda: NOON),
        ContextManager(window=8_192, policy=policy, session_id="s") as ctx,
    ):
        ctx.add_messages(TALK[:loaded])
        for message in TALK[loaded:]:
            ctx.add_message(message)
            shown.append(json.dumps(ctx.get_context_for_model()))
        assert ctx.compressions > 3
    return shown


@pytest.mark.parametrize("loaded", [1, 200])
def test_what_is_shown_is_the_same_with_and_without(loaded: int) -> None:
    ahead, late = CompactPolicy(), CompactPolicy(draft_ratio=CompactPolicy().trigger_ratio)
    assert prompts(ahead, loaded=loaded) == prompts(late, loaded=loaded)


def test_the_compressing_turn_has_little_left_to_read(monkeypatch: pytest.MonkeyPatch) -> None:
    left: list[int] = []
    read = notes.notes_of

    def watched(history: History, **given: object) -> notes.Notes:
        known = history.notes.position if isinstance(history.notes, notes.Notes) else 0
        left.append(len(history) - known)
        return read(history, **given)  # type: ignore[arg-type]

    monkeypatch.setattr("compact.engine.identify.notes_of", watched)
    with ContextManager(window=8_192) as ctx:
        for message in TALK:
            ctx.add_message(message)
            ctx.get_context_for_model()
            ctx._session.state.reading._finish()  # an answer takes its time
        assert len(left) == ctx.compressions > 3
    assert median(left) <= 2, left


def test_what_cannot_be_read_ahead_is_read_when_it_is_needed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fails(*_: object, **__: object) -> notes.Notes:
        raise StoreFailed("the disk is away")

    monkeypatch.setattr("compact.engine.chronology.notes.notes_of", fails)
    with ContextManager(window=8_192) as ctx:
        for message in TALK[:200]:
            ctx.add_message(message)
            ctx.get_context_for_model()
        assert ctx.compressions > 0


def test_closing_waits_for_no_long_reading() -> None:
    ctx = ContextManager(window=8_192)
    for message in TALK[:60]:
        ctx.add_message(message)
        ctx.get_context_for_model()
    ctx.close()
    assert "compact-reading" not in {thread.name for thread in threading.enumerate()}


LEFT_OPEN = """
from threading import Event
from types import SimpleNamespace
from compact.engine.chronology import notes
from compact.engine.history import History
from compact.messages.formats.known import format_named
from compact.secrets.redaction import find_secrets
from compact.session import reading_ahead
from compact.models.providers.tokenizers import tokenizer
from compact.messages.tokens import TokenCounter

begun = Event()

def reads(history, until):
    find_secrets("word " * 20_000)
    begun.set()
    return SimpleNamespace(position=0)

notes.notes_of = reads
reader = reading_ahead.ReadingAhead()
wire = format_named("chat_completions")
talk = [{"role": "user", "content": "word"}]
reader.begin(History(talk, wire, TokenCounter(tokenizer("o200k"))), 0)
begun.wait()
"""


def test_a_process_ends_while_a_session_that_nobody_closed_is_read() -> None:
    command = [sys.executable, "-c", LEFT_OPEN]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


def test_whoever_waits_for_a_reader_that_is_about_to_start_meets_no_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    failed: list[threading.ExceptHookArgs] = []
    monkeypatch.setattr(threading, "excepthook", failed.append)
    reading = reading_ahead.ReadingAhead()

    class Late(threading.Thread):
        """Starts when another thread has had the time to look for it."""

        def start(self) -> None:
            other = threading.Thread(target=reading.stop)
            other.start()
            other.join(0.1)
            super().start()
            others.append(other)

    others: list[threading.Thread] = []
    monkeypatch.setattr(reading_ahead, "Thread", Late)
    with ContextManager(window=8_192) as ctx:
        ctx.add_messages(TALK[:20])
        reading.begin(ctx.history, 0)
        others[0].join()
    assert not failed
