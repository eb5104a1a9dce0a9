"""What a provider's refusal of a prompt says: how many tokens there were, and how many may be.

Patterns are those of the providers' documented errors: OpenAI (`context_length_exceeded`),
Anthropic (`prompt is too long`), llama.cpp (`exceed_context_size_error`), vLLM, Ollama and Google.
An error that matches none is no overflow; mapping vendors' exceptions is the providers' work.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from compact.errors import ContextOverflow

_NUMBER = r"(\d[\d,_.]*)"
_PATTERNS = tuple(
    re.compile(pattern.replace("#", _NUMBER), re.IGNORECASE | re.DOTALL)
    for pattern in (
        r"n_prompt_tokens\W+(?P<tokens>#).*?n_ctx\W+(?P<limit>#)",
        r"n_ctx\W+(?P<limit>#).*?n_prompt_tokens\W+(?P<tokens>#)",
        r"prompt is too long: (?P<tokens>#) tokens > (?P<limit>#)",
        r"maximum context length (?:is|of) (?P<limit>#) tokens.*?"
        r"(?:resulted in|requested|contains?(?: at least)?|has|you passed) (?P<tokens>#)",
        r"input token count \((?P<tokens>#)\) exceeds the maximum number of tokens allowed "
        r"\((?P<limit>#)\)",
        r"request \((?P<tokens>#) tokens\) exceeds the available context size \((?P<limit>#)",
        r"maximum context length (?:is|of) (?P<limit>#)",
        r"context (?:window|length|size) (?:of|is) (?P<limit>#)",
    )
)
_NAMED = re.compile(
    r"context_length_exceeded|exceed_context_size|context (?:window|length|size)|"
    r"(?:prompt|input|request) (?:is )?too (?:long|large)|too many tokens",
    re.IGNORECASE,
)


class Refusal(NamedTuple):
    """The numbers of a refusal; None where it does not say."""

    tokens: int | None
    limit: int | None


def refusal_of(error: object) -> Refusal | None:
    """What an error says, given as an exception, a text or a provider's JSON; None where it is no
    overflow.
    """
    if isinstance(error, ContextOverflow):
        return Refusal(error.tokens, error.limit)
    text = _text_of(error)
    for pattern in _PATTERNS:
        if found := pattern.search(text):
            groups = found.groupdict()
            return Refusal(_number(groups.get("tokens")), _number(groups.get("limit")))
    return Refusal(None, None) if _NAMED.search(text) else None


def _text_of(error: object) -> str:
    if isinstance(error, Mapping):
        return str(dict(error))
    body = getattr(error, "body", None) or getattr(error, "response", None)
    return f"{error} {body}" if body is not None else str(error)


def _number(text: str | None) -> int | None:
    digits = re.sub(r"\D", "", text or "")
    return int(digits) if digits else None
