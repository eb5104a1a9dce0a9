"""What a model may be asked beside its prompt, how long, what it can do, and what it says of its
limits.

The prompt itself is an `ActiveContext`; what comes back lives in `core.replies`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class Ask(BaseModel):
    """How an answer is wanted. What a server does not know is left out, never sent in vain."""

    model_config = ConfigDict(frozen=True)

    max_tokens: int | None = Field(default=None, ge=1)
    """Tokens the answer may have at most."""
    temperature: float | None = Field(default=None, ge=0)
    answer_schema: Mapping[str, Any] | None = None
    """The JSON schema the answer must keep to, for models whose `Abilities.schemas` says that the
    server enforces it."""
    window: int | None = Field(default=None, ge=1)
    """Tokens of the window the prompt was made for: servers that set theirs up by request (Ollama's
    `num_ctx`) are told it."""
    refused_by: Mapping[str, int] | None = None
    """For a prompt that is not made smaller any more: the keys of the models that refused it as too
    large, each with the tokens it has for them. Of several models, only others are asked, and after
    a refusal only those whose window is known to hold it. Where this is None, a refusal goes back
    to whoever made the prompt."""


ASK = Ask()
"""Nothing special."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a model is asked. Times are seconds."""

    attempts: int = 4
    """Times a model is asked before the next one is."""
    each: float = 300.0
    """Time that one answer may take at most."""
    together: float = 600.0
    """Time after which no attempt is begun any more, whichever model's turn it is. Each model has
    an even share of what is left of it, and is given up at its end, so that those after it have
    their turn, too."""
    first_wait: float = 0.5
    """Upper end of the first wait; that of each next one is twice as large, ..."""
    longest_wait: float = 20.0
    """... up to this. A server that asks for a longer wait is not waited for."""
    setting: str = "patience.each"
    """Which setting the limit of one answer comes from: named where a model was too slow."""
    asks_slow_again: bool = True
    """Whether a model that took too long is asked the same again. Whoever can ask for less says
    no."""


PATIENCE = Patience()
"""That of whoever says nothing of it."""


class Abilities(BaseModel):
    """What a model and its server can do; None where it is not known before it was tried."""

    model_config = ConfigDict(frozen=True)

    tools: bool | None = None
    """Whether it may call tools."""
    schemas: bool = False
    """Whether the server holds answers to a JSON schema."""
    counts: bool = False
    """Whether the server counts the tokens of a prompt before it is sent."""


class Limits(BaseModel):
    """What a server says of a model's limits, in tokens; None where it does not say."""

    model_config = ConfigDict(frozen=True)

    window: int | None = Field(default=None, ge=1)
    """What the server is set up for, and will not go beyond; None where a request sets it up."""
    default: int | None = Field(default=None, ge=1)
    """What it sets up where a request does not say."""
    trained: int | None = Field(default=None, ge=1)
    """What the model was made for: a server may be set up for more."""
    output: int | None = Field(default=None, ge=1)
    """Tokens of an answer at most."""
