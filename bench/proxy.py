"""What the proxy adds: to a request of a long conversation, and under many streams at once.

A conversation of 500 messages grows by two with each request, through the proxy and directly, in
turn, to a server that takes a tenth of a second. Both run in processes of their own.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import httpx

from bench.measuring import Check, Setting, Table, number

SIZE, STREAMS, EVENTS = 500, 200, 20
MOST_MEDIAN, MOST_P99 = 3.0, 15.0
"""Milliseconds that a request of `SIZE` messages may take longer."""
THINKS = 0.1
"""Seconds that the server takes for an answer."""
PATH = "/v1/chat/completions"


def measure(setting: Setting) -> list[Table]:
    """Added latency, and what many streams at once take."""
    requests = 50 if setting.quick else 500
    with ExitStack() as stack:
        upstream = stack.enter_context(_running("bench.proxy"))
        serve = ["compact", "serve", "--upstream", upstream, "--port", "0", "--window", "128k"]
        proxy = stack.enter_context(_running(*serve, "--json"))
        return [_latency(upstream, proxy, requests), _streams(upstream, proxy)]


@contextmanager
def _running(module: str, *options: str) -> Iterator[str]:
    """The address of a module that prints it as JSON."""
    command = [sys.executable, "-m", module, *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        lines: list[str] = []
        while not lines or not lines[-1].startswith("}"):
            lines.append(process.stdout.readline())
            assert lines[-1], f"{module} did not start"
        yield json.loads("".join(lines))["url"]
    finally:
        process.kill()
        process.communicate()


def _latency(upstream: str, proxy: str, requests: int) -> Table:
    added: list[float] = []
    said = [{"role": "system", "content": "You inspect beams."}]
    for i in range(SIZE - 1):
        said.append({"role": ("user", "assistant")[i % 2], "content": f"{i}: is beam {i} sound?"})
    with httpx.Client(trust_env=False, timeout=60) as client:
        for i in range(requests + 10):  # the first ones open connections and the session
            body = json.dumps({"model": "m", "messages": said}).encode()
            direct, ours = _ms(client, upstream, body), _ms(client, proxy, body)
            added += [ours - direct] if i >= 10 else []
            said += [{"role": "assistant", "content": "All is well."}]
            said += [{"role": "user", "content": f"And beam {i} of the other pier?"}]
    median, p99 = statistics.median(added), statistics.quantiles(added, n=100)[98]
    table = Table(
        f"a request of {SIZE} messages through the proxy: milliseconds longer than directly",
        ("requests", "median", "p99"),
    )
    table.rows.append((f"{requests}", number(median), number(p99)))
    table.checks += [
        Check("ms added, median", median, MOST_MEDIAN),
        Check("ms added, p99", p99, MOST_P99),
    ]
    return table


def _ms(client: httpx.Client, url: str, body: bytes) -> float:
    started = time.perf_counter()
    client.post(url + PATH, content=body).raise_for_status()
    return 1_000 * (time.perf_counter() - started)


def _streams(upstream: str, proxy: str) -> Table:
    table = Table(
        f"{STREAMS} streams at once, {EVENTS} events of 50 ms each",
        ("way", "all answers whole", "seconds"),
    )
    for way, url in (("directly", upstream), ("through the proxy", proxy)):
        whole, seconds = asyncio.run(_at_once(url))
        table.rows.append((way, f"{whole} of {STREAMS}", number(seconds)))
    table.checks.append(Check("streams that are not whole", float(STREAMS - whole), 0.0))
    return table


async def _at_once(url: str) -> tuple[int, float]:
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(trust_env=False, timeout=120, limits=limits) as client:

        async def one(number: int) -> bool:
            said = [{"role": "user", "content": f"Inspect pier {number}."}]
            body = {"model": "m", "messages": said, "stream": True}
            answer = await client.post(url + PATH, json=body)
            return answer.text.count("data: ") == EVENTS + 2

        started = time.perf_counter()
        whole = await asyncio.gather(*(one(i) for i in range(STREAMS)))
        return sum(whole), time.perf_counter() - started


# --- the server behind it -------------------------------------------------------------------------


async def _app(scope: Any, receive: Any, send: Any) -> None:  # noqa: ANN401 - as ASGI has it
    if scope["type"] != "http":
        return
    body, has_more = b"", True
    while has_more:
        event = await receive()
        body, has_more = body + event.get("body", b""), event.get("more_body", False)
    is_stream = b'"stream":true' in body
    kind = b"text/event-stream" if is_stream else b"application/json"
    start = {"type": "http.response.start", "status": 200, "headers": [(b"content-type", kind)]}
    await send(start)
    if not is_stream:
        await asyncio.sleep(THINKS)
        message = {"role": "assistant", "content": "All is well."}
        said = json.dumps({"choices": [{"message": message, "finish_reason": "stop"}]})
        await send({"type": "http.response.body", "body": said.encode()})
        return
    ends = ['{"choices": [{"delta": {}, "finish_reason": "stop"}]}', "[DONE]"]
    for said in [*['{"choices": [{"delta": {"content": "well "}}]}'] * EVENTS, *ends]:
        await asyncio.sleep(0.05)
        event = {"type": "http.response.body", "body": f"data: {said}\n\n".encode()}
        await send({**event, "more_body": True})
    await send({"type": "http.response.body"})


if __name__ == "__main__":
    import socket

    import uvicorn

    with socket.create_server(("127.0.0.1", 0), backlog=2_048) as listener:
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
        print(json.dumps({"url": address}, indent=2), flush=True)
        uvicorn.Server(uvicorn.Config(_app, log_config=None)).run([listener])
