"""Makes texts safe to send: valid UTF-8, and without control tokens.

A text that was cut inside an emoji, or read from a file that is not UTF-8, holds half a surrogate
pair. A history keeps it, but a request cannot be written with it.

A local server (llama.cpp, Ollama, vLLM) fills a chat template with the messages, and obeys every
control token in the result. So a control token that a person typed or a tool returned could speak
as the system or end the prompt. Texts for such servers are changed so that no tokenizer reads a
control token in them. The history keeps the original.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from pydantic_core import to_json

from compact.patterns import regex

_Json = TypeVar("_Json")
PIECE = 65_536
"""How many characters are changed at once. Other threads wait about a millisecond for it."""


def piecewise(text: str, change: Callable[[str], str]) -> str:
    """Change a long text piece by piece, so that other threads can run in between. Use it only for
    changes that treat each character by itself.
    """
    return "".join(change(text[start : start + PIECE]) for start in range(0, len(text), PIECE))


def carried(text: str) -> str:
    """Join neighbouring halves of a surrogate pair, and replace single halves by U+FFFD. Return the
    text itself if it is ASCII.
    """
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def all_carried(value: _Json) -> _Json:
    """Apply `carried` to all texts and keys of a JSON value. Return the value itself if it can
    already be written as UTF-8.
    """
    try:
        to_json(value)
    except ValueError:
        made: _Json = with_texts(value, carried, keys=True)
        return made
    return value


def with_texts(value: Any, change: Callable[[str], str], *, keys: bool = False) -> Any:  # noqa: ANN401 - JSON has no narrower type
    """Apply `change` to every text of a JSON value, and to keys only if `keys` is true."""
    match value:
        case str():
            return change(value)
        case Mapping():
            inner = {k: with_texts(x, change, keys=keys) for k, x in value.items()}
            return {with_texts(k, change): x for k, x in inner.items()} if keys else inner
        case list() | tuple():
            return [with_texts(x, change, keys=keys) for x in value]
        case _:
            return value


# --- control tokens -------------------------------------------------------------------------------

_BEGINNING = regex(
    r"<(?=[|\uff5c])"
    r"|<(?=/?(?:s|bos|eos|pad|unk|mask|cls|sep|SYS|think|tools|"
    r"tool_calls?|tool_responses?|tool_results?|"
    r"start_of_turn|end_of_turn|start_of_image|end_of_image|image_soft_token|fim_[a-z]{1,10}|"
    r"begin_of_[a-z]{1,12}|end_of_[a-z]{1,12}|endoftext|unused_?\d{1,4}|extra_id_\d{1,3}|"
    r"reserved_[\w-]{1,40}|special_[\w-]{1,40})>)"
    r"|\[(?=/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS|TOOL_CONTENT|ARGS|"
    r"CALL_ID|IMG|IMG_BREAK|IMG_END|gMASK|sMASK|PREFIX|SUFFIX|MIDDLE|THINK|CLS|SEP|MASK|PAD)\])",
    re.IGNORECASE,
)
"""The beginning of a control token of a known chat template: ChatML, Llama, Mistral, Gemma, GLM,
Qwen, DeepSeek, Phi, T5 and others."""


def defused(text: str) -> str:
    """Put a space after the first character of each control token."""
    if "<" not in text and "[" not in text:
        return text
    return _BEGINNING.sub(lambda found: f"{found[0]} ", text)


def all_defused(value: Any) -> Any:  # noqa: ANN401 - JSON has no narrower type
    """Apply `defused` to every text of a JSON value. Keys stay unchanged."""
    return with_texts(value, defused)
