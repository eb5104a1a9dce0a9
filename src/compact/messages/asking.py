"""What a model may be asked beside its prompt, how long, what it can do, and what it says of its
limits.

The prompt itself is an `ActiveContext`; what comes back lives in `messages.replies`.
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
"""The highest temperature that a provider takes."""


class Ask(BaseModel, frozen=True, defer_build=True):
    """How an answer is wanted. What a server does not know is left out, never sent in vain."""

    max_tokens: int | None = Field(default=None, ge=1)
    """Tokens the answer may have at most."""
    temperature: float | None = Field(default=None, ge=0, le=HOTTEST)
    stop: tuple[str, ...] = ()
    """Texts before which the answer ends."""
    options: Mapping[str, Any] = Field(default_factory=dict)
    """Fields of the provider's own, such as `top_p` or `reasoning_effort`, sent as they are to the
    model that is asked first. What is written here already counts more."""
    answer_schema: Mapping[str, Any] | None = None
    """The JSON schema the answer must keep to, for models with `Abilities.schemas`."""
    window: int | None = Field(default=None, ge=1)
    """Tokens of the window the prompt was made for: Ollama is told it as `num_ctx`."""
    refused_by: Mapping[str, int] | None = None
    """For a prompt that is not made smaller any more: the keys of the models that refused it as too
    large, each with the tokens it has for them. Of several models, only others are asked, and after
    a refusal only those whose window is known to hold it. Where this is None, a refusal goes back
    to whoever made the prompt."""
    waited: float = Field(default=0.0, ge=0)
    """Seconds that were waited for the model's server already: they count as time of the answer."""


ASK = Ask.model_construct()  # validates nothing: no schema is built at import
"""Nothing special."""
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
"""Fields of requests that are not options of one answer, each with what to do instead."""


def wanted(
    max_tokens: int | None,
    temperature: float | None,
    stop: str | Sequence[str] | None,
    options: Mapping[str, Any],
) -> Ask:
    """How a person wants an answer.

    Raises:
        InvalidArgument: a value is none that can be sent, or a field is compact's own.
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
"""That of whoever says nothing of it."""


class Abilities(BaseModel, frozen=True, defer_build=True):
    """What a model and its server can do; None where it is not known before it was tried."""

    tools: bool | None = None
    """Whether it may call tools."""
    schemas: bool = False
    """Whether the server holds answers to a JSON schema."""
    counts: bool = False
    """Whether the server counts the tokens of a prompt before it is sent."""


class Limits(BaseModel, frozen=True, defer_build=True):
    """What a server says of a model's limits, in tokens; None where it does not say."""

    window: int | None = Field(default=None, ge=1)
    """What the server is set up for, and will not go beyond; None where a request sets it up."""
    default: int | None = Field(default=None, ge=1)
    """What it sets up where a request does not say."""
    trained: int | None = Field(default=None, ge=1)
    """What the model was made for: a server may be set up for more."""
    output: int | None = Field(default=None, ge=1)
    """Tokens of an answer at most."""
