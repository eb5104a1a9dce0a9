"""A result that comes after somebody said something else stands at its call (C-3)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from compact import ContextManager, compress

ASKED = {"role": "user", "content": "Read the file."}
CALL = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{}"}}
CALLED = {"role": "assistant", "content": None, "tool_calls": [CALL]}
SAID = {"role": "user", "content": "Are you still there?"}
RESULT = {"role": "tool", "tool_call_id": "c1", "content": "oak, ash, elm"}
BLOCK = {"type": "tool_use", "id": "c1", "name": "read", "input": {}}
ANSWER = {"type": "tool_result", "tool_use_id": "c1", "content": "oak, ash, elm"}
TALKS: dict[str, list[dict[str, Any]]] = {
    "chat_completions": [ASKED, CALLED, SAID, RESULT],
    "anthropic": [
        ASKED,
        {"role": "assistant", "content": [BLOCK]},
        SAID,
        {"role": "user", "content": [ANSWER]},
    ],
    "responses": [
        ASKED,
        {"type": "function_call", "call_id": "c1", "name": "read", "arguments": "{}"},
        SAID,
        {"type": "function_call_output", "call_id": "c1", "output": "oak, ash, elm"},
    ],
}


def in_order(talk: list[dict[str, Any]]) -> list[dict[str, Any]]:
    asked, called, said, result = talk
    return [asked, called, result, said]


@pytest.mark.parametrize("name", TALKS)
def test_in_one_call(name: str) -> None:
    assert compress(TALKS[name], max_tokens=500, format=name) == in_order(TALKS[name])


@pytest.mark.parametrize("name", TALKS)
@pytest.mark.parametrize("asks_between", [False, True])
def test_in_a_session_and_when_it_is_opened_again(
    name: str, asks_between: bool, tmp_path: Path
) -> None:
    given: dict[str, Any] = {"window": 8_192, "store": tmp_path / "a.db", "session_id": "a"}
    with ContextManager(**given, format=name) as ctx:
        for message in TALKS[name]:
            ctx.add_message(message)
            if asks_between:
                ctx.get_context_for_model()
        prompt = ctx.get_context_for_model()
        assert prompt == in_order(TALKS[name])
        used = ctx.budget.used_tokens
        ctx.add_message(role="user", content="And now?")
        assert ctx.get_context_for_model()[:4] == prompt
    with ContextManager(**given) as ctx:
        assert ctx.get_context_for_model()[:4] == prompt
        assert ctx.budget.used_tokens > used


@pytest.mark.parametrize("name", TALKS)
def test_after_a_compression(name: str) -> None:
    ctx = ContextManager(window=1_024, format=name)
    for i in range(30):
        ctx.add_message(role="user", content=f"Question {i}: {'oak ' * 30}")
        ctx.add_message(role="assistant", content="Fine. " * 40)
    ctx.add_messages(TALKS[name])
    ctx.compress_conversation(target_ratio=0.4)
    assert ctx.checkpoints
    assert ctx.get_context_for_model()[-4:] == in_order(TALKS[name])


def test_a_pinned_one_stays_word_for_word_beside_a_long_one() -> None:
    """C-3, FR-1: also where it is text by now, as its call is not in view."""
    ctx = ContextManager(window=2_048)
    ctx.add_messages(TALKS["chat_completions"][:3])
    other = {"id": "c2", "type": "function", "function": {"name": "read", "arguments": "{}"}}
    ctx.add_message({"role": "assistant", "content": None, "tool_calls": [other]})
    words = " ".join(f"tree-{i}" for i in range(80))
    ctx.add_message({**RESULT, "content": words, "metadata": {"pinned": True}})
    ctx.add_message({"role": "tool", "tool_call_id": "c2", "content": "leaves " * 300})
    for i in range(30):
        ctx.add_message(role="user", content=f"Question {i}: {'oak ' * 30}")
        ctx.add_message(role="assistant", content="Fine. " * 40)
    prompt = ctx.get_context_for_model()
    assert ctx.checkpoints
    assert any(words in str(message["content"]) for message in prompt)
