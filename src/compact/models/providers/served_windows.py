"""Ask a server for the window of one of its models, without a client's package."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from compact.messages.asking import Limits
from compact.models.providers.ollama_chat import shown
from compact.models.providers.openai_chat import LLAMA, LM_STUDIO, limits_in, program_in
from compact.models.providers.vendor_server import number, row_of

Asked = Callable[[str, str, Mapping[str, Any] | None], Awaitable[Mapping[str, Any]]]
"""Sends a request (method, path, body) and returns the JSON of the answer; else {}."""


async def served_limits(asked: Asked, model: str) -> Limits:
    """Return what a server says of a model's window. `default` is the window of a request that
    names none, on a server where requests can name one (Ollama).
    """
    row = row_of((await asked("GET", "/v1/models", None)).get("data"), model)
    limits, program = limits_in(row), program_in(row)
    if limits.window is not None:
        return limits
    if program == LLAMA:
        props = await asked("GET", "/props", None)
        return limits_in(props.get("default_generation_settings"))
    if program == LM_STUDIO:
        return limits_in(row_of((await asked("GET", "/api/v0/models", None)).get("data"), model))
    return await _of_ollama(asked, model)


async def _of_ollama(asked: Asked, model: str) -> Limits:
    facts = await asked("POST", "/api/show", {"model": model})
    if not facts:
        return Limits()
    # Only a loaded model has a window. An empty request loads it, as the next one would.
    await asked("POST", "/api/generate", {"model": model, "stream": False})
    rows = (await asked("GET", "/api/ps", None)).get("models")
    named = [{**row, "id": row.get("model")} for row in rows or () if isinstance(row, Mapping)]
    loaded = number((row_of(named, model),), ("context_length",))
    said = shown(facts).limits
    return said.model_copy(update={"default": loaded or said.default})
