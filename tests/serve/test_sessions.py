"""Whose conversation a request is, what its server is sent, and what happens on failures."""

from __future__ import annotations

import gzip
import json
import random
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from starlette.responses import JSONResponse, Response

from compact.errors import InvalidInput, StoreFailed
from compact.messages.overflow import OverflowRefusal, refusal_of
from compact.serve.continuing import MOST, Begun, Lists
from compact.store.inmemory import InMemoryStore
from tests.scripted import Received, ScriptedServer
from tests.serve.conftest import Got
from tests.strategies import prose

CHAT = "/v1/chat/completions"
PATHS = (CHAT, "/v1/responses", "/v1/messages", "/api/chat")
WINDOW = 2_048
HELLO = [{"role": "user", "content": "Hello."}]
ANSWER = {"role": "assistant", "content": "Good day."}


class Talker:
    """A client that resends its whole list."""

    def __init__(self, url: str, first: str, **headers: str) -> None:
        self.client = httpx.Client(
            base_url=url, headers=headers, verify=False, trust_env=False, timeout=60
        )
        self.said: list[dict[str, Any]] = [{"role": "system", "content": "Be brief."}]
        self.next = first

    def turn(self, words: str | None = None) -> httpx.Response:
        self.said.append({"role": "user", "content": words or self.next})
        body = {"model": "m", "messages": self.said, "max_tokens": 40}
        answer = self.client.post(CHAT, json=body)
        if answer.status_code == 200:
            self.said.append(answer.json()["choices"][0]["message"])
        return answer


def words(number: int) -> Callable[[Received], str]:
    """A model that says something else each time."""
    return lambda request: prose(random.Random(request.prompt), number)


def test_eight_conversations_that_begin_alike_are_told_apart(proxy, tmp_path):
    """They begin with the same words and run side by side; none is named by a header."""
    with ScriptedServer(words(40)) as upstream:
        served = proxy(upstream.url, store=tmp_path / "s.db", max_context_tokens=WINDOW)
        talkers = [Talker(served.url, "Hello.") for _ in range(8)]
        with ThreadPoolExecutor(8) as pool:
            for turn in range(20):
                said = [f"Turn {turn} of {i}: {prose(random.Random(turn), 30)}" for i in range(8)]
                asked = [None] * 8 if turn == 0 else said
                answers = list(pool.map(Talker.turn, talkers, asked))
                assert [each.status_code for each in answers] == [200] * 8
        for talker in talkers:
            talker.client.close()
        last = upstream.prompts[-8:]
        own = [{i for i in range(8) if f" of {i}: " in request.prompt} for request in last]
        assert sorted(map(min, own)) == list(range(8))
        assert all(len(each) == 1 for each in own), "nobody reads another's words"
        assert served.count("sessions_total") == 8
        assert served.count("failures_total") == 0
        assert served.count("compressions_total") >= 4


def test_between_compressions_a_prefix_is_never_rewritten(proxy):
    """Each prompt begins with the whole prompt before it, unless a compression came between."""
    with ScriptedServer(words(30)) as upstream:
        served = proxy(upstream.url, max_context_tokens=WINDOW)
        talker, rewritten = Talker(served.url, "Hello."), 0
        for turn in range(60):
            before, known = served.count("compressions_total"), len(upstream.prompts)
            talker.turn(f"Turn {turn}: {prose(random.Random(turn), 30)}")
            if known and served.count("compressions_total") == before:
                earlier, now = (each.messages for each in upstream.prompts[-2:])
                assert now[: len(earlier)] == earlier
            elif known:
                rewritten += 1
        talker.client.close()
        assert served.count("failures_total") == 0
    assert 3 <= rewritten <= 12


def test_a_named_session_and_a_bypass(proxy, recorder):
    seen, upstream = recorder
    served = proxy(upstream, max_context_tokens=WINDOW)
    said = [
        {"role": ("user", "assistant")[i % 2], "content": prose(random.Random(i), 90)}
        for i in range(41)
    ]
    body = json.dumps({"model": "m", "messages": said})
    client = httpx.Client(base_url=served.url, verify=False, trust_env=False, timeout=60)
    with client:
        passed = client.post(CHAT, content=body, headers={"x-compact-bypass": "1"})
        assert (seen.got[-1].body, passed.headers.get("x-compact")) == (body.encode(), None)
        named = client.post(CHAT, content=body, headers={"X-Compact-Session": "pier"})
        assert named.headers["x-compact"] == "fitted"
        assert len(seen.got[-1].body) < len(body)
        assert not [key for key, _ in seen.got[-1].headers if key.startswith(b"x-compact")]
    assert served.count("sessions_total") == 0, "it was named"


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
def test_a_compressed_request_is_read_and_passes_as_it_came(proxy, recorder, coding):
    seen, upstream = recorder
    served = proxy(upstream, max_context_tokens=WINDOW)
    pack = gzip.compress if coding == "gzip" else zlib.compress
    said = [
        {"role": ("user", "assistant")[i % 2], "content": prose(random.Random(i), 90)}
        for i in range(41)
    ]
    coded = {"content-encoding": coding}
    with httpx.Client(base_url=served.url, verify=False, trust_env=False, timeout=60) as client:
        for rows, done in ((said[:1], "untouched"), (said, "fitted")):
            body = json.dumps({"model": "m", "messages": rows}).encode()
            packed = pack(body)
            answer = client.post(CHAT, content=packed, headers=coded)
            assert answer.headers["x-compact"] == done
            arrived, headers = seen.got[-1].body, dict(seen.got[-1].headers)
            if done == "untouched":
                assert (arrived, headers[b"content-encoding"]) == (packed, coding.encode())
            else:
                assert len(json.loads(arrived)["messages"]) < len(rows)
                assert b"content-encoding" not in headers
        for broken in (b"no " + coding.encode(), pack(b"{}")[:-3]):
            answer = client.post(CHAT, content=broken, headers=coded)
            assert (answer.headers["x-compact"], seen.got[-1].body) == ("unreadable", broken)


def test_sessions_do_not_grow_without_end_and_one_that_was_forgotten_goes_on(proxy, recorder):
    """Also named ones are forgotten. A list whose session is gone begins it anew."""
    seen, upstream = recorder
    seen.answer = lambda got: JSONResponse({"choices": [{"message": ANSWER}]})
    store = InMemoryStore()
    served = proxy(upstream, store=store, most=2, max_context_tokens=WINDOW)
    talker = Talker(served.url, "Hello.")
    with talker.client as client:
        for turn in range(3):
            assert talker.turn().headers["x-compact"] == "untouched"
            for i in range(5):
                named = {"x-compact-session": f"{turn}-{i}"}
                client.post(CHAT, json={"messages": HELLO}, headers=named)
            assert len(store.sessions()) <= 4
    assert served.count("failures_total") == 0


def test_a_shadow_changes_nothing_and_says_what_it_would_do(proxy, recorder):
    seen, upstream = recorder
    served = proxy(upstream, shadow=True, max_context_tokens=WINDOW)
    with httpx.Client(base_url=served.url, verify=False, trust_env=False, timeout=60) as client:
        for said in ([prose(random.Random(i), 90) for i in range(41)], ["word " * 9_000]):
            rows = [
                {"role": ("user", "assistant")[i % 2], "content": text}
                for i, text in enumerate(said)
            ]
            body = json.dumps({"model": "m", "messages": rows})
            answer = client.post(CHAT, content=body)
            assert answer.content == seen.got[-1].body == body.encode()
    assert served.count("requests_total", done="would_be_fitted") == 1
    assert served.count("requests_total", done="would_be_refused") == 1
    assert served.count("bodies_total", sent="rewritten") == 0
    assert len(served.said) == 2


@pytest.mark.parametrize("path", PATHS)
def test_what_cannot_fit_is_refused_as_its_provider_refuses_it(proxy, recorder, path):
    seen, upstream = recorder
    served = proxy(upstream, max_context_tokens=WINDOW)
    listed = "input" if path.endswith("responses") else "messages"
    body = {"model": "m", listed: [{"role": "user", "content": "word " * 9_000}]}
    answer = httpx.post(served.url + path, json=body, verify=False, trust_env=False, timeout=60)
    assert (answer.status_code, seen.got) == (400, [])
    refusal = refusal_of(answer.json())
    assert isinstance(refusal, OverflowRefusal)
    assert (refusal.tokens or 0) > 9_000
    if path in PATHS[:2]:
        assert answer.json()["error"]["code"] == "context_length_exceeded"


def test_a_refusal_of_the_server_is_answered_by_a_smaller_prompt(proxy):
    """Where our count is too low, the server's refusal corrects it, and the client sees nothing."""

    def count(body: dict[str, Any]) -> int:
        return len(json.dumps(body["messages"])) * 3 // 2  # far more than is usual

    with ScriptedServer(words(20), window=WINDOW, count=count) as upstream:
        served = proxy(upstream.url)
        talker = Talker(served.url, "Hello.")
        for i in range(12):
            talker.said.append({"role": ("user", "assistant")[i % 2], "content": f"word {i} " * 20})
        assert [talker.turn(f"Turn {turn}").status_code for turn in range(3)] == [200] * 3
        talker.client.close()
        refused = sum(request.tokens > WINDOW for request in upstream.prompts)
    assert 1 <= refused == served.count("overflows_total", retried="yes")
    assert served.count("overflows_total", retried="no") == 0


class Broken(InMemoryStore):
    """A store that fails from some moment on."""

    is_broken = False

    def session(self, *given: Any, **named: Any) -> Any:
        if self.is_broken:
            raise RuntimeError("the disk is gone")
        return super().session(*given, **named)


def test_it_fails_open(proxy, recorder):
    """An error of compact's own is counted and named once, without a word of the conversation."""
    seen, upstream = recorder
    store = Broken()
    served = proxy(upstream, store=store, max_context_tokens=WINDOW)
    store.is_broken = True
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "Private words"}]})
    for _ in range(3):
        answer = httpx.post(
            served.url + CHAT, content=body, verify=False, trust_env=False, timeout=60
        )
        assert answer.content == seen.got[-1].body == body.encode()
    assert served.count("requests_total", done="failed_open") == 3
    assert served.count("failures_total", error="RuntimeError") == 3
    (line,) = served.said
    assert "RuntimeError" in line
    assert "Private" not in line


@pytest.mark.parametrize(
    "wrong", [{"tokenizer": "nothing.json"}, {"output_reserve": 4_000}, {"summarizer": "nobody"}]
)
def test_wrong_settings_fail_at_the_start(proxy, wrong):
    with pytest.raises((InvalidInput, StoreFailed)):
        proxy("http://127.0.0.1:1", max_context_tokens=WINDOW, **wrong)


def test_a_server_that_is_not_there_is_named_in_the_apis_own_error(proxy):
    served = proxy("http://127.0.0.1:1", max_context_tokens=WINDOW)
    body = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
    answer = httpx.post(
        f"{served.url}/v1/messages", json=body, verify=False, trust_env=False, timeout=60
    )
    assert (answer.status_code, answer.json()["error"]["type"]) == (502, "api_error")


# --- lists that go on at once ---------------------------------------------------------------------

BESIDE = {"api": "chat", "window": WINDOW}


@pytest.mark.parametrize(
    ("more", "fits"),
    [
        ({"role": "user", "content": "x" * 200}, True),
        ({"role": "user", "content": "x" * 1_100}, False),
        ({"role": "user", "content": "\u00e9" * 600}, False),
        ({"role": "user", "content": [{"type": "image_url", "image_url": {"url": "u"}}]}, False),
    ],
)
def test_a_list_fits_if_its_new_bytes_are_fewer_than_the_tokens_left(more, fits):
    lists = Lists()
    assert lists.continued(BESIDE, HELLO)[1:] == (None, False)
    lists.keep(lists.continued(BESIDE, HELLO).digest, Begun("a", 1_000))
    assert lists.continued(BESIDE, HELLO)[1:] == (None, False), "it may begin another one"
    assert lists.continued(BESIDE, [*HELLO, more])[1:] == ("a", fits)
    assert lists.continued({**BESIDE, "tools": [1]}, [*HELLO, more])[1:] == (None, False)
    lists.keep(lists.continued(BESIDE, HELLO).digest, Begun("b", 1_000))
    assert lists.continued(BESIDE, [*HELLO, more])[1:] == (None, False), "two have it"


def test_of_lists_only_the_last_are_remembered():
    lists = Lists()
    for i in range(MOST + 1):
        lists.keep(str(i).encode(), Begun("s", 1))
    assert len(lists._begun) == MOST
    assert b"0" not in lists._begun


# --- windows --------------------------------------------------------------------------------------

SERVERS: dict[str, dict[str, Any]] = {
    "vllm": {"/v1/models": {"data": [{"id": "m", "max_model_len": 3_000}]}},
    "llama.cpp": {
        "/v1/models": {"data": [{"id": "m", "owned_by": "llamacpp", "meta": {"n_ctx_train": 9}}]},
        "/props": {"default_generation_settings": {"n_ctx": 3_000}},
    },
    "LM Studio": {
        "/v1/models": {"data": [{"id": "m", "owned_by": "organization_owner"}]},
        "/api/v0/models": {"data": [{"id": "m", "loaded_context_length": 3_000}]},
    },
    "Ollama, loaded": {
        "/v1/models": {"data": [{"id": "m", "owned_by": "library"}]},
        "/api/show": {"parameters": "num_ctx 9000", "model_info": {}},
        "/api/generate": {"done": True},
        "/api/ps": {"models": [{"model": "m", "context_length": 3_000}]},
    },
    "Ollama, by its file": {
        "/api/show": {"parameters": "num_ctx   3000", "model_info": {}},
        "/api/ps": {"models": []},
    },
}


@pytest.mark.parametrize("server", SERVERS)
def test_the_server_is_asked_for_its_window_once(proxy, recorder, server):
    seen, upstream = recorder

    def answer(got: Got) -> Response:
        path = got.target.decode()
        if path == CHAT:
            return Response(got.body)
        found = SERVERS[server].get(path)
        return JSONResponse(found if found else {"error": "none"}, 200 if found else 404)

    seen.answer = answer
    served = proxy(upstream)
    body = {"model": "m", "messages": [{"role": "user", "content": "word " * 3_500}]}
    for _ in range(2):
        headers = {"authorization": "Bearer k"}
        got = httpx.post(
            served.url + CHAT, json=body, headers=headers, verify=False, trust_env=False, timeout=60
        )
        refusal = refusal_of(got.json())
        assert refusal is not None
        assert (refusal.limit or 0) <= 3_000
    assert [each.target.decode() for each in seen.got].count("/v1/models") == 1
    assert all((b"authorization", b"Bearer k") in each.headers for each in seen.got)
