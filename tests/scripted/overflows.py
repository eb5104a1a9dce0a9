"""How providers and servers refuse a prompt that is too large: status, body, and their own words.

The sentences are those that `messages.overflow` reads; `refused` fills in the numbers. A vendor
that names no numbers is here too: what then is known is only that it was too large.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Body = dict[str, Any]


def _openai(message: str, code: str | None = "context_length_exceeded") -> Body:
    kind = {"type": "invalid_request_error", "param": "messages", "code": code}
    return {"error": {"message": message, **kind}}


def _anthropic(message: str) -> Body:
    return {"type": "error", "error": {"type": "invalid_request_error", "message": message}}


def _llama_cpp(tokens: int, limit: int) -> Body:
    message = (
        f"request ({tokens} tokens) exceeds the available context size ({limit} tokens), "
        "try increasing it"
    )
    kind = {"type": "exceed_context_size_error", "n_prompt_tokens": tokens, "n_ctx": limit}
    return {"error": {"code": 400, "message": message, **kind}}


def _lm_studio(tokens: int, limit: int) -> Body:
    return {
        "error": f"Trying to keep the first {tokens} tokens when context the overflows. However, "
        f"the model is loaded with context length of only {limit} tokens, which is not enough."
    }


def _vllm(tokens: int, limit: int) -> Body:
    message = (
        f"This model's maximum context length is {limit} tokens. However, your request has "
        f"{tokens} input tokens. Please reduce the length of the input messages."
    )
    return {"error": {"message": message, "type": "BadRequestError", "param": None, "code": 400}}


def _google(tokens: int, limit: int) -> Body:
    message = (
        f"The input token count ({tokens}) exceeds the maximum number of tokens allowed ({limit})."
    )
    return {"error": {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}}


def _mistral(tokens: int, limit: int) -> Body:
    message = (
        f"Prompt contains {tokens} tokens and 0 draft tokens, too large for model with {limit} "
        "maximum context length"
    )
    kind = {"type": "invalid_request_invalid_args", "param": None, "code": "3051"}
    return {"object": "error", "message": message, **kind, "raw_status_code": 400}


def _openrouter(tokens: int, limit: int) -> Body:
    message = (
        f"This endpoint's maximum context length is {limit} tokens. However, you requested about "
        f"{tokens + 1000} tokens ({tokens} of text input, 1000 in the output). Please reduce the "
        "length of either one."
    )
    return {"error": {"message": message, "code": 400}}


def _together(tokens: int, limit: int) -> Body:
    return _openai(
        f"The input ({tokens} tokens) is longer than the model's context length ({limit} tokens)."
    )


def _tgi(tokens: int, limit: int) -> Body:
    message = f"Input validation error: `inputs` must have less than {limit} tokens. Given: "
    return {"error": f"{message}{tokens}", "error_type": "validation"}


_WINDOW = "This model's maximum context length is {limit} tokens. However, "
_OPENAI = _WINDOW + (
    "your messages resulted in {tokens} tokens. Please reduce the length of the messages."
)
_DEEPSEEK = _WINDOW + (
    "you requested {tokens} tokens ({tokens} in the messages, 0 in the completion). Please reduce "
    "the length of the messages or completion."
)
_AZURE = (
    "Input tokens exceed the configured limit of {limit} tokens. Your messages resulted in {tokens}"
    " tokens. Please reduce the length of the messages."
)
_XAI = "This model's maximum prompt length is {limit} but the request contains {tokens} tokens."

_VENDORS: Mapping[str, tuple[int, Callable[[int, int], Body]]] = {
    "openai": (400, lambda t, n: _openai(_OPENAI.format(tokens=t, limit=n))),
    "openai responses": (
        400,
        lambda t, n: _openai("Your input exceeds the context window of this model."),
    ),
    "azure": (400, lambda t, n: _openai(_AZURE.format(tokens=t, limit=n))),
    "anthropic": (400, lambda t, n: _anthropic(f"prompt is too long: {t} tokens > {n} maximum")),
    "llama.cpp": (400, _llama_cpp),
    "lm studio": (400, _lm_studio),
    "ollama": (400, lambda t, n: {"error": "the input length exceeds the context length"}),
    "vllm": (400, _vllm),
    "google": (400, _google),
    "mistral": (400, _mistral),
    "deepseek": (400, lambda t, n: _openai(_DEEPSEEK.format(tokens=t, limit=n), None)),
    "xai": (400, lambda t, n: {"code": 400, "error": _XAI.format(tokens=t, limit=n)}),
    "groq": (400, lambda t, n: _openai("Please reduce the length of the messages or completion.")),
    "openrouter": (400, _openrouter),
    "together": (422, _together),
    "tgi": (422, _tgi),
    "bedrock": (400, lambda t, n: {"message": "Input is too long for requested model."}),
}
VENDORS = tuple(_VENDORS)
"""Who can be made to refuse; `refused` takes no other."""
NUMBERLESS = frozenset({"openai responses", "ollama", "groq", "bedrock"})
"""Those whose refusal names neither tokens nor limit."""


def refused(vendor: str, tokens: int, limit: int) -> tuple[int, Body]:
    """The status and the body of a vendor's refusal."""
    status, body = _VENDORS[vendor]
    return status, body(tokens, limit)
