"""The APIs that carry a conversation: where its parts stand in a request, and how errors look."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from compact.errors import CannotFit

Json = Mapping[str, Any]


def _openai_error(kind: str, code: str | None, text: str) -> Json:
    return {"error": {"message": text, "type": kind, "param": None, "code": code}}


def _anthropic_error(kind: str, code: str | None, text: str) -> Json:
    return {"type": "error", "error": {"type": kind, "message": text}}


def _ollama_error(kind: str, code: str | None, text: str) -> Json:
    return {"error": text}


class Face(NamedTuple):
    """One API for conversations."""

    name: str
    """Its name in metrics."""
    path: str
    """How its path ends."""
    format: str
    """The wire format of its messages."""
    listed: str
    """The field with the messages."""
    system: str | None
    """The field with a system prompt beside them."""
    answer: tuple[str, ...]
    """The fields that limit the answer's tokens."""
    error: Callable[[str, str | None, str], Json]
    """Writes an error, of its type, code and text."""

    def options(self, request: Json) -> Json:
        """The object in a request that holds the model's options."""
        if self.format != "ollama":
            return request
        options = request.get("options")
        return options if isinstance(options, Mapping) else {}

    def answer_tokens(self, request: Json) -> int | None:
        """Tokens that the answer may have; None if the request does not say."""
        options = self.options(request)
        said = (options.get(name) for name in self.answer)
        return next((each for each in said if type(each) is int and each > 0), None)

    def messages(self, request: Json) -> list[Any] | None:
        """The conversation; None if the request carries none."""
        listed = request.get(self.listed)
        if isinstance(listed, str) and self.format == "responses":
            return [{"role": "user", "content": listed}]
        return listed if isinstance(listed, list) else None

    def overflow(self, error: CannotFit) -> Json:
        """The error of the API for a prompt that cannot be made to fit."""
        text = (
            f"This model's maximum context length is {error.limit} tokens, and your messages "
            f"resulted in {error.total} tokens. prompt is too long: {error.total} tokens > "
            f"{error.limit} maximum. compact {error}"
        )
        return self.error("invalid_request_error", "context_length_exceeded", text)


FACES = (
    Face(
        "chat",
        "/chat/completions",
        "chat_completions",
        "messages",
        None,
        ("max_completion_tokens", "max_tokens"),
        _openai_error,
    ),
    Face(
        "responses",
        "/responses",
        "responses",
        "input",
        "instructions",
        ("max_output_tokens",),
        _openai_error,
    ),
    Face(
        "messages",
        "/messages",
        "anthropic",
        "messages",
        "system",
        ("max_tokens",),
        _anthropic_error,
    ),
    Face("ollama", "/api/chat", "ollama", "messages", None, ("num_predict",), _ollama_error),
)


def face_of(method: str, path: str) -> Face | None:
    """Return the API that a request is for; None if it carries no conversation."""
    if method != "POST":
        return None
    return next((face for face in FACES if path.endswith(face.path)), None)
