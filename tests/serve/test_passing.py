"""What passes the proxy passes byte for byte, and nothing that a client sends makes it fail."""

from __future__ import annotations

import json
import random
import socket
from typing import NamedTuple
from urllib.parse import urlsplit

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.responses import Response, StreamingResponse

from tests.serve.conftest import Got, Recorder, listening
from tests.sizes import at_night
from tests.strategies import prose

PATHS = ("/v1/chat/completions", "/v1/responses", "/v1/messages", "/api/chat")
HOPS = {b"connection", b"keep-alive", b"transfer-encoding", b"host", b"accept-encoding"}


class Sent(NamedTuple):
    """A request as a client sends it."""

    method: str
    target: bytes
    headers: list[tuple[bytes, bytes]]
    body: bytes


def spaced(r: random.Random, value: object) -> bytes:
    """JSON as no writer of compact would write it."""
    text = json.dumps(value, ensure_ascii=r.random() < 0.5, indent=r.choice([None, 1, "\t"]))
    return (text + r.choice(["", "\n", "  "])).encode()


def conversation(r: random.Random, path: str) -> dict[str, object]:
    said = [
        {"role": ("user", "assistant")[i % 2], "content": prose(r, r.randrange(1, 30))}
        for i in range(r.randrange(1, 6))
    ]
    listed = "input" if path.endswith("responses") else "messages"
    extra = {"seed": 2**70, "temperature": 1.0, "top_p": 1e-7, "größe": "å\u2028"}
    return {"model": "m", listed: said, **{k: extra[k] for k in extra if r.random() < 0.5}}


def drawn(r: random.Random) -> Sent:
    headers = [(b"x-thing", bytes(r.choices(range(33, 127), k=20))) for _ in range(r.randrange(3))]
    kind = r.randrange(4)
    if kind == 0:
        odd = r.choice(["/a%2Fb", "/%e2%82%ac", "//x", "/v1/models/a:b", "/x;y=1", "/~a/(b)"])
        method = r.choice(["GET", "DELETE", "PUT", "PATCH"])
        return Sent(method, f"{odd}?q=%20{r.random()}".encode(), headers, b"")
    query = r.choice([b"", b"?beta=true", b"?a=%2B+b&&=", b"?%"])
    if kind == 1:
        return Sent("POST", b"/any" + query, headers, r.randbytes(r.randrange(2_000)))
    path = r.choice(PATHS)
    body = r.randbytes(r.randrange(100)) if kind == 2 else spaced(r, conversation(r, path))
    return Sent("POST", path.encode() + query, headers, body)


class Said(NamedTuple):
    """What a server answers to a body."""

    status: int
    body: bytes
    is_stream: bool


def said_to(body: bytes) -> Said:
    r = random.Random(body)
    status = r.choice([200, 200, 201, 400, 403, 404, 429, 500])
    return Said(status, r.randbytes(r.randrange(3_000)), r.random() < 0.3)


OWN = {"date": "Thu, 01 Jan 1970 00:00:00 GMT", "server": "its/own", "x-id": "7"}


def answered(got: Got) -> Response:
    said = said_to(got.body)
    if said.is_stream:
        pieces = [said.body[i : i + 700] for i in range(0, len(said.body), 700)]
        return StreamingResponse(iter(pieces), said.status, OWN)
    return Response(said.body, said.status, OWN)


def apart(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Headers without those of one connection."""
    return sorted((k.lower(), v) for k, v in headers if k.lower() not in HOPS)


@pytest.mark.parametrize("count", [60, pytest.param(1_000, marks=[pytest.mark.slow, at_night])])
def test_bytes_pass_untouched_in_both_directions(proxy, recorder, count):
    """A thousand requests of every kind arrive as they were sent, and so do their answers."""
    seen, upstream = recorder
    seen.answer, seen.window = answered, 32_000
    served, r = proxy(upstream), random.Random(28)
    conversations = 0
    with httpx.Client(verify=False, trust_env=False, timeout=60, base_url=served.url) as client:
        for _ in range(count):
            sent = drawn(r)
            request = client.build_request(
                sent.method, "/", headers=sent.headers, content=sent.body
            )
            request.extensions = {"target": sent.target}
            got, arrived, said = client.send(request), seen.got[-1], said_to(sent.body)
            assert (arrived.method, arrived.target, arrived.body) == (
                sent.method,
                sent.target,
                sent.body,
            )
            assert apart(arrived.headers) == apart(request.headers.raw)
            assert (got.status_code, got.content) == (said.status, said.body)
            assert all(got.headers.get_list(name) == [value] for name, value in OWN.items())
            path = sent.target.split(b"?")[0].decode()
            conversations += sent.method == "POST" and path in PATHS
    assert served.count("bodies_total", sent="identical") == conversations > count // 3
    assert served.count("bodies_total", sent="rewritten") == 0
    assert served.count("requests_total", done="untouched") > count // 5


def test_the_ollama_window_is_the_only_thing_that_is_set(proxy, recorder):
    """Where the user names a window, Ollama is told: it would take its own, and cut."""
    seen, upstream = recorder
    served = proxy(upstream, max_context_tokens=9_000)
    asked = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "options": {"seed": 1}}
    httpx.post(f"{served.url}/api/chat", json=asked, verify=False, trust_env=False, timeout=60)
    assert json.loads(seen.got[-1].body) == {**asked, "options": {"seed": 1, "num_ctx": 9_000}}
    asked["options"] = {"num_ctx": 4_096}
    httpx.post(f"{served.url}/api/chat", json=asked, verify=False, trust_env=False, timeout=60)
    assert json.loads(seen.got[-1].body) == asked


# --- hostile clients ------------------------------------------------------------------------------

leaves = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
values = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                ["role", "content", "type", "text", "tool_calls", "function", "id", "x"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)
messages = st.lists(
    st.fixed_dictionaries(
        {"role": st.sampled_from(["user", "assistant", "system", "tool", "x"]) | leaves},
        optional={"content": values, "tool_calls": values, "tool_call_id": values, "type": values},
    ),
    max_size=4,
)
bodies = st.binary(max_size=60) | st.fixed_dictionaries(
    {},
    optional={
        "model": leaves,
        "messages": messages | values,
        "input": messages | values,
        "system": values,
        "instructions": values,
        "tools": values,
        "options": values,
        "stream": values,
        "max_tokens": leaves,
        "previous_response_id": leaves,
        "x": values,
    },
).map(lambda value: json.dumps(value).encode())


@pytest.fixture(scope="module")
def hostile_to():
    """A recorder, the address of a proxy before it, and its window."""
    from contextlib import closing

    from compact import wiring
    from compact.config import CompactConfig
    from compact.serve import server

    seen = Recorder()
    with listening(seen) as upstream, closing(wiring.session_store(None)) as store:
        config = CompactConfig(max_context_tokens=2_048)
        setup = server.Setup(upstream, config, store, lambda line: None)
        with listening(server.application(setup)) as url:
            yield seen, url


@given(path=st.sampled_from(PATHS), body=bodies, session=st.text("ab\x7fé", max_size=3))
def test_no_body_makes_the_proxy_fail(hostile_to, path, body, session):
    """A body is passed on, or refused as too large. There is no error of the proxy's own."""
    seen, url = hostile_to
    headers = {"x-compact-session": session.encode()} if session else {}
    got = httpx.post(
        url + path, content=body, headers=headers, verify=False, trust_env=False, timeout=60
    )
    assert got.status_code == 200 or (got.status_code == 400 and "length" in got.text)
    if got.headers["x-compact"] not in ("fitted", "refused"):
        assert got.content == body == seen.got[-1].body


RAW = {
    "no request": b"\x00\x01\x02\r\n\r\n",
    "huge headers": b"GET / HTTP/1.1\r\nHost: localhost\r\nX-A: " + b"a" * 200_000 + b"\r\n\r\n",
    "many headers": b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"X-A: 1\r\n" * 5_000 + b"\r\n",
    "a wrong length": b"POST /api/chat HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n",
    "an odd method": b"BREW /pot HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "another host": b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n",
    "this machine by IPv6": b"GET /health HTTP/1.1\r\nHost: [::1]:8484\r\n\r\n",
    "a whole address": b"GET http://evil.example/ HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "an upgrade": b"GET /x HTTP/1.1\r\nHost: localhost\r\nConnection: upgrade\r\n"
    b"Upgrade: websocket\r\nSec-WebSocket-Key: x\r\nSec-WebSocket-Version: 13\r\n\r\n",
}


@pytest.mark.parametrize("what", RAW)
def test_no_request_makes_the_proxy_fail(hostile_to, what):
    _, url = hostile_to
    parts = urlsplit(url)
    with socket.create_connection((parts.hostname, parts.port), timeout=30) as connection:
        connection.sendall(RAW[what])
        first = connection.recv(65_536)
    status = int(first.split(b" ", 2)[1])
    assert 200 <= status < 500
    assert (status == 400) == (
        what in ("no request", "huge headers", "a wrong length", "another host")
    )
    assert httpx.get(f"{url}/health", verify=False, trust_env=False, timeout=60).json() == {
        "status": "ok"
    }
