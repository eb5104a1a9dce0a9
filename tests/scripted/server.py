"""A real HTTP server on loopback that speaks as OpenAI, Anthropic, Ollama and llama.cpp do, and
says and breaks what it is told.

What it can be told lives in `answers`, how each API writes it in `faces`.
"""

from __future__ import annotations

import json
import math
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count as counting
from types import TracebackType
from typing import Any, Self, cast

from tests.scripted.answers import (
    CHARACTERS_A_TOKEN,
    Answer,
    BreaksOff,
    Failed,
    FailsMidway,
    HalfJson,
    Hangs,
    HangsUp,
    Lost,
    NotJson,
    Received,
    Said,
    Script,
    Told,
    in_turn,
)
from tests.scripted.faces import FACES, LISTS, Face, Turn
from tests.scripted.overflows import refused

_COUNTS = "/v1/messages/count_tokens"
_PROMPT = ("tools", "system", "instructions", "messages", "input")
_REMEMBERED = 16
_OLLAMA_WINDOW = 4096


class ScriptedServer:
    """Listens on a free port of 127.0.0.1 between `start` and `close`, or inside a `with`.

    Answers are given in turn, the last one again and again; a single callable decides by the
    request instead. Only chat requests use answers up. With `window` it counts each prompt by
    `count` (given the request's body) and refuses what is larger as llama.cpp does; Ollama's face
    drops silently what is beyond the request's `num_ctx`, and `Received.cut` says how much.
    `cached` tokens are those that begin one of the 16 prompts before, too. An error in a script is
    answered with 500 and raised by `close`.
    """

    def __init__(
        self,
        *answers: Answer | Script,
        window: int | None = None,
        count: Callable[[dict[str, Any]], int] | None = None,
        model: str = "scripted",
        keep: int | None = None,
    ) -> None:
        self.window = window
        self.model = model
        self.requests: list[Received] = []
        """What came in, in order: the newest `keep`, or all of them."""
        self.broken: list[Exception] = []
        """Errors of the script."""
        self._keep = keep
        self._count = count or _characters
        self._script = _script_of(answers)
        self._prompts: deque[str] = deque(maxlen=_REMEMBERED)
        self._lock = threading.Lock()
        self._numbers = counting(1)
        self._listener: _Listener | None = None
        self._thread: threading.Thread | None = None

    @property
    def prompts(self) -> list[Received]:
        """The chat requests among `requests`."""
        return [each for each in self.requests if each.path in FACES]

    @property
    def url(self) -> str:
        """Where it listens, without a path."""
        assert self._listener, "the server is not started"
        return f"http://127.0.0.1:{self._listener.server_address[1]}"

    def start(self) -> Self:
        """Begin to listen."""
        self._listener = _Listener(self)
        poll = {"poll_interval": 0.02}
        self._thread = threading.Thread(
            target=self._listener.serve_forever, kwargs=poll, daemon=True
        )
        self._thread.start()
        return self

    def close(self) -> None:
        """Stop listening and end every connection, whatever it waits for.

        Raises:
            Exception: the first error of the script.
        """
        if self._listener is None or self._thread is None:
            return
        self._listener.shutdown()
        self._thread.join()
        self._listener.end_connections()
        self._listener.server_close()
        self._listener = self._thread = None
        if self.broken:
            raise self.broken[0]

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def receive(self, path: str, body: dict[str, Any], headers: Mapping[str, str]) -> Received:
        """Count a request and note it."""
        with self._lock:
            tokens = cached = cut = 0
            if path in FACES or path == _COUNTS:
                tokens = self._count(body)
            if path in FACES:
                prompt = _prompt_of(body)
                cached = self._cached(prompt, tokens)
                self._prompts.append(prompt)
            if path == "/api/chat":
                asked = (body.get("options") or {}).get("num_ctx") or _OLLAMA_WINDOW
                cut = max(0, tokens - asked)
            request = Received(path, body, headers, tokens, cached, self.window, cut)
            self.requests.append(request)
            if self._keep is not None:
                del self.requests[: -self._keep]
            return request

    def _cached(self, prompt: str, tokens: int) -> int:
        longest = max((_common(prompt, other) for other in self._prompts), default=0)
        return tokens * longest // max(1, len(prompt))

    def answer(self, request: Received) -> Said | Failed | Lost:
        """What the script has for it, unless it is too large."""
        if self.window and request.tokens > self.window:
            status, body = refused("llama.cpp", request.tokens, self.window)
            return Failed(status, body=body)
        try:
            with self._lock:
                answer = self._script(request)
            if isinstance(answer, Told):
                answer = answer.outcome(request)
        except Exception as error:  # noqa: BLE001  # whatever it is, `close` raises it
            self.broken.append(error)
            return Failed(500, f"the script failed: {error!r}")
        return Said(answer) if isinstance(answer, str) else answer

    def turn(self, request: Received, said: Said) -> Turn:
        """An answer with a number of its own."""
        return Turn(request, said, next(self._numbers))


def _script_of(answers: tuple[Answer | Script, ...]) -> Script:
    if len(answers) == 1 and callable(answers[0]):
        return answers[0]
    return in_turn(cast("tuple[Answer, ...]", answers))


def _characters(body: dict[str, Any]) -> int:
    return math.ceil(len(_prompt_of(body)) / CHARACTERS_A_TOKEN)


def _prompt_of(body: Mapping[str, Any]) -> str:
    given = {key: _unmarked(body[key]) for key in _PROMPT if body.get(key)}
    return json.dumps(given, ensure_ascii=False)


def _unmarked(value: object) -> object:
    """Without the marks that say what to cache, which are no part of a prompt."""
    if isinstance(value, dict):
        return {k: _unmarked(v) for k, v in value.items() if k != "cache_control"}
    return [_unmarked(each) for each in value] if isinstance(value, list) else value


def _common(one: str, other: str) -> int:
    """Characters both begin with."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


class _Listener(ThreadingHTTPServer):
    request_queue_size = 256
    daemon_threads = True

    def __init__(self, scripted: ScriptedServer) -> None:
        self.scripted = scripted
        self.closing = False
        self.opened: dict[socket.socket, threading.Thread] = {}
        super().__init__(("127.0.0.1", 0), _Handler)

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that leaves in the middle is none of our errors; every other one is."""
        error = sys.exc_info()[1]
        if isinstance(error, Exception) and not isinstance(error, OSError):
            self.scripted.broken.append(error)

    def end_connections(self) -> None:
        """Wake every thread by shutting what it reads from, and wait for it."""
        self.closing = True
        opened = self.opened.copy()
        for connection in opened:
            _shut(connection)
        for thread in opened.values():
            thread.join()


def _shut(connection: socket.socket) -> None:
    with suppress(OSError):  # the other side was faster
        connection.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = 1 << 16
    server: _Listener

    def setup(self) -> None:
        super().setup()
        self.server.opened[self.connection] = threading.current_thread()
        if self.server.closing:
            _shut(self.connection)

    def finish(self) -> None:
        self.server.opened.pop(self.connection, None)
        super().finish()

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        self._serve({})

    def do_POST(self) -> None:
        try:
            body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)))
        except ValueError:
            body = None
        if isinstance(body, dict):
            self._serve(body)
        else:
            self._send(400, {"error": {"message": "the body is no JSON object"}})

    def _serve(self, body: dict[str, Any]) -> None:
        path = self.path.partition("?")[0]
        headers = {name.lower(): value for name, value in self.headers.items()}
        scripted = self.server.scripted
        request = scripted.receive(path, body, headers)
        if path in FACES and self.command == "POST":
            self._answer(FACES[path], request, scripted.answer(request))
        elif path == _COUNTS:
            self._send(200, {"input_tokens": request.tokens})
        elif path in LISTS:
            self._send(200, LISTS[path](scripted.model, scripted.window))
        else:
            self._send(404, {"error": {"message": f"nothing is served at {path}"}})

    def _answer(self, face: Face, request: Received, answer: Said | Failed | Lost) -> None:
        match answer:
            case Hangs(text=text):
                if self._still_there(answer.seconds):
                    self._say(face, request, Said(text))
            case HangsUp():
                self.close_connection = True
            case NotJson(page=page):
                self._write(200, "text/html", page.encode())
            case FailsMidway(text=text) if not face.streams(request.body):
                self._answer(face, request, Failed(500, f"failed after: {text}"))
            case BreaksOff(text=text) | FailsMidway(text=text) | HalfJson(text=text):
                self._say(face, request, Said(text), answer)
            case Failed():
                self._send(answer.status, answer.body or face.error(answer), answer.retry_after)
            case Said():
                self._say(face, request, answer)

    def _say(self, face: Face, request: Received, said: Said, lost: Lost | None = None) -> None:
        turn = self.server.scripted.turn(request, said)
        if face.streams(request.body):
            self._stream(face, list(face.stream(turn)), lost)
            return
        body = json.dumps(face.whole(turn), ensure_ascii=False).encode()
        if isinstance(lost, HalfJson):
            body = body[: len(body) // 2]
        size = len(body)
        if isinstance(lost, BreaksOff):
            self.close_connection = True
            body = body[: size // 2]
        self._write(200, "application/json", body, {"Content-Length": str(size)})

    def _stream(self, face: Face, chunks: list[bytes], lost: Lost | None) -> None:
        half = len(chunks) // 2
        match lost:
            case BreaksOff():
                chunks = chunks[:half]
                self.close_connection = True
            case FailsMidway():
                failed = Failed(500, "The server had an error while writing its answer.")
                chunks = [*chunks[:half], face.break_in(failed)]
            case HalfJson():
                cut = chunks[half]
                end = b"\n\n" if cut.endswith(b"\n\n") else b"\n"
                chunks = [*chunks[:half], cut[: len(cut) // 2].rstrip() + end]
        self._head(200, face.stream_type, {"Transfer-Encoding": "chunked"})
        for chunk in chunks:
            time.sleep(lost.pause if isinstance(lost, BreaksOff) else 0)
            self.wfile.write(b"%x\r\n%b\r\n" % (len(chunk), chunk))
            self.wfile.flush()
        if not isinstance(lost, BreaksOff):
            self.wfile.write(b"0\r\n\r\n")

    def _still_there(self, seconds: float | None) -> bool:
        """Wait; whether the client is still there when the time is over."""
        self.connection.settimeout(seconds)
        try:
            self.connection.recv(1, socket.MSG_PEEK)
        except TimeoutError:
            self.connection.settimeout(None)
            return True
        self.close_connection = True
        return False

    def _send(self, status: int, body: Mapping[str, Any], retry_after: float | None = None) -> None:
        headers = {} if retry_after is None else {"Retry-After": f"{retry_after:g}"}
        data = json.dumps(body, ensure_ascii=False).encode()
        self._write(status, "application/json", data, headers)

    def _write(
        self, status: int, kind: str, data: bytes, headers: Mapping[str, str] | None = None
    ) -> None:
        self._head(status, kind, {"Content-Length": str(len(data)), **(headers or {})})
        self.wfile.write(data)

    def _head(self, status: int, kind: str, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
