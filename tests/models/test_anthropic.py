"""Anthropic's Messages API, and servers that are compatible with it (FR-14, FR-6)."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from compact import ContextManager
from compact.errors import (
    ContextOverflow,
    ModelRefused,
)
from compact.messages.asking import Ask
from compact.messages.cache_marks import MOST
from compact.messages.formats.known import format_named
from compact.messages.messages import Message, Thinking
from compact.messages.replies import Usage
from compact.models.providers.anthropic_messages import OPENING, AnthropicMessages, StreamedBlocks
from tests.models.asking import context, heard, run, said
from tests.scripted import ScriptedServer
from tests.scripted.answers import (
    Failed,
    Received,
)
from tests.scripted.faces import FACES, LISTS, Messages, Turn

pytest.importorskip("anthropic", reason="the package anthropic is not installed")

Dict = dict[str, Any]
NAME = "claude-sonnet-4-5"
TOOL = {"type": "function", "function": {"name": "read", "parameters": {"type": "object"}}}


def at(server: ScriptedServer, **options: Any) -> AnthropicMessages:
    return AnthropicMessages(NAME, base_url=server.url, **options)


def sent(server: ScriptedServer, position: int = -1) -> Dict:
    return server.prompts[position].body


class Fixed(Messages):
    """Says what it is given, whole or in events."""

    def __init__(self, content: list[Dict], **fields: Any) -> None:
        usage = {"input_tokens": 10, "output_tokens": 5}
        self.message = {"content": content, "stop_reason": "end_turn", "usage": usage, **fields}
        self.events: list[Dict] = []

    def whole(self, turn: Turn) -> Dict:
        return {**super().whole(turn), **self.message}

    def stream(self, turn: Turn) -> Iterator[bytes]:
        for event in self.events:
            yield f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()


def speaks(monkeypatch: pytest.MonkeyPatch, face: Fixed) -> None:
    table: Any = FACES
    monkeypatch.setitem(table, "/v1/messages", face)


# --- asking and being answered --------------------------------------------------------------------


def test_a_limit_is_always_sent() -> None:
    """The API refuses a request without one (FR-14)."""
    with ScriptedServer("ok") as server:
        run(at(server).complete(context("go")))
        run(at(server, max_tokens=500).complete(context("go")))
    assert [request.max_tokens for request in server.prompts] == [4096, 500]


@pytest.mark.parametrize("path", ["", "/", "/v1", "/v1/"])
def test_addresses(path: str) -> None:
    """An address may be written with the API's version or without (FR-14)."""
    with ScriptedServer("ok") as server:
        model = AnthropicMessages("m", base_url=server.url + path)
        assert said(run(model.complete(context("go")))).text == "ok"
        assert model.name == f"anthropic+{server.url}{path}#m"


def test_tokens_written_to_the_cache_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is cached for the next turn was read this time (FR-14)."""
    used = {
        "input_tokens": 3,
        "cache_creation_input_tokens": 40,
        "cache_read_input_tokens": 500,
        "output_tokens": 7,
    }
    speaks(monkeypatch, Fixed([{"type": "text", "text": "ok"}], usage=used))
    with ScriptedServer() as server:
        usage = run(at(server).complete(context("go"))).usage
    assert usage == Usage(prompt_tokens=543, completion_tokens=7, cached_tokens=500)


@pytest.mark.parametrize("streamed", [False, True])
def test_thinking_keeps_its_signature(streamed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sent back as it came: the provider refuses a changed one (C-3)."""
    content = [
        {"type": "thinking", "thinking": "It may leak.", "signature": "c2ln"},
        {"type": "redacted_thinking", "data": "b3BhcXVl"},
        {"type": "text", "text": "No."},
    ]
    face = Fixed(content)
    first = {"type": "thinking", "thinking": "", "signature": ""}
    pieces = [
        {"type": "thinking_delta", "thinking": "It may "},
        {"type": "thinking_delta", "thinking": "leak."},
        {"type": "signature_delta", "signature": "c2ln"},
    ]
    face.events = [
        {"type": "message_start", "message": {"usage": {"input_tokens": 10, "output_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": first},
        *({"type": "content_block_delta", "index": 0, "delta": piece} for piece in pieces),
        {"type": "content_block_start", "index": 1, "content_block": content[1]},
        {"type": "content_block_start", "index": 2, "content_block": {"type": "text", "text": ""}},
        {
            "type": "content_block_delta",
            "index": 2,
            "delta": {"type": "text_delta", "text": "No."},
        },
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn"},
            "usage": {"output_tokens": 5},
        },
        {"type": "message_stop"},
    ]
    speaks(monkeypatch, face)
    with ScriptedServer() as server:
        model = at(server)
        asked = context("Does it?")
        reply = run(heard(model.stream(asked)))[1] if streamed else run(model.complete(asked))
        thought = said(reply).parts[0]
        assert isinstance(thought, Thinking)
        assert (thought.text, thought.signature) == ("It may leak.", "c2ln")
        assert reply.usage == Usage(prompt_tokens=10, completion_tokens=5)
        run(model.complete(context("Does it?", said(reply), "Sure?")))
        assert sent(server)["messages"][1] == {"role": "assistant", "content": content}


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("tool_use", "tool_calls"),
        ("refusal", "refusal"),
        ("pause_turn", "unknown"),
        (None, "unknown"),
    ],
)
def test_why_an_answer_ended(
    reason: str | None, finish: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every stop reason of the API has its meaning here (FR-6)."""
    speaks(monkeypatch, Fixed([{"type": "text", "text": "so"}], stop_reason=reason))
    with ScriptedServer() as server:
        assert run(at(server).complete(context("go"))).finish == finish


def test_an_answer_that_filled_the_window(monkeypatch: pytest.MonkeyPatch) -> None:
    """There was no room left: a prompt that is too large, with its size (FR-2)."""
    face = Fixed([{"type": "text", "text": "so"}], stop_reason="model_context_window_exceeded")
    speaks(monkeypatch, face)
    with ScriptedServer() as server, pytest.raises(ContextOverflow) as raised:
        run(at(server).complete(context("go")))
    assert raised.value.tokens == 10


def test_a_call_that_was_cut_off_keeps_what_was_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arguments that are no JSON yet are kept as text (FR-6)."""
    face = Fixed([])
    block = {"type": "tool_use", "id": "t1", "name": "read", "input": {}}
    delta = {"type": "input_json_delta", "partial_json": '{"path": "a'}
    face.events = [
        {"type": "message_start", "message": {"usage": {"input_tokens": 1, "output_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "message_delta", "delta": {"stop_reason": "max_tokens"}, "usage": {}},
    ]
    speaks(monkeypatch, face)
    with ScriptedServer() as server:
        reply = run(heard(at(server).stream(context("go"))))[1]
    assert reply.finish == "length"
    assert json.loads(said(reply).tool_calls[0].arguments) == {"arguments": '{"path": "a'}


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
    with ScriptedServer("ok") as server:
        run(at(server, cache=False).complete(context(*told, system="Be brief.")))
        body = sent(server)
    assert [b["text"] for b in body["system"]] == ["Be brief.", "[Goals]\n- ship it", "Be kind."]
    assert [(m["role"], m["content"]) for m in body["messages"]] == [
        ("user", "go"),
        ("assistant", "so"),
        ("user", "on"),
    ]


def test_the_first_message_is_a_users() -> None:
    """A list that an assistant begins gets one line before it that says so (C-3)."""
    with ScriptedServer("ok") as server:
        run(at(server, cache=False).complete(context(Message(role="assistant", content="so"), "a")))
        first, second, _ = sent(server)["messages"]
    assert first == {"role": "user", "content": OPENING}
    assert second == {"role": "assistant", "content": "so"}


def test_empty_texts_are_left_out() -> None:
    """The API refuses the whole request for one of them (FR-6)."""
    blocks = [{"type": "text", "text": ""}, {"type": "text", "text": "so"}]
    mixed = format_named("anthropic").parse({"role": "assistant", "content": blocks}, 1)
    told = ("go", mixed, Message(role="assistant", content=" \n"), "on")
    with ScriptedServer("ok") as server:
        run(at(server, cache=False).complete(context(*told)))
        assert [m["content"] for m in sent(server)["messages"]] == ["go", blocks[1:], "on"]


def test_only_what_the_api_knows_is_sent() -> None:
    """Fields of other formats and of logs would be refused (C-3)."""
    raw = {"role": "assistant", "id": "msg_1", "content": "so", "stop_reason": "end_turn"}
    with ScriptedServer("ok") as server:
        run(at(server).complete(context("go", format_named("anthropic").parse(raw, 1), "on")))
        assert all(set(m) == {"role", "content"} for m in sent(server)["messages"])


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
    with ScriptedServer("ok") as server:
        run(at(server, cache=False).complete(context("go", system="Be brief.")))
        assert "cache_control" not in json.dumps(sent(server))


# --- what the server can --------------------------------------------------------------------------


def test_counting(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the server, where it counts; where it does not, that is known afterwards (FR-14)."""
    asked = context("What of the roof?", system="Be brief.")
    with ScriptedServer("ok") as server:
        model = at(server)
        counted = run(model.count(asked))
        assert counted == server.requests[-1].tokens
        assert server.requests[-1].path == "/v1/messages/count_tokens"
        assert model.abilities.counts
        refuses(monkeypatch, model, ModelRefused("nothing there", status=404))
        assert run(model.count(asked)) is None
        assert not model.abilities.counts
        refuses(monkeypatch, other := at(server), ModelRefused("wrong key", status=401))
        with pytest.raises(ModelRefused, match="wrong key"):
            run(other.count(asked))


def refuses(monkeypatch: pytest.MonkeyPatch, model: AnthropicMessages, error: Exception) -> None:
    async def refused(*_: object) -> Dict:
        raise error

    monkeypatch.setattr(model._server, "post", refused)


def test_schemas_only_where_the_api_enforces_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Anthropic's own does; a model that refuses them is asked without, from then on (FR-14)."""
    schema = Ask(answer_schema={"type": "object"})

    def script(request: Received) -> Any:
        if "output_config" in request.body:
            return Failed(400, "output_config.format: this model does not support it")
        return "ok"

    with ScriptedServer(script) as server:
        assert not at(server).abilities.schemas
        run(at(server).complete(context("go"), schema))
        assert "output_config" not in sent(server)
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        model = AnthropicMessages(NAME, api_key="k")
        assert model.abilities.schemas
        assert said(run(model.complete(context("go"), schema))).text == "ok"
        assert not model.abilities.schemas
        run(heard(model.stream(context("go"), schema)))
        asked = ["output_config" in request.body for request in server.prompts]
    assert asked == [False, True, False, False]


@pytest.mark.parametrize("streamed", [False, True])
def test_it_is_asked_until_all_is_left_out_that_is_refused(
    monkeypatch: pytest.MonkeyPatch, streamed: bool
) -> None:
    """Schemas, and an image of an earlier turn: both in one request (FR-6)."""

    def script(request: Received) -> Any:
        if "output_config" in request.body:
            return Failed(400, "output_config.format: Extra inputs are not permitted")
        if "base64" in str(request.body):
            return Failed(400, "image input is not supported")
        return "ok"

    source = {"type": "base64", "media_type": "image/png", "data": "AAAA"}
    shown = {"role": "user", "content": [{"type": "image", "source": source}]}
    asked = context(format_named("anthropic").parse(shown, 0), "And now?")
    with ScriptedServer(script) as server:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        model, ask = AnthropicMessages(NAME, api_key="k"), Ask(answer_schema={"type": "object"})
        reply = run(heard(model.stream(asked, ask)))[1] if streamed else None
        assert said(reply or run(model.complete(asked, ask))).text == "ok"
        assert len(server.prompts) == 3


def test_another_refusal_is_not_taken_for_the_schemas(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what names the field is asked again without it (FR-6)."""
    with ScriptedServer(Failed(400, "temperature: too hot"), "ok") as server:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        model = AnthropicMessages(NAME, api_key="k")
        with pytest.raises(ModelRefused, match="too hot"):
            run(model.complete(context("go"), Ask(answer_schema={"type": "object"})))
        assert model.abilities.schemas
        assert len(server.prompts) == 1


def test_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the API's own list, or of a llama.cpp server's (FR-14)."""
    row = {"id": NAME, "max_input_tokens": 200_000, "max_tokens": 64_000}
    table: Any = LISTS
    with ScriptedServer(window=2048) as server:
        limits = run(at(server).limits())
        assert (limits.window, limits.trained, limits.output) == (2048, 2048, None)
        monkeypatch.setitem(table, f"/v1/models/{NAME}", lambda *_: row)
        limits = run(at(server).limits())
    assert (limits.window, limits.trained, limits.output) == (200_000, 200_000, 64_000)


# --- failures -------------------------------------------------------------------------------------


def test_a_key_that_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """The text names the variable; a server of one's own is asked without one (FR-6)."""
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ANTHROPIC_CONFIG_DIR", str(tmp_path))
    with pytest.raises(ModelRefused, match="ANTHROPIC_API_KEY"):
        run(AnthropicMessages(NAME).complete(context("go")))
    with ScriptedServer("ok") as server:
        assert said(run(at(server).complete(context("go")))).text == "ok"


def test_a_compaction_that_is_streamed_is_whole() -> None:
    """It comes in pieces, as texts do."""
    written = StreamedBlocks()
    start = {"type": "content_block_start", "index": 0}
    written.take({**start, "content_block": {"type": "compaction", "content": None}})
    for piece in ("The pilot signs ", "for quay 31."):
        delta = {"type": "compaction_delta", "content": piece}
        written.take({"type": "content_block_delta", "index": 0, "delta": delta})
    whole = {"type": "compaction", "content": "The pilot signs for quay 31."}
    written.take({"type": "message_delta", "delta": {"stop_reason": "end_turn"}})
    assert written.whole is not None
    assert written.whole["content"] == [whole]
