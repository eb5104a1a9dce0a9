"""A model's answer: its message, why it ended, and its reported usage."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeGuard, TypeVar

from pydantic import BaseModel, Field, InstanceOf

from compact.errors import ModelFailed
from compact.messages.calls import got
from compact.messages.messages import Message

Finish = Literal["stop", "length", "tool_calls", "refusal", "unknown"]
"""Why an answer ended. It ended by itself, at its token limit, or to call tools. Or the model or a
filter refused, or the reason is unknown."""


class Usage(BaseModel, frozen=True, defer_build=True):
    """Token counts that a provider reports."""

    prompt_tokens: int = Field(ge=0)
    completion_tokens: int = Field(default=0, ge=0)
    cached_tokens: int = Field(default=0, ge=0)
    """Prompt tokens that came from the provider's cache."""


def usage_of(prompt: object, completion: object, cached: object) -> Usage | None:
    """Build the usage from a server's numbers. Return None if there is no number for the prompt.
    Other wrong values count as 0, so that the answer is not lost because of them.
    """
    if not is_tokens(prompt):
        return None
    return Usage(
        prompt_tokens=prompt,
        completion_tokens=completion if is_tokens(completion) else 0,
        cached_tokens=cached if is_tokens(cached) else 0,
    )


def is_tokens(value: object) -> TypeGuard[int]:
    """Whether the value is a valid number of tokens."""
    return type(value) is int and value >= 0


class Reply(BaseModel, frozen=True, defer_build=True):
    """A model's answer."""

    message: InstanceOf[Message] | Mapping[str, Any]
    """A message, or the provider's dictionary."""
    usage: Usage | None = None
    """The reported usage. It is None if the provider reports none."""
    finish: Finish = "stop"
    model: str = ""
    """The name of the model that answered, if it was reported or differs from the requested one."""
    is_stand_in: bool = False
    """Whether another model answered instead of the requested one."""

    @property
    def is_empty(self) -> bool:
        """Whether the answer has neither text nor tool calls."""
        message = self.message
        if isinstance(message, Message):
            return not (message.text.strip() or message.tool_calls)
        content = message.get("content")
        has_content = bool(content.strip() if isinstance(content, str) else content)
        return not (has_content or message.get("tool_calls"))


class Delta(BaseModel, frozen=True, defer_build=True):
    """A piece of an answer while it is written. The last piece carries the whole reply."""

    text: str = ""
    reply: Reply | None = None


Promised = TypeVar("Promised", Reply, Delta)


def promised(given: object, kind: type[Promised], name: str) -> Promised:
    """Return a model's result if it has the type that the protocol requires.

    Raises:
        ModelFailed: the result has another type.
    """
    if isinstance(given, kind):
        return given
    raise ModelFailed(f"{name} gave {got(given)}, not a {kind.__name__}", model=name)
