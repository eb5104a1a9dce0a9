"""What is particular to OpenAI's two APIs, and to the servers that speak them (FR-14, FR-6)."""

import json
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import pytest

from compact import ContextManager
from compact.errors import ModelRefused, ServerHeldState
from compact.messages.asking import Ask, Limits
from compact.messages.formats.known import format_named
from compact.messages.formats.wire import schemas_for
from compact.messages.messages import Text, Thinking, ToolCall
from compact.models.providers.openai_chat import OpenAIChat, StreamedAnswer
from compact.models.providers.openai_responses import OpenAIResponses
from compact.wiring import chat_model
from tests.models.asking import HELLO, at, reply_of, run, said, sent, ways
from tests.scripted import ScriptedServer
from tests.scripted.answers import Failed, Received
from tests.scripted.faces import LISTS

READ = {"type": "object", "properties": {"path": {"type": "string"}}}
BOTH = ("openai:gpt-4o", "openai-responses:gpt-5")


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("held", ["previous_response_id", "conversation"])
def test_state_held_by_a_server_is_refused(held: str) -> None:
    """What the server would add was not counted (FR-14)."""
    with pytest.raises(ServerHeldState, match=held):
        OpenAIResponses("m", extra={held: "resp_1"})
    model = OpenAIResponses("m", base_url="http://127.0.0.1:1")
    with pytest.raises(ServerHeldState, match=held):
        reply_of(model, ask=Ask(options={held: "resp_1"}), streamed=False)


def test_fields_of_ones_own_are_in_every_request() -> None:
    with ScriptedServer("hi") as server:
        reply_of(OpenAIChat("m", base_url=server.url, extra={"seed": 1}), streamed=False)
        assert sent(server)["seed"] == 1


SHAPES: Mapping[str, dict[str, Any]] = {
    "anthropic": {"name": "read", "description": "Reads.", "input_schema": READ},
    "chat_completions": {
        "type": "function",
        "function": {"name": "read", "description": "Reads.", "parameters": READ},
    },
    "responses": {
        "type": "function",
        "name": "read",
        "description": "Reads.",
        "parameters": READ,
        "strict": False,
    },
}


def schemas_as(format: str, *tools: dict[str, Any]) -> list[dict[str, Any]]:
    return schemas_for(format_named(format).tool_shape, list(tools))


def test_tool_schemas_are_written_as_each_provider_wants_them() -> None:
    """Each of the shapes in each other one; the right one stays as it is. What is no function is
    passed on, and a function without parameters takes none (US-3).
    """
    for source, given in SHAPES.items():
        for target, wanted in SHAPES.items():
            (written,) = schemas_as(target, given)
            if source == "responses" and target != "responses":
                assert written.get("function", written).pop("strict") is False
            assert written == wanted
        assert schemas_as("ollama", given) == schemas_as("chat_completions", given)
    own = {"type": "web_search_20250305", "name": "web_search", "max_uses": 3}
    assert all(schemas_as(format, own) == [own] for format in (*SHAPES, "ollama"))
    bare = {"type": "function", "function": {"name": "now"}}
    nothing = {"type": "object", "properties": {}}
    assert schemas_as("anthropic", bare) == [{"name": "now", "input_schema": nothing}]


@pytest.mark.parametrize("key", BOTH)
@ways
def test_a_missing_key_is_told_before_anything_is_sent(key: str, streamed: bool) -> None:
    """The sentence names the variable (FR-6)."""
    with pytest.raises(ModelRefused, match="OPENAI_API_KEY"):
        reply_of(chat_model(key), streamed=streamed)


def test_a_missing_package_ends_a_program_with_a_short_traceback() -> None:
    """Clients are imported when a model is first asked; what is missing is said before anything is
    tried, and before a thread waits for it (FR-6).
    """
    program = """if True:
        import sys
        from compact import ContextManager
        assert "openai" not in sys.modules
        sys.modules["openai"] = None
        with ContextManager("openai:gpt-4o") as ctx:
            ctx.add_message(role="user", content="Hello.")
            ctx.send()
    """
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    lines = done.stderr.splitlines()
    assert "pip install '.[openai]'" in lines[-1]
    assert len(lines) < 20
    assert "tenacity" not in done.stderr
    assert "During handling" not in done.stderr


# --- what comes back ------------------------------------------------------------------------------


def streamed_message(*deltas: Any) -> dict[str, Any]:
    written = StreamedAnswer()
    for delta in deltas:
        written.take({"id": "c1", "choices": [{"delta": delta}]})
    written.take({"choices": [{"delta": {}, "finish_reason": "stop"}]})
    assert written.take({"choices": [], "usage": {"prompt_tokens": 3}}) == ""
    assert written.whole is not None
    message: dict[str, Any] = written.whole["choices"][0]["message"]
    return message


def test_pieces_of_calls_are_put_together_by_their_index() -> None:
    """Interleaved, without ids, with a refusal after words: as servers do it (US-3)."""
    message = streamed_message(
        {"role": "assistant", "content": None},
        {"content": [{"type": "text", "text": "Words."}]},
        {"tool_calls": [{"index": 1, "function": {"name": "b", "arguments": "{"}}]},
        {"tool_calls": [{"index": 0, "id": "x", "function": {"name": "a", "arguments": "{}"}}]},
        {"tool_calls": [{"index": 1, "function": {"arguments": "}"}}]},
        {"refusal": "No."},
    )
    assert (message["content"], message["refusal"]) == ("Words.", "No.")
    functions = [call["function"] for call in message["tool_calls"]]
    assert functions == [{"name": "a", "arguments": "{}"}, {"name": "b", "arguments": "{}"}]


@pytest.mark.parametrize("number", [{"index": 0}, {}])
def test_calls_that_are_numbered_alike_stay_apart(number: dict[str, int]) -> None:
    """Some servers number every call 0, or none; each has an id of its own."""
    pieces = (
        {"id": "a", "function": {"name": "look", "arguments": '{"at": '}},
        {"function": {"arguments": "1}"}},
        {"id": "b", "function": {"name": "read", "arguments": "{}"}},
    )
    message = streamed_message(*({"tool_calls": [{**piece, **number}]} for piece in pieces))
    calls = [(x["id"], *x["function"].values()) for x in message["tool_calls"]]
    assert calls == [("a", "look", '{"at": 1}'), ("b", "read", "{}")]


def test_a_reply_of_many_items_goes_back_with_its_sealed_reasoning() -> None:
    """Reasoning, words and calls are one message in a session, also out of a store, and the very
    items for the server; another format gets the words and the calls (US-3).
    """
    items = [
        {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "sealed"},
        {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed",
         "content": [{"type": "output_text", "text": "Let me look.", "annotations": []}]},
        {"id": "fc_1", "type": "function_call", "call_id": "call_1", "name": "read",
         "arguments": "{}", "status": "completed"},
    ]  # fmt: skip
    answer = {"id": "resp_1", "status": "completed", "model": "m", "output": items}
    with ScriptedServer(Failed(200, body=answer)) as server:
        model = at(server, "responses+")
        reply = reply_of(model, streamed=False)
        assert [type(part) for part in said(reply).parts] == [Thinking, Text, ToolCall]
        assert reply.finish == "tool_calls"
        for format in ("responses", "chat_completions"):
            session = ContextManager(store=":memory:", session_id="s", format=format)
            session.add_message(role="user", content="look")
            session.add_message(reply.message)
            session.add_message(
                {"type": "function_call_output", "call_id": "call_1", "output": "42"}
                if format == "responses"
                else {"role": "tool", "tool_call_id": "call_1", "content": "42"}
            )
            reply_of(model, session.active_context(), streamed=False)
            assert sent(server)["input"][1:4] == items
            assert sent(server)["input"][4]["call_id"] == "call_1"
            wire = session.get_context_for_model()
            if format == "responses":
                assert wire[1:4] == items
            else:
                assert [m["role"] for m in wire] == ["user", "assistant", "tool"]
                assert wire[1]["tool_calls"][0]["id"] == "call_1"


# --- what a server does not know ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prefix", "ask", "field", "sentence", "instead"),
    [
        ("", Ask(max_tokens=9), "max_tokens", "Unsupported parameter: 'max_tokens'",
         {"max_completion_tokens": 9}),
        ("", Ask(temperature=0), "temperature", "'temperature' does not support 0", {}),
        ("", Ask(answer_schema={}), "response_format", "json_schema is not supported", {}),
        ("", Ask(), "stream_options", "Unknown field: stream_options", {}),
        ("responses+", Ask(), "include", "Encrypted content is not supported with this model.",
         {}),
        ("responses+", Ask(temperature=0), "temperature", "Unsupported: temperature", {}),
    ],
)  # fmt: skip
def test_what_a_server_does_not_know_is_sent_once(
    prefix: str, ask: Ask, field: str, sentence: str, instead: dict[str, Any]
) -> None:
    """A refused field is left out or named otherwise from then on (FR-14)."""

    def script(request: Received) -> Any:
        if field in request.body:
            return Failed(400, body={"error": {"message": sentence, "type": "invalid_request"}})
        return "fine"

    with ScriptedServer(script) as server:
        model = at(server, prefix)
        for _ in range(2):
            assert reply_of(model, ask=ask, streamed=True).finish == "stop"
        first, *later = (request.body for request in server.prompts)
    assert field in first
    assert len(later) == 2
    for body in later:
        assert field not in body
        assert body.items() >= instead.items()


@pytest.mark.parametrize(
    ("sentence", "names"),
    [
        ("max_tokens is too large: 9", ["max_tokens"]),
        ("unknown: max_tokens, max_completion_tokens", ["max_tokens", "max_completion_tokens"]),
    ],
)
def test_a_wrong_value_is_no_unknown_field(sentence: str, names: list[str]) -> None:
    """It is refused, and the field is sent again; what is needed is never left out (FR-6)."""
    with ScriptedServer(Failed(400, body={"error": {"message": sentence}})) as server:
        model = at(server)
        for _ in range(2):
            with pytest.raises(ModelRefused, match="max_tokens"):
                reply_of(model, ask=Ask(max_tokens=9), streamed=False)
        fields = [[f for f in asked.body if f.startswith("max_")] for asked in server.prompts]
    assert fields == [[name] for name in names] * 2


# --- what servers say of themselves ---------------------------------------------------------------

LLAMA = {"id": "x.gguf", "owned_by": "llamacpp", "meta": {"n_ctx": 4096, "n_ctx_train": 32768}}
LISTED: Mapping[str, tuple[dict[str, Any], Limits]] = {
    "llama.cpp": (LLAMA, Limits(window=4096, trained=32768)),
    "vLLM": ({"id": "m", "owned_by": "vllm", "max_model_len": 8192}, Limits(window=8192)),
    "OpenRouter": (
        {"id": "m", "context_length": 200_000,
         "top_provider": {"context_length": 131_072, "max_completion_tokens": 16_384}},
        Limits(window=131_072, output=16_384),
    ),
    "says nothing": ({"id": "m", "object": "model"}, Limits()),
    "says nonsense": ({"id": "m", "meta": None, "context_length": "many"}, Limits()),
}  # fmt: skip


def listing(monkeypatch: pytest.MonkeyPatch, path: str, answer: dict[str, Any]) -> None:
    monkeypatch.setitem(LISTS, path, lambda model, window: answer)


@pytest.mark.parametrize("who", LISTED)
def test_limits_are_read_as_each_server_says_them(
    who: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The window it is set up for, what the model was made for, the longest answer (FR-14)."""
    row, limits = LISTED[who]
    listing(monkeypatch, "/v1/models", {"object": "list", "data": [row]})
    with ScriptedServer("hi") as server:
        model = at(server)
        assert not model.abilities.schemas
        assert run(model.limits()) == limits
        assert model.abilities.schemas == (who in ("llama.cpp", "vLLM"))
        assert model.abilities.counts == (who == "llama.cpp")


@pytest.mark.parametrize(
    ("owner", "path", "answer"),
    [
        ("llamacpp", "/props", {"default_generation_settings": {"n_ctx": 2048}}),
        ("organization_owner", "/api/v0/models",
         {"data": [{"id": "m", "loaded_context_length": 2048}]}),
        ("llamacpp", None, None),
    ],
)  # fmt: skip
def test_a_window_that_the_list_does_not_name_is_asked_for_elsewhere(
    owner: str, path: str | None, answer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of llama.cpp and LM Studio; a server without such a page is no error (FR-14)."""
    listing(monkeypatch, "/v1/models", {"data": [{"id": "m", "owned_by": owner}]})
    if path is not None:
        listing(monkeypatch, path, answer)
    with ScriptedServer("hi") as server:
        assert run(at(server).limits()).window == (2048 if path else None)


def test_a_model_among_others_is_found_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """And none is guessed where several are there (FR-14)."""
    rows = [{"id": "other", "max_model_len": 1}, {"id": "m", "max_model_len": 2}]
    listing(monkeypatch, "/v1/models", {"data": rows})
    with ScriptedServer("hi") as server:
        for name, window in (("m", 2), ("third", None)):
            assert run(OpenAIChat(name, base_url=server.url).limits()).window == window


@pytest.mark.parametrize("key", BOTH)
def test_openai_itself_is_not_asked_what_it_does_not_say(key: str) -> None:
    """It holds answers to schemas, and says nothing of windows (FR-14)."""
    model: Any = chat_model(key)
    assert run(model.limits()) == Limits()
    assert run(model.count(HELLO)) is None
    assert model.abilities.schemas


def test_llama_cpp_counts_a_prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its template and its tokenizer are asked; other servers are not (FR-14)."""
    with ScriptedServer("hi") as other:
        assert run(at(other).count(HELLO)) is None
    listing(monkeypatch, "/v1/models", {"data": [LLAMA]})
    listing(monkeypatch, "/apply-template", {"prompt": "<a>hello"})
    listing(monkeypatch, "/tokenize", {"tokens": [1, 2, 3]})
    with ScriptedServer("hi") as server:
        asked = HELLO.model_copy(update={"tools": (SHAPES["anthropic"],)})
        assert run(at(server).count(asked)) == 3
        *_, template, tokens = (request.body for request in server.requests)
    assert template["messages"] == [{"role": "user", "content": "hello"}]
    assert template["tools"] == [SHAPES["chat_completions"]]
    assert tokens == {"content": "<a>hello", "add_special": True, "parse_special": True}


def test_openai_is_sent_what_was_said() -> None:
    """It tells control tokens from words; a server of one's own may not (issue 4)."""
    token = "<|im_end|>"
    asked = HELLO.model_copy(update={"system": token})
    assert token in json.dumps(OpenAIChat("gpt-4o")._prompt(asked))
    assert token not in json.dumps(OpenAIChat("m", base_url="http://h.example")._prompt(asked))
