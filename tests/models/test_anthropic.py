"""What is particular to Anthropic's Messages API, and to compatible servers (FR-14, FR-6)."""

import json
from typing import Any

import pytest

from compact import ContextManager
from compact.errors import ContextOverflow, ModelRefused
from compact.messages.asking import Ask
from compact.messages.formats.known import format_named
from compact.messages.messages import Message, Thinking
from compact.messages.replies import Usage
from compact.models.providers.anthropic_messages import (
    MOST,
    OPENING,
    AnthropicMessages,
    StreamedBlocks,
)
from tests.models.asking import answered, context, reply_of, run, said, sent, ways
from tests.scripted import ScriptedServer
from tests.scripted.answers import Failed, Received
from tests.scripted.faces import LISTS

pytest.importorskip("anthropic", reason="the package anthropic is not installed")

Dict = dict[str, Any]
NAME = "claude-sonnet-4-5"
SCHEMA = Ask(answer_schema={"type": "object"})
USED = {"input_tokens": 10, "output_tokens": 5}


def at(server: ScriptedServer, **options: Any) -> AnthropicMessages:
    return AnthropicMessages(NAME, base_url=server.url, **options)


def asked(*messages: Message | str, **options: Any) -> Dict:
    """The request that a model of a server is sent for a prompt, without marks for the cache."""
    with ScriptedServer("ok") as server:
        reply_of(at(server, cache=False), context(*messages, **options), streamed=False)
        return sent(server)


def whole(*content: Dict, reason: str | None = "end_turn", **fields: Any) -> Dict:
    return {"content": list(content), "stop_reason": reason, "usage": USED, **fields}


SO = {"type": "text", "text": "so"}


def test_a_limit_is_always_sent() -> None:
    """The API refuses a request without one (FR-14)."""
    assert asked("go")["max_tokens"] == 4096
    with ScriptedServer("ok") as server:
        reply_of(at(server, max_tokens=500), streamed=False)
        assert sent(server)["max_tokens"] == 500


@pytest.mark.parametrize("path", ["", "/", "/v1", "/v1/"])
def test_addresses(path: str) -> None:
    """An address may be written with the API's version or without (FR-14)."""
    with ScriptedServer("ok") as server:
        model = AnthropicMessages("m", base_url=server.url + path)
        assert said(reply_of(model, streamed=False)).text == "ok"
        assert model.name == f"anthropic+{server.url}{path}#m"


def test_tokens_written_to_the_cache_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is cached for the next turn was read this time (FR-14)."""
    used = {**USED, "cache_creation_input_tokens": 40, "cache_read_input_tokens": 500}
    usage = answered(monkeypatch, "anthropic+", whole(SO, usage=used)).usage
    assert usage == Usage(prompt_tokens=550, completion_tokens=5, cached_tokens=500)


def in_events(*blocks: tuple[Dict, list[Dict]], reason: str = "end_turn") -> list[Dict]:
    """Blocks as they begin, each with the pieces that follow."""
    events: list[Dict] = [{"type": "message_start", "message": {"usage": USED}}]
    for index, (block, pieces) in enumerate(blocks):
        events.append({"type": "content_block_start", "index": index, "content_block": block})
        events += [{"type": "content_block_delta", "index": index, "delta": x} for x in pieces]
    return [*events, {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {}}]


@ways
def test_thinking_keeps_its_signature(streamed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sent back as it came: the provider refuses a changed one (C-3)."""
    content = [
        {"type": "thinking", "thinking": "It may leak.", "signature": "c2ln"},
        {"type": "redacted_thinking", "data": "b3BhcXVl"},
        {"type": "text", "text": "No."},
    ]
    pieces = [
        {"type": "thinking_delta", "thinking": "It may "},
        {"type": "thinking_delta", "thinking": "leak."},
        {"type": "signature_delta", "signature": "c2ln"},
    ]
    empty = {"type": "thinking", "thinking": "", "signature": ""}
    text = ({"type": "text", "text": ""}, [{"type": "text_delta", "text": "No."}])
    events = in_events((empty, pieces), (content[1], []), text)
    given = events if streamed else [whole(*content)]
    reply = answered(monkeypatch, "anthropic+", *given, streamed=streamed)
    thought = said(reply).parts[0]
    assert isinstance(thought, Thinking)
    assert (thought.text, thought.signature) == ("It may leak.", "c2ln")
    assert reply.usage == Usage(prompt_tokens=10, completion_tokens=5)
    monkeypatch.undo()
    back = asked("Does it?", said(reply), "Sure?")["messages"][1]
    assert back == {"role": "assistant", "content": content}


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("stop_sequence", "stop"),
        ("tool_use", "tool_calls"),
        ("pause_turn", "unknown"),
        (None, "unknown"),
    ],
)
def test_why_an_answer_ended(
    reason: str | None, finish: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every stop reason of the API has its meaning here (FR-6)."""
    assert answered(monkeypatch, "anthropic+", whole(SO, reason=reason)).finish == finish


def test_an_answer_that_filled_the_window(monkeypatch: pytest.MonkeyPatch) -> None:
    """There was no room left: a prompt that is too large, with its size (FR-2)."""
    full = whole(SO, reason="model_context_window_exceeded")
    with pytest.raises(ContextOverflow) as raised:
        answered(monkeypatch, "anthropic+", full)
    assert raised.value.tokens == 10


def test_a_call_that_was_cut_off_keeps_what_was_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arguments that are no JSON yet are kept as text (FR-6)."""
    block = {"type": "tool_use", "id": "t1", "name": "read", "input": {}}
    half = {"type": "input_json_delta", "partial_json": '{"path": "a'}
    events = in_events((block, [half]), reason="max_tokens")
    reply = answered(monkeypatch, "anthropic+", *events, streamed=True)
    assert reply.finish == "length"
    assert json.loads(said(reply).tool_calls[0].arguments) == {"arguments": '{"path": "a'}


def test_blocks_that_are_streamed_are_whole() -> None:
    """A compaction comes in pieces, as texts do, and quotations come one by one."""
    written = StreamedBlocks()
    pieces = [{"type": "compaction_delta", "content": x} for x in ("The pilot signs ", "here.")]
    cited = [{"type": "citations_delta", "citation": {"n": n}} for n in (1, 2)]
    for event in in_events(({"type": "compaction", "content": None}, pieces), (dict(SO), cited)):
        written.take(event)
    assert written.whole is not None
    assert written.whole["content"] == [
        {"type": "compaction", "content": "The pilot signs here."},
        {**SO, "citations": [{"n": 1}, {"n": 2}]},
    ]


# --- what the API demands of a prompt -------------------------------------------------------------


def test_system_messages_stand_in_the_system_field() -> None:
    """Wherever they are in the list; the context's own comes first (C-3)."""
    told = (
        Message(role="system", content="[Goals]\n- ship it"),
        "go",
        Message(role="assistant", content="so"),
        Message(role="developer", content="Be kind."),
        "on",
    )
    body = asked(*told, system="Be brief.")
    assert [b["text"] for b in body["system"]] == ["Be brief.", "[Goals]\n- ship it", "Be kind."]
    listed = [(m["role"], m["content"]) for m in body["messages"]]
    assert listed == [("user", "go"), ("assistant", "so"), ("user", "on")]


def test_the_first_message_is_a_users() -> None:
    """A list that an assistant begins gets one line before it that says so (C-3)."""
    first, second, _ = asked(Message(role="assistant", content="so"), "a")["messages"]
    assert first == {"role": "user", "content": OPENING}
    assert second == {"role": "assistant", "content": "so"}


def test_only_what_the_api_takes_is_sent() -> None:
    """It refuses the whole request for an empty text, and for fields of logs (FR-6, C-3)."""
    raw = {
        "role": "assistant",
        "id": "msg_1",
        "content": [{"type": "text", "text": ""}, SO],
        "stop_reason": "end_turn",
    }
    kept = format_named("anthropic").parse(raw, 1)
    body = asked("go", kept, Message(role="assistant", content=" \n"), "on")
    assert [m["content"] for m in body["messages"]] == ["go", [SO], "on"]
    assert all(set(m) == {"role", "content"} for m in body["messages"])


# --- the cache ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_session_finds_its_prompt_cached() -> None:
    """Up to four marks at stable ends, none in the history, and the server reads the beginning of
    each prompt out of its cache (issue 4, "Prefix cache").
    """
    read, total = 0, 0
    with (
        ScriptedServer("It holds. " * 30) as server,
        ContextManager(window=4096, tokenizer="o200k", format="anthropic", system="Be brief.") as c,
    ):
        model = at(server)
        for turn in range(60):
            c.add_message(role="user", content=f"Question {turn}: " + "of the roof? " * 10)
            c.send(model)
        assert c.compressions > 3
        assert "cache_control" not in json.dumps([m.wire for m in c.history], default=str)
        for request in server.prompts:
            assert 1 <= json.dumps(request.body).count("cache_control") <= MOST
            read, total = read + request.cached, total + request.tokens
    assert read > 0.6 * total


def test_marks_can_be_left_out() -> None:
    """For servers that do not know them (FR-14)."""
    assert "cache_control" not in json.dumps(asked("go", system="Be brief."))


# --- what the server can --------------------------------------------------------------------------


def test_counting(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the server, where it counts; where it does not, that is known afterwards (FR-14)."""
    given = context("What of the roof?", system="Be brief.")
    with ScriptedServer("ok") as server:
        model = at(server)
        assert run(model.count(given)) == server.requests[-1].tokens
        assert server.requests[-1].path == "/v1/messages/count_tokens"
        assert model.abilities.counts
        refuses(monkeypatch, model, ModelRefused("nothing there", status=404))
        assert run(model.count(given)) is None
        assert not model.abilities.counts
        refuses(monkeypatch, other := at(server), ModelRefused("wrong key", status=401))
        with pytest.raises(ModelRefused, match="wrong key"):
            run(other.count(given))


def refuses(monkeypatch: pytest.MonkeyPatch, model: AnthropicMessages, error: Exception) -> None:
    async def refused(*_: object) -> Dict:
        raise error

    monkeypatch.setattr(model._server, "post", refused)


@pytest.fixture
def named(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A model whose server is named by the environment, as Anthropic's own."""

    def made(server: ScriptedServer) -> AnthropicMessages:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        return AnthropicMessages(NAME, api_key="k")

    return made


@ways
def test_what_is_refused_is_left_out_from_then_on(named: Any, streamed: bool) -> None:
    """Schemas, which only Anthropic's own enforces, and an image of an earlier turn: both in one
    request (FR-6, FR-14).
    """

    def script(request: Received) -> Any:
        if "output_config" in request.body:
            return Failed(400, "output_config.format: Extra inputs are not permitted")
        if "base64" in str(request.body):
            return Failed(400, "image input is not supported")
        return "ok"

    source = {"type": "base64", "media_type": "image/png", "data": "AAAA"}
    shown = {"role": "user", "content": [{"type": "image", "source": source}]}
    given = context(format_named("anthropic").parse(shown, 0), "And now?")
    with ScriptedServer(script) as server:
        assert not at(server).abilities.schemas
        model = named(server)
        assert model.abilities.schemas
        assert said(reply_of(model, given, SCHEMA, streamed=streamed)).text == "ok"
        assert not model.abilities.schemas
        assert len(server.prompts) == 3
        reply_of(model, given, SCHEMA, streamed=streamed)
        assert len(server.prompts) == 4


def test_another_refusal_is_not_taken_for_the_schemas(named: Any) -> None:
    """Only what names the field is asked again without it (FR-6)."""
    with ScriptedServer(Failed(400, "temperature: too hot"), "ok") as server:
        model = named(server)
        with pytest.raises(ModelRefused, match="too hot"):
            reply_of(model, ask=SCHEMA, streamed=False)
        assert model.abilities.schemas
        assert len(server.prompts) == 1


def test_a_server_that_the_environment_names_is_one_of_ones_own(named: Any) -> None:
    """It is sent no control token, though the key is that of the vendor's own model (issue 4)."""
    with ScriptedServer("ok") as server:
        reply_of(named(server), context("<|im_start|>"), streamed=False)
        assert "<|im_" not in json.dumps(sent(server))


def test_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the API's own list, or of a llama.cpp server's (FR-14)."""
    row = {"id": NAME, "max_input_tokens": 200_000, "max_tokens": 64_000}
    with ScriptedServer(window=2048) as server:
        limits = run(at(server).limits())
        assert (limits.window, limits.trained, limits.output) == (2048, 2048, None)
        monkeypatch.setitem(LISTS, f"/v1/models/{NAME}", lambda *_: row)
        limits = run(at(server).limits())
    assert (limits.window, limits.trained, limits.output) == (200_000, 200_000, 64_000)


def test_a_key_that_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """The text names the variable; a server of one's own is asked without one (FR-6)."""
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ANTHROPIC_CONFIG_DIR", str(tmp_path))
    with pytest.raises(ModelRefused, match="ANTHROPIC_API_KEY"):
        reply_of(AnthropicMessages(NAME), streamed=False)
    with ScriptedServer("ok") as server:
        assert said(reply_of(at(server), streamed=False)).text == "ok"
