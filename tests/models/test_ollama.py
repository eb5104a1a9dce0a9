"""Ollama in its own API, where a prompt that is too large would be cut without a word (FR-14)."""

import base64
from pathlib import Path
from typing import Any

import pytest

from compact import ContextManager
from compact.errors import (
    ContextOverflow,
    ModelRefused,
)
from compact.messages.asking import Ask
from compact.messages.formats.known import format_named
from compact.models.providers.ollama_chat import OllamaChat
from tests.models.asking import context, heard, reply_of, run, said, sent, ways
from tests.scripted import ScriptedServer, faces
from tests.scripted.answers import (
    Failed,
)

pytest.importorskip("ollama", reason="the package ollama is not installed")

TOOL = {
    "name": "read",
    "description": "reads",
    "input_schema": {
        "type": "object",
        "properties": {"where": {"type": "object", "properties": {"path": {"type": "string"}}}},
    },
}
PIXEL = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(16)).decode()


def at(server: ScriptedServer, **options: Any) -> OllamaChat:
    return OllamaChat("qwen3:8b", base_url=server.url, **options)


def shows(monkeypatch: pytest.MonkeyPatch, **fields: Any) -> None:
    """What `/api/show` says from now on, beside what it says anyway."""
    show = faces.LISTS["/api/show"]
    table: Any = faces.LISTS
    monkeypatch.setitem(table, "/api/show", lambda model, window: {**show(model, window), **fields})


def test_an_image_is_never_taken_for_a_file(tmp_path: Path) -> None:
    """A conversation that names a file of this machine does not get it sent (FR-6)."""
    secret = tmp_path / "key.txt"
    secret.write_text("the secret")
    told = {"role": "user", "content": "What is this?", "images": [str(secret), PIXEL]}
    message = format_named("ollama").parse(told, 0)
    with ScriptedServer("A picture.") as server:
        run(at(server).complete(context(message)))
        assert sent(server)["messages"] == [told]


# --- the window -----------------------------------------------------------------------------------


def test_the_window_is_always_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the request names, else the constructor, else the model's file, else 4,096 (FR-14)."""
    with ScriptedServer("ok") as server:
        reply_of(at(server), streamed=False)
        shows(monkeypatch, parameters='stop    "<|im_end|>"\nnum_ctx    2048\ntop_k  20')
        reply_of(at(server), streamed=False)
        run(at(server, num_ctx=8192).complete(context("go")))
        run(at(server, num_ctx=8192).complete(context("go"), Ask(window=6963)))
        run(heard(at(server, num_ctx=8192).stream(context("go"))))
    windows = [request.body["options"]["num_ctx"] for request in server.prompts]
    assert windows == [4096, 2048, 8192, 6963, 8192]


@ways
def test_what_would_be_cut_is_never_sent(streamed: bool) -> None:
    """Prompt and answer within `num_ctx`, or a refusal with its numbers (FR-2, FR-14)."""
    with ScriptedServer("ok") as server:
        model = at(server)
        ask = Ask(window=1000, max_tokens=200)
        large = context("go", tokens=801)
        with pytest.raises(ContextOverflow) as raised:
            run(heard(model.stream(large, ask)) if streamed else model.complete(large, ask))
        assert server.prompts == []
        run(model.complete(context("go", tokens=800), ask))
    assert (raised.value.tokens, raised.value.limit) == (801, 1000)


def test_a_prompt_that_nobody_counted_is_estimated() -> None:
    """Without a count of the caller's, ours, which is high, decides (FR-2)."""
    with ScriptedServer("ok") as server:
        with pytest.raises(ContextOverflow) as raised:
            run(at(server).complete(context("word " * 4_200, tokens=0)))
        assert server.prompts == []
    assert raised.value.tokens is not None
    assert raised.value.tokens > 4_096


def test_a_window_beyond_what_the_model_was_made_for() -> None:
    """The server sets up no more than that, whatever it is told (FR-14)."""
    with ScriptedServer("ok", window=2048) as server, pytest.raises(ContextOverflow) as raised:
        run(at(server).complete(context("go", tokens=3000), Ask(window=8192)))
    assert raised.value.limit == 2048


@pytest.mark.slow
def test_a_session_never_has_its_prompt_cut() -> None:
    """Many windows of talk, and the server had nothing to cut (issue 4)."""
    with ScriptedServer("It holds. " * 30) as server:
        model = at(server)
        with ContextManager(window=2048, tokenizer="chars", format="ollama") as ctx:
            for turn in range(60):
                ctx.add_message(role="user", content=f"Question {turn}: " + "of the roof? " * 15)
                ctx.send(model)
            assert ctx.compressions > 3
    assert len(server.prompts) == 60
    assert {request.cut for request in server.prompts} == {0}


# --- what the server says of itself ---------------------------------------------------------------


def test_limits_and_abilities(monkeypatch: pytest.MonkeyPatch) -> None:
    """Window, training and tools are read from `/api/show`, once (FR-14)."""
    shows(
        monkeypatch,
        parameters="num_ctx 6963\nnum_ctx_extra 5",
        model_info={"general.architecture": "qwen3", "qwen3.context_length": 40_960},
        capabilities=["completion", "thinking"],
    )
    with ScriptedServer("ok") as server:
        model = at(server)
        assert model.abilities.tools is None
        limits = run(model.limits())
        assert (limits.default, limits.trained) == (6963, 40_960)
        assert model.abilities.tools is False
        run(model.complete(context("go")))
        asked = [request.path for request in server.requests]
    assert asked == ["/api/show", "/api/chat"]


def test_a_model_may_stay_loaded() -> None:
    """`keep_alive` is a field of the request, and so may be one of one answer (FR-14)."""
    with ScriptedServer("ok") as server:
        reply_of(at(server, keep_alive="5m"), streamed=False)
        ask = Ask(options={"think": False, "top_k": 3})
        reply_of(at(server, keep_alive=0), ask=ask, streamed=True)
        first, second = (request.body for request in server.prompts)
    assert first["keep_alive"] == "5m"
    assert (second["keep_alive"], second["think"], second["options"]["top_k"]) == (0, False, 3)


def test_a_server_that_shows_nothing_still_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it does not say is not known, and no reason to fail (FR-6)."""
    table: Any = faces.LISTS
    monkeypatch.delitem(table, "/api/show")
    with ScriptedServer("ok") as server:
        model = at(server)
        assert said(run(model.complete(context("go")))).text == "ok"
    assert model.abilities.tools is None


def test_tools_are_withdrawn_at_run_time() -> None:
    """Known from the server's own words; never dropped in silence (FR-14)."""
    refusal = Failed(400, "registry.ollama.ai/library/qwen3:8b does not support tools")
    asked = context("go", tools=(TOOL,))
    with ScriptedServer(refusal, "ok") as server:
        model = at(server)
        with pytest.raises(ModelRefused, match="does not support tools"):
            run(model.complete(asked))
        assert model.abilities.tools is False
        with pytest.raises(ModelRefused, match="does not support tools"):
            run(heard(model.stream(asked)))
        assert len(server.prompts) == 1
        assert said(run(model.complete(context("go")))).text == "ok"


# --- failures -------------------------------------------------------------------------------------


def test_the_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """`OLLAMA_HOST` names the server where the key does not (FR-14)."""
    with ScriptedServer("ok") as server:
        monkeypatch.setenv("OLLAMA_HOST", server.url.removeprefix("http://"))
        model = OllamaChat("qwen3:8b")
        assert model.name == "ollama:qwen3:8b"
        assert said(run(model.complete(context("go")))).text == "ok"
        assert at(server).name == f"ollama+{server.url}#qwen3:8b"
