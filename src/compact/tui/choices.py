"""Which models there are to talk to, as far as this machine tells."""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import NamedTuple

from compact import wiring
from compact.errors import ModelRefused
from compact.models.provider_table import PROVIDERS

ECHO = "echo:8k"
"""The model that is always there."""


class Choice(NamedTuple):
    """A model that may be talked to."""

    key: str
    about: str
    """What a person should know of it."""
    is_ready: bool = True
    """Whether it can be asked as things are."""


async def choices() -> list[Choice]:
    """Models of an Ollama server on this machine, of providers whose key is set, and the one that
    only echoes. Nobody else is asked for them.
    """
    found = [_of_ollama(key) for key in await wiring.ollama_models() or ()]
    for provider in PROVIDERS.values():
        if provider.offered and os.environ.get(provider.key):
            about = f"{provider.key} is set"
            found.append(_with_package(provider.name, provider.offered, about))
    return [*found, Choice(ECHO, "offline; says back what you say, to try everything")]


def first_ready(found: list[Choice]) -> str | None:
    """The first model of Ollama's: the only ones that are talked to without being asked for, since
    what is said to them stays here.
    """
    return next((c.key for c in found if c.is_ready and c.key.startswith("ollama:")), None)


def _of_ollama(key: str) -> Choice:
    return _with_package("ollama", key, "on this machine")


def check_client(model: str) -> None:
    """Refuse a model whose client is not installed, before anything is said to it.

    Raises:
        UnknownModel: the key means nothing.
        ImportError: it needs a package; the text says how to install it.
    """
    try:
        wiring.check_package(model)
    except ModelRefused as error:  # no message was refused: none is there yet
        raise ImportError(str(error)) from None


def _with_package(provider: str, key: str, about: str) -> Choice:
    if find_spec(provider) is None:
        return Choice(key, f"{about}; needs {wiring.how_to_install(provider)}", is_ready=False)
    return Choice(key, about)
