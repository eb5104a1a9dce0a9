"""The model that needs nothing (US-1), and the list of an Ollama's models."""

from __future__ import annotations

import asyncio

import pytest

from compact import ContextManager
from compact.messages.asking import Ask
from compact.messages.context import ActiveContext
from compact.messages.messages import Message
from compact.models.model_keys import parse_key
from compact.models.providers import echo_chat
from compact.models.providers.clients import leads_to
from compact.models.providers.echo_chat import WINDOW, EchoChat
from compact.models.providers.ollama_chat import ollama_models
from compact.testing import check_chat_model
from compact.wiring import chat_model
from tests.scripted import NotJson, ScriptedServer


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(echo_chat, "PAUSE", 0.0)


def test_it_keeps_the_promises_of_every_model() -> None:
    check_chat_model(lambda: chat_model("echo:offline"))


def test_its_name_may_say_how_large_its_window_is() -> None:
    sizes = {"echo:4k": 4_000, "echo:1500": 1_500, "echo:offline": WINDOW}
    for key, size in sizes.items():
        assert asyncio.run(EchoChat(key.removeprefix("echo:")).limits()).window == size


def test_it_is_on_this_machine() -> None:
    assert leads_to(parse_key("echo:4k")) is None


def test_it_says_back_the_newest_words_of_a_person_and_what_it_was_sent() -> None:
    with ContextManager("echo:4k", window=4_000) as ctx:
        ctx.add_message(role="user", content="Is berth 4 free?\nAnd berth 5?")
        said = ctx.send().text
    assert "> Is berth 4 free?\n> And berth 5?" in said
    assert "1 messages" in said
    assert "tokens" in said


def test_an_answer_with_a_limit_is_cut() -> None:
    context = ActiveContext(messages=(Message(role="user", content="berth " * 500),), tokens=10)
    reply = asyncio.run(EchoChat("4k").complete(context, Ask(max_tokens=20)))
    assert reply.finish == "length"
    assert isinstance(reply.message, Message)
    assert len(reply.message.text) <= 80


def test_an_ollama_on_this_machine_is_asked_for_its_models(monkeypatch: pytest.MonkeyPatch) -> None:
    with ScriptedServer("hi", model="qwen3:8b") as server:
        for address in (server.url, server.url.removeprefix("http://"), f"{server.url}/"):
            monkeypatch.setenv("OLLAMA_HOST", address)
            assert asyncio.run(ollama_models()) == ["ollama:qwen3:8b"]
    assert asyncio.run(ollama_models()) is None, "it is down now"


def test_nobody_on_another_machine_is_asked_for_models(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OLLAMA_HOST", "http://models.example:11434")
    assert asyncio.run(ollama_models()) is None


def test_what_makes_vectors_is_no_model_to_talk_to(monkeypatch: pytest.MonkeyPatch) -> None:
    with ScriptedServer(NotJson(), model="nomic-embed-text") as server:
        monkeypatch.setenv("OLLAMA_HOST", server.url)
        assert asyncio.run(ollama_models()) == []
