"""Settings of a request to a model: answer limits, retry times, and model abilities.

The prompt itself is an `ActiveContext`. Answers are in `messages.replies`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, Field, ValidationError
from pydantic.dataclasses import dataclass

from compact.errors import InvalidArgument
from compact.messages.calls import got, of_field

HOTTEST = 2.0
"""Highest temperature that a provider accepts."""


class Ask(BaseModel, frozen=True, defer_build=True):
    """Settings for one answer. A server gets only the settings that it supports."""

    max_tokens: int | None = Field(default=None, ge=1)
    """Most tokens that the answer may have."""
    temperature: float | None = Field(default=None, ge=0, le=HOTTEST)
    stop: tuple[str, ...] = ()
    """Texts at which the answer ends. They are not part of it."""
    options: Mapping[str, Any] = Field(default_factory=dict)
    """Other fields of the provider, such as `top_p` or `reasoning_effort`. They are sent unchanged,
    and only to the first model that is asked. The fields above take precedence."""
    answer_schema: Mapping[str, Any] | None = None
    """The JSON schema that the answer must match. It is sent to models with `Abilities.schemas`."""
    window: int | None = Field(default=None, ge=1)
    """The window that the prompt was made for, in tokens. Ollama gets it as `num_ctx`."""
    refused_by: Mapping[str, int] | None = None
    """Models that refused this prompt as too large: model key → tokens of the prompt for that
    model. It is set only if the prompt cannot be made smaller. Then only other models are asked,
    and after a refusal only models whose window is known to be large enough. If it is None, a
    refusal is raised to the code that made the prompt."""
    waited: float = Field(default=0.0, ge=0)
    """Seconds already spent waiting for the server. They count towards the time for the answer."""


ASK = Ask.model_construct()  # validation is skipped, so that the import builds no pydantic schema
"""The default settings."""
NOT_OPTIONS: Mapping[str, str] = {
    **dict.fromkeys(
        ("messages", "input", "prompt", "system", "instructions"), "add it as a message"
    ),
    **dict.fromkeys(("tools", "functions"), "give tools= to the session, where they are counted"),
    **dict.fromkeys(("max_completion_tokens", "max_output_tokens", "num_predict"), "max_tokens="),
    **dict.fromkeys(("stream", "stream_options"), "call stream()"),
    **dict.fromkeys(("num_ctx", "format"), "open the session with it"),
    "stop_sequences": "stop=",
}
"""Request fields that are refused as options → what the caller should use instead."""


def ask_from(
    max_tokens: int | None,
    temperature: float | None,
    stop: str | Sequence[str] | None,
    options: Mapping[str, Any],
) -> Ask:
    """Build an `Ask` from a caller's arguments.

    Raises:
        InvalidArgument: a value cannot be sent, or an option is one of `NOT_OPTIONS`.
    """
    texts = (stop,) if isinstance(stop, str) else tuple(stop or ())
    if not all(isinstance(text, str) and text for text in texts):
        raise InvalidArgument("stop", f"stop must be texts that are not empty, got {got(stop)}")
    for name, value in options.items():
        if name in NOT_OPTIONS:
            raise InvalidArgument(name, f"{name} is no option of one answer: {NOT_OPTIONS[name]}")
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError, RecursionError):
            reason = f"{name} cannot be sent as JSON, got {got(value)}"
            raise InvalidArgument(name, reason) from None
    try:
        return Ask(
            max_tokens=max_tokens, temperature=temperature, stop=texts, options=dict(options)
        )
    except ValidationError as error:
        raise of_field(error) from None


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to keep asking a model. Times are in seconds.

    attempts (4): how often a model is asked before the next model is asked; at least once.
    each (300): longest time for one answer, including other requests that prepare it.
    together (600): longest time until an answer begins, over all attempts and waits of all models.
        Each model gets an even share of the time that is left. When its share is used up, the next
        model is asked.
    first_wait (0.5): upper bound of the first wait. The bound doubles with each further wait.
    longest_wait (20): upper bound of every wait. If a server asks for more, compact does not wait.
    setting ("patience.each"): the setting that limits the time of one answer. Errors about a slow
        model name it.
    asks_down_again (True): whether to ask a model again that was too slow or could not be reached,
        if it did not say when to retry. Set it to False if the answer is optional.
    """

    attempts: int = Field(default=4, ge=1)
    each: float = Field(default=300.0, ge=0)
    together: float = Field(default=600.0, ge=0)
    first_wait: float = Field(default=0.5, ge=0)
    longest_wait: float = Field(default=20.0, ge=0)
    setting: str = "patience.each"
    asks_down_again: bool = True


PATIENCE = Patience()
"""The default patience."""


class Abilities(BaseModel, frozen=True, defer_build=True):
    """What a model and its server can do. None means unknown until it is tried."""

    tools: bool | None = None
    """Whether the model may call tools."""
    schemas: bool = False
    """Whether the server can force answers to match a JSON schema."""
    counts: bool = False
    """Whether the server can count a prompt's tokens before it is sent."""


class Limits(BaseModel, frozen=True, defer_build=True):
    """The limits that the server reports for a model, in tokens. A limit that the server does not
    report is None.
    """

    window: int | None = Field(default=None, ge=1)
    """The window that the server is set up for and will not exceed. None if requests set it."""
    default: int | None = Field(default=None, ge=1)
    """The window that the server uses if a request names none."""
    trained: int | None = Field(default=None, ge=1)
    """The window that the model was trained for. A server may be set up for more."""
    output: int | None = Field(default=None, ge=1)
    """Most tokens of an answer."""
