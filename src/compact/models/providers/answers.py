"""Reads a server's answer without the vendor's client: a whole answer, or events one by one.

It also asks a server for the window of one of its models.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

from compact.messages.asking import Limits
from compact.messages.formats.chat_completions import THOUGHTS
from compact.models.providers import (
    anthropic_messages,
    ollama_chat,
    openai_chat,
    openai_responses,
)
from compact.models.providers.ollama_chat import shown
from compact.models.providers.openai_chat import LLAMA, LM_STUDIO, limits_in, program_in
from compact.models.providers.vendor_server import AnswerInPieces, number, row_of

Whole = Mapping[str, Any]


class Answer(NamedTuple):
    """An answer in the form in which a client would send it back."""

    messages: list[dict[str, Any]]
    """The messages of the answer, or the items of Responses."""
    prompt_tokens: int | None
    """The prompt's tokens as the server counted them. None if the server did not report them."""


class _Reading(NamedTuple):
    pieces: Callable[[], AnswerInPieces]
    messages: Callable[[Whole], list[Any]]
    usage: Callable[[Whole], Any]


def _choice(whole: Whole) -> list[Any]:
    # Most clients send no reasoning back.
    said = whole["choices"][0]["message"]
    return [{"role": "assistant", **{k: v for k, v in said.items() if k not in THOUGHTS}}]


_READINGS: Mapping[str, _Reading] = {
    "chat_completions": _Reading(
        openai_chat.StreamedAnswer, _choice, lambda whole: openai_chat.usage_in(whole.get("usage"))
    ),
    "responses": _Reading(
        openai_responses.StreamedItems,
        lambda whole: list(whole["output"]),
        lambda whole: openai_responses.usage_in(whole.get("usage")),
    ),
    "anthropic": _Reading(
        anthropic_messages.StreamedBlocks,
        lambda whole: [{"role": "assistant", "content": whole["content"]}],
        lambda whole: anthropic_messages.usage_in(whole.get("usage")),
    ),
    "ollama": _Reading(
        ollama_chat.StreamedLines, lambda whole: [whole["message"]], ollama_chat.usage_in
    ),
}
"""Wire format → the functions that read its answers."""


def pieces_of(format: str) -> AnswerInPieces:
    """Return an empty answer of a wire format, to which events are added."""
    return _READINGS[format].pieces()


def answer_in(format: str, whole: Whole) -> Answer:
    """Read a whole answer. Empty fields are left out.

    Raises:
        LookupError, TypeError, AttributeError: it is no answer of that format.
    """
    reading = _READINGS[format]
    kept = [
        {k: v for k, v in message.items() if v not in (None, [], {})}
        for message in reading.messages(whole)
    ]
    used = reading.usage(whole)
    return Answer(kept, used.prompt_tokens if used else None)


# --- served windows -------------------------------------------------------------------------------

Asked = Callable[[str, str, Mapping[str, Any] | None], Awaitable[Mapping[str, Any]]]
"""Sends a request (method, path, body). Returns the JSON of the answer, or {} if there is none."""


async def served_limits(asked: Asked, model: str) -> Limits:
    """Return the window of a model as its server reports it. `default` is the window of a request
    that names none, on a server where requests can name one (Ollama).
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
    # Only a loaded model has a window. An empty request loads it, as any next request would.
    await asked("POST", "/api/generate", {"model": model, "stream": False})
    rows = (await asked("GET", "/api/ps", None)).get("models")
    named = [{**row, "id": row.get("model")} for row in rows or () if isinstance(row, Mapping)]
    loaded = number((row_of(named, model),), ("context_length",))
    said = shown(facts).limits
    return said.model_copy(update={"default": loaded or said.default})
