"""What the scripted server alone promises; `tests/models` drives its faces by the real adapters."""

from __future__ import annotations

import threading
import time

import httpx
import pytest

from compact.messages.overflow import OverflowRefusal, refusal_of
from tests.scripted import (
    FAULTS,
    VENDORS,
    Answer,
    Echoes,
    EchoesInstructions,
    Hangs,
    Injects,
    Leaks,
    Overflow,
    Rambles,
    Received,
    ScriptedServer,
    Silent,
    faulty,
)
from tests.scripted.overflows import NUMBERLESS

SOON = 120.0
"""Seconds that only a hang takes, on a machine that is busy with others."""
ASKED = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "What now?"}]
PATHS = ("/v1/chat/completions", "/v1/responses", "/v1/messages", "/api/chat")


def post(server: ScriptedServer, path: str, **body: object) -> httpx.Response:
    given = {"model": "m", "messages": ASKED, "input": ASKED, "max_tokens": 9, "stream": False}
    return httpx.post(server.url + path, json={**given, **body}, verify=False, trust_env=False)


@pytest.mark.parametrize("vendor", VENDORS)
@pytest.mark.parametrize("path", PATHS)
def test_a_vendors_refusal_is_understood_with_its_numbers(vendor, path):
    with ScriptedServer(Overflow(vendor, limit=800), count=lambda body: 1200) as server:
        response = post(server, path)
    assert 400 <= response.status_code < 500
    expected = OverflowRefusal(None, None) if vendor in NUMBERLESS else OverflowRefusal(1200, 800)
    said = refusal_of(response.json())
    assert said is not None
    assert said[:2] == expected[:2]


@pytest.mark.parametrize("path", PATHS)
def test_what_exceeds_the_window_is_refused_with_numbers(path):
    def count(body: dict) -> int:
        return len(str(body.get("messages") or body.get("input")))

    with ScriptedServer("ok", window=200, count=count) as server:
        said = "x" * 300
        large = [{"role": "user", "content": said}]
        assert post(server, path).status_code == 200
        refused = post(server, path, messages=large, input=large)
        assert refused.status_code == 400
        assert refusal_of(refused.json()) == OverflowRefusal(len(str(large)), 200)
        streamed = post(server, path, messages=large, input=large, stream=True)
        assert streamed.status_code == 400
        assert [r.tokens > 200 for r in server.requests] == [False, True, True]


@pytest.mark.parametrize("path", PATHS)
def test_what_a_model_should_not_say_is_said_on_every_face(path):
    secret = "planted" + "1234567890"
    told: list[Answer] = [Silent(), Echoes(), EchoesInstructions(), Rambles(), Injects()]
    told.append(Leaks(secret))
    with ScriptedServer(*told) as server:
        silent, echo, orders, long, injected, leaked = (post(server, path).text for _ in told)
    assert "What now?" in echo
    assert "Be brief." in orders
    assert "What now?" not in orders
    assert len(long) > 9 * 10 * 4
    assert "Ignore previous instructions" in injected
    assert secret in leaked
    assert len(silent) < len(injected)


def test_a_hang_ends_by_itself_with_its_client_or_with_the_server():
    before = set(threading.enumerate())
    with ScriptedServer(Hangs(0.02), Hangs(), Hangs()) as server:
        assert "late" in post(server, PATHS[0]).text
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(server.url + PATHS[0], json={}, timeout=0.05, verify=False)
        waiting = [threading.Thread(target=_lost, args=(server,)) for _ in range(5)]
        for each in waiting:
            each.start()
        while len(server.prompts) < 7:
            time.sleep(0.001)
        started = time.perf_counter()
    assert time.perf_counter() - started < SOON
    for each in waiting:
        each.join()
    assert time.perf_counter() - started < SOON
    assert set(threading.enumerate()) <= before


def _lost(server: ScriptedServer) -> None:
    with pytest.raises(httpx.RemoteProtocolError):
        httpx.post(server.url + PATHS[0], json={}, timeout=10 * SOON, verify=False)


def test_an_error_of_the_script_is_raised_when_the_server_is_closed():
    def script(request):
        raise KeyError("mine")

    server = ScriptedServer(script).start()
    assert post(server, PATHS[0]).status_code == 500
    with pytest.raises(KeyError, match="mine"):
        server.close()


def test_what_begins_an_earlier_prompt_counts_as_cached():
    first = [{"role": "user", "content": "word " * 400}]
    second = [*first, {"role": "assistant", "content": "ok"}, {"role": "user", "content": "go on"}]
    other = [{"role": "user", "content": "another " * 400}]
    with ScriptedServer("ok") as server:
        for messages in (first, second, other):
            post(server, PATHS[0], messages=messages, input=None)
        started, followed, fresh = server.requests
    assert started.cached == 0
    assert 0.9 * started.tokens < followed.cached < followed.tokens
    assert fresh.cached < 0.1 * fresh.tokens


def test_marks_for_the_cache_are_no_part_of_the_prompt():
    text = {"type": "text", "text": "word " * 400}
    marked = [{"role": "user", "content": [{**text, "cache_control": {"type": "ephemeral"}}]}]
    with ScriptedServer("ok") as server:
        post(server, PATHS[2], messages=marked, input=None)
        post(server, PATHS[2], messages=[{"role": "user", "content": [text]}], input=None)
        assert server.requests[1].tokens == server.requests[0].tokens == server.requests[1].cached


def test_faults_at_random_are_the_same_for_the_same_seed():
    def drawn(seed: int) -> list[object]:
        script = faulty(seed, 0.3, ["a", "b"])
        return [script(Received(PATHS[0], {}, {})) for _ in range(2000)]

    answers = drawn(1)
    assert answers == drawn(1) != drawn(2)
    faults = [each for each in answers if not isinstance(each, str)]
    assert 0.27 < len(faults) / len(answers) < 0.33
    assert {type(f) for f in faults} == {type(f) for f in FAULTS}
    assert [a for a in answers if isinstance(a, str)][:4] == ["a", "b", "a", "b"]
