"""Answers go on as they come, and are in the session before the client has their last event."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from compact import wiring
from compact.messages.protocols import SessionStore
from compact.serve.answers import AnswerReader
from tests.models import tiny_llama
from tests.scripted import Call, Calls, ScriptedServer
from tests.serve.conftest import listening

PATHS = ("/v1/chat/completions", "/v1/responses", "/v1/messages", "/api/chat")
SECRET = "sk-test-" + "0123456789abcdefghijklmnop"


def asked(path: str, said: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    listed = "input" if path.endswith("responses") else "messages"
    return {"model": "scripted", listed: said, "max_tokens": 50, **more}


def history_in(store: SessionStore, session_id: str) -> list[str]:
    session = store.session(session_id)
    entries = store.read(session.branch.id, 0, session.branch.messages)
    return [entry.message.text for entry in entries]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("path", PATHS)
def test_every_api_is_recorded_with_its_answers(proxy, tmp_path, path, stream):
    file = tmp_path / "s.db"
    call = Calls([Call("look", {"at": "the lamp"})], text="I look.")
    headers = {"x-compact-session": "harbour", "authorization": f"Bearer {SECRET}"}
    with ScriptedServer("The lamp is red.", call, window=8_192) as upstream:
        served = proxy(upstream.url, store=file, max_context_tokens=8_192)
        with httpx.Client(base_url=served.url, headers=headers, verify=False, timeout=60) as client:
            said = [{"role": "user", "content": "What colour?"}]
            first = client.post(path, json=asked(path, said, stream=stream))
            assert "lamp" in first.text
            said += [{"role": "assistant", "content": "The lamp is red."}]
            said += [{"role": "user", "content": "Sure?"}]
            second = client.post(path, json=asked(path, said, stream=stream))
            assert "look" in second.text
        assert upstream.prompts[0].headers["authorization"] == f"Bearer {SECRET}"
        assert "x-compact-session" not in upstream.prompts[0].headers
        assert served.count("answers_total", outcome="recorded") == 2
        page = client_page(served.url)
    with closing(wiring.session_store(file)) as store:
        texts = history_in(store, "harbour")
    assert texts[:3] == ["What colour?", "The lamp is red.", "Sure?"]
    assert "I look." in "".join(texts[3:])
    assert all(SECRET.encode() not in each.read_bytes() for each in tmp_path.iterdir())
    assert SECRET not in page + "".join(served.said)


def client_page(url: str) -> str:
    return httpx.get(f"{url}/metrics", verify=False, trust_env=False, timeout=60).text


# --- streams --------------------------------------------------------------------------------------

EVENTS = [
    *(
        b'data: {"choices": [{"index": 0, "delta": {"content": "%s"}}]}\n\n' % word
        for word in (b"All ", b"lamps ", b"burn.")
    ),
    b'data: {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}\n\n',
    b"data: [DONE]\n\n",
]
PATIENCE = 60


class Gated:
    """A server that sends each event of a stream only when it is allowed to."""

    def __init__(self, kind: bytes = b"text/event-stream") -> None:
        self.kind = kind
        self.allowed = threading.Semaphore(0)
        self.was_left = threading.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        while (await receive()).get("more_body"):
            pass
        left = asyncio.create_task(self._left(receive))
        headers = [(b"content-type", self.kind)]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        for event in EVENTS:
            await send({"type": "http.response.body", "body": event, "more_body": True})
            while not self.allowed.acquire(blocking=False) and not left.done():  # noqa: ASYNC110
                await asyncio.sleep(0.002)
            if left.done():
                return
        left.cancel()
        await send({"type": "http.response.body"})

    async def _left(self, receive: Receive) -> None:
        await receive()
        self.was_left.set()


@contextmanager
def streaming(url: str, words: str = "Do all burn?") -> Iterator[Iterator[bytes]]:
    body = asked(PATHS[0], [{"role": "user", "content": words}], stream=True)
    headers = {"x-compact-session": "lamps"}
    with (
        httpx.Client(verify=False, trust_env=False, timeout=PATIENCE) as client,
        client.stream("POST", url + PATHS[0], json=body, headers=headers) as answer,
    ):
        yield answer.iter_raw()


@pytest.mark.parametrize("kind", [b"text/event-stream", b"Text/Event-Stream", b""])
def test_events_are_forwarded_as_they_come_and_recorded_before_the_last(proxy, tmp_path, kind):
    """The server sends the next event only when the client has the one before. Some servers give a
    stream no type.
    """
    gated, file = Gated(kind), tmp_path / "s.db"
    with listening(gated) as upstream:
        served = proxy(upstream, store=file, max_context_tokens=8_192)
        with streaming(served.url) as events:
            for event in EVENTS[:-1]:
                assert next(events) == event
                gated.allowed.release()
            assert next(events) == EVENTS[-1]
            with closing(wiring.session_store(file)) as store:
                assert history_in(store, "lamps") == ["Do all burn?", "All lamps burn."]
            gated.allowed.release()
            assert not [*events]


@pytest.mark.parametrize("end", [b"", b"\n"])
def test_a_last_line_may_have_no_end(end):
    reader = AnswerReader("ollama", is_stream=True)
    reader.feed(b'{"message": {"role": "assistant", "content": "Yes."}}\n')
    reader.feed(b'{"message": {"role": "assistant", "content": ""}, "done": true}' + end)
    assert reader.answer is not None


def test_an_answer_that_breaks_off_is_counted(proxy, recorder):
    seen, upstream = recorder

    async def broken() -> AsyncIterator[bytes]:
        yield EVENTS[0]
        raise OSError("the server dies")

    seen.answer = lambda got: StreamingResponse(broken(), media_type="text/event-stream")
    served = proxy(upstream, max_context_tokens=8_192)
    with pytest.raises(httpx.RemoteProtocolError), streaming(served.url) as events:
        assert [*events]
    assert served.count("answers_total", outcome="unread") == 1


def test_a_client_that_leaves_leaves_the_server(proxy):
    gated = Gated()
    with listening(gated) as upstream:
        served = proxy(upstream, max_context_tokens=8_192)
        with streaming(served.url) as events:
            next(events)
        assert gated.was_left.wait(PATIENCE)
        assert served.count("answers_total", outcome="recorded") == 0


class Thinking:
    """A server that says nothing until its client leaves."""

    def __init__(self) -> None:
        self.was_asked, self.was_left = threading.Event(), threading.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        while (await receive()).get("more_body"):
            pass
        self.was_asked.set()
        await receive()
        self.was_left.set()


def test_a_server_that_still_thinks_is_left_with_its_client(proxy):
    thinking = Thinking()
    body = json.dumps(asked(PATHS[0], [{"role": "user", "content": "Do all burn?"}])).encode()
    head = f"POST {PATHS[0]} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
    with listening(thinking) as upstream:
        parts = urlsplit(proxy(upstream, max_context_tokens=8_192).url)
        with socket.create_connection((parts.hostname, parts.port)) as connection:
            connection.sendall(head.encode() + body)
            assert thinking.was_asked.wait(PATIENCE)
        assert thinking.was_left.wait(PATIENCE)


# --- a process of its own -------------------------------------------------------------------------


def started(command: list[str]) -> subprocess.Popen[str]:
    pipe, env = subprocess.PIPE, tiny_llama.environment()
    return subprocess.Popen(command, text=True, env=env, stdout=pipe, stderr=pipe)


@contextmanager
def process(upstream: str, file: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """`compactctl serve`, and its address."""
    command = [sys.executable, "-m", "compact", "serve", "--upstream", upstream, "--port", "0"]
    command += ["--store", str(file), "--window", "8192", "--json"]
    running = started(command)
    try:
        assert running.stdout is not None
        lines: list[str] = []
        while not lines or lines[-1] != "}\n":
            lines.append(running.stdout.readline())
            assert lines[-1], running.communicate()[1]
        yield running, json.loads("".join(lines))["url"]
    finally:
        running.kill()
        running.communicate()


@pytest.mark.slow
@pytest.mark.parametrize("received", [1, len(EVENTS)])
def test_a_kill_loses_nothing_whose_last_event_was_received(tmp_path, received):
    gated, file = Gated(), tmp_path / "s.db"
    for _ in EVENTS[1:received]:
        gated.allowed.release()
    with (
        listening(gated) as upstream,
        process(upstream, file) as (running, url),
        streaming(url) as events,
    ):
        got = b""
        while got != b"".join(EVENTS[:received]):
            got += next(events)
        os.kill(running.pid, signal.SIGKILL)
        running.wait()
    with closing(wiring.session_store(file)) as store:
        texts = history_in(store, "lamps")
    assert texts == ["Do all burn?", "All lamps burn."][: 1 + (received == len(EVENTS))]


def _listens(url: str) -> bool:
    parts = urlsplit(url)
    try:
        socket.create_connection((parts.hostname, parts.port)).close()
    except ConnectionRefusedError:
        return False
    return True


@pytest.mark.slow
def test_sigterm_lets_answers_end_first(tmp_path):
    gated, file = Gated(), tmp_path / "s.db"
    with listening(gated) as upstream, process(upstream, file) as (running, url):
        with streaming(url) as events:
            assert next(events) == EVENTS[0]
            running.terminate()
            while _listens(url):
                time.sleep(0.01)
            gated.allowed.release(len(EVENTS))
            assert b"".join(events) == b"".join(EVENTS[1:])
        assert running.wait(PATIENCE) == 0
    with closing(wiring.session_store(file)) as store:
        assert history_in(store, "lamps") == ["Do all burn?", "All lamps burn."]
