"""OpenAI's two APIs and the servers that speak them, over a real HTTP server on loopback."""

import asyncio
import gc
import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from compact import ContextManager
from compact.errors import (
    ModelFailed,
    ModelRefused,
    ServerHeldState,
    UnknownModel,
)
from compact.messages.asking import Ask, Limits
from compact.messages.context import ActiveContext
from compact.messages.formats.known import format_named
from compact.messages.formats.tool_schemas import schemas_for
from compact.messages.messages import Message, Text, Thinking, ToolCall
from compact.messages.replies import Reply
from compact.models.providers.openai_chat import OpenAIChat, StreamedAnswer
from compact.models.providers.openai_responses import OpenAIResponses
from compact.testing import ScriptedModel, check_chat_model
from compact.wiring import chat_model
from tests.scripted import ScriptedServer
from tests.scripted.answers import (
    Call,
    Calls,
    CutOff,
    Failed,
    Filtered,
    NotJson,
    Received,
    Refuses,
    Script,
)
from tests.scripted.faces import LISTS

FACES: tuple[type[OpenAIChat] | type[OpenAIResponses], ...] = (OpenAIChat, OpenAIResponses)
both = pytest.mark.parametrize("face", FACES, ids=lambda face: face.__name__)
HELLO = ActiveContext(messages=(Message(role="user", content="hello"),), tokens=10)
READ = {"type": "object", "properties": {"path": {"type": "string"}}}


@pytest.fixture(autouse=True)
def no_keys(monkeypatch):
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


async def streamed(model, context=HELLO, ask=None) -> tuple[list[str], Reply]:
    pieces, reply = [], None
    async for delta in model.stream(context, ask or Ask()):
        pieces.append(delta.text)
        reply = delta.reply
    assert reply is not None
    return pieces, reply


def asked(model, context=HELLO, ask=None) -> Reply:
    reply: Reply = asyncio.run(model.complete(context, ask or Ask()))
    return reply


def in_both_ways(model, context=HELLO, ask=None) -> list[Callable[[], Reply]]:
    return [
        lambda: asked(model, context, ask),
        lambda: asyncio.run(streamed(model, context, ask))[1],
    ]


def test_a_scripted_model_keeps_the_promises_of_a_chat_model() -> None:
    """The suite holds for the fake that stands in for models (US-3)."""
    check_chat_model(lambda: ScriptedModel("a few words"))
    check_chat_model(
        lambda: ScriptedModel("a few words", count=lambda context: context.tokens),
        failing=lambda: ScriptedModel(ModelFailed("no")),
    )


# --- what is sent ---------------------------------------------------------------------------------


def test_chat_completions_are_asked_as_they_are_wanted() -> None:
    """System prompt, tools and wishes go into their fields; nothing is tried again by the client
    (US-3).
    """
    tools = ({"name": "read", "description": "Reads.", "input_schema": READ},)
    blocks = ({"type": "text", "text": "Be kind."}, {"type": "text", "text": "Be short."})
    context = HELLO.model_copy(update={"system": blocks, "tools": tools})
    ask = Ask(max_tokens=7, temperature=0.5, answer_schema=READ)
    with ScriptedServer("hi") as server:
        model = OpenAIChat("m", base_url=server.url, extra={"seed": 1})
        for send in in_both_ways(model, context, ask):
            send()
        whole, pieces = (request.body for request in server.prompts)
    function = {"name": "read", "description": "Reads.", "parameters": READ}
    assert whole == {
        "model": "m",
        "messages": [
            {"role": "system", "content": "Be kind.\n\nBe short."},
            {"role": "user", "content": "hello"},
        ],
        "tools": [{"type": "function", "function": function}],
        "max_tokens": 7,
        "temperature": 0.5,
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "answer", "schema": READ},
        },
        "seed": 1,
    }
    assert pieces == {**whole, "stream": True, "stream_options": {"include_usage": True}}


def test_responses_are_asked_without_any_state_of_the_server() -> None:
    """Nothing is stored there, and sealed reasoning is asked for (US-3)."""
    tools = ({"type": "function", "function": {"name": "read", "parameters": READ}},)
    context = HELLO.model_copy(update={"system": "Be kind.", "tools": tools})
    ask = Ask(max_tokens=7, temperature=0.5, answer_schema=READ)
    with ScriptedServer("hi") as server:
        model = OpenAIResponses("m", base_url=server.url)
        for send in in_both_ways(model, context, ask):
            send()
        whole, pieces = (request.body for request in server.prompts)
    schema = {"type": "json_schema", "name": "answer", "schema": READ}
    assert whole == {
        "model": "m",
        "input": [{"role": "user", "content": "hello"}],
        "instructions": "Be kind.",
        "tools": [{"type": "function", "name": "read", "parameters": READ, "strict": False}],
        "max_output_tokens": 7,
        "temperature": 0.5,
        "text": {"format": schema},
        "store": False,
        "include": ["reasoning.encrypted_content"],
    }
    assert pieces == {**whole, "stream": True}


@pytest.mark.parametrize("held", ["previous_response_id", "conversation"])
def test_state_held_by_a_server_is_refused(held) -> None:
    """What the server would add was not counted (FR-14)."""
    with pytest.raises(ServerHeldState, match=held):
        OpenAIResponses("m", extra={held: "resp_1"})


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


def schemas_as(format: str, tools: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return schemas_for(format_named(format).tool_shape, tools)


@pytest.mark.parametrize("source", SHAPES)
@pytest.mark.parametrize("target", SHAPES)
def test_tool_schemas_are_written_as_each_provider_wants_them(source, target) -> None:
    """Each of the shapes in each other one; the right one stays as it is (US-3)."""
    (written,) = schemas_as(target, [SHAPES[source]])
    if source == "responses" and target != "responses":
        inner = written.get("function", written)
        assert inner.pop("strict") is False
    assert written == SHAPES[target]
    assert schemas_as("ollama", [SHAPES[source]]) == schemas_as(
        "chat_completions", [SHAPES[source]]
    )


def test_tools_of_a_providers_own_are_left_alone() -> None:
    """What is no function is passed on, for the provider to know or refuse; a function without
    parameters takes none (US-3).
    """
    own = {"type": "web_search_20250305", "name": "web_search", "max_uses": 3}
    for format in (*SHAPES, "ollama"):
        assert schemas_as(format, [own]) == [own]
    bare = {"type": "function", "function": {"name": "now"}}
    assert schemas_as("anthropic", [bare]) == [
        {"name": "now", "input_schema": {"type": "object", "properties": {}}}
    ]


# --- keys and addresses ---------------------------------------------------------------------------


def test_keys_come_from_where_they_are_given(monkeypatch) -> None:
    """The argument, else the environment; servers of one's own may do without (US-3)."""
    with ScriptedServer("hi") as server:
        asked(OpenAIChat("m", base_url=server.url))
        monkeypatch.setenv("OPENAI_API_KEY", "from-environment")
        asked(OpenAIChat("m", base_url=server.url))
        asked(OpenAIResponses("m", base_url=server.url, api_key="from-argument"))
        sent = [request.headers["authorization"] for request in server.requests]
    assert sent == ["Bearer none", "Bearer from-environment", "Bearer from-argument"]


@both
def test_a_missing_key_is_told_before_anything_is_sent(face) -> None:
    """The sentence names the variable (FR-6)."""
    for send in in_both_ways(face("gpt-4o")):
        with pytest.raises(ModelRefused, match="OPENAI_API_KEY"):
            send()


def test_a_missing_package_is_told_with_how_to_install_it() -> None:
    """Clients of models are extras, imported when a model is first asked (FR-6)."""
    program = """if True:
        import asyncio, sys
        from compact.messages.context import ActiveContext
        from compact.errors import ModelRefused
        from compact.wiring import chat_model
        model = chat_model("openai:gpt-4o")
        assert "openai" not in sys.modules
        sys.modules["openai"] = None
        try:
            asyncio.run(model.complete(ActiveContext(messages=(), tokens=0)))
        except ModelRefused as error:
            print(error)
    """
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "pip install '.[openai]'" in done.stdout, done.stderr


def test_a_missing_package_ends_a_program_with_a_short_traceback() -> None:
    """It is said before anything is tried, and before a thread waits for it."""
    program = """if True:
        import sys
        from compact import ContextManager
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


def test_the_wiring_finds_models_by_their_keys() -> None:
    """A key becomes a model of that name; a model stays what it is (US-3)."""
    for key, kind in (
        ("gpt-4o", OpenAIChat),
        ("openai-responses:gpt-5", OpenAIResponses),
        ("http://127.0.0.1:1/v1#m", OpenAIChat),
        ("responses+http://127.0.0.1:1/v1#m", OpenAIResponses),
    ):
        model = chat_model(key)
        assert type(model) is kind
        assert chat_model(model.name).name == model.name
    model = ScriptedModel("x")
    assert chat_model(model) is model
    with pytest.raises(UnknownModel):
        chat_model("nobody")


# --- what comes back ------------------------------------------------------------------------------


@both
def test_calls_come_back_whole_and_go_into_a_session(face) -> None:
    """Tool calls assembled from pieces equal those that come at once (US-3)."""
    calls = Calls([Call("read", {"path": "a b.py"}), Call("now", {})], "Let me look.")
    with ScriptedServer(calls) as server:
        model = face("m", base_url=server.url)
        for send in in_both_ways(model):
            reply = send()
            assert reply.finish == "tool_calls"
            session = ContextManager()
            session.add_message(role="user", content="look")
            message = session.add_message(reply.message)
            assert message.text == "Let me look."
            assert [(c.name, json.loads(c.arguments)) for c in message.tool_calls] == [
                ("read", {"path": "a b.py"}),
                ("now", {}),
            ]
            for call in message.tool_calls:
                session.add_message({"role": "tool", "tool_call_id": call.id, "content": "42"})
            again = asked(model, session.active_context())
            assert again.finish == "tool_calls"
            sent = json.dumps(server.prompts[-1].body)
            assert all(sent.count(call.id) == 2 for call in message.tool_calls)


@both
@pytest.mark.parametrize(
    ("answer", "finish", "text"),
    [
        ("all said", "stop", "all said"),
        (CutOff("and then"), "length", "and then"),
        (Refuses("I will not."), "refusal", "I will not."),
        (Filtered("so far"), "refusal", "so far"),
    ],
)
def test_it_is_told_why_an_answer_ended(face, answer, finish, text) -> None:
    """Each API's reasons in our words, whole and streamed alike (FR-6)."""
    with ScriptedServer(answer) as server:
        for send in in_both_ways(face("m", base_url=server.url)):
            reply = send()
            assert isinstance(reply.message, Message)
            assert (reply.finish, reply.message.text) == (finish, text)


@both
def test_usage_says_what_came_from_the_cache(face) -> None:
    """Prompt, answer and cached tokens, also of streams (US-3)."""
    with ScriptedServer("four letters", count=lambda body: 100) as server:
        first, second = (send().usage for send in in_both_ways(face("m", base_url=server.url)))
    assert first is not None
    assert second is not None
    assert (first.prompt_tokens, first.completion_tokens, first.cached_tokens) == (100, 3, 0)
    assert (second.prompt_tokens, second.completion_tokens, second.cached_tokens) == (100, 3, 100)


def test_pieces_of_calls_are_put_together_by_their_index() -> None:
    """Interleaved, without ids, with a refusal after words: as servers do it (US-3)."""
    refusal = {"choices": [{"delta": {"refusal": "No."}, "finish_reason": "stop"}]}
    written = StreamedAnswer()
    for delta in (
        {"role": "assistant", "content": None},
        {"content": [{"type": "text", "text": "Words."}]},
        {"tool_calls": [{"index": 1, "function": {"name": "b", "arguments": "{"}}]},
        {"tool_calls": [{"index": 0, "id": "x", "function": {"name": "a", "arguments": "{}"}}]},
        {"tool_calls": [{"index": 1, "function": {"arguments": "}"}}]},
    ):
        written.take({"id": "c1", "choices": [{"delta": delta}]})
    assert written.take(refusal) == "\nNo."
    assert written.take({"choices": [], "usage": {"prompt_tokens": 3}}) == ""
    assert written.whole is not None
    message = written.whole["choices"][0]["message"]
    assert message["content"] == "Words."
    assert [call["function"] for call in message["tool_calls"]] == [
        {"name": "a", "arguments": "{}"},
        {"name": "b", "arguments": "{}"},
    ]


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
        model = OpenAIResponses("m", base_url=server.url)
        reply = asked(model)
        assert isinstance(reply.message, Message)
        assert [type(part) for part in reply.message.parts] == [Thinking, Text, ToolCall]
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
            asked(model, session.active_context())
            sent = server.prompts[-1].body["input"]
            assert sent[1:4] == items
            assert sent[4]["call_id"] == "call_1"
            wire = session.get_context_for_model()
            if format == "responses":
                assert wire[1:4] == items
            else:
                assert [m["role"] for m in wire] == ["user", "assistant", "tool"]
                assert wire[1]["tool_calls"][0]["id"] == "call_1"


# --- failures -------------------------------------------------------------------------------------


def test_a_stream_without_an_end_is_a_failure() -> None:
    """What stops without saying why is not taken for an answer (FR-6)."""
    half = {"choices": [{"delta": {"content": "half"}}], "type": "response.created"}
    with ScriptedServer(NotJson(f"data: {json.dumps(half)}\n\ndata: [DONE]\n\n")) as server:
        for face in FACES:
            with pytest.raises(ModelFailed, match="broke off"):
                asyncio.run(streamed(face("m", base_url=server.url)))


def refusing(field: str, sentence: str) -> Script:
    """A server that does not know a field."""

    def answer(request: Received) -> Any:
        if field in request.body:
            return Failed(400, body={"error": {"message": sentence, "type": "invalid_request"}})
        return "fine"

    return answer


@pytest.mark.parametrize(
    ("face", "ask", "field", "sentence", "instead"),
    [
        (OpenAIChat, Ask(max_tokens=9), "max_tokens", "Unsupported parameter: 'max_tokens'",
         {"max_completion_tokens": 9}),
        (OpenAIChat, Ask(temperature=0), "temperature", "'temperature' does not support 0", {}),
        (OpenAIChat, Ask(answer_schema={}), "response_format", "json_schema is not supported", {}),
        (OpenAIChat, Ask(), "stream_options", "Unknown field: stream_options", {}),
        (OpenAIResponses, Ask(), "include", "Encrypted content is not supported with this model.",
         {}),
        (OpenAIResponses, Ask(temperature=0), "temperature", "Unsupported: temperature", {}),
    ],
)  # fmt: skip
def test_what_a_server_does_not_know_is_sent_once(face, ask, field, sentence, instead) -> None:
    """A refused field is left out or named otherwise from then on (FR-14)."""
    with ScriptedServer(refusing(field, sentence)) as server:
        model = face("m", base_url=server.url)
        for _ in range(2):
            _, reply = asyncio.run(streamed(model, ask=ask))
            assert reply.finish == "stop"
        first, *later = (request.body for request in server.prompts)
    assert field in first
    assert len(later) == 2
    for body in later:
        assert field not in body
        assert body.items() >= instead.items()


def test_a_wrong_value_is_no_unknown_field() -> None:
    """It is refused, and the field is sent again; what is needed is never left out (FR-6)."""
    for sentence in ("max_tokens is too large: 9", "unknown: max_tokens, max_completion_tokens"):
        refused = Failed(400, body={"error": {"message": sentence}})
        with ScriptedServer(refused) as server:
            model = OpenAIChat("m", base_url=server.url)
            for _ in range(2):
                with pytest.raises(ModelRefused, match="max_tokens"):
                    asked(model, ask=Ask(max_tokens=9))
            sent = [[f for f in asked.body if f.startswith("max_")] for asked in server.prompts]
            twice = sentence.startswith("unknown")
            assert sent == [["max_tokens"], ["max_completion_tokens"]][: 1 + twice] * 2


# --- what servers say of themselves ---------------------------------------------------------------


LISTED: Mapping[str, tuple[dict[str, Any], Limits]] = {
    "llama.cpp": (
        {"id": "x.gguf", "owned_by": "llamacpp", "meta": {"n_ctx": 4096, "n_ctx_train": 32768}},
        Limits(window=4096, trained=32768),
    ),
    "vLLM": ({"id": "m", "owned_by": "vllm", "max_model_len": 8192}, Limits(window=8192)),
    "OpenRouter": (
        {"id": "m", "context_length": 200_000,
         "top_provider": {"context_length": 131_072, "max_completion_tokens": 16_384}},
        Limits(window=131_072, output=16_384),
    ),
    "Groq": (
        {"id": "m", "context_window": 131_072, "max_completion_tokens": 32_768},
        Limits(window=131_072, output=32_768),
    ),
    "says nothing": ({"id": "m", "object": "model"}, Limits()),
    "says nonsense": ({"id": "m", "meta": None, "context_length": "many"}, Limits()),
}  # fmt: skip


@pytest.mark.parametrize("who", LISTED)
def test_limits_are_read_as_each_server_says_them(who, monkeypatch) -> None:
    """The window it is set up for, what the model was made for, the longest answer (FR-14)."""
    row, limits = LISTED[who]
    with ScriptedServer("hi") as server:
        monkeypatch.setitem(
            LISTS, "/v1/models", lambda model, window: {"object": "list", "data": [row]}
        )
        model = OpenAIChat("m", base_url=server.url)
        assert not model.abilities.schemas
        assert asyncio.run(model.limits()) == limits
        assert model.abilities.schemas == (who in ("llama.cpp", "vLLM"))
        assert model.abilities.counts == (who == "llama.cpp")


def test_a_model_among_others_is_found_by_its_name(monkeypatch) -> None:
    """And none is guessed where several are there (FR-14)."""
    rows = [{"id": "other", "max_model_len": 1}, {"id": "m", "max_model_len": 2}]
    with ScriptedServer("hi") as server:
        monkeypatch.setitem(LISTS, "/v1/models", lambda model, window: {"data": rows})
        for name, window in (("m", 2), ("third", None)):
            limits = asyncio.run(OpenAIChat(name, base_url=server.url).limits())
            assert limits.window == window


def test_openai_itself_is_not_asked_what_it_does_not_say() -> None:
    """It holds answers to schemas, and says nothing of windows (FR-14)."""
    for face in FACES:
        model = face("gpt-4o")
        assert asyncio.run(model.limits()) == Limits()
        assert asyncio.run(model.count(HELLO)) is None
        assert model.abilities.schemas


def test_llama_cpp_counts_a_prompt(monkeypatch) -> None:
    """Its template and its tokenizer are asked; other servers are not (FR-14)."""
    row = LISTED["llama.cpp"][0]
    with ScriptedServer("hi") as server:
        monkeypatch.setitem(LISTS, "/v1/models", lambda model, window: {"data": [row]})
        monkeypatch.setitem(LISTS, "/apply-template", lambda model, window: {"prompt": "<a>hello"})
        monkeypatch.setitem(LISTS, "/tokenize", lambda model, window: {"tokens": [1, 2, 3]})
        context = HELLO.model_copy(update={"tools": (SHAPES["anthropic"],)})
        assert asyncio.run(OpenAIChat("m", base_url=f"{server.url}/v1").count(context)) == 3
        *_, template, tokens = (request.body for request in server.requests)
    assert template["messages"] == [{"role": "user", "content": "hello"}]
    assert template["tools"] == [SHAPES["chat_completions"]]
    assert tokens == {"content": "<a>hello", "add_special": True, "parse_special": True}
    monkeypatch.undo()
    with ScriptedServer("hi") as other:
        assert asyncio.run(OpenAIChat("m", base_url=other.url).count(HELLO)) is None


# --- clients --------------------------------------------------------------------------------------


@pytest.mark.slow
@both
def test_connections_end_with_their_loop_their_model_or_by_request(face) -> None:
    """One connection serves many requests of a loop; none outlives it, and a model that nobody
    holds leaves none behind (FR-6).
    """
    with ScriptedServer("hi") as server:
        model = face("m", base_url=server.url)

        async def talk() -> int:
            for _ in range(3):
                await model.complete(HELLO)
            return len(server._listener.opened)  # type: ignore[union-attr]

        async def close() -> None:
            await talk()
            await model.aclose()
            for _ in range(1000):
                if not server._listener.opened:  # type: ignore[union-attr]
                    break
                await asyncio.sleep(0.001)
            else:
                raise AssertionError("the connection is still open")
            await model.complete(HELLO)
            await asyncio.to_thread(asyncio.run, talk())

        async def drop() -> None:
            await face("m", base_url=server.url).complete(HELLO)
            gc.collect()
            await asyncio.sleep(0.001)

        assert asyncio.run(talk()) == 1
        assert asyncio.run(talk()) == 1
        asyncio.run(close())
        asyncio.run(drop())
        gc.collect()
