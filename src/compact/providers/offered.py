"""Which models a server has: an Ollama server by its own list, another by that of OpenAI's API."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping

from compact.core.redaction import without_credentials
from compact.errors import InvalidInput, ModelFailed
from compact.providers.clients import NO_KEY, http_client, key_for, package
from compact.providers.failures import mapped
from compact.providers.ollama_chat import Offered, OllamaChat

TIMEOUT = 10.0
"""Seconds that a server has for its list."""
_SERVER = re.compile(r"(?P<ollama>ollama\+)?(?P<url>https?://[^\s#@?]+)", re.IGNORECASE)


def key_of(server: str, name: str) -> str:
    """The key of a model of a server: `ollama:NAME`, or the address, a `#` and the name.

    Raises:
        InvalidInput: the text names no server.
    """
    return f"ollama:{name}" if _address_of(server) is None else f"{server}#{name}"


def _address_of(server: str) -> re.Match[str] | None:
    """The address of a server; None for the Ollama server where it usually is."""
    if server.lower() == "ollama":
        return None
    address = _SERVER.fullmatch(server)
    if address is None:
        raise InvalidInput(
            f"{without_credentials(server)!r} is no server: write ollama, http://host:8080/v1, or "
            "ollama+http://host:11434 for an Ollama server somewhere else"
        )
    return address


async def offered_by(server: str) -> list[Offered]:
    """The models of a server: `ollama`, `ollama+http://host:11434`, `http://host:8080/v1`.

    Raises:
        InvalidInput: the text names no server.
        ModelUnavailable, ModelFailed: it does not answer, or something else than a list; the text
            names the server.
    """
    address = _address_of(server)
    if address is None or address["ollama"]:
        model = OllamaChat("*", base_url=address and address["url"], timeout=TIMEOUT)
        model.name = server
        try:
            return await model.models()
        finally:
            await model.aclose()
    return await _listed(server)


async def _listed(server: str) -> list[Offered]:
    openai = package("openai", model=server)
    base = f"{server.rstrip('/')}/v1" if re.fullmatch(r"https?://[^/]+/?", server) else server
    with mapped(server):
        async with openai.AsyncOpenAI(
            api_key=key_for("openai", server) or NO_KEY,
            base_url=base,
            max_retries=0,
            timeout=TIMEOUT,
            http_client=http_client(openai),
        ) as client:
            async with asyncio.timeout(TIMEOUT):
                answer = await client.get("/models", cast_to=object)
    rows = answer.get("data") if isinstance(answer, Mapping) else None
    if not isinstance(rows, list):
        raise ModelFailed(
            f"{server} answered something that is no list of models: is this the address of an "
            "API, such as http://host:8080/v1?",
            model=server,
        )
    names = [row.get("id") for row in rows if isinstance(row, Mapping)]
    return [Offered(name) for name in names if isinstance(name, str)]
