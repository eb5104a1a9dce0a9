"""`CompactManager.preflight` before every call of a model in real sessions (K-6, K-13)."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from compact.messages.formats.known import format_named
from compact.messages.policy import Strategy
from compact.text.speakers import speaker_of
from compact.transcripts.transcript import Transcript
from tests import checker
from tests.engine.test_real_sessions import FOLDERS, conversations, data, files, some
from tests.session.resending import Program
from tests.sizes import NIGHT, size

__all__ = ["data"]
pytestmark = [pytest.mark.data, pytest.mark.slow]
WINDOWS = (32_000, 8_000, 4_000)
CALLS = size(25, 100_000)
"""Calls of a model that are looked at in a session, spread over it."""
PINS, LONGEST_PIN = 3, 100
"""Messages of a person that are pinned in a session, and tokens of the longest."""
ALSO = ("claude_code_sessions_2", "claude_code_others")
"""Folders beside those of the other tests of real sessions."""
STRATEGIES: tuple[Strategy, ...] = ("task_state", "off")
"""Every other file is sent without summaries."""
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


def played(transcript: Transcript, window: int, seen: Counter[str], *, strategy: Strategy) -> None:
    """Resend a session before its calls, some of its messages pinned."""
    wire = format_named(transcript.wire)
    whole = wire.render(transcript.messages)
    spoken = [speaker_of(wire.parse(message, i)) for i, message in enumerate(whole)]
    system = [i for i, speaker in enumerate(spoken) if speaker == "system"]
    persons = [i for i, speaker in enumerate(spoken) if speaker == "person"]
    short = [i for i in persons if is_short(whole[i])]
    pinned = short[:: max(1, len(short) // PINS)][:PINS]
    for i in pinned:
        whole[i] = {**whole[i], "metadata": {"pinned": True}}
    with Program(transcript.wire, window, transcript.tools, strategy=strategy) as program:
        for stop in calls(whole):
            newest = [i for i in persons if i < stop][-1:]
            held = (i for i in {*system, *pinned, *newest} if i < stop)
            program.resend(whole[:stop], held)
        if program.count["calls"]:
            program.end(whole[:stop])
    seen += program.count
    seen["sessions of 20 compactions and more"] += program.count["compactions"] >= 20


def is_short(message: Dict) -> bool:
    """Whether a pin on the message leaves room for others."""
    return checker.prompt_tokens([message]) < LONGEST_PIN


@pytest.mark.parametrize("folder", [*FOLDERS, *ALSO])
def test_every_call_of_a_real_session(folder: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Zero prompts over the limit, zero that a provider would refuse, bytes of what was sent stay
    but for a compaction, nothing is stored twice."""
    seen: Counter[str] = Counter()
    paths: list[Path] = some(files(folder))
    for number, path in enumerate(paths):
        for transcript in conversations(path, every=NIGHT is not None):
            seen["sessions"] += 1
            for window in WINDOWS if NIGHT is not None else WINDOWS[number % 3 :: 3]:
                try:
                    played(transcript, window, seen, strategy=STRATEGIES[number % 2])
                except AssertionError as error:
                    error.add_note(f"{folder}/{path.name} at {window:,}")
                    raise
    with capsys.disabled():
        print(f"\n{folder}: {dict(seen)}")
    assert seen["prompts"]
