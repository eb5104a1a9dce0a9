"""K-9 and K-12 as they are written, by what users have: the extra, and the examples."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from compact import CompactConfig, CompactManager
from tests import checker

ROOT = Path(__file__).resolve().parents[2]
agents = pytest.importorskip("agents")


def test_the_agents_sdk_has_a_hook_a_session_helpers_and_mark_protected() -> None:
    """K-9: "a `before_model_call` hook …, a `Session` of ours, helpers for Agent/Runner set-up,
    `mark_protected`"."""
    from agents.testing import ScriptedModel, assistant_message

    from compact.integrations.openai_agents import (
        CompactSession,
        before_model_call,
        mark_protected,
        run_config,
    )

    agents.set_trace_processors([])
    said = [assistant_message("A word. " * 200)]
    model = ScriptedModel([said] * 20)
    agent: Any = agents.Agent(name="keeper", model=model)

    async def talked(manager: CompactManager) -> Any:
        session = CompactSession("s", manager)
        given: Any = [mark_protected("Keep port 8443."), {"role": "user", "content": "Hello."}]
        for turn in range(20):
            config = (
                run_config(manager, "s")
                if turn % 2
                else agents.RunConfig(call_model_input_filter=before_model_call(manager, "s"))
            )
            await agents.Runner.run(agent, given, session=session, run_config=config)
            given = f"Turn {turn}: and then?"
        return await session.get_items()

    with CompactManager(CompactConfig(max_context_tokens=3_000, tokenizer="o200k")) as manager:
        items = asyncio.run(talked(manager))
    assert len(items) == 41
    for call in model.calls:
        prompt: Any = call.input
        assert checker.prompt_tokens(prompt) < 3_000
        assert not checker.broken_rules(prompt, "responses")
        assert "Keep port 8443." in str(prompt)


def test_the_examples_are_there() -> None:
    """K-12: "minimal Agents SDK integration in at most 10 lines; coding session …; long research
    session"; tests/test_examples.py runs all of them."""
    for name in ("agents_sdk_minimal", "coding_assistant", "coding_session", "long_research"):
        assert (ROOT / "examples" / f"{name}.py").stat().st_size > 0
    command = [sys.executable, str(ROOT / "examples" / "one_call.py")]
    done = subprocess.run(command, text=True, capture_output=True, check=True)
    assert "messages became" in done.stdout
