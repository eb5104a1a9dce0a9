"""Wire formats: read and written without loss, judged by the official SDKs' own types (C-3)."""

import json
import random
from copy import deepcopy
from typing import Any

import pytest
from anthropic.types import MessageParam
from hypothesis import given, settings
from ollama import Message as OllamaMessage
from openai.types.chat import ChatCompletionMessageParam
from openai.types.responses import ResponseInputItemParam
from pydantic import TypeAdapter

from compact import ContextManager, compress
from compact.errors import CannotFit, InvalidMessage, UnknownModel
from compact.messages.context import ActiveContext
from compact.messages.formats.known import FORMATS, format_named, format_of, only_format, prompt_of
from compact.messages.messages import Message, Opaque, Text, Thinking, ToolCall, ToolResult
from tests import strategies
from tests.messages import test_formats_ollama as ollama
from tests.messages import test_formats_responses as responses
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


BAD: dict[str, list[tuple[Any, str]]] = {
    "chat_completions": [
        ({"content": "x"}, ".role"),
        ({"role": "robot", "content": "x"}, ".role"),
        ({"role": "user", "content": 5}, ".content"),
        ({"role": "user", "content": [5]}, ".content[0]"),
        ({"role": "assistant", "tool_calls": [{"function": {"name": "f"}}]}, ".tool_calls[0].id"),
        (
            {"role": "assistant", "tool_calls": [{"id": "a", "function": {}}]},
            ".tool_calls[0].function.name",
        ),
        ({"role": "assistant", "tool_calls": "f"}, ".tool_calls"),
        ({"role": "tool", "content": "x"}, ".tool_call_id"),
        ({"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"}, ".role"),
    ],
    "anthropic": [
        ({"role": "developer", "content": "x"}, ".role"),
        (
            {"role": "assistant", "content": [{"type": "tool_use", "name": "f"}]},
            ".content[0].id",
        ),
        (
            {"role": "assistant", "content": [{"type": "tool_use", "id": "a"}]},
            ".content[0].name",
        ),
        (
            {"role": "user", "content": [{"type": "text", "text": "x"}, {"type": "tool_result"}]},
            ".content[1].tool_use_id",
        ),
    ],
    "responses": [
        ({"content": "x"}, ".role"),
        ({"role": "tool", "content": "x"}, ".role"),
        ({"type": 5}, ".type"),
        ({"role": "user", "content": 5}, ".content"),
        ({"role": "user", "content": [5]}, ".content[0]"),
        ({"type": "function_call", "name": "f", "arguments": ""}, ".call_id"),
        ({"type": "function_call", "call_id": "a", "arguments": ""}, ".name"),
        ({"type": "function_call", "call_id": "a", "name": "f", "arguments": {}}, ".arguments"),
        ({"type": "function_call_output", "output": "x"}, ".call_id"),
        ({"type": "function_call_output", "call_id": "a", "output": 5}, ".output"),
        ("text", ""),
    ],
    "ollama": [
        ({"role": "developer", "content": "x"}, ".role"),
        ({"role": "user", "content": [{"type": "text", "text": "x"}]}, ".content"),
        ({"role": "user", "content": "x", "images": [5]}, ".images"),
        ({"role": "assistant", "tool_calls": "f"}, ".tool_calls"),
        ({"role": "assistant", "tool_calls": [{}]}, ".tool_calls[0].function"),
        (
            {"role": "assistant", "tool_calls": [{"function": {}}]},
            ".tool_calls[0].function.name",
        ),
        ("text", ""),
    ],
}


@pytest.mark.parametrize(
    ("wire", "message", "path"), [(wire, *bad) for wire, rows in BAD.items() for bad in rows]
)
def test_a_bad_message_is_refused_by_its_field(wire, message, path):
    """C-3: the error names the path of the field."""
    with pytest.raises(InvalidMessage) as caught:
        format_named(wire).parse(message, 7)
    assert caught.value.path == f"messages[7]{path}"


BACK = [("ollama", message) for message in ollama.MESSAGES]
BACK += [("responses", item) for item in responses.ITEMS]


@pytest.mark.parametrize(("wire", "message"), BACK)
def test_a_message_comes_back_as_it_was(wire, message):
    """C-3: what we know and what we do not, also from a store."""
    before, chosen = deepcopy(message), format_named(wire)
    assert round_trip(wire, [message]) == [before]
    with ContextManager(window=8_000, store=":memory:", format=wire) as ctx:
        ctx.add_message(message)
        with ContextManager(window=8_000, store=ctx.store, session_id=ctx.id) as again:
            assert chosen.render(tuple(again.history)) == [before]
            assert again.history[0].content == ctx.history[0].content
    assert message == before


TOLD: list[tuple[Any, str | None]] = [
    ({"role": "tool", "tool_call_id": "a", "content": "x"}, "chat_completions"),
    ({"role": "developer", "content": "x"}, "chat_completions"),
    ({"role": "assistant", "tool_calls": [{}]}, "chat_completions"),
    (ollama.CHAT[2], "chat_completions"),
    ({"role": "user", "content": [{"type": "image_url"}]}, "chat_completions"),
    ({"role": "user", "content": [{"type": "tool_result"}]}, "anthropic"),
    ({"role": "assistant", "content": [{"type": "thinking"}]}, "anthropic"),
    ({"role": "user", "content": [{"type": "image"}]}, "anthropic"),
    ({"role": "user", "content": [{"type": "text", "text": "x"}]}, None),
    ({"role": "user", "content": "x"}, None),
    (ollama.calls("read"), "ollama"),
    (ollama.result("read", "x"), "ollama"),
    (ollama.MESSAGES[2], "ollama"),
    (responses.call("a"), "responses"),
    (responses.reasoning(), "responses"),
    (responses.output("a"), "responses"),
    (responses.WORDS, "responses"),
    ({"role": "user", "content": [{"type": "input_text", "text": "x"}]}, "responses"),
    ({"type": "message", "role": "assistant", "content": "x"}, None),
]
BESIDE = {"ollama": TOLD[0][0], "responses": TOLD[1][0]}
"""What chat completions say too, and what changes nothing there."""


@pytest.mark.parametrize(("message", "wire"), TOLD, ids=lambda x: json.dumps(x)[:40])
def test_a_format_is_told_by_what_only_it_can_write(message, wire):
    """C-3: what several formats could have written tells nothing; such a list is read as chat
    completions."""
    assert only_format(message) == wire
    said = {"role": "user", "content": "x"}
    beside = BESIDE.get(str(wire), said)
    for listed in ([said, message, said], [beside, said, message, beside]):
        assert format_of(listed).name == (wire or "chat_completions")


TALKS: dict[str, tuple[Any, Any, Any]] = {
    "ollama": (ollama.turn_of, lambda shown, _: ollama.broken(shown), ollama.is_sent),
    "responses": (
        responses.turn_of,
        responses.broken_items,
        SDK["responses"].validate_python,
    ),
}
"""How a turn is made, which rules a prompt breaks, and whether the client sends a message."""


@pytest.mark.slow
@pytest.mark.parametrize("wire", TALKS)
def test_a_session_of_200_turns(tmp_path, wire):
    """FR-3, C-3: with reasoning and parallel calls, at a window of 8,192 tokens; opened again from
    its file in the middle, its prompts go on as they were."""
    turn_of, broken, is_sent = TALKS[wire]
    r = random.Random(7)
    told: list[dict[str, Any]] = [{"role": "system", "content": "Be brief."}]
    options: dict[str, Any] = {"window": 8_192, "store": tmp_path / "s.db", "session_id": "s"}
    ctx = ContextManager(**options, format=wire)
    ctx.add_message(told[0])
    for turn in range(size(110, 200)):
        new = turn_of(turn, r)
        for part in [new] if turn % 4 else [[message] for message in new]:
            ctx.add_messages(part)
        told += new
        shown = ctx.get_context_for_model()
        assert ctx.budget.used_tokens <= ctx.window.size
        assert broken(shown, told) == []
        if turn % 40 == 0:
            for message in shown:
                is_sent(message)
        if turn in (60, 100):
            ctx.close()
            ctx = ContextManager(**options)
            assert ctx.get_context_for_model() == shown
    assert ctx.compressions >= 3
    assert format_named(wire).render(tuple(ctx.history)) == told
    if wire == "ollama":
        by_id = {c.id: c.name for m in ctx.history for c in m.tool_calls}
        assert all(by_id[r.call_id] == r.name for m in ctx.history for r in m.tool_results)
    ctx.close()


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
