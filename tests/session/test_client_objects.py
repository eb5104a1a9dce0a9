"""What providers' clients hand out goes in as it is: objects of the real classes, made of what
their servers answer (C-3).
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from anthropic.types import Message as AnthropicMessage
from ollama import ChatResponse
from openai.types.chat import ChatCompletion
from openai.types.responses import Response

from compact import ContextManager, compress, plan
from compact.errors import InvalidMessage

CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"a": 1}'}}
COMPLETION = {
    "id": "x", "object": "chat.completion", "created": 1, "model": "m",
    "choices": [{"index": 0, "finish_reason": "tool_calls", "vendor_field": 1,
                 "message": {"role": "assistant", "content": None, "tool_calls": [CALL],
                             "reasoning_content": "Let me look."}}],
}  # fmt: skip
ANSWER = {
    "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "stop_reason": "tool_use",
    "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1},
    "content": [{"type": "thinking", "thinking": "Look.", "signature": "s"},
                {"type": "text", "text": "I look."},
                {"type": "tool_use", "id": "t1", "name": "look", "input": {"a": 1}}],
}  # fmt: skip
OUTPUT: list[dict[str, Any]] = [
    {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "e"},
    {"id": "fc_1", "type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}",
     "status": "completed"},
    {"id": "m_1", "type": "message", "role": "assistant", "status": "completed",
     "content": [{"type": "output_text", "text": "It is dry.", "annotations": []}]},
]  # fmt: skip
RESPONSE = {"id": "r", "object": "response", "created_at": 1, "model": "m", "output": OUTPUT,
            "parallel_tool_calls": True, "tool_choice": "auto", "tools": []}  # fmt: skip
OLLAMA = {"model": "m", "message": {"role": "assistant", "content": "", "tool_calls": [
    {"function": {"name": "look", "arguments": {"a": 1}}}]}}  # fmt: skip

ASKED = {"role": "user", "content": "Is the fern dry?"}
_completion = ChatCompletion.model_validate(COMPLETION)
_answer = AnthropicMessage.model_validate(ANSWER)
_response = Response.model_validate(RESPONSE)
_chat = ChatResponse.model_validate(OLLAMA)
SAID = {key: ANSWER[key] for key in ("role", "content")}

DONE = {"role": "tool", "tool_call_id": "c1", "content": "Yes."}
USED = {"type": "tool_result", "tool_use_id": "t1", "content": "Yes."}
GIVEN = {"type": "function_call_output", "call_id": "c1", "output": "Dry."}

CONVERSATIONS: dict[str, tuple[str, list[Any], list[dict[str, Any]]]] = {
    "chat completions": (
        "chat_completions",
        [ASKED, _completion.choices[0].message, DONE],
        [COMPLETION["choices"][0]["message"]],  # type: ignore[index]
    ),
    "an answer of Anthropic's": (
        "anthropic",
        [ASKED, _answer, {"role": "user", "content": [USED]}],
        [SAID],
    ),
    "the content of one": (
        "anthropic",
        [
            ASKED,
            {"role": "assistant", "content": _answer.content},
            {"role": "user", "content": [USED]},
        ],
        [SAID],
    ),
    "output items": (
        "responses",
        [ASKED, *_response.output[:2], GIVEN, _response.output[2]],
        OUTPUT,
    ),
    "Ollama": (
        "ollama",
        [ASKED, _chat.message, {"role": "tool", "tool_name": "look", "content": "Yes."}],
        [OLLAMA["message"]],  # type: ignore[list-item]
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_objects_go_in_as_their_dictionaries(name: str) -> None:
    """By every door that takes messages; what comes out is what their clients send."""
    format, messages, expected = CONVERSATIONS[name]
    out = compress(messages, max_tokens=8_000)
    assert all(each in out for each in expected), "the format is told by the objects, too"
    assert len(out) == len(messages)
    json.dumps(out)
    assert plan(messages, max_tokens=8_000).context.tokens > 0
    with ContextManager(window=8_192, format=format) as ctx:
        for message in messages:
            ctx.add_message(message)
        prompt = ctx.get_context_for_model()
        assert len(ctx.history) == len(messages)
        assert ctx.sync(messages).new == []
        assert ctx.get_context_for_model() == prompt
    with ContextManager(window=8_192, format=format) as ctx:
        ctx.sync(messages)
        assert ctx.get_context_for_model() == prompt


def test_objects_are_compressed_like_their_dictionaries() -> None:
    messages = CONVERSATIONS["chat completions"][1]
    long = [{"role": "user", "content": "The fern stands by the window. " * 50}, *messages] * 6
    plain = [m if isinstance(m, dict) else COMPLETION["choices"][0]["message"] for m in long]  # type: ignore[index]
    assert compress(long, max_tokens=900) == compress(plain, max_tokens=900)


@pytest.mark.parametrize("whole", [_completion, _response, _chat])
def test_a_whole_answer_is_told_where_the_message_is(whole: Any) -> None:
    words = rf"messages\[1\]: a {type(whole).__name__} is no message"
    with pytest.raises(InvalidMessage, match=words):
        compress([ASKED, whole], max_tokens=8_000)
