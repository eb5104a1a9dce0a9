"""Control tokens of chat templates inside the texts of people and tools.

A local server (llama.cpp, Ollama, vLLM) fills a template with the messages and takes every control
token in the result for real. So a typed token could speak as the system or end the prompt. Texts
for such servers are changed so that no tokenizer reads a control token in them; the history keeps
the original.
"""

from __future__ import annotations

import re
from typing import Any

from compact.messages.characters import with_texts
from compact.patterns import regex

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
    """Put a space after the first character of each control token. If there is none, return the
    text itself.
    """
    if "<" not in text and "[" not in text:
        return text
    return _BEGINNING.sub(lambda found: f"{found[0]} ", text)


def all_defused(value: Any) -> Any:  # noqa: ANN401 - JSON has no narrower type
    """Defuse every text of a JSON value. Keys stay unchanged."""
    return with_texts(value, defused)
