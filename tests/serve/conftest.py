"""The proxy on a free port of this machine, and servers behind it."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from compact import wiring
from compact.config import CompactConfig
from compact.serve import server
from tests.models.conftest import llama as llama
from tests.models.conftest import tiny_model as tiny_model


@contextmanager
def listening(app: ASGIApp) -> Iterator[str]:
    """The address of an application that is served by a thread."""
    serving = server.uvicorn_server(app)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serving.run, args=([listener],), daemon=True)
        thread.start()
        while not serving.started:
            assert thread.is_alive(), "the application did not start"
            time.sleep(0.002)
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            serving.should_exit = True
            thread.join()


class Got(NamedTuple):
    """A request as it arrived at a server."""

    method: str
    target: bytes
    headers: list[tuple[bytes, bytes]]
    body: bytes


@dataclass
class Recorder:
    """A server that keeps what arrives byte for byte, and answers what it is told."""

    answer: Callable[[Got], Response] = lambda got: Response(got.body)
    window: int | None = None
    """What it says of its model's window; such a question is not kept."""
    got: list[Got] = field(default_factory=list)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        if self.window and scope["path"] == "/v1/models":
            rows = [{"id": "m", "max_model_len": self.window}]
            await JSONResponse({"data": rows})(scope, receive, send)
            return
        query = scope["query_string"]
        target = scope["raw_path"] + (b"?" + query if query else b"")
        self.got.append(Got(request.method, target, request.headers.raw, await request.body()))
        await self.answer(self.got[-1])(scope, receive, send)


@dataclass
class Served:
    """A proxy that is being served."""

    url: str
    said: list[str]

    def count(self, name: str, **labels: str) -> int:
        """A counter of `/metrics`, over all labels that are not given."""
        page = httpx.get(f"{self.url}/metrics", verify=False, trust_env=False, timeout=60).text
        wanted = [f'{key}="{value}"' for key, value in labels.items()]
        rows = [line for line in page.splitlines() if line.startswith(f"compact_proxy_{name}")]
        return sum(int(row.split()[-1]) for row in rows if all(each in row for each in wanted))


@pytest.fixture
def proxy() -> Iterator[Callable[..., Served]]:
    """`proxy(upstream, **settings)` serves one; `store`, `shadow` and `most` are its own."""
    with ExitStack() as stack:

        def started(
            upstream: str,
            *,
            store: str | Path | None = None,
            shadow: bool = False,
            most: int | None = None,
            **settings: Any,
        ) -> Served:
            said: list[str] = []
            opened = stack.enter_context(closing(wiring.session_store(store)))
            config = CompactConfig(**settings)
            setup = server.Setup(
                upstream, config, opened, said.append, is_shadow=shadow, most_sessions=most
            )
            return Served(stack.enter_context(listening(server.application(setup))), said)

        yield started


@pytest.fixture
def recorder() -> Iterator[tuple[Recorder, str]]:
    """A server that keeps what arrives, and its address."""
    made = Recorder()
    with listening(made) as url:
        yield made, url
