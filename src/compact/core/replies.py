"""What comes back from a model: its message, and what it says the prompt cost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from compact.core.messages import Message


class Usage(BaseModel):
    """Tokens as a provider reports them."""

    model_config = ConfigDict(frozen=True)

    prompt_tokens: int = Field(ge=0)
    completion_tokens: int = Field(default=0, ge=0)
    cached_tokens: int = Field(default=0, ge=0)
    """Of the prompt's tokens, those that came out of the provider's cache."""


class Reply(BaseModel):
    """A model's answer."""

    model_config = ConfigDict(frozen=True, arbitrary_types_allowed=True)

    message: Message | Mapping[str, Any]
    """As a message, or as the provider's dictionary."""
    usage: Usage | None = None
    """None where the provider does not say."""
