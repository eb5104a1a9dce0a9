"""The engine for Hermes, in an environment of its own: Hermes pins many packages.

python3 -m venv /tmp/hermes && /tmp/hermes/bin/pip install . hermes-agent pytest
/tmp/hermes/bin/python -m pytest tests/integrations/test_hermes.py --noconftest
"""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip(
    "agent.context_engine", reason="Hermes is not here; the head of this file says how to run"
)

from compact import CompactConfig
from compact.errors import CompactError
from compact.integrations.hermes import CompactEngine
from compact.testing.doors import NEEDS, TOOL, TURNS, Judge, said_in, words_of

WINDOW = 8_192
MOST = 6_000
"""Most characters of a result, as Hermes cuts results of tools itself."""
pytestmark = pytest.mark.slow


class Loop:
    """What Hermes does with an engine, in the order of its agent."""

    def __init__(self, engine: CompactEngine) -> None:
        self.engine, self.judge, self.ids = engine, Judge(None), 0
        self.messages: list[dict[str, Any]] = []
        self.said: list[str] = []
        self.largest = 0

    def turn(self, number: int) -> None:
        """Say a sentence, and run tools until the model answers."""
        self.judge.turn = number
        self._add({"role": "user", "content": said_in(number, "pier")})
        called = True
        while called:
            answer = self.judge.answer(self.messages)
            self.largest = max(self.largest, self.judge.tokens)
            self.engine.update_from_response({"prompt_tokens": self.judge.tokens})
            self._add(answer)
            called = bool(answer.get("tool_calls"))
            for call in answer.get("tool_calls", ()):
                item = json.loads(call["function"]["arguments"])["item"]
                result = {"role": "tool", "tool_call_id": call["id"]}
                self._add(result | {"content": TOOL.call(item)[:MOST]})
            if self.engine.should_compress():
                self.messages = self.engine.compress(self.messages, self.judge.tokens)
                self.ids += 1
                self.engine.on_session_start(f"pier-{self.ids}", boundary_reason="compression")

    def _add(self, message: dict[str, Any]) -> None:
        self.messages.append(message)
        if message["role"] != "tool" and message["content"]:
            self.said.append(words_of(message))


def started(store: Path, **settings: Any) -> CompactEngine:
    """An engine as an agent of Hermes gets it: a copy that is told its model."""
    engine = copy.deepcopy(CompactEngine(CompactConfig(store=str(store), **settings)))
    engine.update_model("gpt-4o-mini", WINDOW, base_url="", api_key="", provider="", api_mode="")
    engine.on_session_start("pier", platform="cli")
    return engine


def test_a_hundred_turns_fit_and_the_originals_are_in_the_store(tmp_path: Path) -> None:
    engine = started(tmp_path / "pier.db")
    loop = Loop(engine)
    for number in range(TURNS):
        loop.turn(number)
    assert loop.largest <= WINDOW
    assert loop.judge.faults == []
    assert engine.compression_count == loop.ids >= 3
    shown = "\n".join(map(words_of, loop.messages))
    assert sum(need in shown for need in NEEDS.values()) >= 3
    assert engine._manager is not None
    kept = [text for each in engine._manager.session("pier").history if (text := each.text)]
    assert kept == loop.said[: len(kept)]  # the newest are stored by the next compression
    assert len(kept) > TURNS
    engine.on_session_end("pier", loop.messages)


def test_settings_that_cannot_work_are_refused_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(CompactError):
        CompactEngine(CompactConfig(store=str(tmp_path / "a.db"), tokenizer="no-such"))


def test_a_smaller_window_of_the_settings_holds(tmp_path: Path) -> None:
    engine = started(tmp_path / "b.db", max_context_tokens=4_096)
    assert engine.context_length == 4_096
    assert not engine.should_compress(2_800)
    assert engine.should_compress(2_900)
    engine.on_session_end("pier", [])
