"""Answers that are JSON and yet none: failures of the model's, and its usage is no reason to lose
what it said (FR-6).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from compact.errors import InvalidInput, ModelFailed, ModelRefused, ModelUnavailable
from compact.messages.context import ActiveContext
from compact.messages.messages import Message
from compact.messages.replies import Reply, Usage
from compact.wiring import chat_model
from tests.scripted import ScriptedServer
from tests.scripted.faces import FACES, Turn

HELLO = ActiveContext(messages=(Message(role="user", content="hello"),), tokens=10)
CHAT, RESPONSES = "/v1/chat/completions", "/v1/responses"
ANTHROPIC, OLLAMA = "/v1/messages", "/api/chat"
SPOKEN = {CHAT: "", RESPONSES: "responses+", ANTHROPIC: "anthropic+", OLLAMA: "ollama+"}


class Says:
    """Answers with this JSON, whole or in events."""

    def __init__(self, path: str, *said: Mapping[str, Any]) -> None:
        self._said = said
        self._lines = path == OLLAMA
        self.stream_type = "application/x-ndjson" if self._lines else "text/event-stream"

    def streams(self, body: Mapping[str, Any]) -> bool:
        return bool(body.get("stream"))

    def whole(self, turn: Turn) -> Mapping[str, Any]:
        return self._said[0]

    def stream(self, turn: Turn) -> Iterator[bytes]:
        for event in self._said:
            line = json.dumps(event)
            kind = f"event: {event['type']}\n" if "type" in event else ""
            yield f"{line}\n".encode() if self._lines else f"{kind}data: {line}\n\n".encode()


def _asked(monkeypatch: pytest.MonkeyPatch, path: str, *said: Any, stream: bool = False) -> Reply:
    table: Any = FACES
    monkeypatch.setitem(table, path, Says(path, *said))

    async def asked(key: str) -> Reply:
        model = chat_model(key)
        if not stream:
            return await model.complete(HELLO)
        reply = [piece.reply async for piece in model.stream(HELLO)][-1]
        assert reply is not None
        return reply

    with ScriptedServer("hi") as server:
        return asyncio.run(asked(f"{SPOKEN[path]}{server.url}#m"))


def _chat(message: Mapping[str, Any], **usage: Any) -> dict[str, Any]:
    return {"choices": [{"message": message, "finish_reason": "stop"}], "usage": usage}


def _item(*content: Any) -> dict[str, Any]:
    return {"type": "message", "role": "assistant", "content": list(content)}


WHOLE = [
    (CHAT, _chat({"content": 5})),
    (CHAT, _chat({"content": None, "tool_calls": [{"id": "a", "function": None}]})),
    (RESPONSES, {"status": "completed", "output": [{"type": "function_call", "name": 7}]}),
    (RESPONSES, {"status": "completed", "output": ["what"]}),
    (ANTHROPIC, {"content": [{"type": "tool_use", "input": {}}], "stop_reason": "end_turn"}),
    (OLLAMA, {"message": {"content": ["no text"]}, "done": True}),
]
PIECES = [
    (CHAT, {"choices": [None]}),
    (CHAT, {"choices": [{"delta": "word"}]}),
    (CHAT, {"choices": [{"delta": {"tool_calls": ["read"]}}]}),
    (ANTHROPIC, {"type": "content_block_start"}),
    (ANTHROPIC, {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta"}}),
    (RESPONSES, {"type": "response.output_text.delta", "delta": {"text": "hi"}}),
    (OLLAMA, {"message": {"tool_calls": 7}}),
]


@pytest.mark.parametrize(("path", "said"), WHOLE)
def test_an_answer_that_cannot_be_read_is_the_models_failure(
    path: str, said: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may do better when it is asked again; whoever asked did nothing wrong."""
    with pytest.raises(ModelFailed) as failed:
        _asked(monkeypatch, path, said)
    assert not isinstance(failed.value, (InvalidInput, ModelRefused, ModelUnavailable))


@pytest.mark.parametrize(("path", "said"), PIECES)
def test_a_piece_that_cannot_be_read_is_the_models_failure(
    path: str, said: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ModelFailed) as failed:
        _asked(monkeypatch, path, said, stream=True)
    assert not isinstance(failed.value, (InvalidInput, ModelRefused, ModelUnavailable))


@pytest.mark.parametrize(
    ("path", "said"),
    [
        (CHAT, _chat({"content": "hi"}, prompt_tokens=7, completion_tokens=-1)),
        (
            RESPONSES,
            {
                "status": "completed",
                "output": [_item({"type": "output_text", "text": "hi"})],
                "usage": {"input_tokens": 7, "output_tokens": "many"},
            },
        ),
        (
            ANTHROPIC,
            {
                "content": [{"type": "text", "text": "hi"}],
                "stop_reason": "end_turn",
                "usage": {"input_tokens": 7, "cache_read_input_tokens": "x", "output_tokens": 2.5},
            },
        ),
        (
            OLLAMA,
            {"message": {"content": "hi"}, "done": True, "prompt_eval_count": 7, "eval_count": 0.5},
        ),
    ],
)
def test_an_answer_is_not_lost_for_what_is_said_of_its_cost(
    path: str, said: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    reply = _asked(monkeypatch, path, said)
    assert isinstance(reply.message, Message)
    assert reply.message.text == "hi"
    assert reply.usage == Usage(prompt_tokens=7)


def test_a_prompt_of_less_than_nothing_is_no_usage(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _asked(monkeypatch, CHAT, _chat({"content": "hi"}, prompt_tokens=-1)).usage is None


def test_calls_that_are_numbered_alike_stay_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some servers number every call 0, or none; each has an id of its own."""

    def pieces(**number: int) -> list[dict[str, Any]]:
        parts: list[dict[str, Any]] = [
            {"id": "a", "function": {"name": "look", "arguments": '{"at": '}},
            {"function": {"arguments": "1}"}},
            {"id": "b", "function": {"name": "read", "arguments": "{}"}},
        ]
        calls = [{**part, **number} for part in parts]
        said = [{"choices": [{"delta": {"tool_calls": [call]}}]} for call in calls]
        return [*said, {"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}]

    for said in (pieces(index=0), pieces()):
        message = _asked(monkeypatch, CHAT, *said, stream=True).message
        assert isinstance(message, Message)
        calls = [(call.id, call.name, call.arguments) for call in message.tool_calls]
        assert calls == [("a", "look", '{"at": 1}'), ("b", "read", "{}")]
