"""`CompactManager.preflight` before every call of a model in real sessions (K-6, K-13)."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from compact import CannotFit, CompactConfig, CompactManager
from compact.core.events import BranchTaken, Committed, Event
from compact.core.formats.known import format_named
from compact.storage.transcripts.transcript import Transcript
from tests import checker
from tests.compression.test_real_sessions import FOLDERS, conversations, data, files, some
from tests.sizes import NIGHT, size

__all__ = ["data"]
pytestmark = [pytest.mark.data, pytest.mark.slow]
WINDOWS = (32_000, 8_000, 4_000)
CALLS = size(25, 100_000)
"""Calls of a model that are looked at in a session, spread over it."""
Dict = dict[str, Any]


def calls(messages: list[Dict]) -> list[int]:
    """How many messages stand before each of the chosen calls."""
    models = [message.get("role") == "assistant" or is_item(message) for message in messages]
    before = [i for i in range(1, len(messages)) if models[i] and not models[i - 1]]
    step = max(1, len(before) // CALLS)
    return before[::step]


def is_item(message: Dict) -> bool:
    """Whether a model made the Responses item."""
    kind = str(message.get("type", ""))
    return kind == "reasoning" or kind.endswith("_call")


def played(transcript: Transcript, window: int, seen: Counter[str]) -> None:
    wire = transcript.wire
    whole = format_named(wire).render(transcript.messages)
    events: list[Event] = []
    config = CompactConfig(max_context_tokens=window, tokenizer="o200k")
    sent: list[Dict] = []
    with CompactManager(config, on_event=events.append) as manager:
        for stop in calls(whole):
            count = len(events)
            try:
                prompt = manager.preflight("s", whole[:stop], tools=transcript.tools)
            except CannotFit:
                seen["cannot fit"] += 1
                sent = []
                continue
            seen["prompts"] += 1
            assert checker.prompt_tokens(prompt) <= window
            assert not checker.broken_rules(prompt, wire)
            new = events[count:]
            if not any(isinstance(event, Committed) for event in new):
                assert prompt[: len(sent)] == sent, "the prompt that was sent goes on"
            sent = prompt
        history = manager.session("s").history
        stored = [m.text for m in history]
        assert stored == [m.text for m in transcript.messages[: len(stored)]]
    assert not any(isinstance(event, BranchTaken) for event in events)


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_call_of_a_real_session(folder: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Zero prompts over the limit, zero that a provider would refuse, bytes of what was sent stay
    but for a compaction, nothing is stored twice."""
    seen: Counter[str] = Counter()
    paths: list[Path] = some(files(folder))
    for number, path in enumerate(paths):
        for transcript in conversations(path, every=NIGHT is not None):
            for window in WINDOWS if NIGHT is not None else WINDOWS[number % 3 :: 3]:
                try:
                    played(transcript, window, seen)
                except AssertionError as error:
                    error.add_note(f"{folder}/{path.name} at {window:,}")
                    raise
    with capsys.disabled():
        print(f"\n{folder}: {dict(seen)}")
    assert seen["prompts"]
