"""The request of an answer beside the prompt: its limits, patience and the model's abilities.

The prompt is an `ActiveContext`. Answers are in `messages.replies`.
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
"""The highest temperature that a provider accepts."""


class Ask(BaseModel, frozen=True, defer_build=True):
    """Settings of one answer. A server gets only those it knows."""

    max_tokens: int | None = Field(default=None, ge=1)
    """Upper bound of the answer, in tokens."""
    temperature: float | None = Field(default=None, ge=0, le=HOTTEST)
    stop: tuple[str, ...] = ()
    """Texts that end the answer; they are not part of it."""
    options: Mapping[str, Any] = Field(default_factory=dict)
    """Fields of the provider's own, such as `top_p` or `reasoning_effort`, sent unchanged to the
    first model that is asked. The fields above take precedence."""
    answer_schema: Mapping[str, Any] | None = None
    """The JSON schema the answer must keep to, for models with `Abilities.schemas`."""
    window: int | None = Field(default=None, ge=1)
    """Tokens of the window the prompt was made for. Ollama gets it as `num_ctx`."""
    refused_by: Mapping[str, int] | None = None
    """Keys of the models that refused the prompt as too large, each with the prompt's tokens for
    it. Set for a prompt that cannot be made smaller: then only other models are asked, and after a
    refusal only those whose window is known to hold it. If None, a refusal returns to the prompt's
    maker."""
    waited: float = Field(default=0.0, ge=0)
    """Seconds already spent waiting for the model's server. They count as time of the answer."""


ASK = Ask.model_construct()  # without validation, so that import builds no schema
"""The default settings."""
OURS: Mapping[str, str] = {
    **dict.fromkeys(
        ("messages", "input", "prompt", "system", "instructions"), "add it as a message"
    ),
    **dict.fromkeys(("tools", "functions"), "give tools= to the session, where they are counted"),
    **dict.fromkeys(("max_completion_tokens", "max_output_tokens", "num_predict"), "max_tokens="),
    **dict.fromkeys(("stream", "stream_options"), "call stream()"),
    **dict.fromkeys(("num_ctx", "format"), "open the session with it"),
    "stop_sequences": "stop=",
}
"""Request fields that are not options of one answer, each with the alternative."""


def wanted(
    max_tokens: int | None,
    temperature: float | None,
    stop: str | Sequence[str] | None,
    options: Mapping[str, Any],
) -> Ask:
    """An `Ask` from a caller's arguments.

    Raises:
        InvalidArgument: a value cannot be sent, or a field is compact's own.
    """
    texts = (stop,) if isinstance(stop, str) else tuple(stop or ())
    if not all(isinstance(text, str) and text for text in texts):
        raise InvalidArgument("stop", f"stop must be texts that are not empty, got {got(stop)}")
    for name, value in options.items():
        if name in OURS:
            raise InvalidArgument(name, f"{name} is no option of one answer: {OURS[name]}")
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
    """How long a model is asked. Times are seconds.

    attempts (4): times a model is asked before the next one is, 1 at least.
    each (300): time that one answer may take at most, with what the server is asked for it before.
    together (600): time until an answer has begun, all attempts and waits of all models together.
        Each model has an even share of what is left of it, and is given up at its end, so that
        those after it have their turn, too.
    first_wait (0.5): upper end of the first wait; that of each next one is twice as large,
    longest_wait (20): up to this. A server that asks for a longer wait is not waited for.
    setting ("patience.each"): which setting the limit of one answer comes from: named where a model
        was too slow.
    asks_down_again (True): whether a model that did not answer in time, or could not be reached, is
        asked again without having said when. Whoever can do without the answer says no.
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
    """What a model and its server can do. None if it is unknown before a try."""

    tools: bool | None = None
    """Whether it may call tools."""
    schemas: bool = False
    """Whether the server holds answers to a JSON schema."""
    counts: bool = False
    """Whether the server can count a prompt's tokens before it is sent."""


class Limits(BaseModel, frozen=True, defer_build=True):
    """A model's limits as the server reports them, in tokens. None if it reports none."""

    window: int | None = Field(default=None, ge=1)
    """The window the server is set up for and will not exceed. None if a request sets it."""
    default: int | None = Field(default=None, ge=1)
    """The window it sets up if a request names none."""
    trained: int | None = Field(default=None, ge=1)
    """The window the model was trained for. A server may be set up for more."""
    output: int | None = Field(default=None, ge=1)
    """Upper bound of an answer."""
