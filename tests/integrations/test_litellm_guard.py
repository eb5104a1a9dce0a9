"""The guard for LiteLLM, in an environment of its own: its pins are not ours.

python3 -m venv /tmp/litellm && /tmp/litellm/bin/pip install . litellm pytest hypothesis
/tmp/litellm/bin/python -m pytest tests/integrations/test_litellm_guard.py --noconftest
"""

from __future__ import annotations

import asyncio
import importlib.util
from pathlib import Path
from typing import Any

import pytest

from tests import checker
from tests.scripted import Received, ScriptedServer

litellm: Any = pytest.importorskip(
    "litellm", reason="litellm is not installed; the head of this file says how to run it"
)
GUARD = Path(__file__).resolve().parents[2] / "examples" / "litellm_guard.py"
WINDOW, TURNS = 4096, 60
pytestmark = pytest.mark.filterwarnings("ignore")  # LiteLLM's own


def refused(server: ScriptedServer, callbacks: list[Any]) -> tuple[int, list[Received]]:
    """How many of so many turns the server refuses, and what it was asked."""

    async def talked() -> int:
        messages: list[dict[str, Any]] = [{"role": "system", "content": "You keep the lamps."}]
        failed = 0
        for turn in range(TURNS):
            said = "how is the lamp at the end of the pier tonight? " * 12
            messages.append({"role": "user", "content": f"Turn {turn}: {said}"})
            try:
                await litellm.acompletion(
                    model="openai/tiny", api_base=f"{server.url}/v1", api_key="none",
                    messages=messages, max_tokens=48, num_retries=0,
                )  # fmt: skip
            except litellm.ContextWindowExceededError:
                failed += 1
            messages.append({"role": "assistant", "content": f"It burns, as in turn {turn}."})
        return failed

    litellm.callbacks = callbacks
    try:
        return asyncio.run(talked()), server.prompts
    finally:
        litellm.callbacks = []


def test_no_request_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind the guard none of so many turns is too large; without it many are."""
    monkeypatch.setenv("COMPACT_MAX_CONTEXT_TOKENS", str(WINDOW))
    monkeypatch.setenv("COMPACT_TOKENIZER", "o200k")
    spec = importlib.util.spec_from_file_location("litellm_guard", GUARD)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    def count(body: dict[str, Any]) -> int:
        return checker.prompt_tokens(body["messages"])

    with ScriptedServer("It burns.", window=WINDOW, count=count) as server:
        failed, asked = refused(server, [module.guard])
        assert failed == 0
        assert len(asked) == TURNS
        assert not any(checker.broken_rules(each.messages, "chat_completions") for each in asked)
    with ScriptedServer("It burns.", window=WINDOW, count=count) as server:
        assert refused(server, [])[0] > TURNS // 4
    module.guard.manager.close()
