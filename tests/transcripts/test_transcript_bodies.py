"""The bodies of requests are files too: their messages, their system prompt and their tools, for
each API (C-3, K-3, FR-3)."""

import json

import pytest

from compact.errors import InvalidTranscript
from compact.transcripts.reading import read
from compact.transcripts.writing import write

USER = {"role": "user", "content": "Is the gate shut?"}
FLAT = {"type": "function", "name": "look", "description": "d", "parameters": {"type": "object"}}
NESTED = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
ASKED = {"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}"}
ANSWER = {"type": "function_call_output", "call_id": "c", "output": "shut"}
BODIES = {
    "responses": {
        "model": "gpt-5.5",
        "instructions": "You keep the gate.",
        "input": [USER, ASKED, ANSWER],
        "tools": [FLAT],
        "store": False,
    },
    "chat_completions": {
        "model": "gpt-4o-mini",
        "messages": [{"role": "system", "content": "You keep the gate."}, USER],
        "tools": [NESTED],
        "temperature": 0,
    },
    "anthropic": {
        "model": "claude-opus-4-5",
        "max_tokens": 9,
        "system": [{"type": "text", "text": "You keep the gate."}],
        "messages": [USER],
        "tools": [{"name": "look", "input_schema": {"type": "object"}}],
    },
}


def data_of(value):
    return json.dumps(value, separators=(",", ":")).encode()


@pytest.mark.parametrize("wire", BODIES)
def test_a_body_is_read_with_its_system_prompt_and_its_tools(wire):
    """K-3: the tools are there to be counted; the model is the one that was asked."""
    body = BODIES[wire]
    transcript = read(data_of(body))
    assert (transcript.format, transcript.wire) == ("chat", wire)
    assert (transcript.messages[0].role, transcript.messages[0].text) == (
        "system",
        "You keep the gate.",
    )
    assert transcript.messages[1].text == USER["content"]
    assert list(transcript.tools) == body["tools"]
    assert transcript.model == body["model"]


@pytest.mark.parametrize("wire", BODIES)
def test_a_body_is_written_as_a_body(wire):
    """C-3: the same bytes where nothing changed, else the same keys in the same order."""
    body = BODIES[wire]
    transcript = read(data_of(body))
    assert write(transcript, transcript.messages).encode() == data_of(body)
    fewer = json.loads(write(transcript, transcript.messages[:2]))
    assert list(fewer) == list(body)
    key = "input" if wire == "responses" else "messages"
    assert {k: v for k, v in fewer.items() if k != key} == {
        k: v for k, v in body.items() if k != key
    }
    assert fewer[key][-1] == USER


def test_an_input_may_be_one_text():
    body = {"model": "gpt-5.5", "input": "Is the gate shut?"}
    transcript = read(data_of(body))
    assert [(m.role, m.text) for m in transcript.messages] == [("user", "Is the gate shut?")]
    assert write(transcript, transcript.messages).encode() == data_of(body)
    changed = transcript.messages[0].model_copy(update={"content": "x", "edited": True})
    assert json.loads(write(transcript, [changed]))["input"][0]["content"] == "x"


def test_bodies_line_by_line_are_conversations():
    lines = b"\n".join(data_of(body) for body in BODIES.values())
    assert [read(lines, conversation=n).wire for n in (1, 2, 3)] == list(BODIES)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"previous_response_id": "r"}, "previous_response_id: the server would add messages"),
        ({"input": [USER, {"type": "item_reference", "id": "x"}]}, r"input\[1\], a reference"),
        ({"input": [ANSWER]}, r"input\[0\]: no message before it called 'c'"),
        ({"input": [USER, 5, 5, 5]}, r"input\[1\]: expected an object"),
        ({"input": []}, "holds no messages"),
        ({"input": 5}, "an unknown format"),
        ({"tools": 5}, "tools: expected a list"),
        ({"instructions": 5}, r"instructions"),
    ],
)
def test_a_body_that_cannot_be_read_says_why(change, reason):
    """FR-3: what a server holds cannot be counted."""
    with pytest.raises(InvalidTranscript, match=reason):
        read(data_of({**BODIES["responses"], **change}))
