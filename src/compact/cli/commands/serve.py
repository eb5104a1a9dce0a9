"""`compactctl serve`: a proxy before a model's server that keeps prompts within the window."""

from __future__ import annotations

import socket
from contextlib import closing
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Annotated

import typer

from compact import wiring
from compact.cli.errors import Stop, say
from compact.cli.options import Tokenizer, command, flag, number_option, text_option
from compact.cli.render import Report
from compact.cli.settings import settings_of
from compact.cli.stores import StoreOptions
from compact.messages.sessions import DEFAULT_SCOPE
from compact.secrets.redaction import without_credentials

IN_MEMORY = 1_000
"""How many sessions are kept in memory if they are not stored in a file."""
PORT = 8484
"""The default port."""


@dataclass(frozen=True, kw_only=True)
class ServeOptions(StoreOptions):
    """Options of `serve`."""

    store: Annotated[
        str | None,
        text_option(
            "FILE", "Keep the sessions in this file. Default: the setting store, else in memory."
        ),
    ] = None
    window: Annotated[
        int | None, number_option("The window. Default: what the server says of each model.")
    ] = None
    tokenizer: Tokenizer = None


@command
def serve(
    options: ServeOptions,
    *,
    upstream: Annotated[
        str, text_option("URL", "The model's server, such as http://localhost:11434.")
    ],
    host: Annotated[
        str, text_option("ADDRESS", "The address to listen on. Default: this machine only.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(metavar="N", min=0, max=65_535, help="The port.")] = PORT,
    shadow: Annotated[bool, flag("--shadow", "Change nothing; say what would be done.")] = False,
) -> Report:
    """Stand before a model's server, so that no prompt is too large for it.

    Point a client at the proxy instead of the server. Requests that fit pass byte for byte; of
    others the older part is compressed. Chat completions, Responses, Anthropic's messages and
    Ollama's chat are read; everything else passes. Needs the extra `serve`.

    Examples:
      compactctl serve --upstream http://localhost:11434
      compactctl serve --upstream http://localhost:8080 --store chats.db --port 9000
      compactctl serve --upstream http://localhost:1234/v1 --window 8k --shadow
    """
    for package in ("starlette", "uvicorn", "httpx"):
        if find_spec(package) is None:
            raise Stop(f"serve needs the package {package}: {wiring.how_to_install('serve')}")
    from compact.serve import server

    settings, at = settings_of(options), server.upstream_at(upstream)
    is_local = wiring.is_here(f"http://{f'[{host}]' if ':' in host else host}")
    with (
        closing(_listener(host, port)) as listener,
        closing(wiring.session_store(settings.store)) as store,
    ):
        setup = server.Setup(
            at,
            settings,
            store,
            say,
            options.scope or DEFAULT_SCOPE,
            is_shadow=shadow,
            most_sessions=None if settings.store else IN_MEMORY,
            is_local=is_local,
        )
        app = server.application(setup)
        number = listener.getsockname()[1]
        url = f"http://{f'[{host}]' if ':' in host else host}:{number}"
        shown = without_credentials(at)
        if not is_local:
            say(f"{host} can be reached from other machines, and nothing asks them for a password")
        yield {"url": url, "upstream": shown, "store": settings.store, "shadow": shadow}
        yield f"{url} > {shown}{' (shadow: nothing is changed)' if shadow else ''}"
        if settings.store:
            yield f"Sessions are kept in {settings.store}."
        else:
            yield f"Sessions are kept in memory, the last {IN_MEMORY:,}; --store FILE keeps all."
        server.serve(app, listener)


def _listener(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        raise Stop(f"cannot listen on {host}, port {port}: {error.strerror or error}") from None
