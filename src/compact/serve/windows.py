"""The windows of the upstream's models. The server is asked once for each model."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

import httpx
import orjson

from compact import wiring
from compact.messages.asking import Limits
from compact.models.profiles import ModelBook

AGAIN = 60.0
"""Seconds after which a server that named no window is asked again."""
OLLAMA_DEFAULT = 4_096
"""Tokens that Ollama takes if neither it nor a request names a window."""
PATIENCE = httpx.Timeout(10.0, read=120.0)
"""Seconds for a question to the server. Ollama loads the model before it answers."""


class Window(NamedTuple):
    """A model's window."""

    size: int
    """In tokens, for prompt and answer."""
    is_ours: bool = False
    """Whether the server does not know it: a request must name it, where an API can."""


class Windows:
    """Windows by model. `own` is the user's size for all of them."""

    def __init__(
        self, client: httpx.AsyncClient, upstream: str, own: int | None, book: ModelBook
    ) -> None:
        self._client, self._upstream, self._own, self._book = client, upstream, own, book
        self._asked: dict[str, tuple[float, asyncio.Task[Window | None]]] = {}

    async def of(self, model: str, headers: Mapping[str, str]) -> Window | None:
        """Return a model's window; None if nobody knows it. `headers` go with the questions."""
        if self._own is not None:
            return Window(self._own, is_ours=True)
        now = time.monotonic()
        since, task = self._asked.get(model, (now, None))
        if task is None or (task.done() and now > since + AGAIN and not task.result()):
            task = asyncio.create_task(self._found(model, headers))
            self._asked[model] = now, task
        return await asyncio.shield(task)

    def forget(self, model: str) -> None:
        """Ask again at the next request: the server was set up anew, or said otherwise."""
        self._asked.pop(model, None)

    async def _found(self, model: str, headers: Mapping[str, str]) -> Window | None:
        is_ollama = False

        async def asked(method: str, path: str, body: Mapping[str, Any] | None) -> dict[str, Any]:
            nonlocal is_ollama
            try:
                answer = await self._client.request(
                    method,
                    f"{self._upstream}{path}",
                    json=body,
                    headers=headers,
                    timeout=PATIENCE,
                )
                said = orjson.loads(answer.content) if answer.is_success else {}
            except (httpx.HTTPError, ValueError):
                return {}
            is_ollama |= path == "/api/show" and bool(said)
            return said if isinstance(said, dict) else {}

        try:
            limits = await wiring.served_limits(asked, model)
        except (TypeError, ValueError, LookupError, AttributeError):
            limits = Limits()  # it answers something else
        if size := limits.window or limits.default:
            return Window(size)
        if is_ollama:
            return Window(OLLAMA_DEFAULT, is_ours=True)
        profile = self._book.profile_of(model)
        return Window(profile.window) if profile and profile.window else None
