"""The proxy: an ASGI application that forwards requests to one server."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from time import perf_counter

import httpx
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.types import Receive, Scope, Send

from compact import wiring
from compact.serve.answers import AnswerReader
from compact.serve.desk import Desk, Exchange, Ticket
from compact.serve.faces import FACES, Face, face_of
from compact.serve.metrics import Metrics

BYPASS = "x-compact-bypass"
"""The header with which a request passes by compact."""
DONE = b"x-compact"
"""The header of an answer that says what was done with its request."""
_HOPS = frozenset(
    b"connection keep-alive proxy-connection te trailer upgrade transfer-encoding "
    b"host expect".split()
)
"""Headers of one connection only (RFC 9110, 7.6.1), and the name of this host."""
_STREAMS = ("text/event-stream", "application/x-ndjson")
LARGEST_BODY = 500_000_000
"""Bytes of the largest compressed body that is read, once it is unpacked."""
_ZIPPED = ("gzip", "x-gzip", "deflate")
Header = tuple[bytes, bytes]
KEEP = 2.0
"""Seconds that an idle connection to the server is kept: less than common servers keep theirs."""


def client_for(upstream: str) -> httpx.AsyncClient:
    """Make the client for all requests to a server. Answers may take as long as they take."""
    return httpx.AsyncClient(
        timeout=httpx.Timeout(None, connect=10.0),
        limits=httpx.Limits(max_connections=None, keepalive_expiry=KEEP),
        trust_env=not wiring.is_here(upstream),  # no proxy leads to this machine
    )


class Proxy:
    """Forwards requests to `upstream`, the server's address without a path at its end."""

    def __init__(
        self,
        upstream: str,
        client: httpx.AsyncClient,
        desk: Desk,
        metrics: Metrics,
        *,
        is_shadow: bool = False,
    ) -> None:
        self._url = httpx.URL(upstream)
        self._path = self._url.raw_path.rstrip(b"/")
        self._client, self._desk, self._metrics = client, desk, metrics
        self._is_shadow = is_shadow

    def application(self) -> Starlette:
        """Return the application with its own two pages. Every other path is the server's."""

        async def health(_: Request) -> Response:
            return JSONResponse({"status": "ok"})

        async def metrics(_: Request) -> Response:
            return PlainTextResponse(self._metrics.page(), media_type="text/plain; version=0.0.4")

        @asynccontextmanager
        async def lifespan(_: Starlette) -> AsyncIterator[None]:
            yield
            await self._desk.aclose()
            await self._client.aclose()

        routes = [Route("/health", health), Route("/metrics", metrics), Mount("/", self)]
        return Starlette(routes=routes, lifespan=lifespan)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward a request."""
        request = Request(scope, receive)
        try:
            response = await self._answered(request)
            await response(scope, receive, send)
        except (ClientDisconnect, httpx.HTTPError):
            return  # nobody listens, or the answer broke off: the connection ends here, too

    async def _answered(self, request: Request) -> Response:
        face = face_of(request.method, request.url.path)
        if face is None or request.headers.get(BYPASS, "").lower() not in ("", "0", "false"):
            self._metrics.add("requests_total", api=face.name if face else "other", done="passed")
            return await self._passed(request, face)
        body = _plain(await request.body(), request.headers.get("content-encoding", ""))
        started = perf_counter()
        exchange = await self._desk.opened(face, body, request.headers)
        self._metrics.took(perf_counter() - started)
        if self._is_shadow:
            self._desk.tell(exchange)
            exchange.body, exchange.refusal = body, None
            exchange.outcome = f"would_be_{exchange.outcome}"
        self._metrics.add("requests_total", api=face.name, done=exchange.outcome)
        if exchange.refusal is not None:
            said = face.overflow(exchange.refusal)
            return JSONResponse(said, 400, {"x-compact": exchange.outcome})
        return await self._exchanged(request, face, body, exchange)

    # --- to the server --------------------------------------------------------------------------

    def _request(
        self, request: Request, headers: Sequence[Header], content: bytes | AsyncIterator[bytes]
    ) -> httpx.Request:
        scope = request.scope
        path = scope.get("raw_path") or scope["path"].encode()
        query = scope["query_string"]
        target = self._path + path + (b"?" + query if query else b"")
        return httpx.Request(
            request.method,
            self._url,
            headers=list(headers),
            content=content,
            extensions={"target": target, "timeout": self._client.timeout.as_dict()},
        )

    async def _passed(self, request: Request, face: Face | None) -> Response:
        """Forward a request that compact does not look into, as it comes."""
        has_body = {"content-length", "transfer-encoding"} & {*request.headers.keys()}
        content = request.stream() if has_body else b""
        sent = self._request(request, _forwarded(request.headers.raw), content)
        try:
            answer = await self._client.send(sent, stream=True)
        except httpx.HTTPError as error:
            return _unreachable(face, error)
        return Forwarded(answer, answer.aiter_raw(), self._metrics)

    async def _exchanged(
        self, request: Request, face: Face, body: bytes, exchange: Exchange
    ) -> Response:
        # What is read beside must not be compressed.
        without = [b"content-length", b"accept-encoding"]
        identity = (b"accept-encoding", b"identity")
        for is_last in (False, True):
            if exchange.body == body:  # as it came, compressed or not
                same, content = "identical", await request.body()
            else:
                same, content = "rewritten", exchange.body
                without.append(b"content-encoding")
            headers = [*_forwarded(request.headers.raw, *without), identity]
            sent = self._request(request, headers, content)
            try:
                answer = await self._asked(request, sent)
                self._metrics.add("bodies_total", sent=same)
                if answer.is_success or is_last:
                    break
                said = b"".join([chunk async for chunk in answer.aiter_raw()])
            except httpx.HTTPError as error:
                return _unreachable(face, error)
            if self._is_shadow or not await self._desk.refitted(exchange, answer.status_code, said):
                return Forwarded(answer, _only(said), self._metrics, exchange.outcome)
        chunks = answer.aiter_raw()
        if answer.is_success and exchange.ticket and "content-encoding" not in answer.headers:
            chunks = self._read_beside(answer, exchange.ticket)
        return Forwarded(answer, chunks, self._metrics, exchange.outcome)

    async def _asked(self, request: Request, sent: httpx.Request) -> httpx.Response:
        """Send a request whose body was read. If the client leaves, the server is left, too.

        Raises:
            ClientDisconnect: the client has left.
        """
        asked = asyncio.create_task(self._client.send(sent, stream=True))
        left = asyncio.ensure_future(request.receive())
        try:
            await asyncio.wait((asked, left), return_when=asyncio.FIRST_COMPLETED)
            if asked.done():
                return asked.result()
            raise ClientDisconnect
        finally:
            asked.cancel()
            left.cancel()

    async def _read_beside(self, answer: httpx.Response, ticket: Ticket) -> AsyncIterator[bytes]:
        """The bytes of an answer as they come. The last ones wait until the answer is recorded."""
        kind = answer.headers.get("content-type", "").lower()
        # Some servers give a stream no type, or that of a text.
        is_stream = ticket.request.get("stream") is True and "json" not in kind
        is_stream = is_stream or kind.startswith(_STREAMS)
        reader = AnswerReader(ticket.face.format, is_stream=is_stream)
        held, is_recorded = b"", False
        try:
            async for chunk in answer.aiter_raw():
                reader.feed(chunk)
                if reader.has_ended and not is_recorded:
                    is_recorded = True
                    await self._desk.record(ticket, reader.answer)
                if reader.is_stream:
                    yield chunk
                else:
                    held += chunk
        except httpx.HTTPError:
            if not is_recorded:
                await self._desk.record(ticket, None)
            raise
        if not is_recorded:
            await self._desk.record(ticket, reader.answer)
        if held:
            yield held


class Forwarded(StreamingResponse):
    """An answer of the server, with the server's own headers."""

    def __init__(
        self,
        answer: httpx.Response,
        chunks: AsyncIterator[bytes],
        metrics: Metrics,
        done: str | None = None,
    ) -> None:
        super().__init__(chunks, answer.status_code)
        self._answer, self._metrics = answer, metrics
        self.raw_headers = _forwarded((k.lower(), v) for k, v in answer.headers.raw)
        if done is not None:
            self.raw_headers.append((DONE, done.encode()))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the answer. If the client leaves, the server is left, too."""
        self._metrics.streams += 1
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._metrics.streams -= 1
            await self._answer.aclose()


def _forwarded(
    headers: Iterable[tuple[bytes, bytes]], *without: bytes
) -> list[tuple[bytes, bytes]]:
    """Return the headers that go on to the other side."""
    given = list(headers)
    named = {
        name.strip().lower()
        for key, value in given
        if key == b"connection"
        for name in value.split(b",")
    }
    dropped = _HOPS | named | {*without}
    return [(k, v) for k, v in given if k not in dropped and not k.startswith(b"x-compact-")]


def _plain(body: bytes, encoding: str) -> bytes:
    """Return a request's body as its client wrote it. What is compressed in another way, is broken
    or becomes too large stays as it is, and is then no readable request.
    """
    if encoding.strip().lower() not in _ZIPPED:
        return body
    unzip = zlib.decompressobj(zlib.MAX_WBITS | 32)  # tells gzip and zlib apart by itself
    try:
        plain = unzip.decompress(body, LARGEST_BODY)
    except zlib.error:
        return body
    return plain if unzip.eof else body


async def _only(body: bytes) -> AsyncIterator[bytes]:
    yield body


def _unreachable(face: Face | None, error: httpx.HTTPError) -> Response:
    """The answer if the server gives none: the client's request is at fault, or the server."""
    is_theirs = isinstance(error, httpx.LocalProtocolError | httpx.UnsupportedProtocol)
    text = f"compact's proxy got no answer from the server behind it: {type(error).__name__}"
    kind = "invalid_request_error" if is_theirs else "api_error"
    return JSONResponse((face or FACES[0]).error(kind, None, text), 400 if is_theirs else 502)
