"""Which models an Ollama server has: asked in plain HTTP, without its package."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any
from urllib.error import URLError
from urllib.parse import urlsplit
from urllib.request import ProxyHandler, build_opener

from compact.models.providers.clients import address_of, is_here

PORT = 11434
"""Where Ollama listens unless it is told otherwise."""
MOST_BYTES = 4_000_000
"""Of a list; a longer answer is none."""
_EMBEDDERS = ("bert", "nomic-bert")
"""Families of models that make vectors and no words."""


async def ollama_models(*, patience: float = 1.0) -> list[str] | None:
    """The keys of the models that can be talked to, the one that changed last first; None where no
    server answers within `patience` seconds, or where `OLLAMA_HOST` names another machine: nobody
    else is asked for what a person has not named.
    """
    address = _base(address_of("ollama"))
    if not is_here(address):
        return None
    try:
        told = await asyncio.to_thread(_asked, f"{address}/api/tags", patience)
        rows = json.loads(told)["models"]
        return [f"ollama:{row['name']}" for row in rows if _talks(row)]
    except (URLError, OSError, ValueError, LookupError, TypeError):
        return None


def _base(address: str) -> str:
    """The address with the scheme and the port that Ollama takes for granted."""
    text = address if "://" in address else f"http://{address}"
    parts = urlsplit(text.rstrip("/"))
    host = "127.0.0.1" if parts.hostname in (None, "0.0.0.0") else parts.hostname
    if parts.port or "://" in address:
        return text.rstrip("/").replace("//0.0.0.0", f"//{host}")
    return f"http://{host}:{PORT}"


def _asked(address: str, timeout: float) -> bytes:
    with build_opener(ProxyHandler({})).open(address, timeout=timeout) as answer:
        told: bytes = answer.read(MOST_BYTES)
        return told


def _talks(row: Mapping[str, Any]) -> bool:
    details = row.get("details") or {}
    return details.get("family") not in _EMBEDDERS and "embed" not in str(row["name"])
