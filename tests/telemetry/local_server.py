"""An HTTP server on a free port of this machine, in threads; what it takes is its subclass's."""

import ssl
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

END = "Content-Type: application/json\r\nConnection: close\r\n\r\n"
"""Of an answer's head."""


class LocalServer(ABC):
    """Answers each request with the status that `got` gives."""

    body: bytes = b""
    """Of its answers."""

    def __init__(self, secured: ssl.SSLContext | None = None) -> None:
        self.gate: threading.Event | None = None
        """What it waits for before it answers."""
        self.drips: float | None = None
        """Seconds between two bytes of its answers."""
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        if secured is not None:
            self._server.socket = secured.wrap_socket(self._server.socket, server_side=True)
        scheme = "http" if secured is None else "https"
        self.url = f"{scheme}://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    @abstractmethod
    def got(self, path: str, headers: Mapping[str, str], body: bytes | None) -> int:
        """The status of the answer to a request; one without a body asks for something."""

    def close(self) -> None:
        if self.gate is not None:
            self.gate.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.reply(None)

            def do_POST(self) -> None:
                self.reply(self.rfile.read(int(self.headers["Content-Length"])))

            def reply(self, body: bytes | None) -> None:
                headers = {name.lower(): value for name, value in self.headers.items()}
                status = server.got(self.path, headers, body)
                if server.gate is not None:
                    server.gate.wait(60)
                head = f"HTTP/1.1 {status} X", f"Content-Length: {len(server.body)}", END
                answer = "\r\n".join(head).encode() + server.body
                try:
                    for part in [answer] if server.drips is None else map(bytes, zip(answer)):
                        self.wfile.write(part)
                        self.wfile.flush()
                        time.sleep(server.drips or 0)
                except OSError:
                    self.close_connection = True

            def log_message(self, *_: object) -> None:
                """Nothing."""

        return Handler
