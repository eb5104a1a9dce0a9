"""Where keys of the environment are sent, and where they are not (US-3, FR-6)."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest

from compact import CompactConfig, CompactError, ContextManager, compress
from compact.errors import InvalidArgument, ModelRefused, ModelUnavailable
from compact.messages.context import ActiveContext
from compact.messages.messages import Message
from compact.models.provider_table import PROVIDERS
from compact.models.providers.clients import is_sealed, key_for
from compact.models.providers.failures import key_hint
from compact.models.providers.openai_chat import OpenAIChat
from compact.wiring import chat_model
from tests.scripted import ScriptedServer
from tests.scripted.answers import WrongKey

ELSEWHERE = "models.example"
KEYS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OLLAMA_API_KEY")

FACES = ("", "responses+", "anthropic+", "ollama+")
HELLO = ActiveContext(messages=(Message(role="user", content="hello"),), tokens=10)


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is its variable's name; the server somewhere else is this machine all the same."""
    for name in KEYS:
        monkeypatch.setenv(name, f"the-{name}")
    for name in ("OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "OLLAMA_HOST"):
        monkeypatch.delenv(name, raising=False)
    found = socket.getaddrinfo

    def here(host: Any, *args: Any, **options: Any) -> Any:
        is_it = host in (ELSEWHERE, ELSEWHERE.encode())
        return found("127.0.0.1" if is_it else host, *args, **options)

    monkeypatch.setattr(socket, "getaddrinfo", here)


def _elsewhere(server: ScriptedServer) -> str:
    return server.url.replace("127.0.0.1", ELSEWHERE)


def _ask(key: str) -> None:
    async def asked() -> None:
        model = chat_model(key)
        await model.complete(HELLO)
        async for _ in model.stream(HELLO):
            pass
        await model.aclose()  # type: ignore[attr-defined]  # not of the protocol

    asyncio.run(asked())


def _sent(server: ScriptedServer) -> str:
    assert server.requests
    return "\n".join(str(dict(request.headers)) for request in server.requests)


@pytest.mark.parametrize("face", FACES)
def test_no_key_is_sent_readable_to_another_machine(face: str) -> None:
    """Over plain http everybody on the way could read it."""
    with ScriptedServer("hi") as server:
        _ask(f"{face}{_elsewhere(server)}#m")
        assert "the-" not in _sent(server)


@pytest.mark.parametrize("face", FACES)
def test_a_server_on_this_machine_is_sent_its_key(face: str) -> None:
    with ScriptedServer("hi") as server:
        _ask(f"{face}{server.url}#m")
        assert "the-" in _sent(server)


@pytest.mark.parametrize("provider", [p.name for p in PROVIDERS.values() if p.key])
def test_a_key_belongs_to_its_own_address(provider: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """However sealed the way is: another server's key is none of its business."""
    home = PROVIDERS[provider]
    assert key_for(provider, "https://models.example/v1") is None
    assert key_for(provider, home.own) == f"the-{home.key}"
    for named in ("https://models.example/v1", "HTTPS://models.example:443"):
        monkeypatch.setenv(home.address, named)
        assert key_for(provider, "https://models.example/v1") == f"the-{home.key}"
    assert key_for(provider, home.own) is None, "the key is of the server that stands beside it"
    for other in ("models.example.org/v1", "models.example:8443", "me.models.example"):
        assert key_for(provider, f"https://{other}") is None
    assert key_for(provider, "http://models.example:443") is None
    monkeypatch.setenv(home.address, "no address: 5:5:5")
    assert key_for(provider, "https://models.example") is None


@pytest.mark.parametrize(
    "text",
    [
        "https://me:hunter2pass@models.example/v1#m",
        "https://models.example/v1?api_key=hunter2pass#m",
        "openai:https://me:hunter2pass@models.example/v1#m",
        "https://me:hunter2pass@models.example /v1#m",
        "me:hunter2pass@models.example",
        "https:/me:hunter2pass@models.example/v1#m",
        "https:hunter2pass:x@models.example/v1#m",
        "https://me:12/hunter2pass@models.example/v1#m",
        "https://models.example/v1;token=hunter2pass#m",
        "https://models.example/v1&api_key=hunter2pass#m",
    ],
)
def test_no_error_shows_the_key_of_an_address(text: str) -> None:
    """Of whatever takes a model, or a server."""
    said = [{"role": "user", "content": "a"}]
    asks: list[Any] = [
        lambda: chat_model(text),
        lambda: compress(said, max_tokens=99, summarizer=text),
        lambda: compress(said, max_tokens=99, model=text),
        lambda: ContextManager(text),
        lambda: ContextManager(fallbacks=[text]),
        lambda: ContextManager(window=9_000).set_model(text),
        lambda: ContextManager(window=9_000).get_context_for_model(text),
        lambda: ContextManager(window=9_000).send(text),
        lambda: CompactConfig(model=text).window(),
        lambda: CompactConfig.load(text),
        lambda: compress(said, max_tokens=99, tokenizer=text),
        lambda: compress(said, max_tokens=99, tokenizer=f"{text}.json"),
        lambda: compress(said, max_tokens=99, format=text),
        lambda: ContextManager(window=9_000).set_mode(text),
        lambda: compress(said, max_tokens=text),  # type: ignore[arg-type]
    ]
    for ask in asks:
        with pytest.raises(CompactError) as refused:
            ask()
        assert "hunter2pass" not in str(refused.value)


@pytest.mark.parametrize(
    ("key", "told"),
    [
        ("ollama:m", r"cannot be reached at http://127\.0\.0\.1:9 \(OLLAMA_HOST, "),
        ("ollama+http://127.0.0.1:9#m", r"cannot be reached at http://127\.0\.0\.1:9: "),
        ("http://127.0.0.1:9/v1#m", r"cannot be reached at http://127\.0\.0\.1:9/v1: "),
    ],
)
def test_who_cannot_be_reached_is_told_with_the_address(
    key: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OLLAMA_HOST", "http://127.0.0.1:9")
    with pytest.raises(ModelUnavailable, match=told):
        asyncio.run(chat_model(key).complete(HELLO))  # type: ignore[arg-type]  # it is a coroutine


def test_a_key_that_is_given_is_sent_where_it_was_given_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As an argument, or in the environment beside the address: that is a person's own decision."""
    with ScriptedServer("hi") as server:
        url = f"{_elsewhere(server)}/v1"
        asyncio.run(OpenAIChat("m", base_url=url, api_key="my-own").complete(HELLO))
        assert "Bearer my-own" in _sent(server)
    with ScriptedServer("hi") as server:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{_elsewhere(server)}/v1")
        asyncio.run(OpenAIChat("m").complete(HELLO))
        assert "the-OPENAI_API_KEY" in _sent(server)


@pytest.mark.parametrize("face", FACES)
def test_a_model_may_be_made_with_its_key(face: str) -> None:
    """What the errors advise where a key is missing."""
    with ScriptedServer("hi") as server:
        model = chat_model(f"{face}{_elsewhere(server)}#m", api_key="my-own")
        asyncio.run(model.complete(HELLO))  # type: ignore[arg-type]  # it is a coroutine
        assert "my-own" in _sent(server)
        assert "the-" not in _sent(server)
    assert "chat_model(…, api_key=…)" in key_hint("openai:gpt-4o")
    with pytest.raises(InvalidArgument, match="api_key"):
        chat_model("transformers:here", api_key="my-own")


def test_whoever_is_refused_for_that_reads_why() -> None:
    refused = pytest.raises(ModelRefused, match="is not sent over plain http; ask by https")
    with ScriptedServer(WrongKey()) as server, refused:
        _ask(f"{_elsewhere(server)}#m")
    assert "set OPENAI_API_KEY" in key_hint("openai:gpt-4o")
    assert "set OPENAI_BASE_URL to https://models.example/v1, too" in key_hint(
        "https://models.example/v1#m"
    )


SEALED = """https://models.example/v1 HTTPS://models.example http://localhost:11434
    http://box.localhost/v1 http://127.0.0.2:8080 http://[::1]:8080/v1"""
OPEN = """http://models.example/v1 http://192.168.1.7:8080 http://localhost.example/v1
    http://127.0.0.1.example/v1"""


def test_which_ways_are_sealed() -> None:
    assert all(map(is_sealed, [None, *SEALED.split()]))
    assert not any(map(is_sealed, OPEN.split()))
