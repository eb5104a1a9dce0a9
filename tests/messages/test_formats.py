"""Wire formats: read and written without loss, judged by the official SDKs' own types (C-3)."""

import json
from copy import deepcopy
from typing import Any

import pytest
from anthropic.types import MessageParam
from hypothesis import given, settings
from ollama import Message as OllamaMessage
from openai.types.chat import ChatCompletionMessageParam
from openai.types.responses import ResponseInputItemParam
from pydantic import TypeAdapter

from compact import compress
from compact.errors import CannotFit, InvalidMessage, UnknownModel
from compact.messages.context import ActiveContext
from compact.messages.formats.known import FORMATS, format_named, format_of, only_format, prompt_of
from compact.messages.messages import Message, Opaque, Text, Thinking, ToolCall, ToolResult
from tests import strategies
from tests.sizes import size

SDK: dict[str, TypeAdapter[Any]] = {
    "chat_completions": TypeAdapter(ChatCompletionMessageParam),
    "anthropic": TypeAdapter(MessageParam),
    "responses": TypeAdapter(ResponseInputItemParam),
    "ollama": TypeAdapter(OllamaMessage),
}
SETTINGS = settings(max_examples=size(15, 40), deadline=None)


def round_trip(wire: str, messages: list[dict]) -> list[dict]:
    chosen = format_named(wire)
    return chosen.render([chosen.parse(m, i) for i, m in enumerate(messages)])


@SETTINGS
@given(strategies.wild())
def test_what_was_not_changed_comes_back_as_it_was(made):
    """C-3: parse and render are the identity, unknown fields and odd contents included."""
    before = deepcopy(made.messages)
    assert round_trip(made.wire, made.messages) == before
    assert made.messages == before


def provider_fields(message: dict, wire: str) -> dict:
    """The message without the fields that are ours or a vendor's; SDK types allow no others."""
    known = {"role", "content", "tool_calls", "tool_call_id", "refusal", "name", "function_call"}
    return (
        {k: v for k, v in message.items() if k in known}
        if wire != "anthropic"
        else {
            "role": message["role"],
            "content": message["content"],
        }
    )


@pytest.mark.slow
@SETTINGS
@given(strategies.ordinary())
def test_what_we_write_the_sdk_accepts(made):
    """C-3: compressed messages are values of the SDK's own parameter types."""
    try:
        done = compress(made.messages, max_tokens=900, tokenizer="o200k", format=made.wire)
    except CannotFit:
        return
    for message in done:
        if made.wire == "anthropic" and message["role"] == "system":
            continue  # a convenience of ours: Anthropic's API has a field for it
        SDK[made.wire].validate_python(provider_fields(message, made.wire))


PARTS: dict[str, tuple[str, tuple[Any, ...]]] = {
    "words": ("assistant", (Text("Hello"),)),
    "a call": ("assistant", (Text("Reading."), ToolCall("c1", "read", '{"path": "a.py"}'))),
    "parallel calls": ("assistant", (ToolCall("c1", "read", "{}"), ToolCall("c2", "run", "{}"))),
    "a broken call": ("assistant", (ToolCall("c1", "read", '{"path": '),)),
    "a result": ("tool", (ToolResult("c1", "fine"),)),
    "a failed result": ("tool", (ToolResult("c1", "no", is_error=True),)),
    "thinking": ("assistant", (Thinking("hm", "seal"), Text("so"))),
    "an unknown part": ("user", (Opaque('{"type": "x"}'), Text("see"))),
}


@pytest.mark.parametrize("wire", FORMATS)
@pytest.mark.parametrize("name", PARTS)
def test_messages_of_no_format_are_written_in_both(wire, name):
    """C-3: what was made here, or read from another format, is written as the SDK wants it."""
    role, parts = PARTS[name]
    message = Message.of({"role": role, "content": parts})
    for written in format_named(wire).render([message]):
        SDK[wire].validate_python(written)


def test_chat_results_become_blocks_of_one_user_message():
    """C-3: neighbours that Anthropic would combine are written as one message."""
    chat = format_named("chat_completions")
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}}
    history: list[dict[str, Any]] = [
        {"role": "user", "content": "Go."},
        {"role": "assistant", "content": None, "tool_calls": [call, {**call, "id": "b"}]},
        {"role": "tool", "tool_call_id": "a", "content": "1"},
        {"role": "tool", "tool_call_id": "b", "content": "2"},
    ]
    messages = [chat.parse(m, i) for i, m in enumerate(history)]
    written = format_named("anthropic").render(messages)
    assert [m["role"] for m in written] == ["user", "assistant", "user"]
    assert [b["tool_use_id"] for b in written[2]["content"]] == ["a", "b"]
    assert written[1]["content"][0]["input"] == {"x": 1}
    back = [format_named("anthropic").parse(m, i) for i, m in enumerate(written)]
    assert [m["tool_call_id"] for m in chat.render(back) if m["role"] == "tool"] == ["a", "b"]


BAD: dict[str, tuple[Any, str]] = {
    "no role": ({"content": "x"}, "messages[7].role"),
    "an unknown role": ({"role": "robot", "content": "x"}, "messages[7].role"),
    "content of a wrong type": ({"role": "user", "content": 5}, "messages[7].content"),
    "a part of a wrong type": ({"role": "user", "content": [5]}, "messages[7].content[0]"),
    "a call without an id": (
        {"role": "assistant", "tool_calls": [{"function": {"name": "f"}}]},
        "messages[7].tool_calls[0].id",
    ),
    "a call without a name": (
        {"role": "assistant", "tool_calls": [{"id": "a", "function": {}}]},
        "messages[7].tool_calls[0].function.name",
    ),
    "calls that are no list": ({"role": "assistant", "tool_calls": "f"}, "messages[7].tool_calls"),
    "a result without its call's id": (
        {"role": "tool", "content": "x"},
        "messages[7].tool_call_id",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_message_is_refused_by_its_field(name):
    """C-3: the error names the path of the field."""
    message, path = BAD[name]
    with pytest.raises(InvalidMessage) as caught:
        format_named("chat_completions").parse(message, 7)
    assert caught.value.path == path


BAD_ANTHROPIC: dict[str, tuple[Any, str]] = {
    "a developer": ({"role": "developer", "content": "x"}, "messages[0].role"),
    "a call without an id": (
        {"role": "assistant", "content": [{"type": "tool_use", "name": "f"}]},
        "messages[0].content[0].id",
    ),
    "a call without a name": (
        {"role": "assistant", "content": [{"type": "tool_use", "id": "a"}]},
        "messages[0].content[0].name",
    ),
    "a result without an id": (
        {"role": "user", "content": [{"type": "text", "text": "x"}, {"type": "tool_result"}]},
        "messages[0].content[1].tool_use_id",
    ),
}


@pytest.mark.parametrize("name", BAD_ANTHROPIC)
def test_a_bad_anthropic_message_is_refused_by_its_field(name):
    """C-3: the same for blocks."""
    message, path = BAD_ANTHROPIC[name]
    with pytest.raises(InvalidMessage) as caught:
        format_named("anthropic").parse(message, 0)
    assert caught.value.path == path


TOLD: list[tuple[Any, str | None]] = [
    ({"role": "tool", "tool_call_id": "a", "content": "x"}, "chat_completions"),
    ({"role": "developer", "content": "x"}, "chat_completions"),
    ({"role": "assistant", "tool_calls": [{}]}, "chat_completions"),
    ({"role": "user", "content": [{"type": "image_url"}]}, "chat_completions"),
    ({"role": "user", "content": [{"type": "tool_result"}]}, "anthropic"),
    ({"role": "assistant", "content": [{"type": "thinking"}]}, "anthropic"),
    ({"role": "user", "content": [{"type": "image"}]}, "anthropic"),
    ({"role": "user", "content": [{"type": "text", "text": "x"}]}, None),
    ({"role": "user", "content": "x"}, None),
]


@pytest.mark.parametrize(("message", "wire"), TOLD, ids=lambda x: json.dumps(x)[:40])
def test_a_format_is_told_by_what_only_it_can_write(message, wire):
    """C-3: what both formats could have written tells nothing; such a list is read as chat
    completions."""
    assert only_format(message) == wire
    listed = [{"role": "user", "content": "x"}, message, {"role": "user", "content": "y"}]
    assert format_of(listed).name == (wire or "chat_completions")


def test_an_unknown_format_is_refused_by_name():
    """C-3: and the error names those there are."""
    with pytest.raises(UnknownModel, match="chat_completions, anthropic"):
        format_named("smoke signals")


def test_the_old_function_call_is_a_call_and_its_result():
    """C-3: the deprecated fields of chat completions are a pair like any other."""
    chat = format_named("chat_completions")
    called = {
        "role": "assistant",
        "content": None,
        "function_call": {"name": "f", "arguments": "{}"},
    }
    answered = {"role": "function", "name": "f", "content": "fine"}
    first, second = chat.parse(called, 0), chat.parse(answered, 1)
    assert [c.id for c in first.tool_calls] == [r.call_id for r in second.tool_results] == ["f"]
    assert chat.render([first, second]) == [called, answered]


@pytest.mark.parametrize(
    ("written", "sent"),
    [
        ('{"a":1}', '{"a":1}'),
        (' {"a": 12345678901234567890123} ', ' {"a": 12345678901234567890123} '),
        ("", "{}"),
        ('{"a": "b', '{"arguments": "{\\"a\\": \\"b"}'),
        ('{"a": NaN}', '{"arguments": "{\\"a\\": NaN}"}'),
        ("[1]", '{"arguments": [1]}'),
        ("[" * 5_000, f'{{"arguments": "{"[" * 5_000}"}}'),
    ],
)
def test_arguments_are_sent_as_an_object(written: str, sent: str) -> None:
    """What a model wrote as no JSON object is sent as one, and changed for no other reason."""
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": written}}
    said = {"role": "assistant", "content": None, "tool_calls": [call]}
    message = format_named("chat_completions").parse(said, 0)
    context = ActiveContext(messages=(message,), tokens=9)
    [prompt] = prompt_of(context)
    assert prompt["tool_calls"][0]["function"]["arguments"] == sent
    assert prompt == said if written == sent else prompt != said
    [item] = prompt_of(context, "responses")
    assert item["arguments"] == message.tool_calls[0].sent == sent
    assert format_named("chat_completions").render([message]) == [said], "the log keeps its words"


def test_free_text_of_a_custom_tool_is_sent_as_it_is() -> None:
    call = {"id": "c", "type": "custom", "custom": {"name": "patch", "input": "*** Begin\n"}}
    said = {"role": "assistant", "content": None, "tool_calls": [call]}
    message = format_named("chat_completions").parse(said, 0)
    assert prompt_of(ActiveContext(messages=(message,), tokens=9)) == [said]
    assert message.tool_calls[0].sent == "*** Begin\n"
