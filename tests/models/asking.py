"""Asking models in tests: the models behind servers, a context, an answer, a stream."""

import asyncio
import json
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping
from typing import Any, TypeVar

import pytest

from compact.messages.asking import ASK, Ask
from compact.messages.context import ActiveContext
from compact.messages.messages import Message
from compact.messages.replies import Delta, Reply
from compact.wiring import chat_model
from tests.scripted import ScriptedServer
from tests.scripted.faces import FACES, Turn

T = TypeVar("T")
PREFIXES = ("", "responses+", "anthropic+", "ollama+")
"""What stands before an address in the key of each model behind a server."""
PATHS = {
    "": "/v1/chat/completions",
    "responses+": "/v1/responses",
    "anthropic+": "/v1/messages",
    "ollama+": "/api/chat",
}
each = pytest.mark.parametrize(
    "prefix", PREFIXES, ids=lambda prefix: prefix.rstrip("+") or "openai"
)
ways = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
HELLO = ActiveContext(messages=(Message(role="user", content="hello"),), tokens=10)


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


def context(*messages: Message | str, tokens: int = 20, **fields: Any) -> ActiveContext:
    made = [Message(role="user", content=m) if isinstance(m, str) else m for m in messages]
    return ActiveContext(messages=tuple(made), tokens=tokens, **fields)


def at(server: ScriptedServer, prefix: str = "", **options: Any) -> Any:
    """The model of a server, as that API's adapter asks it."""
    path = "" if prefix == "ollama+" else "/v1"
    return chat_model(f"{prefix}{server.url}{path}#m", **options)


async def heard(stream: AsyncIterator[Delta]) -> tuple[list[str], Reply]:
    """The pieces of a stream, and the reply in its last one."""
    deltas = [delta async for delta in stream]
    assert all(delta.reply is None for delta in deltas[:-1])
    last = deltas[-1].reply
    assert last is not None
    return [delta.text for delta in deltas], last


def reply_of(model: Any, asked: ActiveContext = HELLO, ask: Ask = ASK, *, streamed: bool) -> Reply:
    reply: Reply = run(heard(model.stream(asked, ask)))[1] if streamed else None  # type: ignore[assignment]
    return reply or run(model.complete(asked, ask))


def said(reply: Reply) -> Message:
    assert isinstance(reply.message, Message)
    return reply.message


def sent(server: ScriptedServer, position: int = -1) -> dict[str, Any]:
    return server.prompts[position].body


class Says:
    """A face that answers with this JSON, whole or in events."""

    def __init__(self, path: str, *said: Mapping[str, Any]) -> None:
        self._said = said
        self._lines = path == PATHS["ollama+"]
        self.stream_type = "application/x-ndjson" if self._lines else "text/event-stream"

    def streams(self, body: Mapping[str, Any]) -> bool:
        return bool(body.get("stream"))

    def whole(self, turn: Turn) -> Mapping[str, Any]:
        return self._said[0]

    def stream(self, turn: Turn) -> Iterator[bytes]:
        for event in self._said:
            line = json.dumps(event)
            kind = f"event: {event['type']}\n" if "type" in event else ""
            yield f"{line}\n".encode() if self._lines else f"{kind}data: {line}\n\n".encode()


def answered(
    monkeypatch: pytest.MonkeyPatch, prefix: str, *said: Any, streamed: bool = False
) -> Reply:
    """The reply of a model whose server says just that."""
    table: Any = FACES
    monkeypatch.setitem(table, PATHS[prefix], Says(PATHS[prefix], *said))
    with ScriptedServer("hi") as server:
        return reply_of(at(server, prefix), streamed=streamed)
