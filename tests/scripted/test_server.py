"""The scripted server, driven by the vendors' own clients and by bare HTTP."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import anthropic
import httpx
import ollama
import openai
import pytest

from compact.messages.overflow import OverflowRefusal, refusal_of
from tests.scripted import (
    FAULTS,
    VENDORS,
    Answer,
    BreaksOff,
    Busy,
    Call,
    Calls,
    CutOff,
    Down,
    Echoes,
    EchoesInstructions,
    FailsMidway,
    Filtered,
    HalfJson,
    Hangs,
    HangsUp,
    Injects,
    InternalError,
    Leaks,
    NoSuchModel,
    NotJson,
    Overflow,
    Overloaded,
    Rambles,
    Received,
    Refuses,
    ScriptedServer,
    Silent,
    WrongKey,
    faulty,
)
from tests.scripted.overflows import NUMBERLESS

TEXT = "Two words\n\nand  more – naïve."
SOON = 120.0
"""Seconds that only a hang takes, on a machine that is busy with others."""
ASKED = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "What now?"}]
PATHS = ("/v1/chat/completions", "/v1/responses", "/v1/messages", "/api/chat")
READ = Calls([Call("read", {"path": "a b.py"}), Call("look", {})], text="First I read.")


@contextmanager
def gpt(server: ScriptedServer) -> Iterator[Any]:
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as client:
        yield client


@contextmanager
def claude(server: ScriptedServer) -> Iterator[Any]:
    with anthropic.Anthropic(base_url=server.url, api_key="none", max_retries=0) as client:
        yield client


@contextmanager
def llama(server: ScriptedServer) -> Iterator[Any]:
    client = ollama.Client(host=server.url)
    try:
        yield client
    finally:
        client._client.close()


def post(server: ScriptedServer, path: str, **body: object) -> httpx.Response:
    given = {"model": "m", "messages": ASKED, "input": ASKED, "max_tokens": 9, "stream": False}
    return httpx.post(server.url + path, json={**given, **body}, verify=False, trust_env=False)


# --- what the clients read ------------------------------------------------------------------------


def test_chat_completions_as_openai_reads_them():
    with ScriptedServer(
        TEXT, READ, Refuses("No."), Filtered(), CutOff("Then"), count=len
    ) as server:
        with gpt(server) as client:
            answers = [client.chat.completions.create(model="m", messages=ASKED) for _ in range(5)]
        text, calls, refused, filtered, cut = (a.choices[0] for a in answers)
        assert text.message.content == TEXT
        assert text.finish_reason == "stop"
        assert calls.finish_reason == "tool_calls"
        assert calls.message.content == "First I read."
        wanted = calls.message.tool_calls
        assert [c.function.name for c in wanted] == ["read", "look"]
        assert json.loads(wanted[0].function.arguments) == {"path": "a b.py"}
        assert len({c.id for c in wanted}) == 2
        assert (refused.message.content, refused.message.refusal) == (None, "No.")
        assert filtered.finish_reason == "content_filter"
        assert (cut.finish_reason, cut.message.content) == ("length", "Then")
        assert answers[0].usage.prompt_tokens == len(server.requests[0].body)


def test_chat_completions_as_a_stream():
    with ScriptedServer(TEXT, READ) as server, gpt(server) as client:
        options = {"include_usage": True}
        streams = [
            list(
                client.chat.completions.create(
                    model="m", messages=ASKED, stream=True, stream_options=options
                )
            )
            for _ in range(2)
        ]
        said = [c.choices[0].delta.content or "" for c in streams[0] if c.choices]
        assert "".join(said) == TEXT
        assert len(said) > 4
        assert streams[0][-1].usage.prompt_tokens == server.requests[0].tokens
        deltas = [c.choices[0].delta.tool_calls for c in streams[1] if c.choices]
        written = {0: "", 1: ""}
        for each in deltas:
            for call in each or []:
                written[call.index] += call.function.arguments or ""
        assert [json.loads(w) for w in written.values()] == [{"path": "a b.py"}, {}]


@pytest.mark.slow
def test_responses_whole_and_as_a_stream():
    with (
        ScriptedServer(TEXT, READ, Refuses("No."), CutOff("Then")) as server,
        gpt(server) as client,
    ):
        whole = [client.responses.create(model="m", input="What now?") for _ in range(4)]
        assert whole[0].output_text == TEXT
        assert [i.type for i in whole[1].output] == ["message", "function_call", "function_call"]
        assert whole[2].output[0].content[0].refusal == "No."
        assert whole[3].status == "incomplete"
        assert whole[3].incomplete_details.reason == "max_output_tokens"
    with ScriptedServer(TEXT, READ) as server, gpt(server) as client:
        for expected in (whole[0], whole[1]):
            with client.responses.stream(model="m", input="What now?") as stream:
                events = list(stream)
                final = stream.get_final_response()
            assert final.output_text == expected.output_text
            assert [i.type for i in final.output] == [i.type for i in expected.output]
            deltas = [e.delta for e in events if e.type == "response.output_text.delta"]
            assert "".join(deltas) == expected.output_text
        assert final.output[1].arguments == '{"path": "a b.py"}'


@pytest.mark.slow
def test_messages_as_anthropic_reads_them():
    user = ASKED[1:]
    with ScriptedServer(TEXT, READ, Refuses("No."), CutOff("Then")) as server:
        with claude(server) as client:
            whole = [
                client.messages.create(model="m", max_tokens=99, messages=user) for _ in range(4)
            ]
            counted = client.messages.count_tokens(model="m", messages=user)
        assert whole[0].content[0].text == TEXT
        assert [a.stop_reason for a in whole] == ["end_turn", "tool_use", "refusal", "max_tokens"]
        assert whole[1].content[1].input == {"path": "a b.py"}
        used = [(a.usage.input_tokens, a.usage.cache_read_input_tokens) for a in whole]
        assert used == [(counted.input_tokens, 0), *[(0, counted.input_tokens)] * 3]
    with ScriptedServer(TEXT, READ) as server, claude(server) as client:
        for expected in whole[:2]:
            with client.messages.stream(model="m", max_tokens=99, messages=user) as stream:
                text = "".join(stream.text_stream)
                final = stream.get_final_message()
            assert text == expected.content[0].text
            assert [b.type for b in final.content] == [b.type for b in expected.content]
            assert final.stop_reason == expected.stop_reason
        assert final.content[1].input == {"path": "a b.py"}


def test_ollama_as_its_client_reads_it():
    with ScriptedServer(TEXT, READ, TEXT, READ, window=9000) as server, llama(server) as client:
        assert client.chat("m", ASKED).message.content == TEXT
        assert client.chat("m", ASKED).message.tool_calls[0].function.arguments == {
            "path": "a b.py"
        }
        streamed = list(client.chat("m", ASKED, stream=True))
        assert "".join(part.message.content for part in streamed) == TEXT
        assert streamed[-1].prompt_eval_count == server.requests[-1].tokens
        parts = list(client.chat("m", ASKED, stream=True))
        calls = [c.function.name for p in parts for c in p.message.tool_calls or ()]
        assert calls == ["read", "look"]
        assert client.show("m").modelinfo["llama.context_length"] == 9000
        assert client.list().models[0].model == "scripted"


def test_ollama_drops_silently_what_is_beyond_num_ctx():
    with ScriptedServer("ok", count=lambda body: 500) as server, llama(server) as client:
        small = client.chat("m", ASKED, options={"num_ctx": 300})
        large = client.chat("m", ASKED, options={"num_ctx": 500})
        assert (small.prompt_eval_count, large.prompt_eval_count) == (300, 500)
        assert [r.cut for r in server.requests] == [200, 0]


def test_models_are_listed_with_the_window():
    with ScriptedServer(window=77, model="mine") as server, gpt(server) as client:
        listed = client.models.list().data
        assert [m.id for m in listed] == ["mine"]
        assert listed[0].meta["n_ctx"] == 77


# --- errors, as each client names them ------------------------------------------------------------


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (Busy(retry_after=0.01), "RateLimitError"),
        (InternalError(), "InternalServerError"),
        (Down(), "InternalServerError"),
        (Overloaded(), "InternalServerError"),
        (WrongKey(), "AuthenticationError"),
        (NoSuchModel(), "NotFoundError"),
        (HangsUp(), "APIConnectionError"),
        (BreaksOff(), "APIConnectionError"),
        (Overflow("vllm"), "BadRequestError"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_a_fault_is_the_clients_own_error(fault, kind):
    with ScriptedServer(fault) as server, gpt(server) as client:
        with pytest.raises(getattr(openai, kind)) as caught:
            client.chat.completions.create(model="m", messages=ASKED)
        if isinstance(fault, Busy):
            assert caught.value.response.headers["retry-after"] == "0.01"
            assert caught.value.code == "rate_limit_exceeded"
    with ScriptedServer(fault) as server, claude(server) as client:
        with pytest.raises(anthropic.APIError) as caught:
            client.messages.create(model="m", max_tokens=9, messages=ASKED[1:])
        assert isinstance(caught.value, getattr(anthropic, kind))


def test_the_overloaded_error_names_itself():
    with ScriptedServer(Overloaded()) as server, claude(server) as client:
        with pytest.raises(anthropic.APIStatusError) as caught:
            client.messages.create(model="m", max_tokens=9, messages=ASKED[1:])
        assert caught.value.status_code == 529
        assert caught.value.response.json()["error"]["type"] == "overloaded_error"


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


# --- what is said ---------------------------------------------------------------------------------


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


# --- what gets lost -------------------------------------------------------------------------------


@pytest.mark.parametrize("path", PATHS)
def test_what_breaks_on_the_wire(path):
    with ScriptedServer(NotJson(), HalfJson()) as server:
        page = post(server, path)
        assert page.status_code == 200
        assert page.text.startswith("<!doctype html>")
        half = post(server, path)
        with pytest.raises(json.JSONDecodeError):
            half.json()
        lines = post(server, path, stream=True).text.splitlines()
        written = [line.removeprefix("data: ") for line in lines if line.startswith(("data", "{"))]
        for line in written[:-1]:
            json.loads(line)
        with pytest.raises(json.JSONDecodeError):
            json.loads(written[-1])


@pytest.mark.parametrize("path", PATHS)
def test_a_stream_that_fails_midway_ends_with_an_error(path):
    with ScriptedServer(FailsMidway()) as server:
        text = post(server, path, stream=True).text
        assert "error while writing" in text
        assert text.index("answer") < text.index("error while writing")
        assert post(server, path).status_code == 500


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("stream", [False, True])
def test_a_connection_that_is_closed_is_seen_by_the_client(path, stream):
    with ScriptedServer(BreaksOff(), HangsUp()) as server:
        for _ in range(2):
            with pytest.raises(httpx.RemoteProtocolError):
                post(server, path, stream=stream)


@pytest.mark.parametrize("path", PATHS)
def test_a_stream_that_is_broken_off_has_begun(path):
    got: list[str] = []
    with ScriptedServer(BreaksOff("It begins and never comes to its end.")) as server:
        body = {"model": "m", "messages": ASKED, "input": ASKED, "stream": True}
        with httpx.stream("POST", server.url + path, json=body, verify=False) as response:
            texts = response.iter_text()
            with pytest.raises(httpx.RemoteProtocolError):
                got.extend(texts)
    assert "It" in "".join(got)
    assert "end." not in "".join(got)


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


# --- the script, the counts, the load -------------------------------------------------------------


def test_a_callable_decides_by_the_request():
    def script(request):
        return request.messages[-1]["content"].upper()

    with ScriptedServer(script) as server, gpt(server) as client:
        answer = client.chat.completions.create(model="m", messages=ASKED)
        assert answer.choices[0].message.content == "WHAT NOW?"
        assert server.requests[0].headers["authorization"] == "Bearer none"


def test_only_the_newest_requests_are_kept_where_that_is_wanted():
    with ScriptedServer("a", "b", keep=2) as server:
        for number in range(5):
            post(server, PATHS[0], number=number)
        assert [r.body["number"] for r in server.requests] == [3, 4]


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


@pytest.mark.slow
def test_hundreds_of_requests_a_second_over_few_connections():
    async def play(url: str) -> list[int]:
        limits = httpx.Limits(max_connections=8)
        async with httpx.AsyncClient(limits=limits, verify=False, timeout=SOON) as client:
            body = {"model": "m", "messages": ASKED}
            asked = [client.post(url + PATHS[0], json=body) for _ in range(400)]
            return [answer.status_code for answer in await asyncio.gather(*asked)]

    with ScriptedServer(TEXT) as server:
        started = time.perf_counter()
        assert asyncio.run(play(server.url)) == [200] * 400
        assert time.perf_counter() - started < SOON  # a hang, not a speed
        assert len(server.prompts) == 400
