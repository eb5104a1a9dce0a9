"""What servers refuse for good is written so that they take it (issue 4, FR-2)."""

import json
import re
from typing import Any

import pytest
from anthropic.types import MessageParam
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.types.chat import ChatCompletionMessageParam
from openai.types.responses import ResponseInputItemParam
from pydantic import TypeAdapter

from compact.messages.arguments import DEEPEST, arguments_of, read_json, readable_arguments
from compact.messages.characters import all_carried, carried
from compact.messages.context import ActiveContext
from compact.messages.formats.known import format_named, prompt_of, tools_of
from compact.messages.formats.wire_safe import plainly, strictly_named
from compact.models.providers.tokenizers import TiktokenEstimator
from tests import strategies
from tests.pace import is_linear

SDK: dict[str, TypeAdapter[Any]] = {
    "chat_completions": TypeAdapter(ChatCompletionMessageParam),
    "anthropic": TypeAdapter(MessageParam),
    "responses": TypeAdapter(ResponseInputItemParam),
}


def sent(raw: dict[str, Any], wire: str = "chat_completions") -> dict[str, Any]:
    message = format_named(wire).parse(raw, 0)
    [written] = prompt_of(ActiveContext(messages=(message,), tokens=9), wire)
    return written


def user(content: object, **more: object) -> dict[str, Any]:
    return {"role": "user", "content": content, **more}


def assistant(content: object = None, **more: object) -> dict[str, Any]:
    return {"role": "assistant", "content": content, **more}


def called(call_id: str = "a", name: str = "f", **more: object) -> dict[str, Any]:
    return {
        "id": call_id,
        "type": "function",
        "function": {"name": name, "arguments": "{}"},
        **more,
    }


CALL = called()
CHAT: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "no content": ({"role": "assistant"}, assistant("")),
    "content that is null": (assistant(), assistant("")),
    "no parts": (assistant([]), assistant("")),
    "a person's null": (user(None), user("")),
    "null beside a call": (assistant(tool_calls=[CALL]), assistant(tool_calls=[CALL])),
    "no parts beside a call": (assistant([], tool_calls=[CALL]), assistant(tool_calls=[CALL])),
    "null beside a refusal": (assistant(refusal="No."), assistant(refusal="No.")),
    "a bare text among parts": (user(["hi"]), user([{"type": "text", "text": "hi"}])),
    "no calls": (assistant("x", tool_calls=[]), assistant("x")),
    "fields that are null": (
        assistant("x", tool_calls=None, function_call=None, name=None, audio=None),
        assistant("x"),
    ),
    "fields of ours": (user("x", id="m", timestamp="2026-01-01T00:00:00"), user("x")),
    "marks of ours": (user("x", metadata={"pinned": True}), user("x")),
    "a call of an old kind": (
        assistant(function_call={"name": "f", "arguments": '{"a'}),
        assistant(function_call={"name": "f", "arguments": '{"arguments": "{\\"a"}'}),
    ),
    "a call whose type is none of the API's": (
        assistant(tool_calls=[called(type="tool_call")]),
        assistant(tool_calls=[CALL]),
    ),
    "a function that is called custom": (
        assistant(tool_calls=[called(type="custom")]),
        assistant(tool_calls=[CALL]),
    ),
    "fields of a vendor's": (user("x", x_trace=[1]), user("x", x_trace=[1])),
    "a result without content": (
        {"role": "tool", "tool_call_id": "a"},
        {"role": "tool", "tool_call_id": "a", "content": ""},
    ),
    "a role of ours": (
        {"role": "tool_result", "tool_call_id": "a", "content": "x"},
        {"role": "tool", "tool_call_id": "a", "content": "x"},
    ),
    "a call without a type": (
        assistant(tool_calls=[{"id": "a", "function": CALL["function"]}]),
        assistant(tool_calls=[CALL]),
    ),
    "arguments that are an object": (
        assistant(tool_calls=[called(function={"name": "f", "arguments": {"a": 1}})]),
        assistant(tool_calls=[called(function={"name": "f", "arguments": '{"a": 1}'})]),
    ),
    "arguments that are null": (
        assistant(tool_calls=[called(function={"name": "f", "arguments": None})]),
        assistant(tool_calls=[CALL]),
    ),
}


@pytest.mark.parametrize("name", CHAT)
def test_chat_messages_are_sent_as_servers_take_them(name: str) -> None:
    given, expected = CHAT[name]
    before = json.dumps(given)
    assert sent(given) == expected
    assert json.dumps(given) == before, "what is kept was changed"


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        (
            {"type": "message", "role": "user", "content": None, "status": None},
            {"type": "message", "role": "user", "content": ""},
        ),
        (
            {"type": "function_call_output", "call_id": "a", "output": None, "id": None},
            {"type": "function_call_output", "call_id": "a", "output": ""},
        ),
        (
            {"type": "reasoning", "id": "rs", "summary": [], "content": None, "status": None},
            {"type": "reasoning", "id": "rs", "summary": []},
        ),
    ],
)
def test_items_are_sent_without_null(item: dict[str, Any], expected: dict[str, Any]) -> None:
    """Clients write fields that are not set as null, and OpenAI refuses that."""
    assert sent(item, "responses") == expected


@pytest.mark.parametrize("wire", ["chat_completions", "anthropic", "responses"])
@pytest.mark.parametrize("call_id", ["functions.read:0", "x" * 70, "ü \n", "toolu_01-a"])
def test_ids_of_another_vendor_are_taken(wire: str, call_id: str) -> None:
    """A call and its result keep one id, of a length and of letters that the vendor allows."""
    chat = format_named("chat_completions")
    said = [
        assistant(tool_calls=[called(call_id)]),
        {"role": "tool", "tool_call_id": call_id, "content": "x"},
    ]
    messages = tuple(chat.parse(m, i) for i, m in enumerate(said))
    call, result = prompt_of(ActiveContext(messages=messages, tokens=9), wire)
    match wire:
        case "chat_completions":
            ids, longest = [call["tool_calls"][0]["id"], result["tool_call_id"]], 40
        case "anthropic":
            ids, longest = [call["content"][0]["id"], result["content"][0]["tool_use_id"]], 80
            assert re.fullmatch(r"[a-zA-Z0-9_-]+", ids[0])
        case _:
            ids, longest = [call["call_id"], result["call_id"]], 64
    assert ids[0] == ids[1]
    assert len(ids[0]) <= longest
    if call_id == "toolu_01-a":
        assert ids[0] == call_id


def test_names_are_strict_only_where_they_must_be() -> None:
    """Elsewhere a tool is offered by its own name, and its calls have to say it."""
    odd, even = "server.tool one/ü", "server_tool_one__"
    written = sent(assistant(tool_calls=[called(name=odd)]))
    assert written["tool_calls"][0]["function"]["name"] == odd
    assert strictly_named(written)["tool_calls"][0]["function"]["name"] == even
    item = {"type": "function_call", "call_id": "a", "name": odd, "arguments": "{}"}
    assert strictly_named(item)["name"] == even
    use = {"type": "tool_use", "id": "a", "name": odd, "input": {}}
    assert strictly_named(assistant([use]))["content"][0]["name"] == even
    assert strictly_named(user("x", name="Ada <L>"))["name"] == "Ada__L_"
    assert len(strictly_named(user("x", name="n" * 200))["name"]) == 64


def test_a_compatible_server_is_sent_what_it_knows() -> None:
    """Custom tools and refusals among parts are OpenAI's own; llama.cpp answers 500 and 400."""
    custom = {"id": "c", "type": "custom", "custom": {"name": "patch", "input": "*** Begin"}}
    plain = plainly(sent(assistant([{"type": "refusal", "refusal": "No."}], tool_calls=[custom])))
    assert plain["content"] == [{"type": "text", "text": "No."}]
    [call] = plain["tool_calls"]
    assert call["type"] == "function"
    assert json.loads(call["function"]["arguments"]) == {"arguments": "*** Begin"}
    words = {"type": "text", "text": "Well."}
    for content, written in (
        (None, "No."),
        ("Well.", "Well.\nNo."),
        ([words], [words, words | {"text": "No."}]),
    ):
        assert plainly(sent(assistant(content, refusal="No."))) == assistant(written)


@given(strategies.wild())
@settings(max_examples=60, deadline=None)
def test_every_history_is_sent_as_the_sdk_has_it(made: strategies.Generated) -> None:
    """C-3: as the official SDK's own parameter types, with nothing that is null but contents."""
    parse = format_named(made.wire).parse
    messages = tuple(parse(m, i) for i, m in enumerate(made.messages))
    fields = {"role", "content", "tool_calls", "tool_call_id", "refusal", "function_call", "name"}
    for message in prompt_of(ActiveContext(messages=messages, tokens=9), made.wire):
        if made.wire == "chat_completions" and "x_new" not in str(message):
            SDK[made.wire].validate_python({k: v for k, v in message.items() if k in fields})
        json.dumps(message, ensure_ascii=False, allow_nan=False).encode()
        assert all(v is not None for k, v in message.items() if k != "content") or (
            made.wire == "anthropic"
        )


# --- texts and numbers ----------------------------------------------------------------------------


def test_half_a_surrogate_pair_is_sent_as_utf8_can() -> None:
    """Half an emoji would make every later request fail before it is sent; halves that meet, as
    pieces of a stream do, are the emoji.
    """
    assert carried("x\ud83dy") == "x\ufffdy"
    assert carried("\ud83d" + "\ude00") == "\U0001f600"
    assert carried("\ufeffé") == "\ufeffé"
    value: list[dict[str, Any]] = [{"\ud83d": ("a\udfff", 1, None)}]
    assert all_carried(value) == [{"\ufffd": ["a\ufffd", 1, None]}]
    for raw in (user("x\ud83d"), assistant(tool_calls=[called(function={
        "name": "f", "arguments": '{"a": "\\ud83d"}'})])):  # fmt: skip
        json.dumps(sent(raw), ensure_ascii=False).encode()
    tool = {"name": "f", "description": "x\ud83d", "parameters": {"type": "object"}}
    context = ActiveContext(messages=(), tokens=9, system="x\ud83d", tools=(tool,))
    for wire in (*SDK, "ollama"):
        json.dumps(tools_of(context, wire), ensure_ascii=False).encode()
    assert context.system_text == "x\ufffd"


@given(st.text(st.characters(), max_size=30))
@settings(max_examples=50, deadline=None)
def test_what_cannot_be_carried_is_counted_as_it_is_sent(text: str) -> None:
    """A count is never under what is sent (K-2)."""
    count = TiktokenEstimator().count
    text = f"{text}\ud83d\ude00{text}\udc80"
    carried(text).encode()
    assert count(text) == count(carried(text))


@pytest.mark.parametrize("text", ['{"a": 1e999}', '{"a": -1e999}', '{"a": NaN}', '{"a": Infinity}'])
def test_numbers_that_json_has_none_of_stay_text(text: str) -> None:
    """Written as JSON again they would be Infinity, which no server reads."""
    assert arguments_of(text) == {"arguments": text}
    assert json.loads(readable_arguments(text)) == {"arguments": text}


def test_arguments_nested_too_deep_stay_text() -> None:
    """A model that repeats itself writes brackets without end: programs that read them give up."""

    def nested(depth: int) -> str:
        return '{"a[": ' * depth + '"{"' + "}" * depth

    assert read_json(nested(DEEPEST)) == arguments_of(nested(DEEPEST))
    for text in (nested(DEEPEST + 1), nested(600), nested(5000), "[" * 100_000):
        with pytest.raises(ValueError, match=r"nested|Expecting"):
            read_json(text)
        assert json.loads(readable_arguments(text)) == {"arguments": text}
    wide = json.dumps({"a": [{} for _ in range(5000)]})
    assert readable_arguments(wide) == wide


@pytest.mark.timing
def test_a_call_that_is_cut_off_is_read_in_no_time() -> None:
    """Reading follows the length, not its square, also where a text full of quotes has no end."""
    page = '<div class=\\"row\\">{{ x }}[0]</div>\\n' * 8_000
    assert is_linear(readable_arguments, '{"path": "a.html", "content": "' + page)


def test_depth_is_that_of_what_is_open() -> None:
    for text in ('{"a": "' + "[" * 200 + '"}', '{"a": "\\\\", "b": "' + "{" * 200 + '"}'):
        assert readable_arguments(text) == text
    with pytest.raises(ValueError, match="deeper"):
        read_json('{"a": "\\"' + '", "b": ' + "[" * 200)


def test_items_keep_ids_that_the_vendor_gave_and_no_others() -> None:
    """OpenAI refuses an id that begins otherwise, for good, and needs none."""
    for raw, kept in (
        (user("x", id="m7"), None),
        (user("x", id="msg_1", metadata={"pinned": True}), "msg_1"),
        (
            {"type": "function_call", "id": "a", "call_id": "c", "name": "f", "arguments": "{}"},
            None,
        ),
        (
            {"type": "function_call", "id": "fc_1", "call_id": "c", "name": "f", "arguments": "{}"},
            "fc_1",
        ),
        ({"type": "reasoning", "id": "rs_1", "summary": []}, "rs_1"),
    ):
        written = sent(raw, "responses")
        assert written.get("id") == kept
        assert "metadata" not in written


def test_arguments_that_are_text_are_objects_where_the_api_says_objects() -> None:
    block = {"type": "tool_use", "id": "a", "name": "f", "input": '{"x": '}
    [written] = sent(assistant([block]), "anthropic")["content"]
    assert written["input"] == {"arguments": '{"x": '}
    for text, read in (('{"x": 1}', {"x": 1}), ('{"x"', {"arguments": '{"x"'}), (None, {})):
        call = {"function": {"name": "f", "arguments": text}}
        [written] = sent(assistant("", tool_calls=[call]), "ollama")["tool_calls"]
        assert written["function"]["arguments"] == read


def test_names_are_strict_beside_a_speakers_and_as_long_as_the_vendor_takes() -> None:
    said = assistant(name="the planner", tool_calls=[called(name="repo.search")])
    written = strictly_named(said)
    assert written["name"] == "the_planner"
    assert written["tool_calls"][0]["function"]["name"] == "repo_search"
    long = "x" * 95
    [call] = strictly_named(assistant(tool_calls=[called(name=long)]))["tool_calls"]
    assert call["function"]["name"] == long[:64]
    [block] = strictly_named(assistant([{"type": "tool_use", "name": long}]))["content"]
    assert block["name"] == long
