"""Lists the models that can be used from this machine."""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import NamedTuple

from compact import wiring
from compact.errors import ModelRefused
from compact.models.provider_table import PROVIDERS

ECHO = "echo:8k"
"""The key of a model that is always available."""


class Choice(NamedTuple):
    """A model that the user can choose."""

    key: str
    about: str
    is_ready: bool = True
    """Whether the model can be used without installing a package first."""


async def choices() -> list[Choice]:
    """Return the models of Ollama on this machine, of providers whose API key is set, and the echo
    model. No other server is asked.
    """
    models = [
        _with_package("ollama", key, "on this machine")
        for key in await wiring.ollama_models() or ()
    ]
    for provider in PROVIDERS.values():
        if provider.offered and os.environ.get(provider.key):
            about = f"{provider.key} is set"
            models.append(_with_package(provider.name, provider.offered, about))
    return [*models, Choice(ECHO, "offline; says back what you say, to try everything")]


def first_ready(found: list[Choice]) -> str | None:
    """Return Ollama's first ready model, or None. Only a model of Ollama may be used without the
    user's choice, because the conversation stays on this machine.
    """
    return next((c.key for c in found if c.is_ready and c.key.startswith("ollama:")), None)


def check_client(model: str) -> None:
    """Refuse a model whose client package is missing, before a message is sent."""
    try:
        wiring.check_package(model)
    except ModelRefused as error:  # there is no message yet that could be refused
        raise ImportError(str(error)) from None


def _with_package(provider: str, key: str, about: str) -> Choice:
    if find_spec(provider) is None:
        return Choice(key, f"{about}; needs {wiring.how_to_install(provider)}", is_ready=False)
    return Choice(key, about)
