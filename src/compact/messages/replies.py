"""What comes back from a model: its message, why it ended, and what it says the prompt cost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeGuard, TypeVar

from pydantic import BaseModel, Field, InstanceOf

from compact.errors import ModelFailed
from compact.messages.calls import got
from compact.messages.messages import Message

Finish = Literal["stop", "length", "tool_calls", "refusal", "unknown"]
"""Why an answer ended: of itself, at its token limit, to have tools called, because the model or a
filter would not go on, or the provider does not say."""


class Usage(BaseModel, frozen=True, defer_build=True):
    """Tokens as a provider reports them."""

    prompt_tokens: int = Field(ge=0)
    completion_tokens: int = Field(default=0, ge=0)
    cached_tokens: int = Field(default=0, ge=0)
    """Of the prompt's tokens, those that came out of the provider's cache."""


def usage_of(prompt: object, completion: object, cached: object) -> Usage | None:
    """Usage as a server says it: None where it says none of the prompt, and what is no number of
    tokens counts nothing, as an answer is not lost for that.
    """
    if not is_tokens(prompt):
        return None
    return Usage(
        prompt_tokens=prompt,
        completion_tokens=completion if is_tokens(completion) else 0,
        cached_tokens=cached if is_tokens(cached) else 0,
    )


def is_tokens(value: object) -> TypeGuard[int]:
    """Whether it is a number of tokens."""
    return type(value) is int and value >= 0


class Reply(BaseModel, frozen=True, defer_build=True):
    """A model's answer."""

    message: InstanceOf[Message] | Mapping[str, Any]
    """As a message, or as the provider's dictionary."""
    usage: Usage | None = None
    """None where the provider does not say."""
    finish: Finish = "stop"
    model: str = ""
    """Who answered, where the provider says so or another model stood in."""
    is_stand_in: bool = False
    """Whether another model answered in the place of the one that was asked."""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing in it: neither words nor a call."""
        said = self.message
        if isinstance(said, Message):
            return not (said.text.strip() or said.tool_calls)
        words = said.get("content")
        says = bool(words.strip() if isinstance(words, str) else words)
        return not (says or said.get("tool_calls"))


class Delta(BaseModel, frozen=True, defer_build=True):
    """A piece of an answer as it is written; the last one carries the whole."""

    text: str = ""
    reply: Reply | None = None


Promised = TypeVar("Promised", Reply, Delta)


def promised(given: object, kind: type[Promised], name: str) -> Promised:
    """What a model gave, if it is what the protocol says.

    Raises:
        ModelFailed: it is something else.
    """
    if isinstance(given, kind):
        return given
    raise ModelFailed(f"{name} gave {got(given)}, not a {kind.__name__}", model=name)
