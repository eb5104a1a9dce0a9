"""Builds the proxy, and serves it until it is told to end."""

from __future__ import annotations

import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

import httpx
import uvicorn
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.types import ASGIApp

from compact import wiring
from compact.config import CompactConfig
from compact.errors import InvalidArgument
from compact.messages.protocols import SessionStore
from compact.messages.sessions import DEFAULT_SCOPE
from compact.serve.desk import Desk
from compact.serve.metrics import Metrics
from compact.serve.proxy import Proxy, client_for
from compact.serve.windows import Windows

DRAIN = 60
"""Seconds that answers on their way have left when the proxy is told to end."""
SWITCH = 0.0005
"""Seconds after which a thread that computes lets the loop go on. Python's own 5 ms would be added
to each event that is forwarded meanwhile."""
_LOCAL = ["localhost", "127.0.0.1", "[::1]", "::1", "[", "*.localhost"]
"""Names of this machine, as versions of Starlette read them: up to the first colon, or up to the
port. A page of another site that reaches the proxy by a name of its own (DNS rebinding) is refused.
"""


class Setup(NamedTuple):
    """What a proxy is built from."""

    upstream: str
    settings: CompactConfig
    store: SessionStore
    say: Callable[[str], None]
    """Tells the user a line."""
    scope: str = DEFAULT_SCOPE
    is_shadow: bool = False
    most_sessions: int | None = None
    """How many sessions are kept, those that changed last. None keeps all."""
    is_local: bool = True
    """Whether only this machine can reach the proxy."""


def upstream_at(address: str) -> str:
    """Return the server's address as the proxy uses it: without `/v1` or a slash at its end.

    Raises:
        InvalidArgument: it is no address of a server.
    """
    try:
        url = httpx.URL(address)
    except httpx.InvalidURL as error:
        raise InvalidArgument("upstream", f"{address!r} is no address: {error}") from None
    if url.scheme not in ("http", "https") or not url.host or url.query or url.fragment:
        reason = "is no server's address, such as http://localhost:11434"
        raise InvalidArgument("upstream", f"{address!r} {reason}")
    return str(url).rstrip("/").removesuffix("/v1").rstrip("/")


def application(setup: Setup) -> ASGIApp:
    """Return the proxy as an ASGI application.

    Raises:
        InvalidInput: a setting is wrong.
    """
    settings, metrics = setup.settings, Metrics()
    if settings.summarizer == wiring.OWN:  # the server's model is busy with answers
        settings = settings.model_copy(update={"summarizer": wiring.EXTRACTIVE})
    client = client_for(setup.upstream)
    windows = Windows(client, setup.upstream, settings.max_context_tokens, settings.book())
    desk = Desk(
        settings,
        setup.store,
        windows,
        metrics,
        scope=setup.scope,
        say=setup.say,
        most_sessions=setup.most_sessions,
    )
    proxy = Proxy(setup.upstream, client, desk, metrics, is_shadow=setup.is_shadow)
    app: ASGIApp = proxy.application()
    if setup.is_local:
        app = TrustedHostMiddleware(app, allowed_hosts=_LOCAL, www_redirect=False)
    return app


def uvicorn_server(app: ASGIApp) -> uvicorn.Server:
    """Return what serves the application."""
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,  # the server behind the proxy sends its own
        date_header=False,
        ws="none",
        timeout_graceful_shutdown=DRAIN,
    )
    return uvicorn.Server(config)


def serve(app: ASGIApp, listener: socket.socket) -> None:
    """Serve until SIGTERM or Ctrl-C; then let the answers on their way end."""
    sys.setswitchinterval(SWITCH)
    # uvicorn sends itself the signal again when it is done.
    before = signal.signal(signal.SIGTERM, lambda *_: None)
    try:
        with suppress(KeyboardInterrupt):
            uvicorn_server(app).run([listener])
    finally:
        signal.signal(signal.SIGTERM, before)
