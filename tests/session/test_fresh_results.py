"""Results that no model has seen yet: of parallel calls each shows its head and tail (K-4)."""

from __future__ import annotations

from typing import Any

import pytest

from compact import ContextManager, compress

Dict = dict[str, Any]
LINES = 250


def read(i: int) -> str:
    return "\n".join(f"f{i} line {k}: x={k * i}" for k in range(LINES))


def in_chat() -> list[Dict]:
    calls = [
        {"id": f"c{i}", "type": "function", "function": {"name": "read", "arguments": "{}"}}
        for i in range(4)
    ]
    return [
        {"role": "user", "content": "Read the four files."},
        {"role": "assistant", "content": None, "tool_calls": calls},
        *({"role": "tool", "tool_call_id": f"c{i}", "content": read(i)} for i in range(4)),
    ]


def in_anthropic() -> list[Dict]:
    calls = [{"type": "tool_use", "id": f"c{i}", "name": "read", "input": {}} for i in range(4)]
    results = [
        {"type": "tool_result", "tool_use_id": f"c{i}", "content": read(i)} for i in range(4)
    ]
    return [
        {"role": "user", "content": "Read the four files."},
        {"role": "assistant", "content": calls},
        {"role": "user", "content": results},
    ]


def shown(prompt: list[Dict]) -> list[str]:
    parts = [p for m in prompt for p in (m["content"] if isinstance(m["content"], list) else [m])]
    return [str(p["content"]) for p in parts if p.get("tool_use_id") or p.get("tool_call_id")]


@pytest.mark.parametrize(
    ("format", "messages"), [("chat_completions", in_chat()), ("anthropic", in_anthropic())]
)
def test_they_share_all_the_room_there_is(format: str, messages: list[Dict]) -> None:
    ctx = ContextManager(window=8_192, format=format)
    ctx.add_messages(messages)
    texts = shown(ctx.get_context_for_model())
    assert ctx.budget.available_tokens < 300
    assert len(texts) == 4
    for i, text in enumerate(texts):
        assert text.startswith(f"f{i} line 0:")
        assert text.endswith(f"line {LINES - 1}: x={(LINES - 1) * i}")
    assert max(map(len, texts)) < 1.3 * min(map(len, texts))


def test_a_short_one_stays_whole_beside_long_ones() -> None:
    messages = in_chat()
    messages[3]["content"] = "nothing there"
    texts = shown(compress(messages, max_tokens=3_000))
    assert texts[1] == "nothing there"
    assert max(map(len, texts)) < 1.3 * min(map(len, [texts[0], *texts[2:]]))
