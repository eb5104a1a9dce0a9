"""Where keys of the environment are sent, and where they are not (US-3, FR-6)."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest

from compact.core.context import ActiveContext
from compact.core.messages import Message
from compact.errors import ModelRefused
from compact.providers.clients import is_sealed
from compact.providers.failures import key_hint
from compact.providers.offered import offered_by
from compact.providers.openai_chat import OpenAIChat
from compact.testing import ScriptedServer
from compact.testing.answers import WrongKey
from compact.wiring import chat_model

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


def test_a_list_of_models_costs_no_key() -> None:
    for server_of in ("", "ollama+"):
        with ScriptedServer("hi") as server:
            asyncio.run(offered_by(f"{server_of}{_elsewhere(server)}"))
            assert "the-" not in _sent(server)


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


def test_whoever_is_refused_for_that_reads_why() -> None:
    refused = pytest.raises(ModelRefused, match="is not sent over plain http; ask by https")
    with ScriptedServer(WrongKey()) as server, refused:
        _ask(f"{_elsewhere(server)}#m")
    assert "set OPENAI_API_KEY" in key_hint("https://models.example/v1#m")


@pytest.mark.parametrize(
    ("address", "sealed"),
    [
        (None, True),
        ("https://models.example/v1", True),
        ("HTTPS://models.example", True),
        ("http://models.example/v1", False),
        ("http://192.168.1.7:8080", False),
        ("http://localhost:11434", True),
        ("http://box.localhost/v1", True),
        ("http://127.0.0.2:8080", True),
        ("http://[::1]:8080/v1", True),
        ("http://localhost.example/v1", False),
        ("http://127.0.0.1.example/v1", False),
    ],
)
def test_which_ways_are_sealed(address: str | None, sealed: bool) -> None:
    assert is_sealed(address) is sealed
