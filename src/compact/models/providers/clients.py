"""Helpers of all adapters: imports on first use, API keys and their addresses, certificates, and
one client for each event loop.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable
from functools import cache
from importlib.metadata import PackageNotFoundError, requires
from importlib.util import find_spec
from ipaddress import ip_address
from pathlib import Path
from types import ModuleType
from typing import Any, Generic, TypeVar
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary, finalize

from compact.errors import ModelRefused
from compact.models.model_keys import ModelKey, parse_key
from compact.models.provider_table import PROVIDERS
from compact.patterns import regex

Client = TypeVar("Client")
NO_KEY = "none"
"""The API key for a client that requires one although the server needs none."""
_NAME = regex(r"[\w-]+")
_HUB = "https://huggingface.co"
_Open = WeakKeyDictionary[asyncio.AbstractEventLoop, tuple[Client, AsyncGenerator[Client, None]]]


def package(name: str, *, model: str) -> ModuleType:
    """Import a client's package. The extra that installs it has the same name.

    Raises:
        ModelRefused: it is not installed. The text says how to install it.
    """
    try:
        return importlib.import_module(name)
    except ImportError:
        raise _missing(name, model) from None


def check_package(key: str) -> None:
    """Check that the client's package of a model's provider is installed.

    Raises:
        ModelRefused: it is not installed. The text says how to install it.
    """
    provider = PROVIDERS[parse_key(key).provider]
    name = provider.name.partition("-")[0]
    if provider.spoken is not None and find_spec(name) is None:
        raise _missing(name, key)


def unaskable(key: str) -> str:
    """Return why a model cannot be asked: its package or its API key is missing. No request is
    sent. The text is empty if the model can be asked.
    """
    named = parse_key(key)
    provider = PROVIDERS[named.provider]
    if not provider.writes:
        return f"{key} only echoes"
    try:
        check_package(key)
    except ModelRefused as refusal:
        return str(refusal)
    address = named.base_url or address_of(provider.name)
    if (
        provider.own
        and is_own(provider.name, address)
        and key_for(provider.name, named.base_url) is None
    ):
        return f"{provider.key} is not set, and {key} is not asked without it"
    return ""


def _missing(name: str, model: str) -> ModelRefused:
    how = how_to_install(name)
    return ModelRefused(f"{model} needs the package {name}: {how}", model=model)


def how_to_install(extra: str, package: str = "") -> str:
    """Return commands that install an extra or one of its packages, with pip and in a clone."""
    try:
        lines = requires("compactctl") or []
    except PackageNotFoundError:
        lines = []
    packages = [line.partition(";")[0].strip() for line in lines if f'extra == "{extra}"' in line]
    packages = [x for x in packages if package in ("", *_NAME.findall(x)[:1])] or [extra]
    quoted = " ".join(f"'{name}'" for name in packages)
    return f"pip install {quoted}, or, in a clone of compact, pip install '.[{extra}]'"


def key_for(provider: str, address: str | None) -> str | None:
    """Return the API key in the environment for the server at an address.

    The address None means the provider's default. The result is None if there is no key, if the key
    would be sent unencrypted over http, or if it belongs to another server (`belongs`).
    """
    key = os.environ.get(PROVIDERS[provider].key) or None
    return key if is_sealed(address) and belongs(provider, address) else None


def belongs(provider: str, address: str | None) -> bool:
    """Return whether the API key in the environment belongs to the server at an address.

    The key belongs to the address in the provider's address variable, or else to the provider's own
    address. It also belongs to every server on this machine.
    """
    if address is None or is_here(address):
        return True
    record = PROVIDERS[provider]
    return _origin(address) == _origin(os.environ.get(record.address) or record.own)


def is_own(provider: str, address: str | None) -> bool:
    """Return whether an address is the provider's own. None counts as the provider's own."""
    return address is None or _origin(address) == _origin(PROVIDERS[provider].own)


def address_of(provider: str) -> str:
    """Return the address to use for a provider's model if the model's key names no server."""
    record = PROVIDERS[provider]
    return os.environ.get(record.address) or record.default or record.own


def leads_to(key: ModelKey) -> str | None:
    """Return the address to which prompts go, or from which the model is loaded. None means this
    machine.
    """
    if key.provider == "transformers":
        is_local = Path(key.name).is_dir()
        address = None if is_local else os.environ.get("HF_ENDPOINT") or _HUB
    elif PROVIDERS[key.provider].spoken is None:
        address = None
    else:
        address = key.base_url or address_of(key.provider)
    return None if address is None or is_here(address) else address


def _origin(address: str) -> tuple[str, str, int | None] | None:
    """Split an address into scheme, host and port. Return None if the text is not an address."""
    text = address if "://" in address else f"http://{address}"
    try:
        parts = urlsplit(text)
        port = parts.port or {"https": 443, "http": 80}.get(parts.scheme)
    except ValueError:
        return None
    return parts.scheme, (parts.hostname or "").rstrip("."), port


def is_sealed(address: str | None) -> bool:
    """Return whether requests to an address are encrypted or never leave this machine."""
    return address is None or address.lower().startswith("https://") or is_here(address)


def is_here(address: str) -> bool:
    """Return whether the server at an address is on this machine."""
    host = (_origin(address) or ("", "", 0))[1]
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def http_client(kind: Any) -> Any:  # noqa: ANN401 - of a package that may be missing
    """Make an HTTP client that uses `certificates`. `kind` is the class in the vendor's package."""
    library = kind.__base__.__module__.partition(".")[0]
    return kind(verify=certificates(library))


def certificates(library: str) -> ssl.SSLContext:
    """Load the trusted certificates: `SSL_CERT_FILE`, `SSL_CERT_DIR`, or those of the library.

    All clients share one context, because reading the certificates takes a tenth of a second.
    """
    named = os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")
    return _certificates(library, *named)


@cache
def _certificates(library: str, *_named: str | None) -> ssl.SSLContext:
    context: ssl.SSLContext = importlib.import_module(library).create_ssl_context()
    return context


class LoopClients(Generic[Client]):
    """Keeps one client for each running event loop, because a client works in only one loop.

    A client is closed when its loop ends, when this object is deleted, or by `aclose`. The next use
    makes a new client.
    """

    def __init__(
        self, make: Callable[[], Client], close: Callable[[Client], Awaitable[object]]
    ) -> None:
        self._make = make
        self._close = close
        self._open: _Open[Client] = WeakKeyDictionary()
        finalize(self, _abandon, self._open).atexit = False

    async def current(self) -> Client:
        """Return the client of the running loop."""
        loop = asyncio.get_running_loop()
        if loop not in self._open:
            client = self._make()
            keeper = _keep_open(client, self._close, self._open)
            self._open[loop] = client, keeper
            await anext(keeper)
        return self._open[loop][0]

    async def aclose(self) -> None:
        """Close the clients of all running loops."""
        here = asyncio.get_running_loop()
        for loop, (_, keeper) in list(self._open.items()):
            if loop is here:
                await keeper.aclose()
            elif loop.is_running():
                await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(_end(keeper), loop))


async def _keep_open(
    client: Client, close: Callable[[Client], Awaitable[object]], clients: _Open[Client]
) -> AsyncGenerator[Client, None]:
    # A loop ends all open generators before it closes. So the client is closed in time.
    try:
        yield client
    finally:
        clients.pop(asyncio.get_running_loop(), None)
        await close(client)


async def _end(keeper: AsyncGenerator[Any, None]) -> None:
    await keeper.aclose()


def _abandon(clients: _Open[Any]) -> None:
    for loop, (_, keeper) in list(clients.items()):
        if loop.is_running():
            asyncio.run_coroutine_threadsafe(_end(keeper), loop)
