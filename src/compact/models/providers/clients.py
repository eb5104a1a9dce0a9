"""What the adapters share: one client per event loop, packages that are imported when used, and
where a key may be sent.
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
"""What a client that wants a key is given where none is to be sent."""
_NAME = regex(r"[\w-]+")
_HUB = "https://huggingface.co"
_Open = WeakKeyDictionary[asyncio.AbstractEventLoop, tuple[Client, AsyncGenerator[Client, None]]]


def package(name: str, *, model: str) -> ModuleType:
    """A client's package, which is the name of the extra that brings it.

    Raises:
        ModelRefused: it is not installed; the text says how it is.
    """
    try:
        return importlib.import_module(name)
    except ImportError:
        raise _missing(name, model) from None


def check_package(key: str) -> None:
    """Whether the package is there that a model is asked through at its server.

    Raises:
        ModelRefused: it is not; the text says how it is installed.
    """
    provider = PROVIDERS[parse_key(key).provider]
    name = provider.name.partition("-")[0]
    if provider.spoken is not None and find_spec(name) is None:
        raise _missing(name, key)


def unaskable(key: str) -> str:
    """Why nobody would answer under a key here, as far as that can be known without asking: a
    package or a provider's key is missing. Empty where somebody may.
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
    is_own = bool(provider.own) and _origin(address) == _origin(provider.own)
    if is_own and key_for(provider.name, named.base_url) is None:
        return f"{provider.key} is not set, and {key} is not asked without it"
    return ""


def _missing(name: str, model: str) -> ModelRefused:
    how = how_to_install(name)
    return ModelRefused(f"{model} needs the package {name}: {how}", model=model)


def how_to_install(extra: str, package: str = "") -> str:
    """The commands that bring the packages of an extra, or one of them: by their own names, and in
    a clone of compact.
    """
    found = [each for each in _requirements() if f'extra == "{extra}"' in each]
    named = [each.partition(";")[0].strip() for each in found]
    named = [each for each in named if package in ("", *_NAME.findall(each)[:1])] or [extra]
    quoted = " ".join(f"'{each}'" for each in named)
    return f"pip install {quoted}, or, in a clone of compact, pip install '.[{extra}]'"


def _requirements() -> list[str]:
    try:
        return requires("compactctl") or []
    except PackageNotFoundError:
        return []


def key_for(provider: str, address: str | None) -> str | None:
    """The key that the environment holds, for the server at an address; None stands for where the
    environment or the provider says that it is. None where there is none, where it would travel
    readable, and where it belongs to somebody else (`belongs`).
    """
    key = os.environ.get(PROVIDERS[provider].key) or None
    return key if is_sealed(address) and belongs(provider, address) else None


def belongs(provider: str, address: str | None) -> bool:
    """Whether the provider's key of the environment is meant for the server at an address: the one
    that the environment names beside the key, the provider's own where it names none, or one on
    this machine.
    """
    if address is None or is_here(address):
        return True
    asked = PROVIDERS[provider]
    return _origin(address) == _origin(os.environ.get(asked.address) or asked.own)


def address_of(provider: str) -> str:
    """Whom a provider's models are asked at where their key names no server."""
    asked = PROVIDERS[provider]
    return os.environ.get(asked.address) or asked.default or asked.own


def leads_to(key: ModelKey) -> str | None:
    """The address of whoever is asked under a key, or of who is asked for the model itself; None
    for this machine.
    """
    if key.provider == "transformers":
        found = Path(key.name).is_dir()
        address = None if found else os.environ.get("HF_ENDPOINT") or _HUB
    elif PROVIDERS[key.provider].spoken is None:
        address = None
    else:
        address = key.base_url or address_of(key.provider)
    return None if address is None or is_here(address) else address


def _origin(address: str) -> tuple[str, str, int | None] | None:
    """Scheme, host and port; None of what is no address."""
    text = address if "://" in address else f"http://{address}"
    try:
        parts = urlsplit(text)
        port = parts.port or {"https": 443, "http": 80}.get(parts.scheme)
    except ValueError:
        return None
    return parts.scheme, (parts.hostname or "").rstrip("."), port


def is_sealed(address: str | None) -> bool:
    """Whether nobody on the way can read what is sent there: not over plain http, unless the server
    is on this machine.
    """
    return address is None or address.lower().startswith("https://") or is_here(address)


def is_here(address: str) -> bool:
    """Whether the server at an address is on this machine."""
    host = (_origin(address) or ("", "", 0))[1]
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def http_client(client: ModuleType) -> Any:  # noqa: ANN401 - of a package that may be missing
    """What a client's package sends its requests by, trusting `certificates`."""
    made = client.DefaultAsyncHttpxClient
    return made(verify=certificates(made.__base__.__module__.partition(".")[0]))


def certificates(library: str) -> ssl.SSLContext:
    """Whom that library of HTTP trusts: `SSL_CERT_FILE`, `SSL_CERT_DIR` or a list of its own. One
    for all clients, as reading a list takes a tenth of a second.
    """
    named = os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")
    return _certificates(library, *named)


@cache
def _certificates(library: str, *_named: str | None) -> ssl.SSLContext:
    found: ssl.SSLContext = importlib.import_module(library).create_ssl_context()
    return found


class LoopClients(Generic[Client]):
    """One client for each running event loop: asynchronous clients are bound to theirs.

    A client is closed with its loop, with whoever holds this, or by `aclose`; the next use makes
    another one.
    """

    def __init__(
        self, make: Callable[[], Client], close: Callable[[Client], Awaitable[object]]
    ) -> None:
        self._make = make
        self._close = close
        self._open: _Open[Client] = WeakKeyDictionary()
        finalize(self, _abandon, self._open).atexit = False

    async def current(self) -> Client:
        """The client of the running loop."""
        loop = asyncio.get_running_loop()
        if loop not in self._open:
            client = self._make()
            keeper = _kept(client, self._close, self._open)
            self._open[loop] = client, keeper
            await anext(keeper)
        return self._open[loop][0]

    async def aclose(self) -> None:
        """Close the clients of all loops that run."""
        here = asyncio.get_running_loop()
        for loop, (_, keeper) in list(self._open.items()):
            if loop is here:
                await keeper.aclose()
            elif loop.is_running():
                await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(_end(keeper), loop))


async def _kept(
    client: Client, close: Callable[[Client], Awaitable[object]], known: _Open[Client]
) -> AsyncGenerator[Client, None]:
    """Holds a client open. A generator, as a loop ends those that are still open before it closes
    itself.
    """
    try:
        yield client
    finally:
        known.pop(asyncio.get_running_loop(), None)
        await close(client)


async def _end(keeper: AsyncGenerator[Any, None]) -> None:
    await keeper.aclose()


def _abandon(known: _Open[Any]) -> None:
    for loop, (_, keeper) in list(known.items()):
        if loop.is_running():
            asyncio.run_coroutine_threadsafe(_end(keeper), loop)
